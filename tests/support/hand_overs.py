"""A pair of clusters that is handed over: one known from the ledger alone, one in memory that may crash."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from typing import Any

from ledger.changeover.hand_over import (
    ClusterChanges,
    KnownPair,
    Ready,
    known_pair,
    planned_for_applications,
)
from ledger.changeover.pairs import Pair
from ledger.config.values import FlowConfig
from ledger.facts.hand_overs import HandedOver
from ledger.facts.operations import Why
from ledger.facts.permissions import Permission, PermissionEvent, PermissionKind, Permissions, quota_entity
from ledger.facts.tables import PERMISSIONS, TOPICS, WRITERS
from ledger.store.session import OperatorOperations
from ledger.topics.following import REQUIRED_AT_TARGET
from ledger.topics.naming import NamingKind
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import row
from tests.support.ledgers import numbered

# -- Permissions of a cluster in memory ------------------------------------------------------------


def _nothing() -> None:
    """Before each change."""


class MemoryPermissionAdmin:
    """Implements `PermissionAdmin`; `before` is called before each permission is changed, and may raise."""

    def __init__(self, cluster: MemoryCluster, before: Callable[[], None] = _nothing) -> None:
        self._cluster = cluster
        self._before = before

    def permissions(self) -> Permissions:
        return self._cluster.permissions()

    def create_permissions(self, permissions: Sequence[Permission]) -> None:
        for one in permissions:
            self._before()
            self._remove([one.identity])
            if _is_of_topic(one):
                self._cluster.create_acls([one])
            else:
                self._cluster.allowed.others.add(one)

    def delete_permissions(self, permissions: Sequence[Permission]) -> None:
        for one in permissions:
            self._before()
            self._remove([one.identity])

    def _remove(self, identities: Iterable[Permission]) -> None:
        for identity in identities:
            if _is_of_topic(identity):
                self._cluster.delete_acls([identity])
            kept = {one for one in self._cluster.allowed.others if replace(one, value=None) != identity}
            self._cluster.allowed.others = kept


def _is_of_topic(permission: Permission) -> bool:
    return permission.kind is PermissionKind.ACL and permission.resource_type == "topic"


# -- Handing over ----------------------------------------------------------------------------------

FLOW = FlowConfig(name="f", source="east", target="west", topics=(".*",), topic_naming=NamingKind.IDENTITY)
DEFAULTS = {
    **REQUIRED_AT_TARGET,
    "max.message.bytes": "1000",
    "retention.ms": "500",
    "cleanup.policy": "delete",
}
AT_EAST: Mapping[str, dict[str, str]] = {
    "orders": {"message.timestamp.type": "LogAppendTime", "retention.ms": "900"},
    "users": {"compression.type": "zstd"},
}
WHY = Why(reason="a fire", ticket="OPS-1")


def rule(name: str, on: str, operation: str, who: str = "User:app") -> Permission:
    return Permission(
        kind=PermissionKind.ACL,
        entity=who,
        host="*",
        operation=operation,
        permission_type="allow",
        resource_type=on,
        resource_name=name,
        pattern_type="literal",
    )


QUOTA = Permission(
    kind=PermissionKind.QUOTA,
    entity=quota_entity({"client-id": "app"}),
    setting="producer_byte_rate",
    value=1e6,
)
WANTED = (rule("orders", "topic", "write"), rule("billing", "group", "read"), QUOTA)
THERE = rule("users", "topic", "read")


class CrashedError(Exception):
    """The process ended here."""


@dataclass
class Pairs:
    """`east` is known from the ledger alone, `west` answers; the process ends at the step `crash_at`."""

    west: MemoryCluster = field(default_factory=lambda: MemoryCluster("west", FakeClock()))
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    crash_at: int | None = None
    steps: Iterator[int] = field(default_factory=count)
    new_id: Any = field(default_factory=numbered)

    def step(self) -> None:
        if next(self.steps) == self.crash_at:
            raise CrashedError

    @property
    def state(self) -> MemoryLedgerState:
        return MemoryLedgerState(self.ledger)

    def known(self, *topics: str, flow: FlowConfig = FLOW) -> KnownPair:
        pair = Pair("west", "east", topics or None)
        mirrors = frozenset({"User:mirror"})
        return known_pair(self.state, pair, [flow], lambda _flow, topic: topic != "other", mirrors)

    @property
    def permissions(self) -> MemoryPermissionAdmin:
        return MemoryPermissionAdmin(self.west, self.step)

    def plan(self) -> HandedOver:
        return planned_for_applications(self.known(), self.west, self.permissions)

    @property
    def changes(self) -> ClusterChanges:
        return ClusterChanges(
            admin=self.west,
            permissions=self.permissions,
            operations=Log(self),
            clock=self.west.clock,
            sleep=self.sleep,
        )

    def sleep(self, seconds: float) -> None:
        assert isinstance(self.west.clock, FakeClock)
        self.west.clock.now_s += seconds

    def hand_over(self, why: Why = WHY) -> Ready:
        return self.changes.hand_over(self.plan(), self.state.hand_overs(), why)

    def undo(self, operation_id: str, why: Why = WHY) -> Ready:
        return self.changes.undo(operation_id, self.state.hand_overs(), why)

    def now(self) -> tuple[dict[str, dict[str, str]], set[Permission]]:
        """All settings and permissions of west."""
        found = (one for kind in self.west.permissions().values() for one in kind.found)
        return self.west.configurations(list(self.west.topic_by_name)), set(found)

    def recorded(self) -> list[tuple[str, str, dict[str, Any]]]:
        rows = self.ledger.rows("operations")
        return [(one["operation_id"], one["kind"], json.loads(one["content"])) for one in rows]


class Log(OperatorOperations):
    """The process may end before and behind each of its rows."""

    def __init__(self, pairs: Pairs) -> None:
        fact_log = MemoryFactLog(pairs.ledger, pairs.west.clock)
        super().__init__(fact_log, operator="anna", new_id=pairs.new_id)
        self._step = pairs.step

    def record_parts(self, contents: Any, why: Why, *, flow: str | None = None) -> str:
        self._step()
        done = super().record_parts(contents, why, flow=flow)
        self._step()
        return done


def record_topics(
    pairs: Pairs, configurations: Mapping[str, Mapping[str, str]], ids: Mapping[str, str], at_round: int = 1
) -> None:
    """As they are at `east`; `ids` by name."""
    stamp = {"writer": "recorder:east", "writer_epoch": 1, "round": at_round, "cluster": "east"}
    pairs.ledger.append(
        TOPICS.name,
        [
            row(
                TOPICS.name,
                **stamp,
                topic=name,
                topic_id=ids[name],
                configuration=json.dumps(own),
                event="observed",
            )
            for name, own in configurations.items()
        ],
    )


def record_east(pairs: Pairs, *, unread: Mapping[PermissionKind, PermissionEvent] | None = None) -> None:
    stamp = {"writer": "recorder:east", "writer_epoch": 1, "round": 1}
    of_east = {**stamp, "cluster": "east"}
    pairs.ledger.append(
        WRITERS.name,
        [row(WRITERS.name, **stamp, event="claimed", source_cluster="east", source_cluster_id="E")],
    )
    topics = {**AT_EAST, "other": {}}
    record_topics(pairs, topics, {name: f"E-{name}" for name in topics})
    readings = {**dict.fromkeys(PermissionKind, PermissionEvent.READABLE), **(unread or {})}
    of_east["cluster_id"] = "E"
    pairs.ledger.append(
        PERMISSIONS.name,
        [
            *(
                row(PERMISSIONS.name, **of_east, kind=kind.value, event=how.value)
                for kind, how in readings.items()
            ),
            *(
                row(PERMISSIONS.name, **{**of_east, **asdict(one), "kind": one.kind.value}, event="present")
                for one in (*WANTED, THERE)
            ),
        ],
    )
