"""The ledger, read again and again in the background: whoever asks gets at once what was read last, and its age.

Each subject has an interval of its own, and is read more rarely where that takes long, so that reading takes no more
than a share of the time. What cannot be read keeps what was read before, and says since when and why it is not newer.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from ledger.answers.ledger import Ledger
from ledger.clock import Clock, SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.errors import MirrorLedgerError
from ledger.store import damage

log = logging.getLogger(__name__)
Value = TypeVar("Value", covariant=True)
_STALE_AFTER_S = 30.0
_STALE_AFTER_READS = 3


@dataclass(frozen=True, slots=True)
class Subject(Generic[Value]):
    """Something that is asked of the ledger. `pause_s`: at least so long between two reads, and at least `rest` times
    as long as one takes. `is_prompt`: it has a thread of its own, so that no other subject keeps it waiting."""

    name: str
    read: Callable[[Ledger], Value]
    pause_s: float
    rest: float = 1.0
    is_prompt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a subject could not be read, and since when, milliseconds since the epoch."""

    words: str
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Generic[Value]):
    """What was read of a subject last. `value`, `at_ms`, `took_s` None: it was never read.

    `at_ms`: when the ledger was opened for it, milliseconds since the epoch: nothing later is in it. `failure` None:
    the last try succeeded.
    """

    subject: Subject[Value]
    value: Value | None = None
    at_ms: int | None = None
    took_s: float | None = None
    failure: Failure | None = None

    @property
    def stale_after_s(self) -> float:
        """What is older was not read when it should have been: it tells nothing about now."""
        took_s = self.took_s or 0.0
        every_s = max(self.subject.pause_s, took_s * self.subject.rest) + took_s
        return max(_STALE_AFTER_S, _STALE_AFTER_READS * every_s)

    def fresh(self, now_ms: int) -> Value | None:
        """What was read, unless it is too old to tell about now."""
        if self.at_ms is None or (now_ms - self.at_ms) / 1000 > self.stale_after_s:
            return None
        return self.value


class LedgerReader:
    """Reads each prompt subject in a thread of its own, and the others in one, from `start` until `stop`; `of` may be
    asked by any thread.

    `crashed`: called with an error that nobody foresaw, behind which nothing more is read.
    """

    def __init__(
        self,
        config: MirrorConfig,
        subjects: Mapping[str, Subject[Any]],
        *,
        crashed: Callable[[BaseException], None],
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        self.clock: Clock = clock or SystemClock()
        self._crashed = crashed
        self._reads: dict[str, Read[Any]] = {name: Read(subject=one) for name, one in subjects.items()}
        self._due = dict.fromkeys(subjects, float("-inf"))
        self._ended = threading.Event()
        lanes = [[name] for name, one in subjects.items() if one.is_prompt]
        lanes.append([name for name, one in subjects.items() if not one.is_prompt])
        self._threads = [
            threading.Thread(target=self._work, args=(names,), name="ledger-reader", daemon=True)
            for names in lanes
            if names
        ]

    def of(self, subject: Subject[Value]) -> Read[Value]:
        """What was read of it last."""
        return self._reads[subject.name]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, *, timeout_s: float = 5.0) -> bool:
        """End after the reads under way; returns whether they have ended, and not when the time was over."""
        self._ended.set()
        deadline = self.clock.monotonic() + timeout_s
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - self.clock.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def read_due(self, names: Collection[str] | None = None) -> float:
        """Read what is due of some subjects (None: of all), as the ledger is now; returns seconds until the next is."""
        asked = list(self._due) if names is None else list(names)
        for name in asked:
            if self._ended.is_set():
                break
            if self.clock.monotonic() >= self._due[name]:
                self._read(name)
        return max(0.0, min(self._due[name] for name in asked) - self.clock.monotonic())

    def _work(self, names: Collection[str]) -> None:
        try:
            while not self._ended.is_set():
                self._ended.wait(self.read_due(names))
        except BaseException as error:  # whoever serves has to end: nothing would be read any more
            self._crashed(error)
            raise

    def _read(self, name: str) -> None:
        before = self._reads[name]
        began, began_ms = self.clock.monotonic(), self.clock.now_ms()
        try:
            value = before.subject.read(Ledger.open(self.config))
        except BaseException as error:
            if (words := _why(error)) is None:
                raise
            since_ms = began_ms if before.failure is None else before.failure.since_ms
            if before.failure is None or before.failure.words != words:
                log.warning("%(subject)s: could not be read: %(cause)s", {"subject": name, "cause": words})
            self._reads[name] = replace(before, failure=Failure(words=words, since_ms=since_ms))
            took_s = self.clock.monotonic() - began
        else:
            took_s = self.clock.monotonic() - began
            self._reads[name] = Read(subject=before.subject, value=value, at_ms=began_ms, took_s=took_s)
        self._due[name] = self.clock.monotonic() + max(before.subject.pause_s, before.subject.rest * took_s)


def _why(error: BaseException) -> str | None:
    """In a line, why the ledger could not be read; None: that is not what the error says."""
    if isinstance(error, MirrorLedgerError):
        return "; ".join(error.lines)
    return damage.words_of(error) if damage.is_of_a_library(error) else None
