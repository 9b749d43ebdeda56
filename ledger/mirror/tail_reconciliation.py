"""What of one partition is at the target already: its tail is read and recognised before anything is sent there.

The invariants P1 to P6 are those of `partition_copy`, which sends what is not there.
"""

from collections import deque

from ledger.domain.facts import GapCause, SyncCause, TopicPartition
from ledger.mirror import partition_stops
from ledger.mirror.assignments import Assignment, Divergence, Stop, StopCause
from ledger.mirror.batch_plan import Copy, Skip, Step
from ledger.mirror.copy_rules import CopyRules
from ledger.mirror.expired_target import end_of_expired, sequence_behind_expired
from ledger.mirror.foreign_records import ForeignRecords
from ledger.mirror.sent import Sent
from ledger.mirror.sync_builder import SyncBuilder
from ledger.mirror.tail import TailBatch, TargetTail, paired
from ledger.mirror.tail_search import TailSearch
from ledger.mirror.troubles import WRITING, Side, Troubles
from ledger.ports import WriterDirectory
from ledger.wire.record_batch import BatchHeader, next_sequence


class TailReconciliation(Troubles):
    """The state of one partition, and the part of it that looks; does no IO."""

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
        self.refused_sequences = assignment.tail.refused_sequences
        self._divergence: Divergence | None = None
        self._target_lost_from: int | None = None
        self._source_ends: tuple[int, int] | None = None
        self._node: int | None = None
        self._builder = SyncBuilder(assignment)
        self._tail_start = assignment.tail.start
        self._target_leader_epoch = assignment.tail.leader_epoch
        self._has_expired = False
        self.copied_again: str | None = None
        self._fall_back()

    def _fall_back(self) -> None:
        self._pending: deque[Step] = deque()
        self.pending_bytes = 0
        self._unsettled: deque[Sent] = deque()
        self._is_known_to_target = False
        self.fetch_position = self._builder.position.source_offset
        self.fetch_epoch = self._builder.position.leader_epoch
        self._is_drained = False
        self._next_offset = max(
            self._builder.position.target_offset, self._tail_start, self.assignment.target_log_start
        )
        self._next_sequence = self._builder.position.next_sequence
        self.tail = TargetTail(start=self._next_offset)
        self._looks_for_last_record = False
        self._landed: Sent | None = None
        self._own_between: list[TailBatch] = []
        self._others_between: ForeignRecords | None = None
        self._search: TailSearch | None = None
        self._was_searched = self._may_guess = self._leaves_tail = False

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
        is_there = stop_at is not None and self._builder.position.source_offset >= stop_at
        is_seen = self._source_ends is not None and not self.tail.needs_read
        return is_there and (is_seen or self.assignment.tail.both_sides_seen)

    def wants_tail(self, now: float) -> bool:
        """P2, P4: the tail is read when no request of this partition can still change it."""
        idle = not self.reading_tail and self.produce_requests == 0
        return self.is_active and idle and self.tail.needs_read and now >= self.retry_at

    def begin_tail(self, leader_epoch: int | None) -> None:
        """Under another leader than before the tail begins one record earlier, with the flow's last one.

        Where that is not there any more the log went back, and may have grown past it since by others' records.
        """
        if leader_epoch == self._target_leader_epoch or self.tail.position != self._next_offset:
            return
        self._target_leader_epoch = leader_epoch
        if (
            self._builder.position.next_sequence
            and self._builder.position.target_offset
            and not self._builder.position.target_offset < self.assignment.target_log_start
        ):
            self._looks_for_last_record = True
            self.tail = TargetTail(start=self._builder.position.target_offset - 1)

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
        found, last = self.tail.first, self._builder.position.target_offset - 1
        if found is None:
            self.tail = TargetTail(start=self._next_offset)
        elif found.base_offset <= last:
            sequence = found.sequence_at(last)
            is_former = found.producer_id in self._producer.former
            is_next = next_sequence(sequence, 1) == self._builder.position.next_sequence
            if not self._producer.wrote(found.producer_id) or not (is_former or is_next):
                wanted = self._builder.position.next_sequence - 1
                self.stop_at_once(partition_stops.another_record(found, offset=last, wanted=wanted))
            elif not found.is_control:
                self.tail.pop()

    def advance(self) -> None:
        """Pass over gaps and recognise what the target already holds, as far as possible without IO."""
        if self._search is not None:
            self._go_on_searching(self._search)
            return
        while self.stop is None and self._advance_once():
            pass
        self._settle()
        if self.tail.complete and self.tail.head is None and not self._unsettled:
            if self._builder.position.target_offset < self.assignment.target_log_start:
                self._begin_behind_expired(None)
            # Transaction markers at the target take an offset each and hold no record.
            self._next_offset = max(self._next_offset, self.tail.position)

    def _advance_once(self) -> bool:
        """One step further; False when only IO brings more."""
        step = self._pending[0] if self._pending else None
        if isinstance(step, Skip) and not self._may_be_in_tail(step):
            self._pass_skip(step)
            return True
        found = self.tail.head
        if found is None:
            return False
        if not self._producer.wrote(found.header.producer_id):
            self._meet_foreign(found)
            return True
        if self._builder.position.target_offset < self.assignment.target_log_start:
            self._begin_behind_expired(found.header)
        if self._leaves_tail:
            self._leave_unpaired(found, SyncCause.COMPACTED)
            return True
        copy = next((planned for planned in self._pending if isinstance(planned, Copy)), None)
        if copy is None:
            return False
        self._recognise(copy, found)
        return True

    def _may_be_in_tail(self, step: Skip) -> bool:
        """A hole is passed over once it is known that nothing of the tail is a copy of what was there."""
        is_read = self.tail.complete and self.tail.head is None
        return step.gap.cause is GapCause.COMPACTED and not is_read

    def _pass_skip(self, step: Skip) -> None:
        self._unsettled.append(Sent(step, self._next_offset))
        self._pending.popleft()
        self.pending_bytes -= step.held_bytes

    def _expected_sequence(self, found: TailBatch) -> int | None:
        """The next sequence of the batch's producer id; None when it is not known any more."""
        is_current = found.header.producer_id == self._producer.current
        return self._next_sequence if is_current else self._builder.former_next(found.header.producer_id)

    def _begin_behind_expired(self, first: BatchHeader | None) -> None:
        """Go on where the target's log begins."""
        self._settle()
        end = end_of_expired(self.assignment, first)
        if end > self._builder.position.target_offset:
            following = sequence_behind_expired(self.assignment, first, self._builder.position.next_sequence)
            self._has_expired = self._has_expired or following != self._builder.position.next_sequence
            self._builder.expired(target_end=end, next_sequence=following, first=first)
            self._next_sequence = following

    def _recognise(self, step: Copy, found: TailBatch) -> None:
        """Pair one planned step with the head of the tail."""
        self._settle()
        in_sequence = found.header.base_sequence == self._expected_sequence(found)
        may_pair = in_sequence and (self._may_guess or not self._is_behind_hole)
        written = paired(step, found, others_may_be_gone=self._may_be_gone) if may_pair else None
        if written is None and not self._was_searched and not self._is_accepted(found):
            self._begin_search()
            return
        if written is None:
            self._meet_unpaired(
                found,
                f"source offset {step.source_start} and sequence {self._expected_sequence(found)} were expected there",
                source_has_holes=in_sequence and any(gap.cause is GapCause.COMPACTED for gap in step.gaps),
            )
            return
        self.settle_trouble(WRITING)
        while isinstance(before := self._pending[0], Skip):
            self._pass_skip(before)
        self._settle()
        self._pending.popleft()
        self.pending_bytes -= step.held_bytes
        at = found.header
        self._builder.copied(written, base_offset=at.base_offset, recovered=True, producer_id=at.producer_id)
        self._pass(found)

    def _pass(self, found: TailBatch) -> None:
        self._next_offset = self._builder.position.target_offset
        self._next_sequence = self._builder.position.next_sequence
        self._take_over(found)

    def _take_over(self, found: TailBatch) -> None:
        self.tail.pop()
        self._next_offset = max(self._next_offset, found.header.end_offset)

    def _meet_unpaired(self, found: TailBatch, expected: str, *, source_has_holes: bool = False) -> None:
        """The flow's own records without a source: recorded as such where that is explained, else a stop."""
        cause = self._unpaired_cause(found, source_has_holes=source_has_holes)
        if cause is None:
            self.stop_at_once(partition_stops.not_explained(found, expected=expected))
        else:
            self._leave_unpaired(found, cause)

    def _leave_unpaired(self, found: TailBatch, cause: SyncCause) -> None:
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
    def _is_behind_hole(self) -> bool:
        """A cleaner took what was before the next record, and an equal one may have been there."""
        return bool(self._pending) and isinstance(self._pending[0], Skip)

    @property
    def _may_be_gone(self) -> bool:
        """Whether source records before the next one may be gone that this flow had copied."""
        is_hole_passed = self._is_behind_hole or self._builder.ends_in_hole
        return is_hole_passed or self.assignment.position.source_may_be_gone or self._has_expired

    def _unpaired_cause(self, found: TailBatch, *, source_has_holes: bool) -> SyncCause | None:
        if self._is_accepted(found):
            return SyncCause.ACCEPTED
        in_sequence = found.header.base_sequence == self._expected_sequence(found)
        is_explained = source_has_holes or self._may_be_gone
        if in_sequence and is_explained:
            return SyncCause.LOST_SOURCE
        return SyncCause.COMPACTED if self.assignment.copies_tail_again else None

    def _is_accepted(self, found: TailBatch) -> bool:
        return found.header.base_offset < self.assignment.accepted_below

    def _meet_foreign(self, found: TailBatch) -> None:
        if self.assignment.exclusive and not self._is_accepted(found) and found.header.count:
            others = self.tail.others(self._producer) or ForeignRecords.beginning(found.header)
            self.stop_at_once(partition_stops.foreign(others, own=self.assignment.producer_id))
            return
        self._take_over(found)

    # -- a tail that cleaners have been at -------------------------------------------------------

    @property
    def is_searching(self) -> bool:
        """Both sides are read from what is settled on, to find out what can be proved of the tail."""
        return self._search is not None and self.is_active

    def _begin_search(self) -> None:
        self._settle()
        self.generation += 1
        self._fall_back()
        self._search = TailSearch(
            self._builder,
            source_may_be_gone=self.assignment.position.source_may_be_gone,
            is_target_cleaned=self.assignment.is_target_cleaned,
            is_target_known=not self._has_expired,
        )

    def _go_on_searching(self, search: TailSearch) -> None:
        while self.stop is None and (found := self.tail.head) is not None:
            if self._producer.wrote(found.header.producer_id):
                search.take_batch(found, self._expected_sequence(found))
                self.tail.pop()
            else:
                self._meet_foreign(found)
        stop_at = self.assignment.stop_at
        has_all = self._is_drained or (stop_at is not None and self.fetch_position >= stop_at)
        if self.stop is None and self.tail.complete and (has_all or search.has_enough_source):
            self._end_search(search)

    def _end_search(self, search: TailSearch) -> None:
        """Record what is proved; what is not is left behind where the flow's policy says so, else looked at as ever."""
        proof = search.found()
        is_lost = proof is None or proof.rest_holds_records
        if proof is not None:
            search.record(proof)
        if is_lost and self.assignment.copies_tail_again:
            self.copied_again = partition_stops.copied_again(
                self._builder.position.target_offset, self._builder.position.source_offset
            )
        if proof is not None and (self.assignment.copies_tail_again or not is_lost):
            search.leave_unpaired(proof.rest)
        self.generation += 1
        self._fall_back()
        self._was_searched, self._may_guess = proof is None, search.is_given_up
        self._leaves_tail = self._was_searched and self.assignment.copies_tail_again

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
        return may_look or sent.base_offset == self._builder.position.target_offset

    def _settle_first(self) -> None:
        sent = self._unsettled.popleft()
        if isinstance(sent.step, Skip):
            self._builder.skip(sent.step)
        else:
            self._builder.copied(sent.step, base_offset=sent.landed_offset, recovered=False)

    def conclude(self) -> None:
        """The task ends: own records that still wait at the target for a source which has no more are unpaired.

        Not sooner: right after a change of leader a source may show less than it has.
        """
        while self.stop is None and self._is_drained and not self._copies_wait and self.tail.head is not None:
            if self._producer.wrote(self.tail.head.header.producer_id):
                self._meet_unpaired(self.tail.head, "the source has no more records")
            else:
                self._meet_foreign(self.tail.head)
        self.advance()

    @property
    def _copies_wait(self) -> bool:
        return any(isinstance(step, Copy) for step in self._pending)

    def halt(self, cause: StopCause, message: str) -> None:
        self.stop_at_once(Stop(cause, message))

    def stop_at_once(self, stop: Stop) -> None:
        """Nothing more is sent; what is on its way is still settled."""
        self.stop = stop
        self._pending.clear()
        self.pending_bytes = 0
        self.tail = TargetTail(start=self.tail.position)
