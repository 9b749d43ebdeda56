"""Wall time and monotonic time."""

from typing import Protocol

from ledger.domain.reach import Instant


class Clock(Protocol):
    """Wall time for rows, monotonic time for deadlines."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...


def now_by(clock: Clock) -> Instant:
    """Now, by both."""
    return Instant(clock.now_ms(), clock.monotonic())
