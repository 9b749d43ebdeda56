"""Half-open ranges of offsets of one partition: put together, taken from each other, searched.

Where ranges are called ascending they are also apart from each other.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

OffsetRange = tuple[int, int]
"""Start and end of a half-open range of offsets."""


class Share(Enum):
    """How much of a stretch of offsets lies in one of several ranges."""

    NONE = "none"
    PART = "part"
    ALL = "all"


def share_of(ranges: Sequence[OffsetRange], start: int, end: int) -> Share:
    """How much of `[start, end)` ascending ranges hold; ranges that touch have to be joined."""
    index = bisect_right(ranges, start, key=_end)
    if index == len(ranges) or ranges[index][0] >= end:
        return Share.NONE
    return Share.ALL if ranges[index][0] <= start and end <= ranges[index][1] else Share.PART


def joined(ranges: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """Ranges in the order of their starts, with those made one that touch or overlap."""
    current: OffsetRange | None = None
    for start, end in ranges:
        if current is not None and start <= current[1]:
            current = current[0], max(current[1], end)
            continue
        if current is not None:
            yield current
        current = start, end
    if current is not None:
        yield current


def without(whole: OffsetRange, taken: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """What is left of a range; `taken` is in the order of starts."""
    start, whole_end = whole
    for taken_start, taken_end in taken:
        if start < min(taken_start, whole_end):
            yield start, min(taken_start, whole_end)
        start = max(start, taken_end)
    if start < whole_end:
        yield start, whole_end


def overlapping(ranges: Sequence[OffsetRange], start: int, end: int) -> Sequence[OffsetRange]:
    """Those of ascending ranges that reach into `[start, end)`."""
    return ranges[bisect_right(ranges, start, key=_end) : bisect_left(ranges, end, key=_start)]


def from_offset(ranges: Sequence[OffsetRange], offset: int) -> tuple[OffsetRange, ...]:
    """Those of ascending ranges that reach beyond an offset."""
    return tuple(ranges[bisect_right(ranges, offset, key=_end) :])


def _start(found: OffsetRange) -> int:
    return found[0]


def _end(found: OffsetRange) -> int:
    return found[1]
