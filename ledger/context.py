"""What a command opens: clusters, where operations are recorded, maintenance beside it."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

from ledger.clock import Clock, SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.errors import ClusterUnavailableError
from ledger.facts.operations import OperationContent, OperationKind, Why
from ledger.facts.roles import ProcessTable, writer_of
from ledger.facts.tables import OPERATIONS
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.connection import Known
from ledger.kafka.leaders import KafkaFencing
from ledger.kafka.network import KafkaNetwork
from ledger.machine import LocalProcesses, account
from ledger.roles import require_free
from ledger.store import answers
from ledger.store.heads import KnownHeads, anchor_heads
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import BackgroundMaintenance, table_upkeeps
from ledger.store.session import ClaimedOperations, OperatorOperations
from ledger.store.snapshots import DeltaLedger, DeltaSnapshot, open_ledger
from ledger.store.state import DeltaLedgerState

_REQUEST_TIMEOUT_S = 30.0


class Context:
    """What one command works with: opened when it is asked for, and closed when the command ends.

    Whatever `ledger`, `state` and `snapshot` are asked is read when they are asked, so it is so then; what one snapshot
    is asked is of one cut. `why`: what the ledger keeps with all that the command records. `asks_clusters`: whether
    what `cluster` is asked, a cluster answers now.
    """

    asks_clusters = True

    def __init__(self, config: MirrorConfig, why: Why | None = None) -> None:
        self.config = config
        self.why = why or Why()
        self.clock: Clock = SystemClock()
        self.processes: ProcessTable = LocalProcesses()
        self._opened = ExitStack()
        self._clusters: dict[tuple[str, bool], KafkaFencing] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._opened.close()

    def part_of(self, operation_id: str | None) -> "Context":
        """The same for what is a part of an operation; None: of one of its own."""
        part = copy(self)
        part.why = replace(self.why, operation_id=operation_id)
        return part

    # -- the ledger ------------------------------------------------------------------------------

    @property
    def ledger(self) -> DeltaLedger:
        return DeltaLedger(self.config.ledger.path)

    @cached_property
    def state(self) -> DeltaLedgerState:
        """What the newest rows come to; raises unless the ledger is one that this program can read and write."""
        return DeltaLedgerState(open_ledger(self.config.ledger.path))

    def snapshot(self, as_of: str | None = None) -> DeltaSnapshot:
        """The ledger at the cut that `as_of` names; none is now."""
        return answers.snapshot(self.config, as_of)

    def operations_of(self, operation_id: str, kind: OperationKind | None = None) -> list[dict[str, Any]]:
        """Rows of an operation by now, of a kind or all, in the order of recording."""
        newest = self.ledger.now((OPERATIONS.name,))
        rows = newest.rows(OPERATIONS.name, [("operation_id", "=", operation_id)])
        return [row for row in rows if kind in (None, row["kind"])]

    @property
    def fact_log(self) -> DeltaFactLog:
        return DeltaFactLog(self.config.ledger.path, self.clock)

    @property
    def operations(self) -> OperatorOperations:
        return operator_operations(self.config)

    def record(self, *contents: OperationContent, flow: str | None = None) -> str:
        """Append the rows of one operation at once; returns its id."""
        return self.operations.record_parts(contents, self.why, flow=flow)

    # -- clusters --------------------------------------------------------------------------------

    def cluster(self, alias: str) -> KafkaFencing:
        """The cluster as the mirror reaches it; raises `UsageError` where the configuration does not have it."""
        return self._reached(alias, as_administrator=False)

    def administered(self, alias: str) -> KafkaFencing:
        """The cluster with the credentials that change rules and settings."""
        return self._reached(alias, as_administrator=True)

    def is_reached(self, alias: str) -> bool:
        """Whether the cluster answers the mirror now."""
        try:
            self.cluster(alias).cluster_id()
        except ClusterUnavailableError:
            return False
        return True

    def network(
        self, source: str, target: str, *, request_timeout_s: float = _REQUEST_TIMEOUT_S
    ) -> closing[KafkaNetwork]:
        """Links to two clusters, for records; they end with the body that uses them."""
        sides = (self.cluster(alias).connection.reached for alias in (source, target))
        return closing(KafkaNetwork(*sides, request_timeout_s=request_timeout_s))

    def _reached(self, alias: str, *, as_administrator: bool) -> KafkaFencing:
        key, known = (alias, as_administrator), self.config.cluster(alias)
        if key not in self._clusters:
            known = known.for_administration if as_administrator else known
            admin = self._opened.enter_context(closing(KafkaFencing(alias, known, self.clock)))
            admin.connection.known = known_brokers(self.config, alias)
            self._clusters[key] = admin
        return self._clusters[key]


_maintained: dict[str, tuple[int, BackgroundMaintenance]] = {}
"""By the path of a ledger, for how many in this process it is maintained."""
_maintaining = threading.Lock()


def _maintenance(config: MirrorConfig) -> BackgroundMaintenance:
    path, anchor, known = config.ledger.path, config.evidence.anchor, KnownHeads()
    return BackgroundMaintenance(
        table_upkeeps(config.ledger),
        anchoring=None
        if anchor is None
        else lambda: anchor_heads(path, anchor, now_ms=SystemClock().now_ms(), known=known),
    )


@contextmanager
def background_maintenance(config: MirrorConfig) -> Iterator[None]:
    """For a process that appends: it keeps the tables of its ledger while it runs, once for all that ask for it."""
    path = config.ledger.path
    with _maintaining:
        users, maintenance = _maintained.get(path) or (0, _maintenance(config))
        if not users:
            maintenance.__enter__()
        _maintained[path] = users + 1, maintenance
    try:
        yield
    finally:
        with _maintaining:
            users = _maintained[path][0] - 1
            _maintained[path] = users, maintenance
            if not users:
                del _maintained[path]
        if not users:
            maintenance.__exit__()


def cluster_admin(config: MirrorConfig, cluster: str) -> closing[KafkaAdmin]:
    """A connection that ends with the command: one that is left open keeps searching for its brokers."""
    admin = KafkaAdmin(cluster, config.cluster(cluster), SystemClock())
    admin.connection.known = known_brokers(config, cluster)
    return closing(admin)


def known_brokers(config: MirrorConfig, cluster: str) -> Known:
    """The brokers of a cluster as the ledger has them when it is asked."""
    return lambda: DeltaLedgerState(open_ledger(config.ledger.path)).brokers(cluster)


def operator_operations(config: MirrorConfig) -> OperatorOperations:
    return OperatorOperations(DeltaFactLog(config.ledger.path, SystemClock()), operator=account())


def driver_operations() -> ClaimedOperations:
    return ClaimedOperations(operator=account())


def require_stopped(flow: FlowConfig, state: DeltaLedgerState) -> int | None:
    """The epoch of the flow's last driver, which has ended; None: none ever claimed it.

    Raises `PreconditionError` while a driver of the flow may be at work.
    """
    last = state.last_claim(writer_of(flow.name))
    require_free(
        flow,
        last,
        LocalProcesses(),
        now_ms=SystemClock().now_ms(),
        way_out=f"Stop it first: mirror-ledger stop {flow.name}",
    )
    return None if last is None else last.epoch
