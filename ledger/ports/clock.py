"""Wall time and monotonic time."""

from typing import Protocol


class Clock(Protocol):
    """Wall time for rows, monotonic time for deadlines."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...
