"""Which committed records of a source partition are copied: by who wrote them, and by the flow's filter."""

from collections.abc import Callable
from dataclasses import dataclass

from ledger.domain.facts import GapCause
from ledger.domain.filters import KEEP_ALL, RecordFilter
from ledger.domain.offsets.offset_ranges import OffsetRange, Share, share_of
from ledger.wire.record_batch import BatchHeader
from ledger.wire.record_fields import read_fields
from ledger.wire.records import Record

RecordTest = Callable[[Record], GapCause | None]
"""Why a record is left out; None when it is copied."""


@dataclass(frozen=True, slots=True)
class RecordRules:
    """Answers the same for the same batch every time.

    `is_mirror`: whether a producer id is a mirror flow's; may raise `LedgerUnavailableError`. `returning`:
    source ranges that are copied although a mirror wrote them. `adopted`: source ranges that are left out as if
    a mirror had written them. Both are ascending and decide by offset, so a batch that lies across the end of
    such a range is copied in part.
    """

    is_mirror: Callable[[int], bool]
    returning: tuple[OffsetRange, ...] = ()
    record_filter: RecordFilter = KEEP_ALL
    adopted: tuple[OffsetRange, ...] = ()

    def left_out(self, header: BatchHeader, position: int) -> GapCause | RecordTest | None:
        """For the batch from `position` on: None to copy all of it, a cause to copy nothing, else a test."""
        start = max(position, header.base_offset)
        is_mirror = self.is_mirror(header.producer_id)
        exempt = share_of(self.returning if is_mirror else self.adopted, start, header.end_offset)
        if exempt is Share.PART:
            return self._of_mirror if is_mirror else self._of_adopted
        if is_mirror == (exempt is Share.NONE):
            return GapCause.MIRROR_WRITE
        return None if self.record_filter.keeps_all else self._of_application

    def _of_mirror(self, record: Record) -> GapCause | None:
        returns = share_of(self.returning, record.offset, record.offset + 1) is Share.ALL
        return self._of_application(record) if returns else GapCause.MIRROR_WRITE

    def _of_adopted(self, record: Record) -> GapCause | None:
        is_adopted = share_of(self.adopted, record.offset, record.offset + 1) is Share.ALL
        return GapCause.MIRROR_WRITE if is_adopted else self._of_application(record)

    def _of_application(self, record: Record) -> GapCause | None:
        return filtered(self.record_filter, record.content, timestamp_ms=record.timestamp)


def filtered(record_filter: RecordFilter, content: bytes, *, timestamp_ms: int) -> GapCause | None:
    """Why a flow's filter leaves an application's record out; `content`: its key, value and headers as stored."""
    if record_filter.keeps_all:
        return None
    fields = read_fields(content)
    is_kept = record_filter.keeps(key=fields.key, headers=fields.headers, timestamp_ms=timestamp_ms)
    return None if is_kept else GapCause.FILTERED
