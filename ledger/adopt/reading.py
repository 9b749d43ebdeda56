"""Reads a partition as records through the copy's own connections: one request at a time, in order."""

from array import array
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from ledger.clock import Clock
from ledger.config.values import FlowConfig
from ledger.context import Context
from ledger.errors import RefusedPartitionError
from ledger.facts.state import LedgerState
from ledger.facts.syncs import Gap, GapCause, TopicPartition
from ledger.kafka.batches import BatchHeader, batches, decode
from ledger.kafka.cluster import ClusterAdmin, require_recorded
from ledger.kafka.copying import ClusterLink, Network
from ledger.kafka.partition_reader import PartitionReader
from ledger.kafka.requests import Fetched
from ledger.mirror.source import RecordRules, filtered, plan_batches
from ledger.mirror.steps import Copy, Skip
from ledger.topics.naming import KEEP_ALL, RecordFilter

# Records ------------------------------------------------------------------------------------------
# Records of a log as adoption compares them, and a log read forward with a bounded view ahead.


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


# Reading ------------------------------------------------------------------------------------------


_KEPT_CAUSES = frozenset({GapCause.ABORTED, GapCause.MIRROR_WRITE})


class PartitionLog:
    """One partition from `start` to `end`, as a read_committed reader sees it, and what was left out beside it.

    Records of aborted transactions and of `mirror_producer_ids`, and those that the filter leaves out, are
    yielded with their cause: something else may have copied them.
    """

    def __init__(
        self,
        network: Network,
        link: ClusterLink,
        clock: Clock,
        partition: TopicPartition,
        *,
        start: int,
        end: int,
        mirror_producer_ids: frozenset[int],
        record_filter: RecordFilter = KEEP_ALL,
    ) -> None:
        self.start = start
        self.end = end
        undone = "nothing of the partition was recorded"
        self._reader = PartitionReader(network, link, clock, partition, committed=True, undone=undone)
        self._mirror_producer_ids = mirror_producer_ids
        self._filter = record_filter

    def read(self, offset: int) -> Iterator[LogRecord]:
        gaps: list[Gap] = []
        while offset < self.end:
            fetched = self._reader.fetched(offset, min_bytes=1)
            for piece in self._pieces(fetched, offset):
                if isinstance(piece, Gap):
                    gaps.append(piece)
                    offset = piece.source_end
                else:
                    cause = piece.cause or filtered(self._filter, piece.content, timestamp_ms=piece.timestamp)
                    is_plain = not gaps and cause is piece.cause
                    yield piece if is_plain else replace(piece, gaps=tuple(gaps), cause=cause)
                    gaps = []
                    offset = piece.offset + 1

    def _pieces(self, fetched: Fetched, position: int) -> Iterator[LogRecord | Gap]:
        """Records and gaps that tile the log from `position` on, as far as the response goes."""
        found = {header.end_offset: (header, batch) for header, batch in batches(fetched.records)}
        steps = plan_batches(
            fetched,
            position=position,
            end_offset=self.end,
            rules=RecordRules(self._mirror_producer_ids.__contains__),
        )
        for step in steps:
            if isinstance(step, Skip) and step.gap.cause not in _KEPT_CAUSES:
                yield step.gap
            else:
                start = step.source_start if isinstance(step, Copy) else step.gap.source_start
                cause = None if isinstance(step, Copy) else step.gap.cause
                yield from _records(*found[step.source_end], start, cause)


@dataclass(frozen=True, slots=True)
class BothSides:
    """What a command talks to that compares a target with its source."""

    source: ClusterAdmin
    target: ClusterAdmin
    state: LedgerState
    network: Network
    clock: Clock

    def log(
        self,
        link: ClusterLink,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        mirror_producer_ids: frozenset[int] = frozenset(),
        record_filter: RecordFilter = KEEP_ALL,
    ) -> PartitionLog:
        """A partition of the side that the link goes to, from whoever leads it now."""
        link.refresh([partition.topic])
        return PartitionLog(
            self.network,
            link,
            self.clock,
            partition,
            start=start,
            end=end,
            mirror_producer_ids=mirror_producer_ids,
            record_filter=record_filter,
        )


@contextmanager
def both_sides(context: Context, flow: FlowConfig) -> Iterator[BothSides]:
    """Those of a flow, for the body; raises `PreconditionError` where another cluster answers than the ledger knows."""
    source, target = context.cluster(flow.source), context.cluster(flow.target)
    require_recorded(context.state, source, target)
    with context.network(flow.source, flow.target) as network:
        yield BothSides(source, target, context.state, network, context.clock)


class TargetLog:
    """The target's partition: what readers see of it, as long as no flow of this ledger has written to it."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self.start = log.start
        self.end = log.end

    def read(self, offset: int) -> Iterator[LogRecord]:
        for record in self._log.read(offset):
            if record.cause is GapCause.MIRROR_WRITE:
                raise RefusedPartitionError(
                    f"target offset {record.offset} was written by a flow of this ledger; nothing of the partition "
                    "was recorded"
                )
            if record.cause is None:
                yield record


def _records(
    header: BatchHeader, batch: memoryview, position: int, cause: GapCause | None
) -> Iterator[LogRecord | Gap]:
    for record in decode(header, batch):
        if record.offset < position:
            continue
        if record.offset > position:
            yield Gap(position, record.offset, GapCause.COMPACTED)
        yield LogRecord(
            record.offset,
            record.timestamp,
            record.content,
            cause,
            header.leader_epoch,
            stamped=header.has_log_append_time,
        )
        position = record.offset + 1
    if position < header.end_offset:
        yield Gap(position, header.end_offset, GapCause.COMPACTED)


# History ------------------------------------------------------------------------------------------
# Which records were passed, so that a copier's repeats are recognised: hashes alone, a bounded number.


_MOST = 1 << 21  # records; with their slots 80 MB
_FEWEST = 1 << 12
_SLOTS_PER_RECORD = 8


class PassedRecords:
    """The last records in the order in which they were passed, found by their hash.

    A record can be missed, when a later one has taken its slot; it is never found where it was not, but for
    two records of one 64-bit hash.
    """

    def __init__(self, expected: int) -> None:
        size = min(_MOST, max(_FEWEST, 1 << expected.bit_length()))
        self._mask = size - 1
        self._ring = array("q", bytes(8 * size))
        self._slot_mask = size * _SLOTS_PER_RECORD - 1
        self._slots = array("I", bytes(4 * size * _SLOTS_PER_RECORD))
        self.count = 0

    def add(self, record_hash: int) -> None:
        self._ring[self.count & self._mask] = record_hash
        self.count += 1
        self._slots[record_hash & self._slot_mask] = self.count

    def find_run(self, hashes: Sequence[int]) -> int | None:
        """The place of the first of some records that follow each other, by any of them."""
        for number, record_hash in enumerate(hashes):
            place = self.find(record_hash)
            if place is not None and all(self.is_at(place - number + at, hashes[at]) for at in range(number)):
                return place - number
        return None

    def rewind(self, count: int) -> None:
        """Forget the last `count` records."""
        self.count -= count

    def find(self, record_hash: int) -> int | None:
        """The place of a record that was passed."""
        place = self._slots[record_hash & self._slot_mask] - 1
        return place if place >= 0 and self.is_at(place, record_hash) else None

    def is_at(self, place: int, record_hash: int) -> bool:
        is_kept = self.count - self._mask <= place < self.count
        return is_kept and self._ring[place & self._mask] == record_hash
