"""The whole examination: this machine, the ledger, every cluster of the flows, every flow."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing

from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.context import known_brokers
from ledger.doctor import places, results
from ledger.doctor.cluster import ClusterMeasurements, cluster_findings, measured_cluster, probe_findings
from ledger.doctor.flow import FlowMeasurements, flow_findings, left_out
from ledger.doctor.probes import ClusterProbe, LedgerProbe, TargetProbe
from ledger.doctor.results import CheckResult, Unmeasured, measure
from ledger.facts.tables import TABLES


def examine(
    config: MirrorConfig, flow_names: Sequence[str], *, probe: bool, retention_share: float
) -> list[CheckResult]:
    """Check all that the flows need, or else all that are enabled; with `probe`, in topics of its own at targets.

    Results as they are made: machine, ledger, clusters in order of name, flows as given.
    """
    flows = [config.flow(name) for name in flow_names] or list(config.enabled_flows)
    aliases = sorted({alias for flow in flows for alias in (flow.source, flow.target)})
    clock, ledger = SystemClock(), LedgerProbe(config.ledger.path)
    with ExitStack() as opened:
        probes = {
            alias: opened.enter_context(closing(ClusterProbe(config.cluster(alias), clock)))
            for alias in aliases
        }
        for alias, one in probes.items():
            one.admin.connection.known = known_brokers(config, alias)
        targets = {flow.target: TargetProbe(probes[flow.target].admin, clock) for flow in flows if probe}
        found = [places.java(measure(places.found_java)), places.python(sys.version_info[:3])]
        found += _ledger(ledger, now_ms=clock.now_ms())
        clusters = {alias: measured_cluster(one) for alias, one in probes.items()}
        recorded = measure(ledger.cluster_ids, results.LEDGER)
        for alias, seen in clusters.items():
            is_source = any(flow.source == alias for flow in flows)
            is_target = any(flow.target == alias for flow in flows)
            found += cluster_findings(seen, recorded, is_target=is_target, now_ms=clock.now_ms())
            found += probe_findings(seen, targets.get(alias), is_source=is_source, is_target=is_target)
        if not flow_names:
            found += [left_out(flow) for flow in config.flows.values() if not flow.enabled]
        found += _flows(config, flows, clusters, ledger, now_ms=clock.now_ms(), share=retention_share)
        return found


def _ledger(ledger: LedgerProbe, *, now_ms: int) -> Iterator[CheckResult]:
    folder = None if ledger.folder is None else str(ledger.folder)
    elsewhere = Unmeasured("not a local folder")
    yield from places.ledger(
        measure(lambda: {table.name: ledger.table(table.name) for table in TABLES}, results.LEDGER),
        now_ms=now_ms,
    )
    yield places.clocks(measure(ledger.clock_steps, results.LEDGER), now_ms=now_ms)
    yield places.exclusive_create(folder, measure(ledger.exclusive_create) if folder else elsewhere)
    yield places.place()
    yield places.disk(folder, measure(ledger.free_bytes) if folder else elsewhere)


def _flows(
    config: MirrorConfig,
    flows: Sequence[FlowConfig],
    clusters: Mapping[str, ClusterMeasurements],
    ledger: LedgerProbe,
    *,
    now_ms: int,
    share: float,
) -> Iterator[CheckResult]:
    all_seen = [
        FlowMeasurements(
            flow, config.topic_selection(flow.name), clusters[flow.source], clusters[flow.target], ledger
        )
        for flow in flows
    ]
    for seen in all_seen:
        writers = (other for other in all_seen if other.target.is_one_with(seen.source))
        also_target = frozenset().union(*(other.written_topics for other in writers))
        yield from flow_findings(seen, also_target=also_target, now_ms=now_ms, share=share)
