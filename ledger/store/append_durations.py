"""How long appends to the ledger take, and since when one waits: what a driver shows of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from ledger.clock import Clock
from ledger.durations import Durations


class AppendDurations:
    """How long appends take, with all that is tried again, and since when one waits. Several threads may use it."""

    def __init__(self) -> None:
        self.done, self.failed = Durations(), 0
        self._begun: dict[int, float] = {}
        self._numbers = count()
        self._noting = threading.Lock()

    @contextmanager
    def measured(self, clock: Clock) -> Iterator[None]:
        """An append is the body."""
        began = clock.monotonic()
        try:
            with self.waiting(clock):
                yield
        except BaseException:
            with self._noting:
                self.failed += 1
            raise
        with self._noting:
            self.done.add(clock.monotonic() - began)

    @contextmanager
    def waiting(self, clock: Clock) -> Iterator[None]:
        """What is to be appended waits for the body."""
        began = clock.monotonic()
        with self._noting:
            number = next(self._numbers)
            self._begun[number] = began
        try:
            yield
        finally:
            with self._noting:
                del self._begun[number]

    def waited_s(self, clock: Clock) -> float:
        """For how long the oldest append has been under way; 0: none is."""
        with self._noting:
            began = min(self._begun.values(), default=None)
        return 0.0 if began is None else clock.monotonic() - began
