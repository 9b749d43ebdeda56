"""Records of a log as adoption compares them, and a log read forward with a bounded view ahead."""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from ledger.domain.facts import Gap, GapCause

WINDOW_RECORDS = 10_000
WINDOW_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record: `content` is key, value and headers as encoded; `gaps` lie directly before it.

    `cause`: why a flow would not copy it (it was aborted, a mirror had written it, its filter leaves it out),
    though something else may have. `stamped`: the log has replaced the producer's time by its own.
    """

    offset: int
    timestamp: int
    content: bytes
    cause: GapCause | None = None
    leader_epoch: int | None = None
    gaps: tuple[Gap, ...] = ()
    stamped: bool = False

    @property
    def is_mapped(self) -> bool:
        """Whether the map names its copy, if there is one: what a filter leaves out, readers see all the same."""
        return self.cause is None or self.cause is GapCause.FILTERED


def by_time_and_content(record: LogRecord) -> Hashable:
    """A copy that kept times is equal in both."""
    return record.timestamp, record.content


def by_content(record: LogRecord) -> Hashable:
    """A copy in a log that stamps its own times is equal in content alone."""
    return record.content


class ReadableLog(Protocol):
    """A partition up to the end that was looked up when the comparison began."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    def read(self, offset: int) -> Iterator[LogRecord]:
        """Records from `offset` on, in order. Raises `UnreadableLogError` when they are there no more."""
        ...


class Lookahead:
    """A log read forward; the next record can be read before it is taken, and pushed back."""

    def __init__(self, records: Iterator[LogRecord]) -> None:
        self._records = records
        self._window: deque[LogRecord] = deque()
        self._bytes = 0
        self._is_exhausted = False
        self.taken = 0

    def head(self) -> LogRecord | None:
        if not self._window:
            self._fill(1)
        return self._window[0] if self._window else None

    def take(self) -> LogRecord:
        record = self._window.popleft()
        self._bytes -= len(record.content)
        self.taken += 1
        return record

    def peek(self, count: int) -> list[LogRecord]:
        """Up to `count` records ahead: fewer at the end, or when they are too big to hold."""
        self._fill(count)
        return list(islice(self._window, count))

    def ends_within(self, count: int) -> bool:
        """Whether `peek(count)` shows all that is left."""
        self._fill(count + 1)
        return self._is_exhausted and len(self._window) <= count

    def push_back(self, records: Iterable[LogRecord]) -> None:
        """Undo: `records` are those taken last, in order."""
        returned = list(records)
        self._window.extendleft(reversed(returned))
        self._bytes += sum(len(record.content) for record in returned)
        self.taken -= len(returned)

    def _fill(self, count: int) -> None:
        while len(self._window) < count and not self._is_exhausted:
            if self._bytes >= WINDOW_BYTES and self._window:
                return
            record = next(self._records, None)
            if record is None:
                self._is_exhausted = True
            else:
                self._window.append(record)
                self._bytes += len(record.content)
