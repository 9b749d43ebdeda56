"""This machine's clocks."""

import time


class SystemClock:
    """Implements `ports.Clock`."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()
