"""A batch less some of its records, dense, and with times of its own: what is kept stays as it is encoded.

Of a record only what counts from the beginning of its batch is changed, and only where it has to be: the differences
in time and offset, in place if they take as many bytes as before, else with the record's length. Keys, values and
headers are not read.

Where a record begins is known from the one before it alone, so this is a loop in Python over records; what it reads of
each of them it reads in place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ledger.facts.syncs import Gap, GapCause
from ledger.kafka.batches import (
    HEADER_BYTES,
    BatchHeader,
    Record,
    adding_up,
    build,
    read_signed,
    require_count,
    signed,
    unpacked,
)
from ledger.kafka.codecs import compress

RecordTest = Callable[[Record], GapCause | None]
"""Why a record is left out; None when it is kept."""

_ONE_BYTE, _TWO_BYTES = 1 << 6, 1 << 13
"""Offset deltas below have varints of so many bytes."""
_varint = lru_cache(maxsize=_TWO_BYTES)(signed)


@dataclass(frozen=True, slots=True)
class Repacked:
    """What is kept of a batch.

    `batch`: unpatched and dense; the batch itself where nothing had to be changed, None where nothing is kept.
    `first_timestamp`: of its first record. `gaps`: source offsets without a record of it, in order, as long as may be.
    """

    batch: memoryview | None
    first_timestamp: int
    gaps: tuple[Gap, ...]


def repacked(
    header: BatchHeader, batch: memoryview, *, position: int, left_out: RecordTest | None
) -> Repacked:
    """The records from `position` on that are not `left_out`, with the times that a consumer sees; None: all of them.

    Decompressed once, and compressed only where records were changed. Raises `ProtocolError` when they do not add up.
    """
    payload = unpacked(header, batch)
    walk = _Walk(header, payload, max(position - header.base_offset, 0))
    is_whole = left_out is None and header.is_dense and position <= header.base_offset
    with adding_up(header):
        if not (is_whole and header.has_log_append_time and walk.keep_all_at_one_time()):
            walk.keep(left_out)
    require_count(header, walk.found)
    return walk.repacked(batch)


class _Walk:
    """Over the records of a payload, once. `begin`: the offset delta of the first one that is wanted.

    Raises `IndexError` where they do not add up.
    """

    def __init__(self, header: BatchHeader, payload: bytes, begin: int) -> None:
        self._header = header
        self._payload = payload
        self._begin = begin
        self._has_one_time = header.has_log_append_time
        self._base_timestamp = header.max_timestamp if self._has_one_time else header.base_timestamp
        self._gaps: list[Gap] = []
        self._kept = self._first_delta = self._latest_delta = self._shift = 0
        self._new: bytes | bytearray = payload
        self.found = 0

    def keep_all_at_one_time(self) -> bool:
        """Of a dense batch with one time for all records; False where a time delta has several bytes."""
        payload, out = self._payload, bytearray(self._payload)
        found = position = changed = 0
        size = len(payload)
        while position < size:
            byte = payload[position]
            if byte < 0x80:
                body = position + 1
                position = body + (byte >> 1)
            elif (following := payload[position + 1]) < 0x80:
                body = position + 2
                position = body + ((byte & 0x7F | following << 7) >> 1)
            else:
                length, body = read_signed(payload, position)
                position = body + length
            if position < body + 3:
                raise IndexError
            if byte := payload[body + 1]:
                if byte > 0x7F:
                    return False
                out[body + 1] = 0
                changed += 1
            found += 1
        if position != size:
            raise IndexError
        self.found = self._kept = found
        self._new = out if changed else payload
        return True

    def keep(self, left_out: RecordTest | None) -> None:  # noqa: C901  a call for each record costs more than its bytes
        """What is wanted and not left out."""
        payload, out = self._payload, bytearray(self._payload)
        begin, has_one_time = self._begin, self._has_one_time
        base_offset, base_timestamp = self._header.base_offset, self._base_timestamp
        parts: list[bytes | memoryview] = []
        view = memoryview(out)
        found = kept = position = changed = latest = 0
        shift = 0  # of times, where the first record of the batch is none of those that are kept
        run_start = run_end = 0  # of bytes that stay side by side
        expected, size = begin, len(payload)
        while position < size:
            start = position
            byte = payload[position]
            if byte < 0x80:
                body = position + 1
                position = body + (byte >> 1)
            elif (following := payload[position + 1]) < 0x80:
                body = position + 2
                position = body + ((byte & 0x7F | following << 7) >> 1)
            else:
                length, body = read_signed(payload, position)
                position = body + length
            byte = payload[body + 1]
            if byte < 0x80:
                time_delta, at = byte >> 1 ^ -(byte & 1), body + 2
            else:
                time_delta, at = read_signed(payload, body + 1)
            byte = payload[at]
            if byte < 0x80:
                delta, content = byte >> 1 ^ -(byte & 1), at + 1
            elif (following := payload[at + 1]) < 0x80:
                delta = byte & 0x7F | following << 7
                delta, content = delta >> 1 ^ -(delta & 1), at + 2
            else:
                delta, content = read_signed(payload, at)
            if not content <= position <= size:
                raise IndexError
            found += 1
            if delta != expected:
                if delta < begin:
                    continue
                if delta < expected:
                    raise IndexError
                self._leave_out(expected, delta, GapCause.COMPACTED)
            expected = delta + 1
            new_delta = 0 if has_one_time else time_delta
            if left_out is not None:
                record = Record(
                    base_offset + delta,
                    base_timestamp + new_delta,
                    payload[body],
                    payload[content:position],
                )
                if (cause := left_out(record)) is not None:
                    self._leave_out(delta, expected, cause)
                    continue
            if not kept:
                self._first_delta = latest = new_delta
                shift = new_delta if found > 1 else 0
            elif new_delta > latest:
                latest = new_delta
            is_in_place = True
            new_delta -= shift
            if new_delta != time_delta:
                encoded = new_delta << 1 if new_delta >= 0 else -new_delta * 2 - 1
                is_in_place = at == body + 2 and encoded < 0x80
                if is_in_place:
                    out[body + 1] = encoded
                    changed += 1
            if delta != kept:
                if kept < _ONE_BYTE and content == at + 1:
                    out[at] = kept << 1
                    changed += 1
                elif _ONE_BYTE <= kept < _TWO_BYTES and content == at + 2:
                    out[at] = kept << 1 & 0x7F | 0x80
                    out[at + 1] = kept >> 6
                    changed += 1
                else:
                    is_in_place = False
            if not is_in_place:
                parts.append(view[run_start:run_end])
                deltas = _varint(new_delta) + _varint(kept)
                parts += (_varint(1 + len(deltas) + position - content), view[body : body + 1], deltas)
                run_start = content
            elif start != run_end:
                parts.append(view[run_start:run_end])
                run_start = start
            run_end = position
            kept += 1
        covered = self._header.last_offset_delta + 1
        if expected < covered:
            self._leave_out(expected, covered, GapCause.COMPACTED)
        self.found, self._kept, self._latest_delta, self._shift = found, kept, latest, shift
        if changed or run_end - run_start != size:
            self._new = b"".join((*parts, view[run_start:run_end]))

    def _leave_out(self, start: int, end: int, cause: GapCause) -> None:
        start, end = self._header.base_offset + start, self._header.base_offset + end
        last = self._gaps[-1] if self._gaps else None
        if last is not None and last.source_end == start and last.cause is cause:
            self._gaps[-1] = Gap(last.source_start, end, cause)
        else:
            self._gaps.append(Gap(start, end, cause))

    def repacked(self, batch: memoryview) -> Repacked:
        """What became of the batch that the payload is of."""
        header, gaps = self._header, tuple(self._gaps)
        first = self._base_timestamp + self._first_delta
        if not self._kept:
            return Repacked(None, first, gaps)
        is_as_it_was = self._new is self._payload
        if is_as_it_was and header.is_dense and not self._has_one_time:
            return Repacked(batch, first, gaps)
        built = build(
            attributes=header.codec,
            base_timestamp=self._base_timestamp + self._shift,
            max_timestamp=self._base_timestamp + self._latest_delta,
            count=self._kept,
            payload=bytes(batch[HEADER_BYTES:]) if is_as_it_was else compress(header.codec, bytes(self._new)),
        )
        return Repacked(memoryview(built), first, gaps)
