"""In-memory ledger, cluster, clock and processes for recorders; what a recorder has no business with fails the test."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ledger.errors import PreconditionError
from ledger.facts.groups import CommitRefusal, GroupEvent, NewCommit, ShareOffset, UnreadGroup
from ledger.facts.permissions import Permissions
from ledger.facts.roles import ProcessMark
from ledger.facts.state import WriterClaim
from ledger.facts.syncs import Absence, Checkpoint, FlowPosition
from ledger.facts.tables import Row
from ledger.kafka.cluster import (
    CommitsAnswer,
    GroupListing,
    PartitionEnds,
    SettingsAnswer,
    ShareOffsetsAnswer,
    TopicDescription,
    TopicSettings,
)
from ledger.recorders.observation import RecorderSettings
from ledger.recorders.recorder import ClusterRecorder
from ledger.topics.naming import NamePatterns
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.unasked_cluster import UnaskedCluster


@dataclass
class FakeClock:
    now_s: float = 1_000.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s


OWN_MARK = ProcessMark("host-a", 10, 100)


@dataclass
class FakeProcesses:
    mark: ProcessMark = OWN_MARK
    alive: set[ProcessMark] = field(default_factory=set)

    def own(self) -> ProcessMark:
        return self.mark

    def is_alive(self, mark: ProcessMark) -> bool:
        return mark in self.alive or mark == self.mark


@dataclass(frozen=True)
class Append:
    writer: str
    epoch: int
    table: str
    round_number: int
    rows: tuple[Row, ...]

    def is_before(self, later: "Append") -> bool:
        """Whether another one may come behind it."""
        same = (self.writer, self.epoch, self.table) == (later.writer, later.epoch, later.table)
        return not same or self.round_number < later.round_number


class FakeLedger(MemoryFactLog, MemoryLedgerState):
    """`FactLog` and `LedgerState` of a recorder over one ledger in memory; `appends`: what was appended to it."""

    def __init__(self, clock: FakeClock) -> None:
        ledger = MemoryLedger()
        MemoryFactLog.__init__(self, ledger, clock)
        MemoryLedgerState.__init__(self, ledger)
        self.clock = clock
        self.appends: list[Append] = []
        self.fail_next_append: Exception | None = None

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        if self.fail_next_append is not None:
            failure, self.fail_next_append = self.fail_next_append, None
            raise failure
        added = Append(claim.writer, claim.epoch, table, round_number, tuple(rows))
        assert all(earlier.is_before(added) for earlier in self.appends), "L4: a round is appended once"
        super().append(claim, table, round_number, rows)
        self.appends.append(added)

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self._ledger.rows(table)

    def positions(self, flow: str) -> list[FlowPosition]:
        raise AssertionError(f"a recorder does not ask for positions of {flow}")


@dataclass
class FakeCluster(UnaskedCluster):
    """A cluster that tests change between looks; `during_look` changes it in the middle of one.

    `listings`: groups that are there beside those with commits, or are otherwise than `classic` and `Stable`.
    `unread_groups`: those for which the cluster does not answer, listed or not.
    """

    alias: str = "east"
    kafka_id: str = "cluster-id"
    described: dict[str, TopicDescription] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    ends_now: dict[tuple[str, int], PartitionEnds] = field(default_factory=dict)
    committed: dict[tuple[str, str, int], int] = field(default_factory=dict)
    during_look: list[TopicDescription] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    hidden_groups: set[str] = field(default_factory=set)
    listings: dict[str, GroupListing] = field(default_factory=dict)
    all_listed: bool = True
    unread_groups: dict[str, UnreadGroup] = field(default_factory=dict)
    shared: list[ShareOffset] = field(default_factory=list)
    asked_for: list[str] = field(default_factory=list)
    looks: int = 0
    permissions_now: Permissions = field(default_factory=dict)
    while_reading_ends: Callable[[], None] = lambda: None

    def add_topic(self, name: str, topic_id: str, *, partitions: int = 1) -> None:
        self.described[name] = TopicDescription(name, topic_id, partitions, 1, name.startswith("__"))
        self.settings[name] = {}

    def cluster_id(self) -> str:
        return self.kafka_id

    def metadata_offset(self) -> int | None:
        return None

    def topics(self) -> dict[str, TopicDescription]:
        self.looks += 1
        return {name: topic for name, topic in self.described.items() if name not in self.hidden}

    def topic_settings(self, topics: Sequence[str]) -> SettingsAnswer:
        own = {name: dict(self.settings[name]) for name in topics if name in self.settings}
        return SettingsAnswer(
            {name: TopicSettings(found, found) for name, found in own.items() if name not in self.denied},
            {name: "not authorized" for name in own if name in self.denied},
        )

    def permissions(self) -> Permissions:
        return self.permissions_now

    def is_deleted(self, topic: str) -> bool:
        if topic in self.hidden:
            raise PreconditionError(f"{topic} may not be described; nothing was looked up")
        return topic not in self.described

    def ends(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], PartitionEnds]:
        for topic in self.during_look:
            self.described[topic.name] = topic
        self.during_look = []
        self.while_reading_ends()
        return {key: self.ends_now[key] for key in partitions if key in self.ends_now}

    def lists_all_groups(self) -> bool:
        return self.all_listed

    def groups(self) -> list[GroupListing]:
        listed = self._existing() - self.hidden_groups
        return [
            self.listings.get(group, GroupListing(group, "classic", "Stable", "consumer"))
            for group in sorted(listed)
        ]

    def unlisted_groups(self, groups: Sequence[str]) -> dict[str, UnreadGroup]:
        self.asked_for += groups
        event = {
            group: GroupEvent.HIDDEN
            if group in self.hidden_groups or group in self._existing()
            else GroupEvent.GONE
            for group in groups
        }
        return {group: self.unread_groups.get(group, UnreadGroup(event[group])) for group in groups}

    def _existing(self) -> set[str]:
        return {key[0] for key in self.committed} | self.listings.keys()

    def group_commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> CommitsAnswer:
        asked = {group.group_id: group for group in groups}
        read = [
            replace(
                checkpoint(group, topic, partition, offset, topic_id=topic_ids.get(topic)),
                group_type=asked[group].group_type,
                group_state=asked[group].group_state,
            )
            for (group, topic, partition), offset in self.committed.items()
            if group in asked and topic not in self.hidden and group not in self.unread_groups
        ]
        return CommitsAnswer(read, self._unread(asked))

    def share_offsets(self, groups: Sequence[str]) -> ShareOffsetsAnswer:
        read = [row for row in self.shared if row.group_id in groups and row.topic not in self.hidden]
        return ShareOffsetsAnswer(
            [row for row in read if row.group_id not in self.unread_groups], self._unread(groups)
        )

    def _unread(self, asked: Collection[str]) -> dict[str, UnreadGroup]:
        return {group: why for group, why in self.unread_groups.items() if group in asked}


def checkpoint(
    group: str, topic: str, partition: int, offset: int | None, *, topic_id: str | None = "id-1"
) -> Checkpoint:
    return Checkpoint(
        cluster="east",
        group_id=group,
        group_type="classic",
        group_state="Stable",
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        committed_offset=offset,
        leader_epoch=None,
        metadata="" if offset is not None else None,
        read_at_ms=1,
    )


def absent(row: Checkpoint, absence: Absence, read_at_ms: int) -> Checkpoint:
    return replace(
        row,
        group_state=None,
        committed_offset=None,
        leader_epoch=None,
        metadata=None,
        read_at_ms=read_at_ms,
        absence=absence,
    )


@dataclass
class Dying(MemoryCluster):
    """No broker answers any more once offsets of a group are set."""

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[tuple[str, int], CommitRefusal]:
        refused = MemoryCluster.set_commits(self, group, commits)
        self.available = False
        return refused


# -- A recorder of a cluster in memory -------------------------------------------------------------

SETTINGS = RecorderSettings(
    groups=(NamePatterns((".*",), exclude=("tool-.*",)),),
    checkpoint_seconds=5,
    high_watermark_seconds=10,
    topic_refresh_seconds=20,
    full_sweep_seconds=60,
)


def watched_cluster() -> FakeCluster:
    """Two topics, groups that read them, and one that is not recorded."""
    cluster = FakeCluster()
    cluster.add_topic("orders", "id-1", partitions=2)
    cluster.add_topic("unmirrored", "id-9")
    cluster.add_topic("__consumer_offsets", "id-0")
    cluster.ends_now = {("orders", p): PartitionEnds(0, 4, 5, 0) for p in range(2)}
    cluster.committed = {("app", "orders", 0): 3, ("app", "unmirrored", 0): 7, ("tool-x", "orders", 0): 1}
    return cluster


def mirrored() -> Sequence[tuple[str, int]]:
    return [("orders", 0), ("orders", 1)]


def recorder_of(
    cluster: FakeCluster,
    ledger: FakeLedger,
    processes: FakeProcesses | None = None,
    settings: RecorderSettings = SETTINGS,
    partitions: Callable[[], Sequence[tuple[str, int]]] = mirrored,
) -> ClusterRecorder:
    """It has not taken its role yet."""
    return ClusterRecorder(
        cluster,
        ledger,
        ledger,
        ledger.clock,
        settings,
        partitions=partitions,
        processes=processes or FakeProcesses(),
    )
