"""Tail reconciliation: what of the target's tail is this flow's own work, not yet in the ledger.

Ownership of a batch is proved by producer id and sequence; pairing with the source by count and bytes
from 61 on, or by decoded records where the broker stored other bytes (it recompressed).
"""

from collections import deque
from dataclasses import dataclass

from ledger.mirror.batch_plan import Copy
from ledger.wire.record_batch import HEADER_BYTES, BatchHeader, batches, read_header
from ledger.wire.records import decode


@dataclass(frozen=True, slots=True)
class TailBatch:
    """A batch that lies on the target past the recorded end."""

    header: BatchHeader
    batch: memoryview


class TargetTail:
    """The target partition from the recorded end to its high watermark, read piece by piece."""

    def __init__(self, *, start: int) -> None:
        self.position = start
        self.complete = False
        self._batches: deque[TailBatch] = deque()

    @property
    def needs_read(self) -> bool:
        return not self.complete and not self._batches

    @property
    def head(self) -> TailBatch | None:
        return self._batches[0] if self._batches else None

    def pop(self) -> None:
        self._batches.popleft()

    def add(self, records: memoryview, *, high_watermark: int) -> None:
        """Take the next piece as fetched; complete once nothing below the high watermark is left."""
        for header, batch in batches(records):
            if header.end_offset <= self.position:
                continue
            self.position = header.end_offset
            if header.count and not header.is_control:
                self._batches.append(TailBatch(header, batch))
        self.complete = self.position >= high_watermark


def same_records(copy: Copy, found: TailBatch) -> bool:
    """Whether the batch found on the target holds exactly the records that the step would write."""
    if copy.count != found.header.count:
        return False
    if copy.batch[HEADER_BYTES:] == found.batch[HEADER_BYTES:]:
        return True
    wanted = decode(read_header(copy.batch), copy.batch)
    stored = decode(found.header, found.batch)
    return [(r.timestamp, r.content) for r in wanted] == [(r.timestamp, r.content) for r in stored]
