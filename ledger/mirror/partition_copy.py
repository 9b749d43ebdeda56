"""One partition inside a copy task: from fetched source bytes to acknowledged target offsets.

Invariants, by name
    P1  steps are sent and settled in source order
    P2  nothing is sent before the target's tail was read up to its end, in this attempt
    P3  only acknowledged or recognised batches reach the sync builder
    P4  after any doubt (error 45, a lost connection, a leader change) the partition falls back to what is
        settled, waits until its requests in flight are answered or dropped, and reads the tail again
    P5  a batch is sent after another one only to the same node, and only once the target has acknowledged
        a batch of this attempt: a broker that remembers nothing of the flow's producer id takes any
        sequence, so a later batch could land where an earlier one was refused
    P6  what came between the tail and the first batch of an attempt is read before that batch is settled and
        before the second one is sent: for a broker that had forgotten the flow's producer id it may be a late
        batch of its own. Where nothing may come between, in an exclusive target, every batch is looked before
"""

from collections import deque

from ledger.domain.facts import GapCause, SyncCause, TopicPartition
from ledger.errors import ProtocolError
from ledger.mirror import partition_stops
from ledger.mirror.assignments import Assignment, Divergence, PartitionResult, Stop, StopCause
from ledger.mirror.batch_plan import Copy, Skip, Step, plan_batches
from ledger.mirror.copy_rules import CopyRules
from ledger.mirror.expired_target import end_of_expired, sequence_behind_expired
from ledger.mirror.foreign_records import ForeignRecords
from ledger.mirror.sent import Sent
from ledger.mirror.sync_builder import SyncBuilder
from ledger.mirror.tail import TailBatch, TargetTail, paired
from ledger.mirror.troubles import LEDGER, WRITING, Side, Troubles
from ledger.ports import WriterDirectory
from ledger.wire.record_batch import BatchHeader, next_sequence, patch_for_target
from ledger.wire.requests import Fetched


class PartitionCopy(Troubles):
    """The state of one partition; does no IO and knows no clock beyond the instants passed in."""

    def __init__(self, assignment: Assignment, writers: WriterDirectory) -> None:
        super().__init__()
        self.assignment = assignment
        self._producer = assignment.producer
        self._rules = CopyRules(
            writers.is_mirror, assignment.returning, assignment.record_filter, assignment.adopted
        )
        self.generation = 0
        self.fetching = False
        self.reading_tail = False
        self.produce_requests = 0
        self.stop: Stop | None = None
        self.refused_sequences = assignment.refused_sequences
        self._divergence: Divergence | None = None
        self._target_lost_from: int | None = None
        self._source_ends: tuple[int, int] | None = None
        self._node: int | None = None
        self._builder = SyncBuilder(assignment)
        self._tail_start = assignment.tail_start
        self._target_leader_epoch = assignment.target_leader_epoch
        self._has_expired = False
        self._fall_back()

    def _fall_back(self) -> None:
        self._pending: deque[Step] = deque()
        self.pending_bytes = 0
        self._unsettled: deque[Sent] = deque()
        self._is_known_to_target = False
        self.fetch_position = self._builder.position
        self.fetch_epoch = self._builder.leader_epoch
        self._is_drained = False
        self._next_offset = max(self._builder.target_end, self._tail_start, self.assignment.target_log_start)
        self._next_sequence = self._builder.next_sequence
        self.tail = TargetTail(start=self._next_offset)
        self._looks_for_last_record = False
        self._landed: Sent | None = None
        self._own_between: list[TailBatch] = []
        self._others_between: ForeignRecords | None = None

    @property
    def gap_count(self) -> int:
        """Gaps that wait to be recorded."""
        return self._builder.gap_count

    def side(self, side: Side) -> TopicPartition:
        """The partition at one side."""
        return self.assignment.side(side)

    @property
    def is_active(self) -> bool:
        """Still has something to do in this task."""
        return self.stop is None and not self.has_reached_end

    @property
    def has_reached_end(self) -> bool:
        stop_at = self.assignment.stop_at
        is_there = stop_at is not None and self._builder.position >= stop_at
        is_seen = self._source_ends is not None and not self.tail.needs_read
        return is_there and (is_seen or not self.assignment.is_first_look)

    @property
    def has_more(self) -> bool:
        """Fetched records are on their way, or still to be sent."""
        return bool(self._unsettled or self._pending)

    def wants_tail(self, now: float) -> bool:
        """P2, P4: the tail is read when no request of this partition can still change it."""
        idle = not self.reading_tail and self.produce_requests == 0
        return self.is_active and idle and self.tail.needs_read and now >= self.retry_at

    def wants_records(self, now: float, *, buffer_limit: int) -> bool:
        """Not before the tail is read: what cannot be sent yet would take the room of what can."""
        stop_at = self.assignment.stop_at
        is_first = self._source_ends is None and self.assignment.is_first_look
        wanted = stop_at is None or self.fetch_position < stop_at or is_first
        room = self.pending_bytes < buffer_limit and not self.tail.needs_read
        return self.is_active and wanted and room and not self.fetching and now >= self.retry_at

    def take_fetched(self, fetched: Fetched) -> None:
        """Plan the batches of a successful Fetch response; bad bytes stop the partition.

        Raises `LedgerUnavailableError` at a batch whose writer cannot be looked up; those before it are planned.
        """
        self.settle_trouble(Side.SOURCE)
        self._source_ends = fetched.last_stable, fetched.high_watermark
        if fetched.diverging_end is not None and fetched.diverging_epoch is not None:
            self._divergence = Divergence(fetched.diverging_epoch, fetched.diverging_end)
            self.stop_at_once(
                partition_stops.source_took_back(self.fetch_position, self.fetch_epoch, self._divergence)
            )
            return
        try:
            for step in plan_batches(
                fetched,
                position=self.fetch_position,
                stop_at=self.assignment.stop_at,
                rules=self._rules,
            ):
                self._plan(step)
            self.settle_trouble(LEDGER)
        except ProtocolError as error:
            self.halt(StopCause.CORRUPT, str(error))
        finally:
            self._is_drained = self.fetch_position >= fetched.last_stable
            self.advance()

    def _plan(self, step: Step) -> None:
        self._pending.append(step)
        self.fetch_position = step.source_end
        if step.leader_epoch is not None:
            self.fetch_epoch = step.leader_epoch
        self.pending_bytes += step.held_bytes

    def begin_tail(self, leader_epoch: int | None) -> None:
        """Under another leader than before the tail begins one record earlier, with the flow's last one.

        Where that is not there any more the log went back, and may have grown past it since by others' records.
        """
        if leader_epoch == self._target_leader_epoch or self.tail.position != self._next_offset:
            return
        self._target_leader_epoch = leader_epoch
        if (
            self._builder.next_sequence
            and self._builder.target_end
            and not self._builder.target_end < self.assignment.target_log_start
        ):
            self._looks_for_last_record = True
            self.tail = TargetTail(start=self._builder.target_end - 1)

    def take_tail(self, records: memoryview, *, high_watermark: int) -> None:
        """Take the next piece of what the target holds past the recorded end, or between (P6); bad bytes stop it."""
        landed = self._landed
        try:
            self.tail.add(records, high_watermark=high_watermark if landed is None else landed.landed_offset)
        except ProtocolError as error:
            self.stop_at_once(partition_stops.unreadable(self.tail, error))
            return
        self.settle_trouble(Side.TARGET)
        if landed is not None:
            self._take_between(landed)
            return
        if self._looks_for_last_record:
            self._looks_for_last_record = False
            self._take_last_record()
        self.advance()

    @property
    def looks_between(self) -> bool:
        """A batch that is at the target waits to be settled until what came before it was read (P6)."""
        return self._landed is not None and self.stop is None

    def _take_between(self, landed: Sent) -> None:
        """A record of the flow's own among what came between was written twice; all of it is known at once."""
        others = self.tail.others(self._producer, below=landed.landed_offset)
        self._others_between = self._others_between or others
        while (found := self.tail.head) is not None:
            self.tail.pop()
            is_own = self._producer.wrote(found.header.producer_id)
            if is_own and found.header.base_offset < landed.landed_offset:
                self._own_between.append(found)
        if not self.tail.complete:
            return
        self._landed = None
        for repeated in self._own_between:
            self._builder.repeated(
                first_sequence=repeated.header.base_sequence,
                target_start=repeated.header.base_offset,
                count=repeated.written,
                producer_id=repeated.header.producer_id,
            )
        self._settle_first()
        if self._own_between:
            self.stop_at_once(partition_stops.repeated(self._own_between))
        elif self.assignment.exclusive:
            at, expected, own = landed.landed_offset, landed.expected_offset, self.assignment.producer_id
            between = self._others_between
            self.stop_at_once(partition_stops.landed_behind(at, expected=expected, between=between, own=own))
        self.advance()

    def stops_looking(self) -> bool:
        """The target answers that the last record's offset is out of range: its retention may have deleted it.

        Then the tail is read from the recorded end after all, which tells whether the log went back. False when
        the last record was not looked for.
        """
        was_looked_for, self._looks_for_last_record = self._looks_for_last_record, False
        if was_looked_for:
            self.tail = TargetTail(start=self._next_offset)
        return was_looked_for

    def _take_last_record(self) -> None:
        """Judge what lies where the flow's last record lay; a hole that a cleaner left there proves nothing."""
        found, last = self.tail.first, self._builder.target_end - 1
        if found is None:
            self.tail = TargetTail(start=self._next_offset)
        elif found.base_offset <= last:
            sequence = found.sequence_at(last)
            is_former = found.producer_id in self._producer.former
            is_next = next_sequence(sequence, 1) == self._builder.next_sequence
            if not self._producer.wrote(found.producer_id) or not (is_former or is_next):
                wanted = self._builder.next_sequence - 1
                self.stop_at_once(partition_stops.another_record(found, offset=last, wanted=wanted))
            elif not found.is_control:
                self.tail.pop()

    def advance(self) -> None:
        """Pass over gaps and recognise what the target already holds, as far as possible without IO."""
        while self.stop is None and self._advance_once():
            pass
        self._settle()
        if self.tail.complete and self.tail.head is None and not self._unsettled:
            if self._builder.target_end < self.assignment.target_log_start:
                self._begin_behind_expired(None)
            # Transaction markers at the target take an offset each and hold no record.
            self._next_offset = max(self._next_offset, self.tail.position)

    def _advance_once(self) -> bool:
        """One step further; False when only IO brings more."""
        step = self._pending[0] if self._pending else None
        if isinstance(step, Skip):
            self._unsettled.append(Sent(step, self._next_offset))
            self._pending.popleft()
            self.pending_bytes -= step.held_bytes
            return True
        found = self.tail.head
        if found is None:
            return False
        if not self._producer.wrote(found.header.producer_id):
            self._meet_foreign(found)
            return True
        if self._builder.target_end < self.assignment.target_log_start:
            self._begin_behind_expired(found.header)
        if step is None:
            return False
        self._recognise(step, found)
        return True

    def _expected_sequence(self, found: TailBatch) -> int | None:
        """The next sequence of the batch's producer id; None when it is not known any more."""
        is_current = found.header.producer_id == self._producer.current
        return self._next_sequence if is_current else self._builder.former_next(found.header.producer_id)

    def _begin_behind_expired(self, first: BatchHeader | None) -> None:
        """Go on where the target's log begins."""
        self._settle()
        end = end_of_expired(self.assignment, first)
        if end > self._builder.target_end:
            following = sequence_behind_expired(self.assignment, first, self._builder.next_sequence)
            self._has_expired = self._has_expired or following != self._builder.next_sequence
            self._builder.expired(target_end=end, next_sequence=following, first=first)
            self._next_sequence = following

    def _recognise(self, step: Copy, found: TailBatch) -> None:
        """Pair one planned step with the head of the tail."""
        self._settle()
        in_sequence = found.header.base_sequence == self._expected_sequence(found)
        written = paired(step, found, others_may_be_gone=self._may_be_gone) if in_sequence else None
        if written is None:
            self._meet_unpaired(
                found,
                f"source offset {step.source_start} and sequence {self._expected_sequence(found)} were expected there",
                source_has_holes=in_sequence and any(gap.cause is GapCause.COMPACTED for gap in step.gaps),
            )
            return
        self.settle_trouble(WRITING)
        self._pending.popleft()
        self.pending_bytes -= step.held_bytes
        at = found.header
        self._builder.copied(written, base_offset=at.base_offset, recovered=True, producer_id=at.producer_id)
        self._pass(found)

    def _pass(self, found: TailBatch) -> None:
        self._next_offset = self._builder.target_end
        self._next_sequence = self._builder.next_sequence
        self._take_over(found)

    def _take_over(self, found: TailBatch) -> None:
        self.tail.pop()
        self._next_offset = max(self._next_offset, found.header.end_offset)

    def _meet_unpaired(self, found: TailBatch, expected: str, *, source_has_holes: bool = False) -> None:
        """The flow's own records without a source: recorded as such where that is explained, else a stop."""
        cause = self._unpaired_cause(found, source_has_holes=source_has_holes)
        if cause is None:
            self.stop_at_once(partition_stops.not_explained(found, expected=expected))
            return
        self._settle()
        self._builder.unpaired(
            first_sequence=found.header.base_sequence,
            target_start=found.header.base_offset,
            count=found.written,
            cause=cause,
            producer_id=found.header.producer_id,
        )
        self._pass(found)

    @property
    def _may_be_gone(self) -> bool:
        """Whether source records before the next one may be gone that this flow had copied."""
        return self._builder.ends_in_hole or self.assignment.lost_before or self._has_expired

    def _unpaired_cause(self, found: TailBatch, *, source_has_holes: bool) -> SyncCause | None:
        if found.header.base_offset < self.assignment.accepted_below:
            return SyncCause.ACCEPTED
        in_sequence = found.header.base_sequence == self._expected_sequence(found)
        is_explained = source_has_holes or self._may_be_gone
        return SyncCause.LOST_SOURCE if in_sequence and is_explained else None

    def _meet_foreign(self, found: TailBatch) -> None:
        is_accepted = found.header.base_offset < self.assignment.accepted_below
        if self.assignment.exclusive and not is_accepted and found.header.count:
            others = self.tail.others(self._producer) or ForeignRecords.beginning(found.header)
            self.stop_at_once(partition_stops.foreign(others, own=self.assignment.producer_id))
            return
        self._take_over(found)

    @property
    def next_copy(self) -> Copy | None:
        """The step to send now, if there is one: P1 and P2 hold for it."""
        if self.stop is not None or not self.tail.complete or self.tail.head is not None or not self._pending:
            return None
        step = self._pending[0]
        return step if isinstance(step, Copy) else None

    def may_send_to(self, node: int) -> bool:
        """P5."""
        return self.produce_requests == 0 or (self._is_known_to_target and self._node == node)

    def send_next(self, node: int) -> memoryview:
        """Patch the next step's batch and count it as sent; call only when `next_copy` is not None."""
        self._node = node
        self.produce_requests += 1
        step = self._pending.popleft()
        assert isinstance(step, Copy)
        patch_for_target(
            step.batch,
            step.attributes,
            producer_id=self.assignment.producer_id,
            sequence=self._next_sequence,
        )
        self.pending_bytes -= step.held_bytes
        self._unsettled.append(Sent(step, self._next_offset))
        self._next_offset += step.count
        self._next_sequence = next_sequence(self._next_sequence, step.count)
        self.advance()
        return step.batch

    def acknowledged(self, base_offset: int) -> None:
        """The oldest unacknowledged batch lies at `base_offset` (acks=all)."""
        if self._target_lost_from is not None:
            return  # what else is on its way landed behind that and is found by reconciliation
        self.settle_trouble(Side.TARGET)
        self.settle_trouble(WRITING)
        self.refused_sequences = 0
        is_first, self._is_known_to_target = not self._is_known_to_target, True
        sent = next(
            entry for entry in self._unsettled if isinstance(entry.step, Copy) and entry.base_offset is None
        )
        if base_offset < sent.expected_offset:
            self._landed_below(base_offset, sent.expected_offset)
            return
        sent.base_offset = base_offset
        may_hide_own = is_first or self.assignment.exclusive
        if base_offset > sent.expected_offset and may_hide_own and self._landed is None:
            self._landed, self._own_between, self._others_between = sent, [], None  # P6
            self.tail = TargetTail(start=sent.expected_offset)
        self._settle()

    def _landed_below(self, base_offset: int, expected_offset: int) -> None:
        """A log that goes back has lost records: others' alone, or those that this flow was told were there."""
        if base_offset >= self._builder.target_end:
            self.generation += 1
            self._tail_start = 0
            self._fall_back()
            return
        self._target_lost_from = base_offset
        self.stop_at_once(partition_stops.landed_below(base_offset, expected=expected_offset))

    def _settle(self) -> None:
        while self._unsettled and self._may_settle(self._unsettled[0]):
            self._settle_first()

    def _may_settle(self, sent: Sent) -> bool:
        if isinstance(sent.step, Skip):
            return True
        if sent.base_offset is None or sent is self._landed:
            return False
        # Behind a stop nothing is looked at any more: what has others before it is left to the next look.
        may_look = self.stop is None or not self.assignment.exclusive
        return may_look or sent.base_offset == self._builder.target_end

    def _settle_first(self) -> None:
        sent = self._unsettled.popleft()
        if isinstance(sent.step, Skip):
            self._builder.skip(sent.step)
        else:
            self._builder.copied(sent.step, base_offset=sent.landed_offset, recovered=False)

    def doubt(self, trouble: str, *, now: float) -> None:
        """P4: fall back to what is settled and start over after a pause.

        The tail can be read where nothing can be written: the trouble lasts until a batch is known to be there.
        """
        self.generation += 1
        self.pause(Side.TARGET, trouble, now=now)
        self.trouble_writing(trouble)
        self._fall_back()

    def conclude(self) -> None:
        """The task ends: own records that still wait at the target for a source which has no more are unpaired.

        Not sooner: right after a change of leader a source may show less than it has.
        """
        while self.stop is None and self._is_drained and not self._pending and self.tail.head is not None:
            if self._producer.wrote(self.tail.head.header.producer_id):
                self._meet_unpaired(self.tail.head, "the source has no more records")
            else:
                self._meet_foreign(self.tail.head)

    def halt(self, cause: StopCause, message: str) -> None:
        self.stop_at_once(Stop(cause, message))

    def stop_at_once(self, stop: Stop) -> None:
        """Nothing more is sent; what is on its way is still settled."""
        self.stop = stop
        self._pending.clear()
        self.pending_bytes = 0
        self.tail = TargetTail(start=self.tail.position)

    def _next_tail_start(self) -> int:
        """A target that others fill is not read again from the flow's last record in every round."""
        if self.assignment.exclusive or self.stop is not None:
            return 0
        if self._landed is not None:
            return self._landed.expected_offset
        return self.tail.position if self.tail.head is None else self.tail.head.header.base_offset

    def result(self) -> PartitionResult:
        return PartitionResult(
            assignment=self.assignment,
            syncs=self._builder.syncs(),
            position=self._builder.position,
            target_end=self._builder.target_end,
            next_sequence=self._builder.next_sequence,
            stop=self.stop,
            trouble=self.trouble,
            unreached=self.unreached,
            throttled_ms=self.throttled_ms,
            leader_epoch=self._builder.leader_epoch,
            divergence=self._divergence,
            target_lost_from=self._target_lost_from,
            source_ends=self._source_ends,
            tail_start=self._next_tail_start(),
            target_leader_epoch=self._target_leader_epoch,
            refused_sequences=0 if self.stop is not None else self.refused_sequences,
            former_sequence=None if self.tail.complete else self._builder.former_sequence,
            has_seen_both=self._source_ends is not None and self.tail.complete and self.tail.head is None,
        )
