"""Recording of clusters, apart from any driver."""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.kafka.admin.cluster_admin import KafkaAdmin
from ledger.adapters.system import SystemClock
from ledger.app.wiring import background_maintenance, cluster_admin, cluster_recorder
from ledger.config.mirror import MirrorConfig
from ledger.domain.writer_roles import RoleVerdict
from ledger.errors import ClusterUnavailableError, MirrorLedgerError, PreconditionError
from ledger.mirror.driver.round_loop import StopSignal
from ledger.ports.ledger import require_recorded
from ledger.recording.alone import record_once, record_until
from ledger.recording.observation import Subject
from ledger.recording.recorder import ClusterRecorder

log = logging.getLogger(__name__)

RowsByCluster = Mapping[str, Mapping[str, int]]
"""How many rows were appended, by cluster and table."""


def record_clusters(
    config: MirrorConfig,
    clusters: Sequence[str],
    subjects: frozenset[Subject] = frozenset(Subject),
    *,
    stop: StopSignal,
    once: bool,
) -> RowsByCluster:
    """Record clusters (none given: all that flows use) for all flows that touch them, once or until asked to stop.

    Raises `PreconditionError` when no flow touches a cluster, or another one answers than the recorded one. A cluster
    that does not answer, or that another process records, is waited for; of one read that is asked for it is an error,
    raised when the others were read.
    """
    names = list(clusters) or _used(config)
    for name in names:
        _require_flows(config, name)
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    with ExitStack() as connected:
        admins = [connected.enter_context(cluster_admin(config, name)) for name in names]
        recorders = {
            admin.alias: cluster_recorder(
                config, admin, DeltaFactLog(config.ledger.path, SystemClock()), state, subjects
            )
            for admin in admins
        }
        _require_recorded(state, admins)
        if once:
            return _each_once(recorders, stop)
        connected.enter_context(background_maintenance(config))
        rows = record_until(stop, list(recorders.values()))
        return {name: rows[recorder.writer] for name, recorder in recorders.items()}


def _used(config: MirrorConfig) -> list[str]:
    found = sorted({cluster for flow in config.enabled_flows for cluster in (flow.source, flow.target)})
    if not found:
        raise PreconditionError(f"{config.file} has no flow that is enabled; nothing was recorded")
    return found


def _require_flows(config: MirrorConfig, cluster: str) -> None:
    config.cluster(cluster)
    if not any(cluster in (flow.source, flow.target) for flow in config.enabled_flows):
        raise PreconditionError(
            f"no flow of {config.file} that is enabled touches cluster {cluster}; nothing was recorded"
        )


def _require_recorded(state: DeltaLedgerState, admins: Sequence[KafkaAdmin]) -> None:
    """Of those that answer; a recorder compares the others when it claims."""

    def require(admin: KafkaAdmin) -> None:
        with suppress(ClusterUnavailableError):
            require_recorded(state, admin)

    with ThreadPoolExecutor(max_workers=len(admins)) as side_by_side:
        list(side_by_side.map(require, admins))


def _each_once(recorders: Mapping[str, ClusterRecorder], stop: StopSignal) -> RowsByCluster:
    rows: dict[str, Mapping[str, int]] = {}
    failed: list[MirrorLedgerError] = []
    for name, recorder in recorders.items():
        try:
            rows[name] = _once(recorder, stop)
        except MirrorLedgerError as error:
            failed.append(error)
    for other in failed[1:]:
        log.error("%s", other)
    if failed:
        raise failed[0]
    return rows


def _once(recorder: ClusterRecorder, stop: StopSignal) -> Mapping[str, int]:
    if recorder.take_role() is RoleVerdict.IN_USE:
        raise PreconditionError(f"{recorder.writer} is held by a running recorder; nothing was recorded")
    try:
        return record_once(recorder, stop)
    finally:
        recorder.release()
