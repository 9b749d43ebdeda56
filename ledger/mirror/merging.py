"""Small batches that wait side by side go to the target as one.

Producers that do not wait fill batches with a record or two, and what a batch costs the target hardly depends on how
many are in it. So as long as several of a partition wait, neighbours are sent as one; a batch that waits alone is sent
alone, at once. Records keep their bytes, but for what counts from the beginning of their batch.

Rules, by name
    G1  what is merged follows from its first and last source offset alone: whoever merges the same gets the same bytes
    G2  only whole batches of one codec, or of none, and outside of transactions, that follow each other at the source
        without a gap, under one leader epoch, all of them with times or none
    G3  what was sent keeps its ends as long as it is not settled: sent again it is the same batches, which the target
        knows by their sequence
    G4  what the target refuses is sent again in the batches of the source, so that a refusal says something of one of
        them; what is too large for it, in smaller merged ones until it takes them
    G5  what lies at the target is merged as it was there, whatever the limits were when it was written
"""

import struct
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence

from ledger.errors import ProtocolError
from ledger.kafka.batches import (
    CODEC_MASK,
    HEADER_BYTES,
    NONE,
    build,
    compress,
    decompress,
    read_header,
    read_signed,
    signed,
)
from ledger.mirror.source import Copy, Step

_MOST_RECORDS = 8
"""A batch of more gains little: it is sent as it is."""
_MOST_COMPRESSED = 1024
"""Bytes of a compressed batch: it is taken apart and compressed again, which a larger one is not worth."""
_MOST_GROWTH = 12
"""Bytes by which a record may become longer: its time by 9, its offset by 2, its length by 1."""
_SMALLER = 4
"""By how much what is merged is smaller behind one that was too large for the target."""
_NO_TIME = -1


def follows(before: Copy, step: Step) -> bool:
    """Whether the two may be parts of one batch (G2)."""
    return (
        isinstance(step, Copy)
        and _is_plain(before)
        and _is_plain(step)
        and step.source_start == before.source_end
        and step.leader_epoch == before.leader_epoch
        and step.attributes == before.attributes
        and (step.base_timestamp == _NO_TIME) == (before.base_timestamp == _NO_TIME)
    )


def _is_plain(step: Copy) -> bool:
    """A batch of the source, whole, with no other attribute than a codec; perhaps with times of its log."""
    return step.whole and not step.gaps and not step.attributes & ~CODEC_MASK


def as_one(steps: Sequence[Copy]) -> Copy:
    """What these become, each of which follows the one before it. Raises `ProtocolError` for what is no batch."""
    if len(steps) == 1:
        return steps[0]
    batch = memoryview(concatenated([step.batch for step in steps]))
    header = read_header(batch)
    first, last = steps[0], steps[-1]
    return Copy(
        source_start=first.source_start,
        source_end=last.source_end,
        batch=batch,
        attributes=header.attributes,
        count=header.count,
        gaps=(),
        raw=False,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        leader_epoch=first.leader_epoch,
        ends=tuple(step.source_end for step in steps),
    )


def parts_of(planned: Iterable[Step], records: int) -> tuple[list[Copy], bool]:
    """The steps from the first one on that a batch of so many records may have been merged of (G5).

    And whether those that are still to come may belong to it. No steps where it was not merged of the first one.
    """
    parts: list[Copy] = []
    count = 0
    for step in planned:
        if not isinstance(step, Copy) or not (follows(parts[-1], step) if parts else _is_plain(step)):
            return parts, False
        if count + step.count > records:
            return parts, False
        parts.append(step)
        count += step.count
        if count == records:
            return parts, False
    return parts, bool(parts)


# Bytes --------------------------------------------------------------------------------------------
# Records of several batches in one.


_TIMES_AND_COUNT = struct.Struct(">27xqq14xi")
"""Of a batch header: base and largest timestamp, and how many records there are."""
_CODEC_AT = 22
_ONE_BYTE = [signed(value) for value in range(64)]


def concatenated(batches: Sequence[memoryview]) -> bytearray:
    """One unpatched batch of the records of these, which are dense and have one codec; the same for the same batches.

    Of a record only what counts from the beginning of its batch is changed: the differences in time and offset, and
    with these its length. Raises `ProtocolError` when the records of a batch do not add up.
    """
    base_timestamp, max_timestamp, count = _TIMES_AND_COUNT.unpack_from(batches[0])
    codec = batches[0][_CODEC_AT] & CODEC_MASK
    parts: list[bytes | memoryview] = [_payload(codec, batches[0])]
    for batch in batches[1:]:
        begins_at, ends_at, records = _TIMES_AND_COUNT.unpack_from(batch)
        found = _add_records(parts, _payload(codec, batch), count, begins_at - base_timestamp)
        if found != records:
            raise ProtocolError(
                f"a batch must hold {records} records, found {max(found, 0)} that add up; it was not merged"
            )
        count += records
        max_timestamp = max(max_timestamp, ends_at)
    payload = b"".join(parts)
    return build(
        attributes=codec,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        count=count,
        payload=payload if codec == NONE else compress(codec, payload),
    )


def _payload(codec: int, batch: memoryview) -> bytes:
    """The records of a batch, as they were before compression."""
    payload = bytes(batch[HEADER_BYTES:])
    return payload if codec == NONE else decompress(codec, payload)


def _add_records(parts: list[bytes | memoryview], payload: bytes, number: int, later_ms: int) -> int:
    """Add the records of a payload, the first one as that number; returns how many, -1 where they do not add up.

    Varints of one byte, which most are, are read and written in place: this is done for every record.
    """
    position, found, end = 0, 0, len(payload)
    try:
        while position < end:
            byte = payload[position]
            size, start = (
                ((byte >> 1) ^ -(byte & 1), position + 1) if byte < 0x80 else read_signed(payload, position)
            )
            byte = payload[start + 1]
            delta_ms, content = (
                ((byte >> 1) ^ -(byte & 1), start + 2) if byte < 0x80 else read_signed(payload, start + 1)
            )
            offset_delta, content = (
                read_signed(payload, content) if found else (payload[content], content + 1)
            )
            position = start + size
            if offset_delta != found or not content <= position <= end:
                return -1
            later, n = delta_ms + later_ms, number + found
            deltas = (_ONE_BYTE[later] if 0 <= later < 64 else signed(later)) + (
                _ONE_BYTE[n] if n < 64 else signed(n)
            )
            parts += (
                signed(1 + len(deltas) + position - content),
                payload[start : start + 1],
                deltas,
                payload[content:position],
            )
            found += 1
    except IndexError:
        return -1
    return found


# A partition's --------------------------------------------------------------------------------------


class Merging:
    """What of one partition is merged in a task. `most_bytes`: of a merged batch; 0 where none is."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._ends: list[int] = []
        """Source offsets at which batches end that were sent or are to be sent alone, ascending (G3, G4)."""

    def together(self, planned: Iterable[Step]) -> list[Copy]:
        """The steps from the first one on that are to be sent as one batch: at least that one."""
        steps = iter(planned)
        first = next(steps)
        assert isinstance(first, Copy)
        chosen, size = [first], len(first.batch)
        end = self._next_end(first.source_start)
        if not self._is_small(first):
            return chosen
        for step in steps:
            if not follows(chosen[-1], step) or not isinstance(step, Copy) or not self._is_small(step):
                break
            size += len(step.batch) - HEADER_BYTES + _MOST_GROWTH * step.count
            if size > self._most_bytes or (end is not None and step.source_end > end):
                break
            chosen.append(step)
        return chosen

    def _is_small(self, step: Copy) -> bool:
        most_bytes = min(self._most_bytes, _MOST_COMPRESSED) if step.attributes else self._most_bytes
        return step.count <= _MOST_RECORDS and len(step.batch) < most_bytes

    def _next_end(self, offset: int) -> int | None:
        following = bisect_right(self._ends, offset)
        return self._ends[following] if following < len(self._ends) else None

    def sent(self, step: Copy, *, settled: int) -> None:
        """A batch is on its way; up to the source offset `settled` all others are recorded."""
        if self._most_bytes:
            del self._ends[: bisect_right(self._ends, settled)]
            self._keep([step.source_end])

    def refused(self, step: Copy, *, is_too_large: bool) -> bool:
        """Take note of a refusal of a merged batch; False for another one."""
        if not step.ends:
            return False
        if is_too_large:
            self._most_bytes = min(self._most_bytes, len(step.batch) // _SMALLER)
        else:
            self._keep(step.ends)
        return True

    def _keep(self, ends: Iterable[int]) -> None:
        for end in ends:
            if self._next_end(end - 1) != end:
                insort(self._ends, end)


def merged(steps: Sequence[Copy]) -> Copy | None:
    """What these become; None for what is no batch, which is sent as it is."""
    try:
        return as_one(steps)
    except ProtocolError:
        return None
