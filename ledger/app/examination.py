"""The examination of what flows need: `doctor`."""

from collections.abc import Sequence
from contextlib import ExitStack, closing

from ledger.adapters.delta.ledger_probe import DeltaLedgerProbe
from ledger.adapters.kafka.probes.cluster_probe import KafkaClusterProbe
from ledger.adapters.kafka.probes.target_probe import KafkaTargetProbe
from ledger.adapters.machine import LocalMachine
from ledger.adapters.system import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.doctor.check_results import CheckResult
from ledger.doctor.examination import Examination


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
                alias: opened.enter_context(closing(KafkaClusterProbe(cluster, clock)))
                for alias, cluster in clusters.items()
            },
            targets={
                flow.target: opened.enter_context(closing(KafkaTargetProbe(clusters[flow.target], clock)))
                for flow in flows
                if probe
            },
            ledger=DeltaLedgerProbe(config.ledger.path),
            machine=LocalMachine(),
            clock=clock,
            retention_share=retention_share,
        )
        return list(examination.results())
