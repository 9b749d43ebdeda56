"""Two clusters that may mirror one partition to each other, and groups that read it at one of them.

`east` and `west` are logs of records; applications write to both, flows copy what these wrote and leave out what
mirrors wrote, elections lose the end of a log. What a flow would record is in its `History`; what groups have really
read is kept beside, so that an answer can be judged without any map.
"""

import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from ledger.facts.syncs import GapCause, SyncCause, TopicPartition
from tests.simulation.ledger.tables import Row
from tests.support.algebra.translation import SeenEnd
from tests.support.histories import History, sync_row
from tests.support.ledger_rows import row

EAST_PARTITION = TopicPartition("orders", "east-id", 0)
WEST_PARTITION = TopicPartition("orders", "west-id", 0)
THERE, BACK = "east-to-west", "west-to-east"
_STEP_MS = 100_000
_SKEW_MS = 140_000
"""What each clock may be wrong by: two of them differ by less than is allowed for."""


@dataclass(frozen=True)
class Record:
    """A copy has the number of its original; a marker of a transaction has none."""

    number: int | None
    is_mirrored: bool
    leader_epoch: int


@dataclass
class Log:
    records: list[Record] = field(default_factory=list)
    leader_epoch: int = 0
    log_start: int = 0

    @property
    def end(self) -> int:
        return len(self.records)

    def append(self, number: int | None, *, is_mirrored: bool = False) -> None:
        self.records.append(Record(number, is_mirrored, self.leader_epoch))

    def numbers(self, start: int, end: int) -> set[int]:
        return {record.number for record in self.records[start:end] if record.number is not None}


@dataclass
class Group:
    """A consumer at east. `read` is what it had processed when it committed; a recorder saw some of its commits.

    `is_unreported`: its commit has no leader epoch, and what it was made on was lost before it was copied and before a
    recorder saw how far the log reached, so no row tells of that.
    """

    name: str
    has_epochs: bool
    position: int = 0
    processed: frozenset[int] = frozenset()
    committed: int | None = None
    leader_epoch: int | None = None
    read: frozenset[int] = frozenset()
    is_unreported: bool = False
    was_untold: bool = False
    """Of the commit that a recorder saw last."""
    seen: list[Row] = field(default_factory=list)
    seen_read: frozenset[int] = frozenset()


class TwoWays:
    """One life of both clusters. `is_two_way`: west's records are copied to east, too."""

    def __init__(self, chance: random.Random, *, is_two_way: bool) -> None:
        self.chance = chance
        self.is_two_way = is_two_way
        self.east, self.west = Log(), Log()
        self.there = History(0, 0, source=EAST_PARTITION, target=WEST_PARTITION)
        self.back = History(0, 0, source=WEST_PARTITION, target=EAST_PARTITION)
        self.groups = [Group(f"group-{number}", has_epochs=number % 2 == 0) for number in range(4)]
        self.taken_back: set[int] = set()
        self.written_at_west: set[int] = set()
        self.now_ms = 0
        self.recorded_at_ms: dict[int, int] = {}
        """When rows of `there` were recorded, by the driver's clock."""
        self.seen_ends: list[SeenEnd] = []
        """Of east, as its recorder saw them."""
        self._numbers = iter(range(10_000))
        self._rounds_seen = 0
        for flow in self._flows():
            flow.start()
            flow.next_round()

    def live(self, events: int) -> None:
        for _ in range(events):
            self.now_ms += _STEP_MS
            self._happen()
            for index in range(len(self.recorded_at_ms), len(self.there.recorded)):
                self.recorded_at_ms[index] = self.now_ms + self._skew()

    def _happen(self) -> None:
        match self.chance.choices(range(7), weights=[5, 3, 6, 6, 6, 1, 4])[0]:
            case 0:
                self._write(self.east, set())
            case 1:
                self._write(self.west, self.written_at_west)
            case 2:
                self._copy(self.there, self.east, self.west)
            case 3 if self.is_two_way:
                self._copy(self.back, self.west, self.east)
            case 4:
                self._consume(self.chance.choice(self.groups))
            case 5:
                east, west = (self.east, self.there, self.back), (self.west, self.back, self.there)
                self._lose_the_end(*self.chance.choice([east, west]))
            case 6:
                self._look()

    def _write(self, log: Log, own: set[int]) -> None:
        for _ in range(self.chance.randint(1, 4)):
            number = next(self._numbers)
            own.add(number)
            log.append(number)
        if self.chance.random() < 0.3:
            log.append(None)

    def _copy(self, flow: History, source: Log, target: Log) -> None:
        end = min(flow.source_end + self.chance.randint(1, 6), source.end)
        if end == flow.source_end:
            return
        taken = source.records[flow.source_end : end]
        foreign = target.end - flow.target_end
        for epoch in sorted({record.leader_epoch for record in taken}):
            flow.leader_epoch = epoch
            of_epoch = [record for record in taken if record.leader_epoch == epoch]
            flow.copy_stretch([_left_out(record) for record in of_epoch], foreign)
            for record in of_epoch:
                if _left_out(record) is None:
                    target.append(record.number, is_mirrored=True)
            foreign = target.end - flow.target_end
        flow.next_round(is_restart=self.chance.random() < 0.1)

    def _consume(self, group: Group) -> None:
        end = min(group.position + self.chance.randint(0, 5), self.east.end)
        group.processed |= self.east.numbers(group.position, end)
        group.position = end
        if self.chance.random() < 0.8:
            group.committed, group.read, group.is_unreported = end, group.processed, False
            last = self.east.records[end - 1].leader_epoch if end else None
            group.leader_epoch = last if group.has_epochs else None

    def _lose_the_end(self, log: Log, flow_from: History, flow_into: History) -> None:
        """An unclean election: who reads there is put back, flows find out at once."""
        end = max(log.end - self.chance.randint(1, 5), log.log_start)
        self.taken_back |= log.numbers(end, log.end) - self._elsewhere(log, end)
        del log.records[end:]
        log.leader_epoch += 1
        is_recorded = flow_from.source_end > end
        is_told = is_recorded or (
            log is self.east and any(seen.high_watermark > end for seen in self.seen_ends)
        )
        if is_recorded:
            flow_from.supersede(end, flow_from.target_end, SyncCause.SOURCE_TRUNCATED)
        if flow_into.target_end > end:
            flow_into.truncate_target(end)
        if log is self.east:
            for group in self.groups:
                group.position = min(group.position, end)
                if not (group.has_epochs or is_told):
                    group.is_unreported |= (group.committed or 0) > end
                    group.was_untold |= any(
                        int(str(seen["committed_offset"])) > end for seen in group.seen[-1:]
                    )

    def _elsewhere(self, log: Log, end: int) -> set[int]:
        """Of what a log loses, copies whose originals are still there: they will come again."""
        other = self.west if log is self.east else self.east
        originals = {record.number for record in other.records if not record.is_mirrored}
        return {number for number in log.numbers(end, log.end) if number in originals}

    def _look(self) -> None:
        """A recorder appends what groups have committed: what changed, and at times all of it."""
        is_sweep = self.chance.random() < 0.5
        self._rounds_seen += 1
        if is_sweep:
            self.seen_ends.append(SeenEnd(self.east.leader_epoch, self.east.end))
        for group in self.groups:
            if group.committed is None:
                continue
            commit = {"committed_offset": group.committed, "leader_epoch": group.leader_epoch}
            if group.seen and not is_sweep and commit.items() <= group.seen[-1].items():
                group.seen_read, group.was_untold = group.read, group.is_unreported
                continue
            seen = {
                "cluster": "east",
                "group_id": group.name,
                "topic": "orders",
                "topic_id": "east-id",
                **commit,
            }
            group.seen.append(
                row("checkpoints", **seen, round=self._rounds_seen, read_at_ms=self.now_ms + self._skew())
            )
            group.seen_read, group.was_untold = group.read, group.is_unreported

    def _skew(self) -> int:
        return self.chance.randint(-_SKEW_MS, _SKEW_MS)

    def _flows(self) -> Iterable[History]:
        return [self.there, self.back] if self.is_two_way else [self.there]

    # -- what a reader of the ledger knows -------------------------------------------------------

    def expire(self) -> None:
        """The target's retention deletes some of its oldest records."""
        self.west.log_start = self.chance.randint(0, self.west.end)

    def rows(self, number: int) -> dict[str, list[Row]]:
        """What the ledger holds of this life, under topics of its own."""
        syncs: list[Row] = []
        for flow, history in ((THERE, self.there), (BACK, self.back)):
            for index, recorded in enumerate(history.recorded):
                told = sync_row(0, recorded, flow=flow)
                at_ms = self.recorded_at_ms[index] if history is self.there else 0
                syncs.append({**told, "recorded_at_ms": at_ms})
        start = {
            "cluster": "west",
            "topic": "orders",
            "topic_id": "west-id",
            "log_start": self.west.log_start,
        }
        rows: dict[str, list[Row]] = {
            "offset_syncs": syncs,
            "checkpoints": [seen for group in self.groups for seen in group.seen],
            "high_watermarks": [row("high_watermarks", **start), *map(_seen_row, self.seen_ends)],
        }
        return {table: [_numbered(one, number) for one in found] for table, found in rows.items()}


def _seen_row(seen: SeenEnd) -> Row:
    of_east = {"cluster": "east", "topic": "orders", "topic_id": "east-id"}
    return row("high_watermarks", **of_east, **asdict(seen))


def topic_of(number: int) -> str:
    return f"orders-{number}"


def _numbered(told: Row, number: int) -> Row:
    return {name: f"{value}-{number}" if "topic" in name else value for name, value in told.items()}


def lived(seed: int, *, is_two_way: bool) -> TwoWays:
    chance = random.Random(seed)
    ways = TwoWays(chance, is_two_way=is_two_way)
    ways.live(chance.randint(3, 60))
    if chance.random() < 0.4:
        ways.expire()
    return ways


def _left_out(record: Record) -> GapCause | None:
    if record.number is None:
        return GapCause.CONTROL
    return GapCause.MIRROR_WRITE if record.is_mirrored else None
