"""Tail reconciliation: what of the target's tail is this flow's own work, not yet in the ledger.

Ownership of a batch is proved by producer id and sequence; pairing with the source by count, times and bytes
from 61 on, or by decoded records where these differ: the broker recompressed, or a cleaner removed records on
either side since the batch was written. Applications write the same key and value again and again, so the
bytes from 61 on, which hold times as differences alone, prove nothing without the time that they begin with.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ledger.domain.cluster_identity import FlowProducer
from ledger.errors import ProtocolError
from ledger.mirror.task.batch_plan import Copy
from ledger.mirror.task.tail.foreign_records import ForeignRecords
from ledger.wire.record_batch import HEADER_BYTES, BatchHeader, batches, crc_matches, read_header
from ledger.wire.records import decode

Kept = tuple[int, bytes]
"""Timestamp and content of a record: what a copy keeps."""


@dataclass(frozen=True, slots=True)
class TailBatch:
    """A batch that lies on the target past the recorded end."""

    header: BatchHeader
    batch: memoryview

    @property
    def written(self) -> int:
        """Records that were written, those included that a cleaner has removed since."""
        return self.header.last_offset_delta + 1


class TargetTail:
    """The target partition from the recorded end to its high watermark, read piece by piece.

    `first`: the batch that the first piece began with, also one of a transaction's markers.
    """

    def __init__(self, *, start: int) -> None:
        self.position = start
        self.first: BatchHeader | None = None
        self.complete = False
        self.held_bytes = 0
        self._batches: deque[TailBatch] = deque()

    @property
    def needs_read(self) -> bool:
        return not self.complete and not self._batches

    @property
    def head(self) -> TailBatch | None:
        return self._batches[0] if self._batches else None

    def others(self, producer: FlowProducer, *, below: int | None = None) -> ForeignRecords | None:
        """What of it, as far as it was read, this producer did not write; `below` an offset, or to its end."""
        found: ForeignRecords | None = None
        for header in (held.header for held in self._batches):
            is_meant = below is None or header.base_offset < below
            if is_meant and header.count and not producer.wrote(header.producer_id):
                found = ForeignRecords.beginning(header) if found is None else found.followed_by(header)
        return found

    def pop(self) -> None:
        self.held_bytes -= len(self._batches.popleft().batch)

    def add(self, records: memoryview, *, high_watermark: int) -> None:
        """Take the next piece as fetched; complete once nothing below the high watermark is left.

        Raises `ProtocolError` for a batch that is none, or not the one that was stored.
        """
        for header, batch in batches(records):
            if header.end_offset <= self.position:
                continue
            if not crc_matches(header, batch):
                raise ProtocolError(f"the batch at offset {header.base_offset} fails its CRC")
            self.position = header.end_offset
            self.first = self.first or header
            if not header.is_control:
                self.held_bytes += len(batch)
                self._batches.append(TailBatch(header, batch))
        self.complete = self.position >= high_watermark


def paired(step: Copy, found: TailBatch, *, others_may_be_gone: bool) -> Copy | None:
    """The step as it was when the batch on the target was written; None when the two cannot be paired.

    `others_may_be_gone`: the batch may as well be the copy of source records that were deleted, so one that a
    cleaner has emptied is nobody's.

    A cleaner may have been at work since. At the target it leaves the batch's range, and what remains lies
    at the index that it was written at. At the source it leaves the range too: a batch that was whole then
    has one record for each of its offsets, so the records deleted since were copied and are no gaps.
    """
    if step.count == found.written and _are_same_bytes(step, found):
        return step
    try:
        wanted, stored = records_by_source_offset(step), records_by_index(found)
    except ProtocolError:
        return None  # bytes that cannot be decoded prove nothing
    if others_may_be_gone and not stored:
        return None
    if found.written == step.count and _agree(dict(enumerate(wanted.values())), stored):
        return step
    at_index = {offset - step.source_start: kept for offset, kept in wanted.items()}
    if found.written == step.source_end - step.source_start and _agree(at_index, stored):
        return replace(step, gaps=(), count=found.written)
    return None


def _are_same_bytes(step: Copy, found: TailBatch) -> bool:
    """Whether the records are the same by their bytes and the base timestamp that these count from.

    A broker that stamps its own time writes it over the largest timestamp and leaves the base as it was sent.
    """
    sent = read_header(step.batch)
    has_same_times = sent.base_timestamp == found.header.base_timestamp and (
        found.header.has_log_append_time or sent.max_timestamp == found.header.max_timestamp
    )
    return has_same_times and step.batch[HEADER_BYTES:] == found.batch[HEADER_BYTES:]


def _agree(wanted: dict[int, Kept], stored: dict[int, Kept]) -> bool:
    """Whether what is left on both sides is the same; an empty batch is known by its sequence alone."""
    common = wanted.keys() & stored.keys()
    return all(wanted[index] == stored[index] for index in common) and bool(common or not stored)


def records_by_index(found: TailBatch) -> dict[int, Kept]:
    """What is left of a batch, by the index that it was written at. Raises `ProtocolError` for what is no batch."""
    base = found.header.base_offset
    return {r.offset - base: (r.timestamp, r.content) for r in decode(found.header, found.batch)}


def records_by_source_offset(step: Copy) -> dict[int, Kept]:
    """What is to be copied. Raises `ProtocolError` for what is no batch."""
    records = decode(read_header(step.batch), step.batch)
    return {
        offset: (r.timestamp, r.content) for offset, r in zip(_copied_offsets(step), records, strict=True)
    }


def _copied_offsets(step: Copy) -> Iterator[int]:
    start = step.source_start
    for gap in step.gaps:
        yield from range(start, gap.source_start)
        start = gap.source_end
    yield from range(start, step.source_end)
