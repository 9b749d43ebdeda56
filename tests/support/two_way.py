"""Two clusters that may mirror one partition to each other.

`east` and `west` are logs of records; applications write to both, flows copy what these wrote and leave out what
mirrors wrote, elections lose the end of a log. What a flow would record is in its `History`.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from ledger.facts.syncs import GapCause, SyncCause, TopicPartition
from tests.simulation.ledger.tables import Row
from tests.support.histories import History, sync_row

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

    @property
    def end(self) -> int:
        return len(self.records)

    def append(self, number: int | None, *, is_mirrored: bool = False) -> None:
        self.records.append(Record(number, is_mirrored, self.leader_epoch))


class TwoWays:
    """One life of both clusters. `is_two_way`: west's records are copied to east, too."""

    def __init__(self, chance: random.Random, *, is_two_way: bool) -> None:
        self.chance = chance
        self.is_two_way = is_two_way
        self.east, self.west = Log(), Log()
        self.there = History(0, 0, source=EAST_PARTITION, target=WEST_PARTITION)
        self.back = History(0, 0, source=WEST_PARTITION, target=EAST_PARTITION)
        self.now_ms = 0
        self.recorded_at_ms: dict[int, int] = {}
        """When rows of `there` were recorded, by the driver's clock."""
        self._numbers = iter(range(10_000))
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
        match self.chance.choices(range(5), weights=[5, 3, 6, 6, 1])[0]:
            case 0:
                self._write(self.east)
            case 1:
                self._write(self.west)
            case 2:
                self._copy(self.there, self.east, self.west)
            case 3 if self.is_two_way:
                self._copy(self.back, self.west, self.east)
            case 4:
                east, west = (self.east, self.there, self.back), (self.west, self.back, self.there)
                self._lose_the_end(*self.chance.choice([east, west]))

    def _write(self, log: Log) -> None:
        for _ in range(self.chance.randint(1, 4)):
            log.append(next(self._numbers))
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

    def _lose_the_end(self, log: Log, flow_from: History, flow_into: History) -> None:
        """An unclean election: flows find out at once."""
        end = max(log.end - self.chance.randint(1, 5), 0)
        del log.records[end:]
        log.leader_epoch += 1
        if flow_from.source_end > end:
            flow_from.supersede(end, flow_from.target_end, SyncCause.SOURCE_TRUNCATED)
        if flow_into.target_end > end:
            flow_into.truncate_target(end)

    def _skew(self) -> int:
        return self.chance.randint(-_SKEW_MS, _SKEW_MS)

    def _flows(self) -> Iterable[History]:
        return [self.there, self.back] if self.is_two_way else [self.there]

    def offset_syncs(self, number: int) -> list[Row]:
        """What the flows have recorded in this life, under topics of its own."""
        syncs: list[Row] = []
        for flow, history in ((THERE, self.there), (BACK, self.back)):
            for index, recorded in enumerate(history.recorded):
                told = sync_row(0, recorded, flow=flow)
                at_ms = self.recorded_at_ms[index] if history is self.there else 0
                syncs.append(_numbered({**told, "recorded_at_ms": at_ms}, number))
        return syncs


def topic_of(number: int) -> str:
    return f"orders-{number}"


def _numbered(told: Row, number: int) -> Row:
    return {name: f"{value}-{number}" if "topic" in name else value for name, value in told.items()}


def lived(seed: int, *, is_two_way: bool) -> TwoWays:
    chance = random.Random(seed)
    ways = TwoWays(chance, is_two_way=is_two_way)
    ways.live(chance.randint(3, 60))
    return ways


def _left_out(record: Record) -> GapCause | None:
    if record.number is None:
        return GapCause.CONTROL
    return GapCause.MIRROR_WRITE if record.is_mirrored else None
