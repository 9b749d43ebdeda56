"""What flows keep to of `[objectives]`: figures from the ledger at a cut, compared with what is allowed."""

from collections.abc import Iterable, Iterator
from typing import Any

from ledger.adapters.delta.snapshots import DeltaSnapshot
from ledger.app.answers import run_query
from ledger.catalog import Value
from ledger.config.mirror import MirrorConfig
from ledger.domain.objectives import Figure, objections
from ledger.operations.figures.failover_loss import losses
from ledger.operations.figures.status_figures import figures_of
from ledger.operations.flow_lag import fresh_seconds
from ledger.operations.flow_report import FlowReport


def status_objections(
    config: MirrorConfig, at: DeltaSnapshot, reports: Iterable[FlowReport], *, at_ms: int
) -> tuple[str, ...]:
    """Words for each figure of an enabled flow that does not keep to its objective; none where none is configured.

    A flow that gave way to a promotion has nothing to keep to.
    """
    if not config.allowed:
        return ()
    held = [report for report in reports if report.enabled and not report.direction.gave_way]
    figures = _figures(config, at, held, at_ms=at_ms)
    return tuple(words for _, words in objections(config.allowed, figures))


def _figures(
    config: MirrorConfig, at: DeltaSnapshot, reports: Iterable[FlowReport], *, at_ms: int
) -> Iterator[Figure]:
    for report in reports:
        found = _losses_of(config, at, report.flow, at_ms=at_ms)
        fresh_s = fresh_seconds(config.flow(report.flow))
        yield from figures_of(report.flow, report.lag, found, fresh_seconds=fresh_s)


def _losses_of(
    config: MirrorConfig, at: DeltaSnapshot, flow_name: str, *, at_ms: int
) -> list[dict[str, Any]]:
    flow, selection = config.flow(flow_name), config.topic_selection(flow_name)
    params: dict[str, Value] = {"from_cluster": flow.source, "to_cluster": flow.target, "at_ms": at_ms}
    rows = run_query(at, "failover_loss", params).to_pylist()
    return losses(row for row in rows if row["flow"] == flow_name and selection.selects(row["source_topic"]))
