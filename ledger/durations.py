"""How long something took again and again, counted by how long."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

BOUNDS_S = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    1_800.0,
    7_200.0,
    86_400.0,
)
"""Upper bounds, seconds; a last count is of what took longer than all of them."""


@dataclass(slots=True)
class Durations:
    """Counts by bound, and the sum of all, in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Two clocks may be in the wrong order: what ended before it began took no time."""
        seconds = max(0.0, seconds)
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def add_all(self, others: "Durations") -> None:
        """Those that somebody else has counted."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, others.counts, strict=True)]
        self.sum_s += others.sum_s

    @property
    def cumulated(self) -> Iterator[tuple[float, int]]:
        """By bound how many took at most so long; the last bound is infinite."""
        number = 0
        for bound, count in zip((*BOUNDS_S, float("inf")), self.counts, strict=True):
            number += count
            yield bound, number

    def __bool__(self) -> bool:
        return any(self.counts)
