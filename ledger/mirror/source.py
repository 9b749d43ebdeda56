"""What to do with each fetched batch: copy it raw, re-encode it, or leave a gap.

The plan depends on the source's bytes and on rules that answer the same every time. So a repeated attempt
plans the same batches again and can be matched with what an earlier one has already written.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ledger.errors import ProtocolError
from ledger.facts.state import MirrorProducers
from ledger.facts.syncs import Gap, GapCause, OffsetRange, Position, Share, share_of
from ledger.kafka.batches import (
    MAGIC,
    BatchHeader,
    Record,
    batches,
    crc_matches,
    decode,
    first_timestamp,
    read_header,
    read_signed,
)
from ledger.kafka.record_fields import key_of, read_fields
from ledger.kafka.repacking import RecordTest, repacked
from ledger.kafka.requests import Fetched
from ledger.mirror.assignment import Assignment, Divergence
from ledger.topics.naming import KEEP_ALL, RecordFilter

# Record rules -------------------------------------------------------------------------------------
# Which committed records of a source partition are copied: by who wrote them, and by the flow's filter.


@dataclass(frozen=True, slots=True)
class RecordRules:
    """Answers the same for the same batch every time.

    `is_mirror`: whether a producer id is a mirror flow's; may raise `LedgerUnavailableError`. `returning`:
    source ranges that are copied although a mirror wrote them. `adopted`: source ranges that are left out as if
    a mirror had written them. `kept_local`: source ranges of which nothing is copied. All are ascending and decide by
    offset, so a batch that lies across the end of such a range is copied in part.
    """

    is_mirror: Callable[[int], bool]
    returning: tuple[OffsetRange, ...] = ()
    record_filter: RecordFilter = KEEP_ALL
    adopted: tuple[OffsetRange, ...] = ()
    kept_local: tuple[OffsetRange, ...] = ()

    def left_out(self, header: BatchHeader, position: int) -> GapCause | RecordTest | None:
        """For the batch from `position` on: None to copy all of it, a cause to copy nothing, else a test."""
        start = max(position, header.base_offset)
        is_mirror = self.is_mirror(header.producer_id)
        exempt = share_of(self.returning if is_mirror else self.adopted, start, header.end_offset)
        if exempt is Share.PART:
            return self._of_mirror if is_mirror else self._of_adopted
        if is_mirror == (exempt is Share.NONE):
            return GapCause.MIRROR_WRITE
        kept = share_of(self.kept_local, start, header.end_offset)
        if kept is Share.ALL:
            return GapCause.KEPT_LOCAL
        return None if kept is Share.NONE and self.record_filter.keeps_all else self._of_application

    def _of_mirror(self, record: Record) -> GapCause | None:
        returns = share_of(self.returning, record.offset, record.offset + 1) is Share.ALL
        return self._of_application(record) if returns else GapCause.MIRROR_WRITE

    def _of_adopted(self, record: Record) -> GapCause | None:
        is_adopted = share_of(self.adopted, record.offset, record.offset + 1) is Share.ALL
        return GapCause.MIRROR_WRITE if is_adopted else self._of_application(record)

    def _of_application(self, record: Record) -> GapCause | None:
        if self.kept_local and share_of(self.kept_local, record.offset, record.offset + 1) is Share.ALL:
            return GapCause.KEPT_LOCAL
        return filtered(self.record_filter, record.content, timestamp_ms=record.timestamp)


def filtered(record_filter: RecordFilter, content: bytes, *, timestamp_ms: int) -> GapCause | None:
    """Why a flow's filter leaves an application's record out; `content`: its key, value and headers as stored."""
    is_kept = record_filter.keeps_time(timestamp_ms)
    if is_kept and record_filter.reads_keys:
        is_kept = record_filter.keeps_key(key_of(content))
    if is_kept and record_filter.may_leave_out(content):
        is_kept = record_filter.keeps_headers(read_fields(content).headers)
    return None if is_kept else GapCause.FILTERED


# Batch plan ---------------------------------------------------------------------------------------


_ABORT_MARKER = 0
_GAP_BYTES = 128


@dataclass(frozen=True, slots=True)
class Copy:
    """Source offsets `[source_start, source_end)` become `count` records of `batch`; `gaps` lie inside.

    `whole`: they are all records of one batch of the source. `ends`: of a merged batch, where each batch of the source
    ends that is in it.
    """

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
    whole: bool = False
    ends: tuple[int, ...] = ()

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

    def skip(self, header: BatchHeader, batch: memoryview) -> bool:
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
            aborted.skip(header, batch)
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
        yield _copy(header, position, batch, header, (), raw=True, begins_at=_begins_at(header, batch))
    elif isinstance(left_out, GapCause):
        yield Skip(Gap(position, header.end_offset, left_out), header.leader_epoch)
    else:
        yield from _plan_records(header, batch, position, left_out)


def _skip_cause(header: BatchHeader, batch: memoryview, aborted: _AbortedRanges) -> GapCause | None:
    is_aborted = aborted.skip(header, batch)
    if header.is_control:
        return GapCause.CONTROL
    if is_aborted:
        return GapCause.ABORTED
    return GapCause.COMPACTED if header.count == 0 else None


def _is_abort_marker(header: BatchHeader, batch: memoryview) -> bool:
    """A control batch holds one record; its key is version and type (int16 each): 0 aborts, 1 commits."""
    content = decode(header, batch)[0].content
    size, start = read_signed(content, 0)
    return size >= 4 and int.from_bytes(content[start + 2 : start + 4], "big") == _ABORT_MARKER


def _may_go_raw(header: BatchHeader, position: int) -> bool:
    """Dense, wholly wanted, of today's format, and with timestamps that mean the same at the target."""
    is_as_it_is = header.magic == MAGIC and not header.has_log_append_time
    return header.is_dense and header.base_offset >= position and is_as_it_is


def _plan_records(
    header: BatchHeader, batch: memoryview, position: int, left_out: RecordTest | None
) -> Iterator[Step]:
    """The record path: what is kept goes raw if it is all there was, else in a batch of its own."""
    found = repacked(header, batch, position=position, left_out=left_out)
    if found.batch is None:
        yield from (Skip(gap, header.leader_epoch) for gap in found.gaps)
        return
    is_raw = found.batch is batch and header.magic == MAGIC
    sent = header if found.batch is batch else read_header(found.batch)
    yield _copy(header, position, found.batch, sent, found.gaps, raw=is_raw, begins_at=found.first_timestamp)


def _copy(
    header: BatchHeader,
    position: int,
    batch: memoryview,
    sent: BatchHeader,
    gaps: tuple[Gap, ...],
    *,
    raw: bool,
    begins_at: int,
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
        base_timestamp=begins_at,
        max_timestamp=sent.max_timestamp,
        leader_epoch=header.leader_epoch,
        whole=position <= header.base_offset,
    )


def _begins_at(header: BatchHeader, batch: memoryview) -> int:
    """The time of the first record, as far as the header has it.

    Where a delete horizon stands in its place the record itself is asked, and the largest time taken if it cannot be
    read: a batch that travels as it is need not be understood.
    """
    if not header.has_delete_horizon:
        return header.base_timestamp
    try:
        return first_timestamp(header, batch)
    except ProtocolError:
        return header.max_timestamp


# Source reading -----------------------------------------------------------------------------------
# Up to where one partition's source was read in a task, and what is to be done about what was read.


class SourceReading:
    """Plans what is fetched, in source order (P1).

    `position`: the offset to fetch next; `leader_epoch`: that of the last batch before it, None when unknown.
    `ends`: last stable offset and high watermark as of the last answer, None before the first one. `divergence`: what
    the source said when it no longer knew the end of the leader epoch. `is_drained`: the last answer had no more
    records after what it brought. `replica`: the node that the leader sends this client's rack to, None: the leader is
    asked.

    What a replica says of the source's end comes late, and what it has not, the source may have. So it only brings
    records, while nothing depends on there being no more: that offsets are out of range, and that the log went back, is
    the leader's word.
    """

    def __init__(self, assignment: Assignment, writers: MirrorProducers) -> None:
        self._stop_at = assignment.end_offset
        self._rules = RecordRules(
            writers.is_mirror,
            assignment.returning,
            assignment.record_filter,
            assignment.adopted,
            assignment.kept_local,
        )
        self.ends: tuple[int, int] | None = None
        self.divergence: Divergence | None = None
        self.go_back_to(assignment.position)

    def go_back_to(self, position: Position) -> None:
        """Read on from there."""
        self.position = position.source_offset
        self.leader_epoch = position.leader_epoch
        self.is_drained = False
        self.replica: int | None = None
        self.may_read_nearest = True

    def leave_replica(self) -> bool:
        """It cannot serve: the leader does until this is begun again. False where the leader was asked."""
        if self.replica is None:
            return False
        self.replica, self.may_read_nearest = None, False
        return True

    def reach(self, offset: int) -> None:
        """What the task goes to is not before that."""
        if self._stop_at is not None:
            self._stop_at = max(self._stop_at, offset)

    @property
    def has_all(self) -> bool:
        """There is nothing more to read, at present or up to where the task goes."""
        return self.is_drained or self.is_at_end

    @property
    def is_at_end(self) -> bool:
        """Where the task goes, if it goes anywhere."""
        return self._stop_at is not None and self.position >= self._stop_at

    def note(self, fetched: Fetched) -> Divergence | None:
        """Take what the leader says of the source; returns what it says of records that are not those read before."""
        self.ends = fetched.last_stable, fetched.high_watermark
        self.replica = fetched.preferred_replica
        if fetched.diverging_end is not None and fetched.diverging_epoch is not None:
            self.divergence = Divergence(fetched.diverging_epoch, fetched.diverging_end)
        return self.divergence

    def note_replica(self, fetched: Fetched) -> bool:
        """Take what a replica says, which is no less than there is; False where it cannot be read from any more."""
        if fetched.diverging_end is not None:
            return not self.leave_replica()
        last_stable, high_watermark = self.ends or (0, 0)
        self.ends = max(last_stable, fetched.last_stable), max(high_watermark, fetched.high_watermark)
        return True

    def steps(self, fetched: Fetched) -> Iterator[Step]:
        """What is to be done about an answer's records, one after the other; each is behind us when it is returned.

        Raises `ProtocolError` at bytes that are no batch and `LedgerUnavailableError` at a batch whose writer cannot
        be looked up, when those before it were returned.
        """
        try:
            for step in plan_batches(
                fetched, position=self.position, end_offset=self._stop_at, rules=self._rules
            ):
                self.position = step.source_end
                if step.leader_epoch is not None:
                    self.leader_epoch = step.leader_epoch
                yield step
        finally:
            self.is_drained = self.position >= fetched.last_stable
