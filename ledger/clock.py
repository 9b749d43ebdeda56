"""Clocks and instants, and what is done again and again beside something else."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ledger.errors import MirrorLedgerError
from ledger.threads import beside

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MARGIN_MS = 300_000
"""By how much the clocks of those who record may differ."""


AGAIN_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""How long who could not use the ledger leaves it alone, by how often that failed in a row."""


@dataclass(frozen=True, slots=True)
class Instant:
    """When something began: milliseconds since the epoch, and seconds for measuring."""

    at_ms: int
    monotonic: float


class StopSignal(Protocol):
    """Set when the driver is to end after the round under way."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


# Repeating ----------------------------------------------------------------------------------------
# Something that is done again and again beside something else, in a thread of its own.


@contextmanager
def repeated(
    act: Callable[[], None],
    *,
    every_s: float,
    failed: Callable[[str], None],
    name: str = "shown_alive",
    continues: bool = False,
) -> Iterator[None]:
    """Do it again and again for as long as the body takes, first after `every_s`, in a thread of that name.

    What it fails with is said at once (`failed`), and ends it: whoever does the same next fails by it too. Where it
    `continues` that is said once, until it is something else or over.
    """
    ended = threading.Event()

    def work() -> None:
        trouble = ""
        while not ended.wait(every_s):
            try:
                act()
                trouble = ""
            except (MirrorLedgerError, OSError) as error:
                if str(error) != trouble:
                    failed(str(error))
                if not continues:
                    return
                trouble = str(error)

    thread = beside(work, name=name)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


# Clock --------------------------------------------------------------------------------------------
# Wall time and monotonic time.


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


# System -------------------------------------------------------------------------------------------
# This machine's clocks.


class SystemClock:
    """Implements `Clock`."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()
