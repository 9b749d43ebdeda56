"""Wiring of what `status` and `query` answer: the ledger at a cut, the configuration, which processes are alive."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ledger.answers import drivers
from ledger.answers.direction import OneWay, OppositeFlow, Place, stands_by
from ledger.answers.drivers import DriverReport
from ledger.answers.lag import figures_of, fresh_since_ms
from ledger.answers.status import (
    DIFFERENCES,
    OPERATIONS_READ,
    QUERIES,
    Expected,
    FlowReport,
    flow_report,
)
from ledger.changeover.losses import losses
from ledger.changeover.plans import APPLY_KINDS, Applies, recorded_plan
from ledger.changeover.receipts import ALIVE_EVERY_S
from ledger.changeover.role import OpenApply
from ledger.config.mirror import MirrorConfig
from ledger.config.values import Figure, FlowConfig
from ledger.errors import LedgerUnavailableError
from ledger.facts.cut_offsets import CutSide
from ledger.facts.findings import Side
from ledger.facts.identity import was_drawn
from ledger.facts.operations import OperationKind
from ledger.facts.roles import SILENT_HEARTBEATS, ProcessMark, writer_of
from ledger.facts.state import last_claim
from ledger.facts.tables import CUT_OFFSETS, OPERATIONS, TOPICS, WRITERS, Row
from ledger.facts.ways import Direction
from ledger.machine import LocalProcesses
from ledger.offsets.moving import LATELY_MS, groups_at_own_commits, moving_groups
from ledger.offsets.restored import unread_since_restored
from ledger.offsets.setting import NOT_RECORDED, UNREAD_ADVICE
from ledger.roles import driver_verdict, fresh_seconds, interval_ms
from ledger.store import catalog, narrowed
from ledger.store.answers import run_query
from ledger.store.catalog import Query, Value
from ledger.store.maintenance import table_upkeeps
from ledger.store.merging import BEHIND_FILES
from ledger.store.snapshots import DeltaSnapshot
from ledger.store.state import SnapshotState

FRESH_SINCE = "fresh_since_ms"
"""A parameter of queries: what was measured before this time is unknown by now."""


def with_freshness(
    config: MirrorConfig, query: Query, params: Mapping[str, Value], *, at_ms: int
) -> dict[str, Value]:
    """The parameters, and since when measurements count at `at_ms` where the query asks and they do not say."""
    flow = config.flows.get(str(params.get("flow")))
    if flow is None or FRESH_SINCE not in query.parameter_names:
        return dict(params)
    return {FRESH_SINCE: fresh_since_ms(flow, at_ms), **params}


def report_flow(
    config: MirrorConfig,
    at: DeltaSnapshot,
    flow_name: str,
    *,
    at_ms: int,
    is_now: bool,
    differences: bool = False,
) -> FlowReport:
    """Where a flow stands, why, and what to do next. Whether a driver is alive is only asked about now."""
    flow = config.flow(flow_name)
    queries = [catalog.query(name) for name in (*QUERIES, *([DIFFERENCES] if differences else []))]
    params: dict[str, Value] = {"flow": flow_name, FRESH_SINCE: fresh_since_ms(flow, at_ms)}
    tables = narrowed.run_queries(queries, params, at)
    answers = {name: table.to_pylist() for name, table in tables.items()}
    report = flow_report(
        flow_name,
        enabled=flow.enabled,
        driver=driver_of(at, flow, answers["flow_status"], at_ms=at_ms, is_now=is_now),
        answers=answers,
        operation_rows=at.rows(OPERATIONS.name, [("kind", "in", OPERATIONS_READ)]),
        at_ms=at_ms,
        expected=Expected(
            way=_way(config, at, flow, at_ms=at_ms, is_now=is_now),
            interval_seconds=interval_ms(flow) / 1000,
            full_sweep_seconds=flow.full_sweep_seconds,
            sides={flow.source: Side.SOURCE, flow.target: Side.TARGET},
            unread_groups=lambda cluster: _unread_groups(at, cluster),
            unread_since_restored=lambda cluster: unread_since_restored(at, cluster),
            own_commits=_own_commits(config, at, flow),
            byte_rate=flow.byte_rate,
            topic_rows=at.rows(TOPICS.name, [("cluster", "in", (flow.source, flow.target))]),
        ),
    )
    return replace(report, dead_addresses=tuple(_dead_addresses(config, at, flow)))


def _way(config: MirrorConfig, at: DeltaSnapshot, flow: FlowConfig, *, at_ms: int, is_now: bool) -> OneWay:
    """Where a flow goes; the driver of the other way is asked about as its own."""
    opposite = None
    if flow.opposite is not None:
        other = config.flow(flow.opposite)

        opposite = OppositeFlow(
            name=other.name,
            enabled=other.enabled,
            driver=lambda: last_driver(at, other, at_ms=at_ms, is_now=is_now),
            copied_to=lambda: _copied_to(at, other.name),
        )
    return OneWay(
        flow=flow.name,
        source=flow.source,
        target=flow.target,
        is_mirrored=config.topic_selection(flow.name).selects,
        opposite=opposite,
        begins_at=lambda name, operation_id: _can_begin_at(at, config.flow(name).opposite, operation_id),
        moving=lambda cluster, topics, since_ms: moving_groups(
            at, cluster, topics, max(since_ms, at_ms - LATELY_MS)
        ),
    )


def _own_commits(config: MirrorConfig, at: DeltaSnapshot, flow: FlowConfig) -> list[str]:
    if not flow.sync_groups:
        return []
    selection, patterns = config.topic_selection(flow.name), flow.group_patterns

    def at_target(group: str, topic: str) -> str | None:
        return selection.target_name(topic) if patterns.matches(group) else None

    return groups_at_own_commits(at, Direction(flow.source, flow.target), at_target)


def _unread_groups(at: DeltaSnapshot, cluster: str) -> str | None:
    """Why nobody knows where the groups of a cluster stand; None: they were read, or nobody has recorded them yet."""
    found = narrowed.run_query(catalog.query("cluster_groups"), {"cluster": cluster}, at).to_pylist()
    why = {row["status"] for row in found} & (set(UNREAD_ADVICE) - {NOT_RECORDED})
    return "; ".join(f"{status.replace('_', ' ')}: {UNREAD_ADVICE[status]}" for status in sorted(why)) or None


def _dead_addresses(config: MirrorConfig, at: DeltaSnapshot, flow: FlowConfig) -> Iterator[str]:
    """Configured addresses at which recorders saw a broker, and see none by now, in words."""
    for alias in (flow.source, flow.target):
        configured = config.cluster(alias).bootstrap_servers.replace(" ", "").split(",")
        seen = [[one.partition("://")[2] for one in then] for then in SnapshotState(at).brokers(alias)[1]]
        if dead := [one for one in configured if any(one in then and one not in seen[-1] for then in seen)]:
            now = f"{', '.join(dead)} any more; its recorder saw them at {', '.join(seen[-1])}"
            yield f"no broker of {alias} is at {now}: change bootstrap_servers of [clusters.{alias}]"


def _copied_to(at: DeltaSnapshot, flow_name: str) -> Mapping[Place, int]:
    """By partition of its target up to where a flow has copied, as it has recorded."""
    rows = narrowed.run_query(catalog.query("flow_positions"), {"flow": flow_name}, at).to_pylist()
    return {
        (row["target_topic"], row["target_topic_id"], row["source_partition"]): row["target_end"]
        for row in rows
    }


def _can_begin_at(at: DeltaSnapshot, flow_name: str | None, operation_id: str) -> bool:
    """Whether a cut of the operation says for every partition of the flow where its opposite begins."""
    rows = [
        row
        for row in at.rows(CUT_OFFSETS.name, [("operation_id", "=", operation_id), ("flow", "=", flow_name)])
        if row["side"] == CutSide.TARGET
    ]
    return bool(rows) and all(row["reverse_start"] is not None for row in rows)


def open_apply(at: DeltaSnapshot, *, at_ms: int, is_now: bool, flows: Collection[str]) -> OpenApply | None:
    """What has begun and not come to its end, of a plan for any of these flows, none: of any; None: nothing has."""
    one = Applies.read(at.rows).open()
    if one is None:
        return None
    rows = at.rows(OPERATIONS.name, [("kind", "in", (*APPLY_KINDS, OperationKind.APPLY_ALIVE))])
    plan, _ = recorded_plan(at.rows(OPERATIONS.name, [("kind", "=", OperationKind.PLAN)]), one.plan_id)
    if flows and not set(flows) & set(plan.flows):
        return None
    last_ms = max(row["recorded_at_ms"] for row in rows if row["operation_id"] == one.operation_id)
    is_silent = at_ms - last_ms > SILENT_HEARTBEATS * ALIVE_EVERY_S * 1000
    mark, processes = ProcessMark.parse(one.host), LocalProcesses()
    is_beside = is_now and mark.is_beside(processes.own())
    is_at_work = processes.is_alive(mark) if is_beside else False if is_silent else None
    return OpenApply.of(plan, one, last_recorded_at_ms=last_ms, is_at_work=is_at_work)


def maintenance_behind(config: MirrorConfig) -> list[str]:
    """A line for each table that nobody seems to maintain, or of which that is unknown."""
    lines = []
    for upkeep in table_upkeeps(config.ledger):
        try:
            files, merges = upkeep.due()
        except LedgerUnavailableError as error:
            lines.append(f"whether maintenance of {upkeep.table} is behind is unknown: {error}")
            continue
        waiting = sum(len(merge.files) for merge in merges)
        if waiting >= BEHIND_FILES:
            lines.append(
                f"maintenance of {upkeep.table} is behind: {waiting:,} of {len(files):,} files wait to be merged; "
                "every answer opens them all. Run mirror-ledger maintain"
            )
    return lines


def driver_of(
    at: DeltaSnapshot,
    flow: FlowConfig,
    status_rows: Sequence[Row],
    *,
    at_ms: int,
    is_now: bool,
) -> DriverReport:
    """The flow's last driver; whether processes are alive is only asked about now."""
    writer, processes = writer_of(flow.name), LocalProcesses()
    rows = at.rows(WRITERS.name, [("writer", "=", writer)])
    appended = [row["last_recorded_at_ms"] or 0 for row in status_rows]
    claim = (
        last_claim(rows, last_recorded_at_ms=max(rows[-1]["recorded_at_ms"], *appended, 0)) if rows else None
    )
    verdict = driver_verdict(flow, claim, processes, now_ms=at_ms) if is_now else None
    driver = drivers.driver_report(claim, verdict, at_ms=at_ms)
    reported = at.rows(OPERATIONS.name, [("flow", "=", flow.name), ("kind", "in", drivers.END_KINDS)])
    driver = drivers.with_its_end(driver, reported)
    drawn = {row["target_cluster_id"] for row in rows if was_drawn(row["producer_id"])}
    if rows and not was_drawn(rows[-1]["producer_id"]) and rows[-1]["target_cluster_id"] in drawn:
        driver = replace(driver, was_id_refused=True)
    starts = [row for row in reported if row["kind"] == OperationKind.DRIVER_STARTING]
    start = drivers.pending_start(starts, rows)
    if start is None:
        return driver
    mark = ProcessMark.parse(start.host)
    is_alive = processes.is_alive(mark) if is_now and mark.is_beside(processes.own()) else None
    return drivers.with_start(driver, start, is_alive=is_alive, at_ms=at_ms)


def last_driver(at: DeltaSnapshot, flow: FlowConfig, *, at_ms: int, is_now: bool) -> DriverReport:
    """The same for whoever asks nothing else of the flow."""
    appended = {"last_recorded_at_ms": at.last_recorded_at_ms(writer_of(flow.name))}
    return driver_of(at, flow, [appended], at_ms=at_ms, is_now=is_now)


def flow_stands_by(config: MirrorConfig, at: DeltaSnapshot, flow: FlowConfig, driver: DriverReport) -> bool:
    """What a report says in `stands_by` of its direction, for whoever asks nothing else of the flow."""
    return stands_by(_way(config, at, flow, at_ms=0, is_now=False), driver)


# Objectives ---------------------------------------------------------------------------------------
# What flows keep to of `[objectives]`: figures from the ledger at a cut, compared with what is allowed.


def status_figures(
    config: MirrorConfig, at: DeltaSnapshot, reports: Iterable[FlowReport], *, at_ms: int
) -> tuple[Figure, ...]:
    """Figures of enabled flows that an objective is configured for.

    A flow that gave way to a promotion has nothing to keep to, nor has one that stands by.
    """
    if not config.allowed:
        return ()
    held = [one for one in reports if one.enabled and not (one.direction.gave_way or one.direction.stands_by)]
    return tuple(
        figure for figure in _figures(config, at, held, at_ms=at_ms) if figure.objective in config.allowed
    )


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
