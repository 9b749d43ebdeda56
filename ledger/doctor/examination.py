"""The whole examination: this machine, the ledger, every cluster of the flows, every flow."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from ledger.clock import Clock, SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.doctor import places, results
from ledger.doctor.cluster import ClusterMeasurements, cluster_findings, measured_cluster, probe_findings
from ledger.doctor.flow import FlowMeasurements, flow_findings, left_out, target_topics
from ledger.doctor.measurements import TableState
from ledger.doctor.probes import ClusterProbe, LedgerProbe, TargetProbe
from ledger.doctor.results import CheckResult, Unmeasured, measure
from ledger.facts.tables import TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What is examined and with which probes; `targets` is empty when no probe may write.

    `left_out`: flows of which is only said that they are disabled.
    """

    config: MirrorConfig
    flows: Sequence[FlowConfig]
    left_out: Sequence[FlowConfig]
    clusters: Mapping[str, ClusterProbe]
    targets: Mapping[str, TargetProbe]
    ledger: LedgerProbe
    clock: Clock
    retention_share: float

    def results(self) -> Iterator[CheckResult]:
        """Findings as they are made: machine, ledger, clusters in order of name, flows as given."""
        yield places.java(measure(places.found_java))
        yield places.python(sys.version_info[:3])
        yield from self._ledger()
        all_seen = {alias: measured_cluster(probe) for alias, probe in sorted(self.clusters.items())}
        recorded = measure(self.ledger.cluster_ids, results.LEDGER)
        for seen in all_seen.values():
            yield from self._cluster(seen, recorded)
        yield from self._flows(all_seen)

    def _ledger(self) -> Iterator[CheckResult]:
        ledger, folder = self.ledger, self.ledger.folder
        tables = measure(self._tables, results.LEDGER)
        yield from places.ledger(tables, now_ms=self.clock.now_ms())
        yield places.clocks(measure(ledger.clock_steps, results.LEDGER), now_ms=self.clock.now_ms())
        refused = measure(ledger.exclusive_create) if folder else Unmeasured("not a local folder")
        yield places.exclusive_create(folder, refused)
        yield places.place()
        yield places.disk(folder, measure(ledger.free_bytes) if folder else Unmeasured("not a local folder"))

    def _tables(self) -> dict[str, TableState | None]:
        return {table.name: self.ledger.table(table.name) for table in TABLES}

    def _cluster(
        self, seen: ClusterMeasurements, recorded: Mapping[str, str] | Unmeasured
    ) -> Iterator[CheckResult]:
        is_source = any(flow.source == seen.alias for flow in self.flows)
        is_target = any(flow.target == seen.alias for flow in self.flows)
        yield from cluster_findings(seen, recorded, is_target=is_target, now_ms=self.clock.now_ms())
        target = self.targets.get(seen.alias)
        yield from probe_findings(seen, target, is_source=is_source, is_target=is_target)

    def _flows(self, clusters: Mapping[str, ClusterMeasurements]) -> Iterator[CheckResult]:
        yield from map(left_out, self.left_out)
        all_seen = [self._flow_measurements(flow, clusters) for flow in self.flows]
        for seen in all_seen:
            writers = [other for other in all_seen if other.target.is_one_with(seen.source)]
            also_target = frozenset().union(*map(target_topics, writers))
            yield from flow_findings(
                seen, also_target=also_target, now_ms=self.clock.now_ms(), share=self.retention_share
            )

    def _flow_measurements(
        self, flow: FlowConfig, clusters: Mapping[str, ClusterMeasurements]
    ) -> FlowMeasurements:
        selection = self.config.topic_selection(flow.name)
        return FlowMeasurements(flow, selection, clusters[flow.source], clusters[flow.target], self.ledger)


# Put together -------------------------------------------------------------------------------------
# The examination of what flows need: `doctor`.


def examine(
    config: MirrorConfig, flow_names: Sequence[str], *, probe: bool, retention_share: float
) -> list[CheckResult]:
    """Check all that the flows need, or else all that are enabled; with `probe`, in topics of its own at targets."""
    flows = [config.flow(name) for name in flow_names] or list(config.enabled_flows)
    clusters = {alias: config.cluster(alias) for flow in flows for alias in (flow.source, flow.target)}
    clock = SystemClock()
    with ExitStack() as opened:
        examination = Examination(
            config=config,
            flows=flows,
            left_out=[] if flow_names else [flow for flow in config.flows.values() if not flow.enabled],
            clusters={
                alias: opened.enter_context(closing(ClusterProbe(cluster, clock)))
                for alias, cluster in clusters.items()
            },
            targets={
                flow.target: opened.enter_context(closing(TargetProbe(clusters[flow.target], clock)))
                for flow in flows
                if probe
            },
            ledger=LedgerProbe(config.ledger.path),
            clock=clock,
            retention_share=retention_share,
        )
        return list(examination.results())
