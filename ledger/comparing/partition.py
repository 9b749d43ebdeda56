"""Compares what two logs hold of one partition, by the map that says which source offset went to which target offset.

Batches that are the same bytes behind their headers are compared as bytes; others are decoded, and their records paired
by the map. What the map has no place for is no difference: gaps of the source, records of others at the target.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import Protocol

from ledger.errors import ProtocolError
from ledger.facts.history import Segment
from ledger.kafka.batches import (
    HEADER_BYTES,
    BatchHeader,
    Record,
    batches,
    crc_matches,
    decode,
)
from ledger.kafka.record_fields import key_state
from ledger.kafka.requests import Fetched

# What is read ----------------------------------------------------------------------------------------


class ReadableLog(Protocol):
    """One partition of one side."""

    def fetched(self, offset: int, *, min_bytes: int) -> Fetched:
        """The next response from an offset on with so many bytes of records."""
        ...


@dataclass(frozen=True, slots=True)
class Stretch:
    """Source offsets to compare, `[source_start, source_end)`, and the target offsets that the map has for them."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int


class OffsetPairs:
    """The map of one partition: segments in the order of source offsets, which is that of target offsets too."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = segments
        self._source_starts = [one.source_start for one in segments]
        self._target_starts = [one.target_start for one in segments]

    def at_source(self, offset: int) -> Segment | None:
        """The segment that a source offset is in; None: the map has no place for it at the target."""
        found = self._before(self._source_starts, offset)
        return found if found is not None and offset < found.source_end else None

    def at_target(self, offset: int) -> Segment | None:
        """The segment of the flow's records that a target offset is in; None: it is none of these."""
        found = self._before(self._target_starts, offset)
        return found if found is not None and offset < found.target_end else None

    def has_source(self, start: int, end: int) -> bool:
        """Whether any of these source offsets has a place at the target."""
        number = bisect_right(self._source_starts, end - 1)
        return bool(number) and self.segments[number - 1].source_end > start

    def has_target(self, start: int, end: int) -> bool:
        """Whether any of these target offsets is one of the flow's records."""
        number = bisect_right(self._target_starts, end - 1)
        return bool(number) and self.segments[number - 1].target_end > start

    def _before(self, starts: Sequence[int], offset: int) -> Segment | None:
        number = bisect_right(starts, offset)
        return self.segments[number - 1] if number else None

    def stretch(self, source_start: int, source_end: int) -> Stretch | None:
        """What the map has of these source offsets; None: nothing."""
        first = bisect_right(self._source_starts, source_start)
        first -= bool(first and source_start < self.segments[first - 1].source_end)
        last = bisect_right(self._source_starts, source_end - 1) - 1
        if first > last:
            return None
        low, high = self.segments[first], self.segments[last]
        begin, end = max(source_start, low.source_start), min(source_end, high.source_end)
        return Stretch(
            begin,
            end,
            low.target_start + begin - low.source_start,
            high.target_start + end - high.source_start,
        )


# What is found ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """Where both sides differ first, and in what; an offset None: that side has no record there."""

    source_offset: int | None
    target_offset: int | None
    words: str


@dataclass(slots=True)
class Found:
    """What comparing has come to so far: `records` are the same at both sides, `bytes` were read of both.

    `source_only` and `target_only`: paired offsets of which one side alone has a record, as cleaners leave them.
    `others`: records at the target, between those of the flow, that it did not write.
    """

    records: int = 0
    differing: int = 0
    source_only: int = 0
    target_only: int = 0
    others: int = 0
    bytes: int = 0
    first: Difference | None = None

    def differs(self, source_offset: int | None, target_offset: int | None, words: str) -> None:
        self.differing += 1
        if self.first is None:
            self.first = Difference(source_offset, target_offset, words)


Read = Callable[[int], None]
"""Called with the bytes of each response: who throttles waits here."""


Note = Callable[[int], None]
"""Called with a source offset below which all is compared and counted, after each batch."""


def nothing_noted(_offset: int) -> None:
    """For who keeps nothing of it."""


def nothing_held_back(_size: int) -> None:
    """For who reads as fast as brokers answer."""


# Reading ---------------------------------------------------------------------------------------------


class _Side:
    """A log read forward from `start` to `end`: batch by batch, or record by record within one."""

    def __init__(self, log: ReadableLog, start: int, end: int, read: Read) -> None:
        self._log, self._next, self._end, self._read = log, start, end, read
        self._batches: Iterator[tuple[BatchHeader, memoryview]] = iter(())
        self._whole: tuple[BatchHeader, memoryview] | None = None
        self._records: list[Record] = []
        self._stamped = False
        self.corrupt: list[int] = []

    def whole(self) -> tuple[BatchHeader, memoryview] | None:
        """The next batch, of which nothing was taken, within the bounds as a whole; None: it is taken by records."""
        if self._records or not self._fill() or self._whole is None:
            return None
        header = self._whole[0]
        return self._whole if header.base_offset >= self._next and header.end_offset <= self._end else None

    def skip(self) -> None:
        """Take the whole batch."""
        assert self._whole is not None, "it was seen"
        self._next, self._whole = self._whole[0].end_offset, None

    def head(self) -> Record | None:
        """The next record; None: there is none up to the end."""
        while not self._records:
            if not self._fill() or self._whole is None:
                return None
            header, batch = self._whole
            self._whole = None
            self._stamped = header.has_log_append_time
            found = [] if header.is_control else decode(header, batch)
            self._records = [one for one in found if self._next <= one.offset < self._end][::-1]
            self._next = header.end_offset
        return self._records[-1]

    @property
    def position(self) -> int | None:
        """All below it was taken; None: a batch is taken by records."""
        return None if self._records else self._next

    @property
    def is_stamped(self) -> bool:
        """Whether the log has put its own time in the place of the producer's, of the record at the head."""
        return self._stamped

    def take(self) -> Record:
        return self._records.pop()

    def _fill(self) -> bool:
        """Whether there is a batch to take."""
        while self._whole is None:
            if self._next >= self._end:
                return False
            self._whole = next(self._batches, None)
            if self._whole is None:
                fetched = self._log.fetched(self._next, min_bytes=1)
                self._read(len(fetched.records))
                self._batches = batches(fetched.records)
                self._whole = next(self._batches, None)
                if self._whole is None:
                    raise ProtocolError(
                        f"a response from offset {self._next} on has no whole batch; it was not compared"
                    )
            header, batch = self._whole
            if header.end_offset <= self._next:
                self._whole = None
            elif header.base_offset >= self._end:
                self._next, self._whole = self._end, None
            elif not crc_matches(header, batch):
                self.corrupt.append(header.base_offset)
        return True


# Record for record -----------------------------------------------------------------------------------


def compare(
    source: ReadableLog,
    target: ReadableLog,
    pairs: OffsetPairs,
    stretch: Stretch,
    found: Found,
    *,
    is_cleaned: bool = False,
    read: Read = nothing_held_back,
    note: Note = nothing_noted,
) -> None:
    """Compare what both sides hold of a stretch, and add it to `found`.

    `is_cleaned`: cleaners of compacted topics remove records at either side, each in its time: a record that one side
    alone has is counted, and is no difference. Raises what reading raises.
    """

    def counted(size: int) -> None:
        found.bytes += size
        read(size)

    here = _Side(source, stretch.source_start, stretch.source_end, counted)
    there = _Side(target, stretch.target_start, stretch.target_end, counted)
    while True:
        if _passed(here, there, pairs, found) or _same_batches(here, there, pairs, found):
            if (position := here.position) is not None:
                note(position)
            continue
        record = _next_mapped(here, pairs)
        other = there.head()
        if record is None and other is None:
            break
        _compare_records(here, there, pairs, found, record, other, is_cleaned)
    for side, name in ((here, "source"), (there, "target")):
        for offset in side.corrupt:
            at_source = offset if side is here else None
            found.differs(at_source, None if side is here else offset, f"a batch at the {name} fails its CRC")


def _passed(here: _Side, there: _Side, pairs: OffsetPairs, found: Found) -> bool:
    """Take a batch of a side of which nothing is paired; False: there is none."""
    if (source := here.whole()) is not None and not pairs.has_source(
        source[0].base_offset, source[0].end_offset
    ):
        here.skip()
        return True
    if (target := there.whole()) is not None and not pairs.has_target(
        target[0].base_offset, target[0].end_offset
    ):
        found.others += 0 if target[0].is_control else target[0].count
        there.skip()
        return True
    return False


def _same_batches(here: _Side, there: _Side, pairs: OffsetPairs, found: Found) -> bool:
    """Take a batch of each side where both are the same bytes at paired offsets; False: take records."""
    if (source := here.whole()) is None or (target := there.whole()) is None:
        return False
    (header, batch), (copy, copied) = source, target
    segment = pairs.at_source(header.base_offset)
    is_paired = (
        segment is not None
        and header.end_offset <= segment.source_end
        and segment.target_start + header.base_offset - segment.source_start == copy.base_offset
    )
    if not is_paired or not _same_shape(header, copy):
        return False
    if bytes(batch[HEADER_BYTES:]) != bytes(copied[HEADER_BYTES:]):  # views are compared byte by byte
        return False
    found.records += header.count
    here.skip()
    there.skip()
    return True


def _same_shape(header: BatchHeader, copy: BatchHeader) -> bool:
    """Whether the same bytes behind the headers say the same records, with the same times where the target has kept
    those of producers."""
    if header.is_control or header.has_log_append_time:
        return False
    is_alike = (header.codec, header.count, header.last_offset_delta, header.length) == (
        *(copy.codec, copy.count, copy.last_offset_delta, copy.length),
    )
    times = (header.base_timestamp, header.max_timestamp) == (copy.base_timestamp, copy.max_timestamp)
    return is_alike and (times or copy.has_log_append_time)


def _next_mapped(side: _Side, pairs: OffsetPairs) -> Record | None:
    """The next record of the source that has a place at the target; others are passed."""
    while (record := side.head()) is not None and pairs.at_source(record.offset) is None:
        side.take()
    return record


def _compare_records(
    here: _Side,
    there: _Side,
    pairs: OffsetPairs,
    found: Found,
    record: Record | None,
    other: Record | None,
    is_cleaned: bool,
) -> None:
    """Take the record, or the two of one place, that come first at the target."""
    if record is None or (other is not None and other.offset < _place(pairs, record.offset)):
        assert other is not None, "one of both is there"
        there.take()
        _target_alone(pairs, found, other, is_cleaned)
        return
    here.take()
    expected = _place(pairs, record.offset)
    if other is None or other.offset > expected:
        found.source_only += 1
        if not is_cleaned:
            found.differs(record.offset, expected, "the target has no record there")
        return
    is_stamped = there.is_stamped
    there.take()
    if record.content != other.content:
        found.differs(record.offset, other.offset, "key, value or headers differ")
    elif record.timestamp != other.timestamp and not is_stamped:
        found.differs(
            record.offset, other.offset, f"timestamps differ: {record.timestamp}, {other.timestamp}"
        )
    else:
        found.records += 1


def _place(pairs: OffsetPairs, offset: int) -> int:
    segment = pairs.at_source(offset)
    assert segment is not None, "it is mapped"
    return segment.target_start + offset - segment.source_start


def _target_alone(pairs: OffsetPairs, found: Found, other: Record, is_cleaned: bool) -> None:
    segment = pairs.at_target(other.offset)
    if segment is None:
        found.others += 1
        return
    found.target_only += 1
    if not is_cleaned:
        offset = segment.source_start + other.offset - segment.target_start
        found.differs(offset, other.offset, "the source has no record there")


# By key -----------------------------------------------------------------------------------------------


_DIGEST_BYTES, _OFFSET_BYTES = 16, 8


@dataclass(slots=True)
class LastOfKeys:
    """By digest of each key the last record of one side: its offset, in eight bytes, and the digest of its content, of
    which a tombstone has none.

    `passed`: keys that have a later record outside of what is compared.
    """

    last: dict[bytes, bytes] = field(default_factory=dict)
    passed: set[bytes] = field(default_factory=set)

    def add(self, record: Record, *, is_compared: bool) -> None:
        state = key_state(record.content)
        if state.key is None:
            return
        key = _digest(state.key)
        if is_compared:
            content = b"" if state.is_tombstone else _digest(record.content)
            self.last[key] = record.offset.to_bytes(_OFFSET_BYTES) + content
            self.passed.discard(key)
        else:
            self.passed.add(key)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def last_of_keys(
    log: ReadableLog, start: int, end: int, is_compared: Callable[[int], bool], found: Found, read: Read
) -> LastOfKeys:
    """Read a side to its end; `is_compared`: whether an offset has its pair."""

    def counted(size: int) -> None:
        found.bytes += size
        read(size)

    side, keys = _Side(log, start, end, counted), LastOfKeys()
    while side.head() is not None:
        record = side.take()
        keys.add(record, is_compared=is_compared(record.offset))
    return keys


def compare_keys(source: LastOfKeys, target: LastOfKeys, found: Found) -> tuple[int, int]:
    """Add keys whose last records differ; returns how many keys were compared, and how many were left out.

    Left out are keys of which either side has a later record that was not compared. A tombstone may have been removed
    at one side: a key that is not there is a key that was deleted.
    """
    compared = left_out = 0
    differing = []
    for key in chain(source.last, (key for key in target.last if key not in source.last)):
        if key in source.passed or key in target.passed:
            left_out += 1
            continue
        compared += 1
        at_source, at_target = source.last.get(key, b""), target.last.get(key, b"")
        if at_source[_OFFSET_BYTES:] != at_target[_OFFSET_BYTES:]:
            differing.append((_offset(at_source), _offset(at_target)))
    for offsets in sorted(differing, key=lambda one: (one[0] is None, one[0] or 0, one[1] or 0)):
        found.differs(*offsets, "the last records of a key differ")
    return compared, left_out


def _offset(last: bytes) -> int | None:
    return int.from_bytes(last[:_OFFSET_BYTES]) if last else None
