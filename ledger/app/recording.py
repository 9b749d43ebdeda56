"""Recording of one cluster, apart from any driver."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.kafka.admin.cluster_admin import KafkaAdmin
from ledger.adapters.system import SystemClock
from ledger.app.wiring import background_maintenance, cluster_admin, cluster_recorder
from ledger.config.flow import FlowConfig
from ledger.config.mirror import MirrorConfig
from ledger.domain.writer_roles import RoleVerdict
from ledger.errors import PreconditionError
from ledger.mirror.driver.round_loop import StopSignal
from ledger.ports.ledger import require_recorded
from ledger.recording.alone import record_once, record_until
from ledger.recording.mirrored_partitions import MirroredPartitions
from ledger.recording.observation import RecorderSettings, Subject


def record_cluster(
    config: MirrorConfig,
    cluster: str,
    subjects: frozenset[Subject],
    *,
    stop: StopSignal,
    once: bool,
) -> Mapping[str, int]:
    """Record one cluster for all flows that touch it, once or until asked to stop; returns rows by table.

    Raises `ClusterUnavailableError` when the cluster does not answer at the start, or to the one read.
    """
    config.cluster(cluster)
    flows = [flow for flow in config.enabled_flows if cluster in (flow.source, flow.target)]
    if not flows:
        raise PreconditionError(
            f"no flow of {config.file} that is enabled touches cluster {cluster}; nothing was recorded"
        )
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    with cluster_admin(config, cluster) as admin:
        return _record(config, admin, flows, state, subjects, stop=stop, once=once)


def _record(
    config: MirrorConfig,
    admin: KafkaAdmin,
    flows: Sequence[FlowConfig],
    state: DeltaLedgerState,
    subjects: frozenset[Subject],
    *,
    stop: StopSignal,
    once: bool,
) -> Mapping[str, int]:
    require_recorded(state, admin)
    fact_log = DeltaFactLog(config.ledger.path, SystemClock())
    mirrored = MirroredPartitions(config, admin, flows)
    settings = replace(RecorderSettings.of_flows(flows), subjects=subjects)
    recorder = cluster_recorder(admin, fact_log, state, settings, mirrored)
    if recorder.take_role() is RoleVerdict.IN_USE:
        raise PreconditionError(f"{recorder.writer} is held by a running recorder; nothing was recorded")
    with ExitStack() as at_the_end:
        at_the_end.callback(recorder.release)
        if not once:
            at_the_end.enter_context(background_maintenance(config))
        return record_once(recorder, stop) if once else record_until(stop, recorder)
