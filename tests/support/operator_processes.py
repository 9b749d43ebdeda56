"""Processes of operators over memory clusters and a memory ledger, which may end around each of their writes.

They run the program's own code of the app layer: whatever that would open (a cluster, the ledger, a clock, the table of
processes, hooks) is replaced there by what stands for it in memory. So nothing of what a step does is the test's.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig
from ledger.doctor.examination import examine
from ledger.errors import PreconditionError, Trouble
from ledger.facts.groups import CommitRefusal, NewCommit
from ledger.facts.permissions import Permission, PermissionEvent, Permissions, PermissionsOfKind
from ledger.facts.roles import ProcessMark
from ledger.facts.state import WriterClaim
from ledger.facts.syncs import TopicPartition
from ledger.facts.tables import Row
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.leaders import KafkaFencing
from ledger.kafka.network import KafkaNetwork
from ledger.machine import HookCommand, HookProcesses, HookResult, LocalProcesses
from ledger.store.log import DeltaFactLog
from ledger.store.producers import KeptMirrorProducers
from ledger.store.snapshots import DeltaLedger, open_ledger
from ledger.store.state import DeltaLedgerState
from tests.simulation.kafka.administered import CLUSTER, AdministeredCluster
from tests.simulation.kafka.network import CalmWeather, MemoryNetwork
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.mirror_producers import memory_mirror_producers
from tests.simulation.ledger.opened import OpenedLedger
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import FakeProcesses
from tests.support.hand_overs import MemoryPermissionAdmin
from tests.support.unasked_cluster import OneByOne

HOST = "operators"
PRINCIPAL = "client.id"
"""The client property by which clusters in memory tell who asks."""
Place = tuple[str, int]


WIRED = (
    *(f"ledger.{folder}." for folder in ("adopt", "answers", "changeover", "offsets")),
    *("ledger.context", "ledger.mirror.run", "ledger.mirror.standby", "ledger.recorders.run"),
    *("ledger.roles", "ledger.store.answers"),
)
"""Where clusters, the ledger and clocks are put together: there stand-ins take their place."""


class ProcessEnded(BaseException):
    """The process is gone: nothing of ours catches this, and nothing more is done by it."""


Strikes = Callable[[str], bool]
"""Whether the process ends at a write of this name."""


def never(_name: str) -> bool:
    """It lives on."""
    return False


def begins(step: str) -> Strikes:
    """It ends where a step of an apply begins."""
    return lambda write: write == f"ledger: apply operations step_begun {step}"


def is_sampled(write: str, one_in: int) -> bool:
    """Whether a write is of the one in so many that a quick test ends processes at; the same ones in each run."""
    return crc32(write.encode()) % one_in == 0


@dataclass
class OnceAtEach:
    """Each write that `is_meant` ends one process; `ended_at`: their names, in that order."""

    is_meant: Strikes = lambda _name: True
    ended_at: list[str] = field(default_factory=list)

    def __call__(self, name: str) -> bool:
        if name in self.ended_at or not self.is_meant(name):
            return False
        self.ended_at.append(name)
        return True


@dataclass
class OperatorProcess:
    """One process; it ends before or behind the writes that it is told. `writes`: names of those that it made."""

    mark: ProcessMark
    before: Strikes = never
    behind: Strikes = never
    writes: list[str] = field(default_factory=list)
    is_deleted: bool = False

    def require_alive(self) -> None:
        if self.is_deleted:
            raise ProcessEnded

    def write(self, name: str, change: Callable[[], Any]) -> Any:
        """Make a change of the world, unless the process ends before; raises behind it where it ends there."""
        self.require_alive()
        if self.before(name):
            self._end()
        done = change()
        self.writes.append(name)
        if self.behind(name):
            self._end()
        return done

    def _end(self) -> None:
        self.is_deleted = True
        raise ProcessEnded


class Seat(OneByOne):
    """In place of `KafkaAdmin` and `KafkaFencing`: a cluster as one principal reaches it from one process."""

    def __init__(self, cluster: AdministeredCluster, config: ClusterConfig, process: OperatorProcess) -> None:
        self._cluster = cluster
        self._principal = str(config.properties[PRINCIPAL])
        self._process = process
        self._admin = MemoryPermissionAdmin(cluster)
        self.alias = cluster.alias
        self.connection = SimpleNamespace(known=None, reached=config)  # it needs no other address

    def __getattr__(self, name: str) -> Any:
        """What is only read."""
        self._process.require_alive()
        return getattr(self._cluster, name)

    def close(self) -> None:
        """Nothing is left open."""

    def _write(self, name: str, change: Callable[[], Any]) -> Any:
        return self._process.write(f"{self.alias}: {name}", change)

    def _require(self, operation: str, resource: str, name: str) -> None:
        self._cluster.cluster_id()
        if not self._cluster.allows(self._principal, operation, resource, name):
            raise PreconditionError(
                f"cluster {self.alias} does not allow {self._principal} to {operation} {resource} {name}; not done",
                trouble=Trouble.NOT_ALLOWED,
            )

    # -- rules and settings ----------------------------------------------------------------------

    def topic_acls(self) -> frozenset[Permission]:
        self._process.require_alive()
        self._require("describe", "cluster", CLUSTER)
        return self._cluster.topic_acls()

    def writable_topics(self, topics: Sequence[str]) -> frozenset[str]:
        """Each broker answers by the rules that it knows."""
        self._process.require_alive()
        numbers = {name: range(len(self._cluster.topic_by_name[name].logs)) for name in topics}
        return frozenset(
            name
            for name in topics
            if any(self._cluster.lets_write(self._principal, name, number) for number in numbers[name])
        )

    def lacking_operations(self, topics: Sequence[str], operations: Sequence[str]) -> dict[str, list[str]]:
        self._process.require_alive()
        self._cluster.topics()
        found = {
            name: [one for one in operations if not self._cluster.allows(self._principal, one, "topic", name)]
            for name in topics
        }
        return {name: lacking for name, lacking in found.items() if lacking}

    def create_acls(self, acls: Sequence[Permission]) -> None:
        self._require("alter", "cluster", CLUSTER)
        for acl in acls:
            self._write(f"create {_words(acl)}", lambda acl=acl: self._cluster.create_acls([acl]))  # type: ignore[misc]

    def delete_acls(self, acls: Sequence[Permission]) -> None:
        self._require("alter", "cluster", CLUSTER)
        for acl in acls:
            self._write(f"delete {_words(acl)}", lambda acl=acl: self._cluster.delete_acls([acl]))  # type: ignore[misc]

    def permissions(self) -> Permissions:
        self._process.require_alive()
        told = self._cluster.permissions()
        if self._cluster.allows(self._principal, "describe", "cluster", CLUSTER):
            return told
        return dict.fromkeys(told, PermissionsOfKind(PermissionEvent.NOT_PERMITTED))

    def create_permissions(self, permissions: Sequence[Permission]) -> None:
        self._require("alter", "cluster", CLUSTER)
        for one in permissions:
            self._write(f"allow {_of(one)}", lambda one=one: self._admin.create_permissions([one]))  # type: ignore[misc]

    def delete_permissions(self, permissions: Sequence[Permission]) -> None:
        self._require("alter", "cluster", CLUSTER)
        for one in permissions:
            self._write(f"disallow {_of(one)}", lambda one=one: self._admin.delete_permissions([one]))  # type: ignore[misc]

    def change_settings(self, name: str, *, to_set: Mapping[str, str], to_remove: Sequence[str]) -> None:
        self._require("alter_configs", "topic", name)
        change = self._cluster.change_settings
        what = f"set {', '.join([*to_set, *to_remove])} of {name}"
        self._write(what, lambda: change(name, to_set=to_set, to_remove=to_remove))

    def change_setting(self, name: str, values: Mapping[str, str | None]) -> None:
        for topic, value in values.items():
            self._require("alter_configs", "topic", topic)
            self._write(
                f"set {name} of {topic}",
                lambda topic=topic, value=value: self._cluster.change_setting(name, {topic: value}),  # type: ignore[misc]
            )

    # -- topics ----------------------------------------------------------------------------------

    def delete_topic(self, name: str, *, topic_id: str) -> None:
        self._require("delete", "topic", name)
        self._write(f"delete topic {name}", lambda: self._cluster.delete_topic(name, topic_id=topic_id))

    def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, configuration: Mapping[str, str]
    ) -> None:
        self._require("create", "topic", name)
        create, settings = self._cluster.create_topic, dict(configuration)
        self._write(
            f"create topic {name}",
            lambda: create(
                name, partitions=partitions, replication_factor=replication_factor, configuration=settings
            ),
        )

    # -- groups ----------------------------------------------------------------------------------

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[Place, CommitRefusal]:
        if not self._cluster.allows(self._principal, "read", "group", group):
            return {(one.topic, one.partition): CommitRefusal.GROUP_DENIED for one in commits}
        refused: dict[Place, CommitRefusal] = self._write(
            f"commits of {group}", lambda: self._cluster.set_commits(group, commits)
        )
        return refused

    def delete_commits(self, group: str, places: Sequence[Place]) -> dict[Place, CommitRefusal]:
        if not self._cluster.allows(self._principal, "delete", "group", group):
            return dict.fromkeys(places, CommitRefusal.GROUP_DENIED)
        refused: dict[Place, CommitRefusal] = self._write(
            f"no commits of {group}", lambda: self._cluster.delete_commits(group, places)
        )
        return refused

    # -- producer ids ----------------------------------------------------------------------------

    def allocate_producer_id(self) -> int:
        allocated: int = self._write("producer id", self._cluster.allocate_producer_id)
        return allocated

    def write_abort_markers(
        self, partitions: Sequence[TopicPartition], *, producer_id: int, producer_epoch: int
    ) -> None:
        self._require("alter", "cluster", CLUSTER)
        for at in partitions:
            self._write(
                f"marker in {at.topic} {at.partition}",
                lambda at=at: self._cluster.write_abort_marker(  # type: ignore[misc]
                    at, producer_id=producer_id, producer_epoch=producer_epoch
                ),
            )


def _words(acl: Permission) -> str:
    return f"{acl.permission_type} {acl.entity} {acl.operation} {acl.resource_name}"


def _of(one: Permission) -> str:
    return f"{one.entity} {one.operation} {one.resource_type} {one.resource_name}"


class OperatorFactLog(MemoryFactLog):
    """In place of `DeltaFactLog`: each commit to a table is a write."""

    def __init__(self, ledger: MemoryLedger, clock: Schedule, process: OperatorProcess) -> None:
        super().__init__(ledger, clock)
        self._process = process

    def _write(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> bool:
        write = super()._write
        name = f"ledger: {claim.writer} {table} {', '.join(_kinds(rows)) or 'epoch'}"
        done: bool = self._process.write(name, lambda: write(claim, table, round_number, rows))
        return done


def _kinds(rows: Sequence[Row]) -> list[str]:
    """What tells an append from others of the same writer, each once."""
    return sorted({_kind(row) for row in rows})


def _kind(row: Row) -> str:
    content = json.loads(str(row.get("content", "{}")))
    words = [
        row.get("kind") or row.get("event"),
        *(content.get(key) for key in ("cluster", "step", "group", "of")),
    ]
    is_begun = content.get("proof", "") in (None, "begun")
    return " ".join([*(str(word) for word in words if word), *(["begun"] if is_begun else [])])


@dataclass
class OperatorHooks:
    """In place of `HookProcesses`: a hook is a word, and what it does is done to the world."""

    process: OperatorProcess
    acts: Mapping[str, Callable[[], None]]

    def run(self, hook: HookCommand, waits: Callable[[str], None]) -> HookResult:
        waits("it runs")
        [word] = hook.command
        self.process.write(f"hook: {word}", self.acts[word])
        return HookResult(0, word)


class ClosableNetwork(MemoryNetwork):
    """In place of `KafkaNetwork`."""

    def close(self) -> None:
        self.abandon()


@dataclass(frozen=True)
class Outside:
    """What processes of operators find: clusters by alias, the ledger, and what hooks do, by their word."""

    schedule: Schedule
    clusters: Mapping[str, AdministeredCluster]
    ledger: MemoryLedger
    hooks: dict[str, Callable[[], None]]
    living: set[ProcessMark] = field(default_factory=set)

    def process(self, before: Strikes = never, behind: Strikes = never) -> OperatorProcess:
        """One that begins now; all that were there before have ended."""
        number = len(self._marks) + 1
        self._marks.append(ProcessMark(HOST, number, number))
        return OperatorProcess(self._marks[-1], before, behind)

    _marks: list[ProcessMark] = field(default_factory=list)

    @contextmanager
    def seen_by(self, process: OperatorProcess) -> Iterator[None]:
        """In here the app layer's code finds this outside."""
        clusters, ledger, schedule = self.clusters, self.ledger, self.schedule

        def seat(alias: str, config: ClusterConfig, _clock: object) -> Seat:
            return Seat(clusters[alias], config, process)

        def network(
            source: ClusterConfig, target: ClusterConfig, *, request_timeout_s: float
        ) -> ClosableNetwork:
            sides = clusters[source.name], clusters[target.name]
            return ClosableNetwork(*sides, schedule, CalmWeather(), request_timeout_s=request_timeout_s)

        stand_ins: list[tuple[object, object]] = [
            (KafkaAdmin, seat),
            (KafkaFencing, seat),
            (KafkaNetwork, network),
            (DeltaLedger, lambda _path: OpenedLedger(ledger)),
            (open_ledger, lambda _path: OpenedLedger(ledger)),
            (DeltaLedgerState, lambda _opened: MemoryLedgerState(ledger)),
            (DeltaFactLog, lambda _path, _clock: OperatorFactLog(ledger, schedule, process)),
            (SystemClock, lambda: schedule),
            (LocalProcesses, lambda: FakeProcesses(process.mark, self.living)),
            (examine, lambda *_flows, **_how: []),
            (
                KeptMirrorProducers,
                lambda _path, cluster_id: partial(memory_mirror_producers, ledger, cluster_id),
            ),
            (HookProcesses, lambda _secrets: OperatorHooks(process, self.hooks)),
            (time, SimpleNamespace(sleep=schedule.wait)),
        ]
        by_id = {id(real): stand_in for real, stand_in in stand_ins}
        with pytest.MonkeyPatch.context() as patch:
            for name, module in sorted(sys.modules.items()):
                if name.startswith(WIRED):
                    for attribute, value in list(vars(module).items()):
                        if id(value) in by_id:
                            patch.setattr(module, attribute, by_id[id(value)])
            yield
