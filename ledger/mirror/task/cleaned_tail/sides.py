"""What is left of a tail on both sides, as values."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ANY_NUMBER = 1 << 40
"""More than any log has: nobody knows how many."""


@dataclass(frozen=True, slots=True)
class Left:
    """A record that is left: `at` its source offset, or at the target its index; `digest` stands for its content."""

    at: int
    digest: bytes
    key: bytes | None
    timestamp: int


@dataclass(frozen=True, slots=True)
class SourceSide:
    """What is left of the source from `start` on: records to copy, and the holes that cleaners left.

    `hole_before`: how many records right before `start` may have been copied, and were deleted.
    """

    start: int
    records: Sequence[Left]
    holes: Sequence[tuple[int, int]]
    hole_before: int = 0


@dataclass(frozen=True, slots=True)
class TailRange:
    """Own records at the target, `count` of them were written: from this offset and index on."""

    target_start: int
    count: int
    index: int

    @property
    def end(self) -> int:
        return self.index + self.count

    def part(self, start: int, end: int) -> "TailRange":
        """By indexes."""
        return TailRange(self.target_start + start - self.index, end - start, start)


@dataclass(frozen=True, slots=True)
class TargetSide:
    """What is left of the tail: its batches in order, and records by index."""

    batches: Sequence[TailRange]
    records: Mapping[int, Left]

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    def batch_with(self, index: int) -> TailRange | None:
        """None where the cleaner has removed the whole batch."""
        place = bisect_left(self.batches, index + 1, key=lambda batch: batch.end)
        found = self.batches[place] if place < len(self.batches) else None
        return found if found is not None and found.index <= index else None
