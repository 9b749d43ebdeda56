"""What to do with each fetched batch: copy it raw, re-encode it, or leave a gap.

The plan depends on the source's bytes and on rules that answer the same every time. So a repeated attempt
plans the same batches again and can be matched with what an earlier one has already written.
"""

import heapq
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ledger.errors import LedgerUnavailableError, ProtocolError
from ledger.facts.state import MirrorProducers
from ledger.facts.syncs import Gap, GapCause, OffsetRange, Position, Share, share_of
from ledger.kafka.batches import (
    CODEC_MASK,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    BatchHeader,
    Record,
    batch_at,
    crc_matches,
    crc_of,
    decode,
    fields_at,
    first_timestamp,
    read_header,
    read_signed,
)
from ledger.kafka.record_fields import key_of, read_fields
from ledger.kafka.repacking import RecordTest, repacked
from ledger.kafka.requests import Fetched
from ledger.mirror.assignment import Assignment, Divergence
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
from ledger.topics.naming import KEEP_ALL, RecordFilter

# Record rules -------------------------------------------------------------------------------------
# Which committed records of a source partition are copied: by who wrote them, and by the flow's filter.


@dataclass(frozen=True, slots=True)
class RecordRules:
    """Answers the same for the same batch every time.

    `is_mirror`: whether a producer id is a mirror flow's; may raise `LedgerUnavailableError`. `returning`:
    source ranges that are copied although a mirror wrote them. `adopted`: source ranges that are left out as if
    a mirror had written them. `kept_local`: source ranges of which nothing is copied. `mistakable`: by producer id of
    a mirror that applications have too the source ranges that the mirror wrote. All are ascending and decide by
    offset, so a batch that lies across the end of such a range is copied in part.
    """

    is_mirror: Callable[[int], bool]
    returning: tuple[OffsetRange, ...] = ()
    record_filter: RecordFilter = KEEP_ALL
    adopted: tuple[OffsetRange, ...] = ()
    kept_local: tuple[OffsetRange, ...] = ()
    mistakable: Mapping[int, tuple[OffsetRange, ...]] = field(default_factory=dict)

    def left_out(self, header: BatchHeader, position: int) -> GapCause | RecordTest | None:
        """For the batch from `position` on: None to copy all of it, a cause to copy nothing, else a test."""
        start = max(position, header.base_offset)
        is_mirror = self._has_written(header, start)
        exempt = share_of(self.returning if is_mirror else self.adopted, start, header.end_offset)
        if exempt is Share.PART:
            return self._of_mirror if is_mirror else self._of_adopted
        if is_mirror == (exempt is Share.NONE):
            return GapCause.MIRROR_WRITE
        kept = share_of(self.kept_local, start, header.end_offset)
        if kept is Share.ALL:
            return GapCause.KEPT_LOCAL
        return None if kept is Share.NONE and self.record_filter.keeps_all else self._of_application

    def _has_written(self, header: BatchHeader, start: int) -> bool:
        """Whether a mirror has, as the producer id says; where applications have that too, as maps say."""
        if (known := self.mistakable.get(header.producer_id)) is not None:
            return share_of(known, start, header.end_offset) is not Share.NONE
        return self.is_mirror(header.producer_id)

    def whole_below(self, position: int) -> int:
        """Up to where what no mirror wrote is copied whole from `position` on; no further where it is not."""
        if not self.record_filter.keeps_all:
            return position
        return min(_next_start(self.adopted, position), _next_start(self.kept_local, position))

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


def _next_start(ranges: tuple[OffsetRange, ...], position: int) -> int:
    """Where the first of ascending ranges begins that ends behind it."""
    following = bisect_right(ranges, position, key=lambda one: one[1])
    return ranges[following][0] if following < len(ranges) else _NO_OFFSET


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
_NO_OFFSET = 1 << 63


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
    """As `plan_together`, each batch by itself."""
    for step in plan_together(fetched, position=position, end_offset=end_offset, rules=rules, together=False):
        assert not isinstance(step, SmallBatches)
        yield step


def plan_together(
    fetched: Fetched, *, position: int, end_offset: int | None, rules: RecordRules, together: bool
) -> Iterator[Planned]:
    """Steps that tile `[position, ...)` without a hole, in order, up to `end_offset` or the last whole batch.

    `together`: small batches that follow each other are one step, not a step each. Raises `ProtocolError` for a batch
    whose CRC or records do not add up, and `LedgerUnavailableError` for one whose writer cannot be looked up.
    """
    aborted = _AbortedRanges(fetched.aborted)
    end = _NO_OFFSET if end_offset is None else end_offset
    at = 0
    while True:
        if together and (small := _small_batches(fetched.records[at:], position, end, rules)):
            position, at = small.source_end, at + small.held_bytes
            yield small
        if (found := batch_at(fetched.records, at)) is None:
            return
        header, batch, at = found
        if header.end_offset <= position:
            aborted.skip(header, batch)
            continue
        if position >= end:
            return
        if header.base_offset > position:
            yield Skip(Gap(position, header.base_offset, GapCause.COMPACTED), header.leader_epoch)
            position = header.base_offset
        yield from _plan_batch(header, batch, position, aborted, rules)
        position = header.end_offset


def _small_batches(records: memoryview, position: int, end: int, rules: RecordRules) -> SmallBatches | None:
    """Those at the beginning that follow each other from `position` on and go as they are; None where there are none.

    Done for each batch of producers that wait for no second record, so each is known by its header and its CRC alone.
    """
    whole_below = rules.whole_below(position)
    found: deque[SmallBatch] = deque()
    applications: set[int] = set()
    first: tuple[int, int, bool] | None = None
    at = 0
    while position < end and (fields := fields_at(records, at)):
        base, length, epoch, magic, crc, attributes, last, begins, latest, producer_id, _, _, count = fields
        size = LENGTH_PREFIX_BYTES + length
        behind = at + size
        kind = attributes, epoch, begins == NO_TIME
        is_plain = magic == MAGIC and not attributes & ~CODEC_MASK and base == position and count == last + 1
        if not (is_plain and is_small(count, size, attributes) and kind == (first or kind)):
            break
        if behind > len(records) or position + count > whole_below:
            break
        if producer_id not in applications:
            if not _is_application(rules, producer_id):
                break
            applications.add(producer_id)
        batch = records[at:behind].tobytes()
        if crc_of(batch) != crc:
            break
        position += count
        first = kind
        found.append(SmallBatch(batch, position, count, begins, latest, True))
        at = behind
    return SmallBatches(first[0], first[1], found, at) if first else None


def _is_application(rules: RecordRules, producer_id: int) -> bool:
    """False also while nobody can say it: to plan such a batch by itself raises that."""
    try:
        return not rules.is_mirror(producer_id)
    except LedgerUnavailableError:
        return False


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

    def __init__(self, assignment: Assignment, writers: MirrorProducers, *, together: bool = False) -> None:
        """`together`: as `plan_together` has it."""
        self._together = together
        self._stop_at = assignment.end_offset
        self._rules = RecordRules(
            writers.is_mirror,
            assignment.returning,
            assignment.record_filter,
            assignment.adopted,
            assignment.kept_local,
            assignment.mistakable,
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

    def last_copy(self, fetched: Fetched) -> Copy | None:
        """The last batch in an answer that begins below the position and is copied; None: there is none.

        Raises as `steps`.
        """
        steps = plan_batches(fetched, position=0, end_offset=self.position, rules=self._rules)
        below = (step for step in steps if isinstance(step, Copy) and step.source_start < self.position)
        return next(iter(deque(below, maxlen=1)), None)

    def steps(self, fetched: Fetched) -> Iterator[Planned]:
        """What is to be done about an answer's records, one after the other; each is behind us when it is returned.

        Raises `ProtocolError` at bytes that are no batch and `LedgerUnavailableError` at a batch whose writer cannot
        be looked up, when those before it were returned.
        """
        try:
            at, end, together = self.position, self._stop_at, self._together
            for step in plan_together(
                fetched, position=at, end_offset=end, rules=self._rules, together=together
            ):
                self.position = step.source_end
                if step.leader_epoch is not None:
                    self.leader_epoch = step.leader_epoch
                yield step
        finally:
            self.is_drained = self.position >= fetched.last_stable
