"""Whether a transaction at the source holds the mirror up.

The mirror reads committed records, so it gets no further than the last stable offset: the begin of the
oldest open transaction. A transaction whose producer and coordinator have forgotten it stays open for
ever; what lies behind it would be lost in a failover.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StableOffset:
    """The ends of a partition as last seen; `since_s`: from when on its last stable offset was this one."""

    last_stable: int
    high_watermark: int
    since_s: float

    @property
    def held_back(self) -> int:
        """Offsets that a reader of committed records cannot get at."""
        return self.high_watermark - self.last_stable

    def stands_for(self, now_s: float) -> float:
        """Seconds for which an open transaction has held the same offset; 0 when none is open."""
        return now_s - self.since_s if self.held_back else 0.0

    def is_stuck(self, now_s: float, *, after_s: float) -> bool:
        """Held for longer than any transaction that a broker still supervises."""
        return self.stands_for(now_s) >= after_s


def observed(
    before: StableOffset | None, *, last_stable: int, high_watermark: int, now_s: float
) -> StableOffset:
    """What is known after another check, on a clock that never goes back."""
    stands = before is not None and before.held_back > 0 and before.last_stable == last_stable
    since_s = before.since_s if before is not None and stands else now_s
    return StableOffset(last_stable, high_watermark, since_s)
