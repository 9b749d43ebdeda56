"""What to do with each fetched batch: copy it raw, re-encode it, or leave a gap.

The plan depends on the source's bytes and on rules that answer the same every time. So a repeated attempt
plans the same batches again and can be matched with what an earlier one has already written.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from ledger.domain.facts import Gap, GapCause
from ledger.errors import ProtocolError
from ledger.mirror.task.record_rules import RecordRules, RecordTest
from ledger.wire import varint
from ledger.wire.record_batch import BatchHeader, batches, crc_matches, read_header
from ledger.wire.records import Record, decode, encode
from ledger.wire.requests import Fetched

_ABORT_MARKER = 0
_GAP_BYTES = 128


@dataclass(frozen=True, slots=True)
class Copy:
    """Source offsets `[source_start, source_end)` become `count` records of `batch`; `gaps` lie inside."""

    source_start: int
    source_end: int
    batch: memoryview
    attributes: int
    count: int
    gaps: tuple[Gap, ...]
    raw: bool
    base_timestamp: int
    max_timestamp: int
    leader_epoch: int

    @property
    def held_bytes(self) -> int:
        """About what it takes in memory."""
        return len(self.batch) + _GAP_BYTES * len(self.gaps)


@dataclass(frozen=True, slots=True)
class Skip:
    """Source offsets that hold nothing to copy."""

    gap: Gap
    leader_epoch: int | None

    @property
    def source_end(self) -> int:
        return self.gap.source_end

    @property
    def held_bytes(self) -> int:
        return _GAP_BYTES


Step = Copy | Skip


class _AbortedRanges:
    """Which transactional batches to drop, by Kafka's consumer rule.

    A producer's batches are aborted from the listed first offset up to its abort marker.
    """

    def __init__(self, aborted: tuple[tuple[int, int], ...]) -> None:
        self._starts = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapq.heapify(self._starts)
        self._open: set[int] = set()

    def covers(self, header: BatchHeader) -> bool:
        while self._starts and self._starts[0][0] < header.end_offset:
            self._open.add(heapq.heappop(self._starts)[1])
        return header.is_transactional and header.producer_id in self._open

    def pass_over(self, header: BatchHeader, batch: memoryview) -> bool:
        """Take note of a batch, markers included; returns whether it is aborted."""
        is_aborted = self.covers(header)
        if header.is_control and header.count and _is_abort_marker(header, batch):
            self._open.discard(header.producer_id)
        return is_aborted


def plan_batches(
    fetched: Fetched, *, position: int, end_offset: int | None, rules: RecordRules
) -> Iterator[Step]:
    """Steps that tile `[position, ...)` without a hole, in order, up to `end_offset` or the last whole batch.

    Raises `ProtocolError` for a batch whose CRC or records do not add up, and `LedgerUnavailableError` for
    one whose writer cannot be looked up.
    """
    aborted = _AbortedRanges(fetched.aborted)
    for header, batch in batches(fetched.records):
        if header.end_offset <= position:
            aborted.pass_over(header, batch)
            continue
        if end_offset is not None and position >= end_offset:
            return
        if header.base_offset > position:
            yield Skip(Gap(position, header.base_offset, GapCause.COMPACTED), header.leader_epoch)
            position = header.base_offset
        yield from _plan_batch(header, batch, position, aborted, rules)
        position = header.end_offset


def _plan_batch(
    header: BatchHeader, batch: memoryview, position: int, aborted: _AbortedRanges, rules: RecordRules
) -> Iterator[Step]:
    if not crc_matches(header, batch):
        raise ProtocolError(
            f"the batch at source offset {header.base_offset} fails its CRC; it was not copied"
        )
    cause = _skip_cause(header, batch, aborted)
    if cause is not None:
        yield Skip(Gap(position, header.end_offset, cause), header.leader_epoch)
        return
    left_out = rules.left_out(header, position)
    if left_out is None and _may_go_raw(header, position):
        yield _copy(header, position, batch, header, (), raw=True)
    elif isinstance(left_out, GapCause):
        yield Skip(Gap(position, header.end_offset, left_out), header.leader_epoch)
    else:
        yield from _plan_records(header, batch, position, left_out or _nothing)


def _skip_cause(header: BatchHeader, batch: memoryview, aborted: _AbortedRanges) -> GapCause | None:
    is_aborted = aborted.pass_over(header, batch)
    if header.is_control:
        return GapCause.CONTROL
    if is_aborted:
        return GapCause.ABORTED
    return GapCause.COMPACTED if header.count == 0 else None


def _nothing(_record: Record) -> GapCause | None:
    return None


def _is_abort_marker(header: BatchHeader, batch: memoryview) -> bool:
    """A control batch holds one record; its key is version and type (int16 each): 0 aborts, 1 commits."""
    content = decode(header, batch)[0].content
    size, start = varint.read_signed(content, 0)
    return size >= 4 and int.from_bytes(content[start + 2 : start + 4], "big") == _ABORT_MARKER


def _may_go_raw(header: BatchHeader, position: int) -> bool:
    """Dense, wholly wanted, and with timestamps that mean the same at the target."""
    return header.is_dense and header.base_offset >= position and not header.has_log_append_time


def _plan_records(
    header: BatchHeader, batch: memoryview, position: int, left_out: RecordTest
) -> Iterator[Step]:
    """The record path: what is kept goes raw if it is all there was, else in a batch of its own."""
    chosen = [(record, left_out(record)) for record in decode(header, batch) if record.offset >= position]
    gaps = tuple(_gaps(chosen, position, header.end_offset))
    kept = [record for record, cause in chosen if cause is None]
    if not kept:
        yield from (Skip(gap, header.leader_epoch) for gap in gaps)
    elif not gaps and _may_go_raw(header, position):
        yield _copy(header, position, batch, header, (), raw=True)
    else:
        encoded = memoryview(encode(kept, codec=header.codec))
        yield _copy(header, position, encoded, read_header(encoded), gaps, raw=False)


def _gaps(chosen: list[tuple[Record, GapCause | None]], start: int, end: int) -> Iterator[Gap]:
    """Stretches of `[start, end)` without a kept record: maximal ones, of one cause each."""
    open_gap: Gap | None = None
    for stretch in _stretches(chosen, start, end):
        if open_gap is not None and (open_gap.source_end, open_gap.cause) == (
            stretch.source_start,
            stretch.cause,
        ):
            open_gap = Gap(open_gap.source_start, stretch.source_end, stretch.cause)
            continue
        if open_gap is not None:
            yield open_gap
        open_gap = stretch
    if open_gap is not None:
        yield open_gap


def _stretches(chosen: list[tuple[Record, GapCause | None]], start: int, end: int) -> Iterator[Gap]:
    """Holes between records, and the records that are left out, one by one."""
    expected = start
    for record, cause in chosen:
        if record.offset > expected:
            yield Gap(expected, record.offset, GapCause.COMPACTED)
        expected = record.offset + 1
        if cause is not None:
            yield Gap(record.offset, expected, cause)
    if expected < end:
        yield Gap(expected, end, GapCause.COMPACTED)


def _copy(
    header: BatchHeader,
    position: int,
    batch: memoryview,
    sent: BatchHeader,
    gaps: tuple[Gap, ...],
    *,
    raw: bool,
) -> Copy:
    """`header` is the source's batch, `sent` the one that goes to the target."""
    return Copy(
        source_start=position,
        source_end=header.end_offset,
        batch=batch,
        attributes=sent.attributes,
        count=sent.count,
        gaps=gaps,
        raw=raw,
        base_timestamp=_begins_at(sent, batch),
        max_timestamp=sent.max_timestamp,
        leader_epoch=header.leader_epoch,
    )


def _begins_at(header: BatchHeader, batch: memoryview) -> int:
    """The time of the first record, as far as the header has it.

    Where a delete horizon stands in its place the record itself is asked, and the largest time taken if it cannot be
    read: a batch that travels as it is need not be understood.
    """
    if not header.has_delete_horizon:
        return header.base_timestamp
    try:
        return decode(header, batch)[0].timestamp
    except ProtocolError:
        return header.max_timestamp
