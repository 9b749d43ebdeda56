"""Logs of two clusters, flows between them and groups that read them, as values and as pictures of a few rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

from ledger.facts.syncs import OffsetRange, OffsetSync, PartitionPair, TopicPartition
from tests.support.algebra.first_unread import Ends, Place, first_unread, known_pair
from tests.support.algebra.links import RecordedFlow, TimedSync
from tests.support.algebra.read import KnownGroup, Move
from tests.support.algebra.translation import Commit, SeenEnd

# -- Logs, flows and groups of a life --------------------------------------------------------------

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
    "hub": [("east", "north"), ("north", "east"), ("north", "west")],
    "two_sources": [("east", "west"), ("north", "west")],
    "ring": [("east", "west"), ("west", "north"), ("north", "east")],
    "ring_back": [("west", "east"), ("north", "west"), ("east", "north")],
    "full": list(permutations(("east", "west", "north"), 2)),
    "pair_and_out": [("east", "west"), ("west", "east"), ("west", "north"), ("east", "north")],
    "pair_beside": [("east", "west"), ("west", "east"), ("west", "north"), ("north", "west")],
}
RELAYING = {"chain": ("north", "west"), "relay": ("east", "west"), "hub": ("north", "west")}
"""By world the flow that copies also what mirrors wrote at its source."""


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


# -- Pairs of partitions told by a few rows --------------------------------------------------------

EAST = TopicPartition("orders", "east-id", 0)
WEST = TopicPartition("orders", "west-id", 0)
NORTH = TopicPartition("orders", "north-id", 0)
LONG_AFTER_MS = 10_000_000


def flow(
    source: TopicPartition, target: TopicPartition, *rows: OffsetSync, at_ms: Sequence[int] = ()
) -> RecordedFlow:
    """A flow that recorded these rows, by default long ago; what says its own source or target keeps it."""
    placed = [_placed(row, source, target) for row in rows]
    times = at_ms or range(len(rows))
    return RecordedFlow("flow", [TimedSync(row, at) for row, at in zip(placed, times, strict=True)])


def _placed(row: OffsetSync, source: TopicPartition, target: TopicPartition) -> OffsetSync:
    is_elsewhere = row.target.topic_id.startswith("former")
    return replace(row, source=source, target=row.target if is_elsewhere else target)


def of_epoch(epoch: int, row: OffsetSync) -> OffsetSync:
    return replace(row, source_leader_epoch=epoch)


def at(offset: int, partition: TopicPartition = WEST, leader_epoch: int | None = None) -> Commit:
    """A commit that was made lately."""
    return Commit(
        offset=offset,
        topic_id=partition.topic_id,
        leader_epoch=leader_epoch,
        made_after_ms=LONG_AFTER_MS,
    )


def place(
    flows: Sequence[RecordedFlow],
    here: Commit | None,
    *,
    there: Commit | None = None,
    set_there: Commit | None = None,
    has_been_there: bool = False,
    moved: tuple[Commit | None, int] | None = None,
    highest_seen: int | None = None,
    is_seen: bool = True,
    ends: tuple[int, int] | None = None,
    seen_here: tuple[SeenEnd, ...] = (),
    kept_local: Iterable[OffsetRange] = (),
    ways: Iterable[tuple[TopicPartition, TopicPartition]] = (),
    relayed: Iterable[tuple[TopicPartition, TopicPartition]] = (),
    earlier_incarnations: frozenset[str] = frozenset(),
    is_to_west: bool = False,
) -> Place:
    """Where a group at west goes on at east; with `is_to_west` the other way. `moved`: from a commit there to here.

    `is_seen`: its commit here was seen since then.
    """
    one, other = (EAST, WEST) if is_to_west else (WEST, EAST)
    pair = known_pair(
        here=one,
        there=other,
        flows=flows,
        ways=[PartitionPair(*way) for way in ways],
        relayed=[PartitionPair(*way) for way in relayed],
        ends_here=Ends(log_start=0, high_watermark=0, seen=seen_here),
        ends_there=None if ends is None else Ends(log_start=ends[0], high_watermark=ends[1]),
        kept_local=kept_local,
        earlier_incarnations=earlier_incarnations,
    )
    move = None if moved is None else Move(left=moved[0], arrived_at=moved[1], here_topic_id=one.topic_id)
    if highest_seen is None and here is not None and is_seen:
        highest_seen = max(here.offset, 0 if moved is None else moved[1])
    group = KnownGroup(
        here=here,
        there=there,
        move=move,
        highest_seen=highest_seen,
        set_there=set_there,
        has_been_there=has_been_there,
    )
    return first_unread(pair, group)
