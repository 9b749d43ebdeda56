"""Logs of clusters, flows between them and groups that read them: the values of `tests.support.pair_lives`."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ledger.facts.syncs import OffsetRange, OffsetSync, PartitionPair, TopicPartition
from ledger.offsets.links import TimedSync
from ledger.offsets.translation import Commit

STEP_MS = 100_000
SKEW_MS = 140_000
"""What each clock may be wrong by: two of them differ by less than is allowed for."""

APPLICATION = "application"


@dataclass(frozen=True, slots=True)
class Record:
    """`number` None: a marker of a transaction. `writer`: an application, or the flow that copied it."""

    number: int | None
    writer: str
    leader_epoch: int
    is_filtered: bool = False


@dataclass(frozen=True, slots=True)
class LostEnd:
    """A log lost all from an offset on; the next leader epoch began.

    `is_mapped`: what flows had copied until then says something of what lay there.
    """

    topic_id: str
    offset: int
    leader_epoch: int
    at_ms: int
    is_mapped: bool


@dataclass
class Log:
    cluster: str
    life: int = 0
    records: list[Record] = field(default_factory=list)
    leader_epoch: int = 0
    log_start: int = 0
    lost_ends: list[LostEnd] = field(default_factory=list)
    kept_local: list[OffsetRange] = field(default_factory=list)

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition("orders", f"{self.cluster}-{self.life}", 0)

    @property
    def end(self) -> int:
        return len(self.records)

    def append(self, number: int | None, writer: str, *, is_filtered: bool = False) -> None:
        self.records.append(Record(number, writer, self.leader_epoch, is_filtered))

    def numbers(self, start: int, end: int | None = None) -> set[int]:
        return {record.number for record in self.records[start:end] if record.number is not None}

    def numbers_at(self) -> dict[int, int]:
        """What can be read, by offset."""
        found = enumerate(self.records[self.log_start :], self.log_start)
        return {offset: record.number for offset, record in found if record.number is not None}

    def in_ranges(self, ranges: Sequence[OffsetRange]) -> list[int]:
        return [
            record.number
            for start, end in ranges
            for record in self.records[start:end]
            if record.number is not None
        ]

    def epoch_before(self, offset: int) -> int | None:
        return self.records[offset - 1].leader_epoch if offset else None


@dataclass
class Flow:
    """A flow, how far it has copied, and what of that is recorded: `rows`, by the life of its source."""

    name: str
    source: Log
    target: Log
    is_relay: bool = False
    rows: dict[str, list[TimedSync]] = field(default_factory=dict)
    pending: list[OffsetSync] = field(default_factory=list)
    source_end: int = 0
    target_end: int = 0
    source_life: int = 0
    target_life: int = 0
    lost_ends_seen: dict[str, int] = field(default_factory=dict)
    told_ends: set[LostEnd] = field(default_factory=set)
    returning: set[int] = field(default_factory=set)

    @property
    def recorded(self) -> list[TimedSync]:
        return self.rows.setdefault(self.source.partition.topic_id, [])

    @property
    def way(self) -> PartitionPair:
        return PartitionPair(self.source.partition, self.target.partition)

    def place(self, sync: OffsetSync, leader_epoch: int | None = None) -> OffsetSync:
        placed = replace(
            sync,
            source=self.source.partition,
            target=self.target.partition,
            source_leader_epoch=leader_epoch,
        )
        self.source_end, self.target_end = sync.source_end, sync.target_end
        return placed

    def reaches_beyond(self, topic_id: str, offset: int) -> bool:
        """Whether what it has copied lies beyond an offset, at its source or at its target."""
        copied = [[row.sync for row in rows] for rows in self.rows.values()] + [self.pending]
        ends = (
            end
            for syncs in copied
            for sync in syncs
            for end in ((sync.source, sync.source_end), (sync.target, sync.target_end))
        )
        return any(one.topic_id == topic_id and end > offset for one, end in ends)


@dataclass
class Seen:
    """A commit as a recorder saw it."""

    commit: Commit
    read_at_ms: int
    read: frozenset[int]
    made_at_ms: int


@dataclass
class Side:
    """A group's commit at one cluster, and what recorders saw of it."""

    offset: int
    topic_id: str
    leader_epoch: int | None
    read: frozenset[int]
    made_at_ms: int
    is_absent: bool = False
    seen: list[Seen] = field(default_factory=list)

    def known(self) -> Commit | None:
        """From what was seen, the last of it last."""
        if not self.seen:
            return None
        last = self.seen[-1].commit
        others = [one.read_at_ms for one in self.seen if one.commit.offset != last.offset]
        return replace(last, made_after_ms=max(others, default=None))

    def highest(self) -> int | None:
        """The highest commit that was seen in the life of the last one."""
        last = self.seen[-1:]
        found = (one.commit.offset for one in self.seen if one.commit.topic_id == last[0].commit.topic_id)
        return max(found, default=None)


@dataclass
class RecordedMove:
    source: str
    left: Commit
    arrived_at: int
    target_topic_id: str
    read: frozenset[int]
    made_at_ms: int
    seen_before: int
    """How many rows the recorder of where it went had of the group before."""
    at_ms: int
    """By the clock of who moved it, which orders nothing."""
    highest: int | None = None


@dataclass
class Group:
    name: str
    at: str
    has_epochs: bool
    position: int = 0
    read: frozenset[int] = frozenset()
    sides: dict[str, Side] = field(default_factory=dict)
    moves: dict[str, RecordedMove] = field(default_factory=dict)
    """By the cluster that it moved to."""
    put_back_on: set[str] = field(default_factory=set)
    begun_behind: dict[str, set[int]] = field(default_factory=dict)
    """By the cluster that it came to first by a move: records of others there that it did not wait for."""

    def set_at(self, cluster: str) -> Commit | None:
        """What a recorded move has set there."""
        move = self.moves.get(cluster)
        return None if move is None else Commit(offset=move.arrived_at, topic_id=move.target_topic_id)


WORLDS = {
    "pair": [("east", "west"), ("west", "east")],
    "one_way": [("east", "west")],
    "fan_in": [("east", "west"), ("west", "east"), ("north", "east")],
    "origin": [("north", "east"), ("north", "west")],
    "mesh": [("east", "west"), ("west", "east"), ("north", "east"), ("north", "west")],
    "chain": [("east", "north"), ("north", "west")],
    "relay": [("north", "east"), ("east", "west")],
    "two_sources": [("east", "west"), ("north", "west")],
}
RELAYING = {"chain": "north", "relay": "east"}
"""By world the cluster whose flow copies also what mirrors wrote there."""


def begins(cut: LostEnd, flow: Flow) -> bool:
    """Whether the leader epoch that began with a lost end is in rows, where earlier ones had reached beyond."""
    rows = [row.sync for row in flow.rows.get(cut.topic_id, []) if row.sync.source_leader_epoch is not None]
    epochs = [(row.source_leader_epoch or 0, row) for row in rows if row.records or row.gaps]
    return any(epoch >= cut.leader_epoch and row.source_start <= cut.offset for epoch, row in epochs) and any(
        epoch < cut.leader_epoch and row.source_end > cut.offset for epoch, row in epochs
    )


def other_than(cluster: str) -> str:
    """The other one of the pair."""
    return "west" if cluster == "east" else "east"
