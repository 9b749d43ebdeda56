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

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice

from ledger.errors import ProtocolError
from ledger.kafka.batches import CODEC_MASK, HEADER_BYTES, build, read_header, read_signed, signed
from ledger.kafka.codecs import MOST_UNPACKED_BYTES, NONE, compress, decompress
from ledger.mirror.steps import (
    NO_TIME,
    Copy,
    Planned,
    Skip,
    SmallBatch,
    SmallBatches,
    Step,
    is_small,
)
from ledger.mirror.window import SendWindow

_MOST_GROWTH = 12
"""Bytes by which a record may become longer: its time by 9, its offset by 2, its length by 1."""
_SMALLER = 4
"""By how much what is merged is smaller behind one that was too large for the target."""


def follows(before: Planned, step: Planned) -> bool:
    """Whether the two may be parts of one batch (G2)."""
    return (
        not isinstance(before, Skip)
        and not isinstance(step, Skip)
        and _is_plain(before)
        and _is_plain(step)
        and step.source_start == before.source_end
        and step.leader_epoch == before.leader_epoch
        and step.attributes == before.attributes
        and (step.base_timestamp == NO_TIME) == (before.base_timestamp == NO_TIME)
    )


def _is_plain(step: Copy | SmallBatches) -> bool:
    """A batch of the source, whole, with no other attribute than a codec; perhaps with times of its log."""
    if isinstance(step, SmallBatches):
        return True
    return step.whole and not step.gaps and not step.attributes & ~CODEC_MASK


def _may_be_merged(before: Planned, step: Planned) -> bool:
    return follows(before, step) and _is_small(before) and _is_small(step)


def _is_small(step: Planned) -> bool:
    return not isinstance(step, Copy) or is_small(step.count, len(step.batch), step.attributes)


def as_one(steps: Sequence[Copy]) -> Copy:
    """What these become, each of which follows the one before it. Raises `ProtocolError` for what is no batch."""
    if len(steps) == 1:
        return steps[0]
    together = SmallBatches.of(steps[0])
    for step in steps[1:]:
        together.joined(step)
    return _merged(together, len(steps))


def _merged(together: SmallBatches, count: int) -> Copy:
    """What the first of them become. Raises `ProtocolError` for what is no batch."""
    small = list(islice(together.waiting, count))
    batch = memoryview(concatenated(together.attributes & CODEC_MASK, small))
    header = read_header(batch)
    return Copy(
        source_start=small[0].source_start,
        source_end=small[-1].source_end,
        batch=batch,
        attributes=header.attributes,
        count=header.count,
        gaps=(),
        raw=False,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        leader_epoch=together.leader_epoch,
        ends=tuple(one.source_end for one in small),
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


_VARINTS = [signed(value) for value in range(1 << 13)]
"""Of what is not negative and takes two bytes at most."""


def concatenated(codec: int, batches: Sequence[SmallBatch]) -> bytearray:
    """One unpatched batch of the records of these, which are dense and have that codec; the same for the same batches.

    Of a record only what counts from the beginning of its batch is changed: the differences in time and offset, and
    with these its length. Raises `ProtocolError` when the records of a batch do not add up.
    """
    first = batches[0]
    parts = [_payload(codec, first.batch)]
    count, held = first.records, len(parts[0])
    for small in batches[1:]:
        payload = _payload(codec, small.batch)
        if (held := held + len(payload)) > MOST_UNPACKED_BYTES:
            raise ProtocolError(f"batches unpack to {held:,} B; they were not merged")
        found = _add_records(parts, payload, count, small.base_timestamp - first.base_timestamp)
        if found != small.records:
            raise ProtocolError(
                f"a batch must hold {small.records} records, found {max(found, 0)} that add up; it was not merged"
            )
        count += found
    payload = b"".join(parts)
    return build(
        attributes=codec,
        base_timestamp=first.base_timestamp,
        max_timestamp=max(small.max_timestamp for small in batches),
        count=count,
        payload=payload if codec == NONE else compress(codec, payload),
    )


def _payload(codec: int, batch: bytes) -> bytes:
    """The records of a batch, as they were before compression."""
    payload = batch[HEADER_BYTES:]
    return payload if codec == NONE else decompress(codec, payload)


def _add_records(parts: list[bytes], payload: bytes, number: int, later_ms: int) -> int:
    """Add the records of a payload, the first one as that number; returns how many, -1 where they do not add up.

    Varints of one byte or two, which most are, are read and written in place: this is done for every record.
    """
    position, found, end = 0, 0, len(payload)
    add, varints, short = parts.append, _VARINTS, len(_VARINTS)
    try:
        while position < end:
            size = payload[position]
            if size < 0x80:
                start, size = position + 1, (size >> 1) ^ -(size & 1)
            elif (following := payload[position + 1]) < 0x80:
                size = size & 0x7F | following << 7
                start, size = position + 2, (size >> 1) ^ -(size & 1)
            else:
                size, start = read_signed(payload, position)
            position = start + size
            delta_ms, content = payload[start + 1], start + 2
            if delta_ms < 0x80:
                delta_ms = (delta_ms >> 1) ^ -(delta_ms & 1)
            else:
                delta_ms, content = read_signed(payload, start + 1)
            if payload[content] == found << 1 and found < 64:
                content += 1
            else:
                offset_delta, content = read_signed(payload, content)
                if offset_delta != found:
                    return -1
            if not content <= position <= end:
                return -1
            later, n = delta_ms + later_ms, number + found
            deltas = (varints[later] if 0 <= later < short else signed(later)) + (
                varints[n] if n < short else signed(n)
            )
            length = 1 + len(deltas) + position - content
            add(varints[length] if length < short else signed(length))
            add(payload[start : start + 1])
            add(deltas)
            add(payload[content:position])
            found += 1
    except IndexError:
        return -1
    return found


# A partition's --------------------------------------------------------------------------------------


class Merging:
    """What of one partition is merged in a task. `most_bytes`: of a merged batch; 0 where none is."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._ends: list[int] = []
        """Source offsets at which batches end that were sent or are to be sent alone, ascending (G3, G4)."""

    def merge_first(self, window: SendWindow) -> None:
        """What comes next in the window becomes one batch with those that wait behind it and may be merged with it.

        What is no batch is sent as it is.
        """
        together = window.bring_together(_may_be_merged, most_bytes=self.most_bytes)
        if not isinstance(together, SmallBatches) or (count := self._count(together)) == 1:
            return
        with suppress(ProtocolError):
            window.merge_small(count, _merged(together, count))

    def _count(self, together: SmallBatches) -> int:
        """How many of them are sent as one, the first one at least."""
        size, end = 0, self._next_end(together.source_start)
        for count, small in enumerate(together.waiting):
            size += len(small.batch)
            if count:
                size += _MOST_GROWTH * small.records - HEADER_BYTES
                if size > self.most_bytes or (end is not None and small.source_end > end):
                    return count
        return len(together.waiting)

    def _next_end(self, offset: int) -> int | None:
        following = bisect_right(self._ends, offset)
        return self._ends[following] if following < len(self._ends) else None

    def sent(self, step: Copy, *, settled: int) -> None:
        """A batch is on its way; up to the source offset `settled` all others are recorded."""
        if self.most_bytes:
            del self._ends[: bisect_right(self._ends, settled)]
            self._keep([step.source_end])

    def refused(self, step: Copy, *, is_too_large: bool) -> bool:
        """Take note of a refusal of a merged batch; False for another one."""
        if not step.ends:
            return False
        if is_too_large:
            self.most_bytes = min(self.most_bytes, len(step.batch) // _SMALLER)
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
