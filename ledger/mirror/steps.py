"""What becomes of source offsets: a batch to send, small ones that may be sent as one, or nothing."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ledger.facts.syncs import Gap
from ledger.kafka.batches import HEADER_BYTES, times_and_count

NO_TIME = -1
_GAP_BYTES = 128
_MOST_RECORDS, _MOST_BYTES, _MOST_COMPRESSED = 8, 16 * 1024, 1024


def is_small(records: int, size: int, attributes: int) -> bool:
    """Whether a batch costs by being one what it does not by its bytes; a compressed one has to be compressed again."""
    most_bytes = _MOST_COMPRESSED if attributes else _MOST_BYTES
    return 0 < records <= _MOST_RECORDS and HEADER_BYTES < size < most_bytes


@dataclass(frozen=True, slots=True)
class Copy:
    """Source offsets `[source_start, source_end)` become `count` records of `batch`; `gaps` lie inside.

    `whole`: they are all records of one batch of the source. `ends`: of a merged batch, where each batch of the source
    ends that is in it.
    """

    source_start: int
    source_end: int
    batch: memoryview
    attributes: int
    count: int
    gaps: tuple[Gap, ...]
    raw: bool
    base_timestamp: int
    max_timestamp: int
    leader_epoch: int
    whole: bool = False
    ends: tuple[int, ...] = ()

    @property
    def held_bytes(self) -> int:
        """About what it takes in memory."""
        return len(self.batch) + _GAP_BYTES * len(self.gaps)


@dataclass(frozen=True, slots=True)
class Skip:
    """Source offsets that hold nothing to copy."""

    gap: Gap
    leader_epoch: int | None

    @property
    def source_end(self) -> int:
        return self.gap.source_end

    @property
    def held_bytes(self) -> int:
        return _GAP_BYTES


Step = Copy | Skip


class SmallBatch(NamedTuple):
    """A whole batch of the source without gaps; `batch`: as it would be sent alone, but for what is patched in it."""

    batch: bytes
    source_end: int
    records: int
    base_timestamp: int
    max_timestamp: int
    raw: bool

    @property
    def source_start(self) -> int:
        return self.source_end - self.records


@dataclass(slots=True)
class SmallBatches:
    """Batches of the source, one at least, each of which follows the one before it, of one codec and leader epoch.

    Thousands of them that were fetched at once are one step, of which as many are taken as are sent at once.
    """

    attributes: int
    leader_epoch: int
    waiting: deque[SmallBatch]
    held_bytes: int

    @property
    def source_start(self) -> int:
        return self.waiting[0].source_start

    @property
    def source_end(self) -> int:
        return self.waiting[-1].source_end

    @property
    def base_timestamp(self) -> int:
        """Of the first batch."""
        return self.waiting[0].base_timestamp

    @classmethod
    def of(cls, step: "Planned") -> "SmallBatches":
        """The batch of a `Copy`, by itself."""
        if isinstance(step, SmallBatches):
            return step
        assert isinstance(step, Copy)
        base_timestamp, max_timestamp, _ = times_and_count(step.batch)
        batch = bytes(step.batch)
        small = SmallBatch(batch, step.source_end, step.count, base_timestamp, max_timestamp, step.raw)
        return cls(step.attributes, step.leader_epoch, deque([small]), len(batch))

    def joined(self, following: "Planned") -> "SmallBatches":
        """With these behind them."""
        others = SmallBatches.of(following)
        self.waiting += others.waiting
        self.held_bytes += others.held_bytes
        return self

    def take(self, count: int) -> list[SmallBatch]:
        """The first ones, so many, which are no longer in it."""
        taken = [self.waiting.popleft() for _ in range(count)]
        self.held_bytes -= sum(len(one.batch) for one in taken)
        return taken

    def singles(self) -> Iterator[Copy]:
        """Each of them by itself."""
        return map(self.single, self.waiting)

    def single(self, small: SmallBatch) -> Copy:
        """One of them by itself."""
        return Copy(
            source_start=small.source_start,
            source_end=small.source_end,
            batch=memoryview(bytearray(small.batch)),
            attributes=self.attributes,
            count=small.records,
            gaps=(),
            raw=small.raw,
            base_timestamp=small.base_timestamp,
            max_timestamp=small.max_timestamp,
            leader_epoch=self.leader_epoch,
            whole=True,
        )


Planned = Step | SmallBatches
