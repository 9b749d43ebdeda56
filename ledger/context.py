"""What a command opens: clusters, where operations are recorded, maintenance beside it."""

import getpass
from collections.abc import Iterator
from contextlib import closing, contextmanager

from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.facts.roles import writer_of
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import require_recorded
from ledger.kafka.network import KafkaNetwork
from ledger.machine import LocalProcesses
from ledger.roles import require_free
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import BackgroundMaintenance, table_upkeeps
from ledger.store.session import ClaimedOperations, OperatorOperations
from ledger.store.state import DeltaLedgerState

_REQUEST_TIMEOUT_S = 30.0


def background_maintenance(config: MirrorConfig) -> BackgroundMaintenance:
    """For a process that appends: it keeps the tables of its ledger while it runs."""
    return BackgroundMaintenance(table_upkeeps(config.ledger))


def cluster_admin(config: MirrorConfig, cluster: str) -> closing[KafkaAdmin]:
    """A connection that ends with the command: one that is left open keeps searching for its brokers."""
    return closing(KafkaAdmin(cluster, config.cluster(cluster), SystemClock()))


@contextmanager
def both_clusters(
    config: MirrorConfig, flow: FlowConfig, state: DeltaLedgerState
) -> Iterator[tuple[KafkaAdmin, KafkaAdmin, KafkaNetwork]]:
    """For a command that reads and writes beside no driver: admins of source and target, and links to both.

    Raises `PreconditionError` where another cluster answers behind an alias than the ledger knows.
    """
    clusters = config.cluster(flow.source), config.cluster(flow.target)
    with (
        cluster_admin(config, flow.source) as source,
        cluster_admin(config, flow.target) as target,
        closing(KafkaNetwork(*clusters, request_timeout_s=_REQUEST_TIMEOUT_S)) as network,
    ):
        require_recorded(state, source, target)
        yield source, target, network


def operator_operations(config: MirrorConfig) -> OperatorOperations:
    return OperatorOperations(DeltaFactLog(config.ledger.path, SystemClock()), operator=getpass.getuser())


def driver_operations() -> ClaimedOperations:
    return ClaimedOperations(operator=getpass.getuser())


def require_stopped(flow: FlowConfig, state: DeltaLedgerState) -> None:
    """Raise `PreconditionError` while a driver of the flow may be at work."""
    require_free(
        flow,
        state.last_claim(writer_of(flow.name)),
        LocalProcesses(),
        now_ms=SystemClock().now_ms(),
        way_out=f"Stop it first: mirror-ledger stop {flow.name}",
    )
