"""What of one partition is at the target already: its tail is read and recognised before anything is sent there.

The rules P1 to P6 are those of PROTOCOL.md ("Copying a partition").
"""

from ledger.domain.facts import GapCause, SyncCause
from ledger.domain.offsets.position import TailKnowledge
from ledger.errors import ProtocolError
from ledger.mirror.task.assignments import Assignment, Stop
from ledger.mirror.task.batch_plan import Copy, Skip, Step
from ledger.mirror.task.open_requests import Asked, OpenRequests
from ledger.mirror.task.send_window import SendWindow
from ledger.mirror.task.settling import Settling
from ledger.mirror.task.source_reading import SourceReading
from ledger.mirror.task.sync_builder import SyncBuilder
from ledger.mirror.task.tail import partition_stops
from ledger.mirror.task.tail.between import Between
from ledger.mirror.task.tail.expired_target import end_of_expired, sequence_behind_expired
from ledger.mirror.task.tail.explanations import Explanations
from ledger.mirror.task.tail.foreign_records import ForeignRecords
from ledger.mirror.task.tail.search import TailSearch
from ledger.mirror.task.tail.tail_reading import TailReading
from ledger.mirror.task.tail.target_tail import TailBatch, TargetTail, paired
from ledger.mirror.task.troubles import WRITING, Side, Troubles
from ledger.wire.record_batch import BatchHeader


class TailReconciliation:
    """P2, P6: what is at the target is known before anything is sent there, and what came between before it is settled.

    It settles what `window` has sent, and starts over with it and with `source` where that is not enough.
    `stop`: why nothing more is written. `copied_again`: as a `PartitionResult` has it.
    """

    def __init__(
        self,
        assignment: Assignment,
        source: SourceReading,
        window: SendWindow,
        requests: OpenRequests,
        troubles: Troubles,
    ) -> None:
        self.assignment = assignment
        self.stop: Stop | None = None
        self.copied_again: str | None = None
        self._producer = assignment.producer
        self._source = source
        self._window = window
        self._requests = requests
        self._troubles = troubles
        self._builder = SyncBuilder(assignment)
        self._settling = Settling(window, self._builder, exclusive=assignment.exclusive)
        self._tail_start = assignment.tail.start
        self.reading = TailReading(assignment, window, self._builder)
        self._lost_from: int | None = None
        self._explanations = Explanations(assignment, window, self._builder)
        self._begin()

    def start_over(self) -> None:
        """Fall back to what is settled; what is on its way is found in the tail, or sent again (P4)."""
        self._requests.begin_again()
        self._begin()

    def _begin(self) -> None:
        at = self._builder.position
        next_offset = max(at.target_offset, self._tail_start, self.assignment.target_log_start)
        self._source.go_back_to(at)
        self._window.begin_again(next_offset=next_offset, next_sequence=at.next_sequence)
        self.reading.begin_again(next_offset)
        self._between: Between | None = None
        self._search: TailSearch | None = None
        self._was_searched = self._may_guess = self._leaves_tail = False

    # -- what is known ---------------------------------------------------------------------------

    @property
    def tail(self) -> TargetTail:
        """What was read of what lies at the target behind what is settled."""
        return self.reading.tail

    @property
    def builder(self) -> SyncBuilder:
        """What is proved to be at the target."""
        return self._builder

    @property
    def lost_from(self) -> int | None:
        """The target offset at which a batch landed though this flow had written beyond it."""
        return self._lost_from

    @property
    def is_active(self) -> bool:
        """Still has something to do in this task."""
        return self.stop is None and not self.has_reached_end

    @property
    def has_reached_end(self) -> bool:
        end_offset = self.assignment.end_offset
        is_there = end_offset is not None and self._builder.position.source_offset >= end_offset
        is_seen = self._source.ends is not None and not self.tail.needs_read
        return is_there and (is_seen or self.assignment.tail.both_sides_seen)

    @property
    def may_send(self) -> bool:
        """P2."""
        return self.stop is None and self.tail.complete and self.tail.head is None

    @property
    def has_read_tail(self) -> bool:
        """Up to its end, and nothing has to be found out about it any more."""
        return self.tail.complete and self._search is None

    def knowledge(self) -> TailKnowledge:
        """For the next task, but for refused sequences."""
        are_seen = self._source.ends is not None and self.has_read_tail and self.tail.head is None
        return TailKnowledge(
            start=self._next_tail_start(),
            leader_epoch=self.reading.leader_epoch,
            both_sides_seen=are_seen or self.assignment.tail.both_sides_seen,
        )

    def _next_tail_start(self) -> int:
        """A target that others fill is not read again from the flow's last record in every round."""
        if self.assignment.exclusive or self.stop is not None or self._search is not None:
            return 0
        if self._between is not None:
            return self._between.landed.expected_offset
        return self.tail.position if self.tail.head is None else self.tail.head.header.base_offset

    # -- reading the tail ------------------------------------------------------------------------

    def wants_tail(self, now: float) -> bool:
        """P2, P4: the tail is read when no request of this partition can still change it."""
        idle = not self._requests.is_open(Asked.TAIL) and not self._requests.is_open(Asked.WRITE)
        return self.is_active and idle and self.tail.needs_read and now >= self._troubles.retry_at

    def take_tail(self, records: memoryview, *, high_watermark: int) -> None:
        """Take the next piece of what the target holds past the recorded end, or between (P6); bad bytes stop it."""
        between = self._between
        try:
            self.tail.add(
                records, high_watermark=high_watermark if between is None else between.landed.landed_offset
            )
        except ProtocolError as error:
            self.stop_at_once(partition_stops.unreadable(self.tail, error))
            return
        self._troubles.settle_trouble(Side.TARGET)
        if between is not None:
            self._take_between(between)
            return
        if (stop := self.reading.take_last_record()) is not None:
            self.stop_at_once(stop)
        self.advance()

    @property
    def reads_between(self) -> bool:
        """A batch that is at the target waits to be settled until what came before it was read (P6)."""
        return self._between is not None and self.stop is None

    def _take_between(self, between: Between) -> None:
        """A record of the flow's own among what came between was written twice; all of it is known at once."""
        between.take(self.tail)
        if not self.tail.complete:
            return
        self._between = None
        for repeated in between.own:
            self._builder.repeated(
                first_sequence=repeated.header.base_sequence,
                target_start=repeated.header.base_offset,
                count=repeated.written,
                producer_id=repeated.header.producer_id,
            )
        self._settling.settle_oldest()
        if (stop := between.stop(self.assignment)) is not None:
            self.stop_at_once(stop)
        self.advance()

    # -- what is there and what is planned -------------------------------------------------------

    def take_step(self, step: Step) -> None:
        """The next step of the source's plan: to be sent, unless it is searched at the target."""
        if self._search is not None:
            self._search.take_step(step)
        else:
            self._window.plan(step)

    def acknowledged(self, base_offset: int) -> None:
        """The oldest unacknowledged batch lies at `base_offset` (acks=all)."""
        is_first = not self._window.is_known_to_target
        sent = self._window.take_acknowledgement()
        if base_offset < sent.expected_offset:
            self._landed_below(base_offset, sent.expected_offset)
            return
        sent.land_at(base_offset)
        may_hide_own = is_first or self.assignment.exclusive
        if base_offset > sent.expected_offset and may_hide_own and self._between is None:
            self._between = Between(sent, self._producer)  # P6
            self.reading.read_from(sent.expected_offset)
        self._settle()

    def _landed_below(self, base_offset: int, expected_offset: int) -> None:
        """A log that goes back has lost records: others' alone, or those that were recorded as this flow's."""
        if base_offset >= self._builder.position.target_offset:
            self._tail_start = 0
            self.start_over()
            return
        self._lost_from = base_offset
        self.stop_at_once(partition_stops.landed_below(base_offset, expected=expected_offset))

    def advance(self) -> None:
        """Skip gaps and recognise what the target already holds, as far as possible without IO."""
        if self._search is not None:
            self._go_on_searching(self._search)
            return
        while self.stop is None and self._advance_once():
            pass
        self._settle()
        if self.tail.complete and self.tail.head is None and self._window.oldest is None:
            if self._builder.position.target_offset < self.assignment.target_log_start:
                self._begin_behind_expired(None)
            # Transaction markers at the target take an offset each and hold no record.
            self._window.expect_behind(self.tail.position)

    def _advance_once(self) -> bool:
        """One step further; False when only IO brings more."""
        step = self._window.first
        if isinstance(step, Skip) and not self._may_be_in_tail(step):
            self._window.pass_first()
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
        copy = self._window.first_copy
        if copy is None:
            return False
        self._recognise(copy, found)
        return True

    def _may_be_in_tail(self, step: Skip) -> bool:
        """A hole is skipped once it is known that nothing of the tail is a copy of what was there."""
        is_read = self.tail.complete and self.tail.head is None
        return step.gap.cause is GapCause.COMPACTED and not is_read

    def _begin_behind_expired(self, first: BatchHeader | None) -> None:
        """Continue where the target's log begins."""
        self._settle()
        end = end_of_expired(self.assignment, first)
        if end > self._builder.position.target_offset:
            following = sequence_behind_expired(self.assignment, first, self._builder.position.next_sequence)
            if following != self._builder.position.next_sequence:
                self._explanations.own_have_expired()
            self._builder.expired(target_end=end, next_sequence=following, first=first)
            self._window.expect_next(offset=self._window.next_offset, sequence=following)

    def _recognise(self, step: Copy, found: TailBatch) -> None:
        """Pair one planned step with the head of the tail."""
        self._settle()
        expected = self._explanations.expected_sequence(found)
        in_sequence = found.header.base_sequence == expected
        may_pair = in_sequence and (self._may_guess or not self._explanations.is_behind_hole)
        written = paired(step, found, others_may_be_gone=self._explanations.may_be_gone) if may_pair else None
        if written is None and not self._was_searched and not self._explanations.is_accepted(found):
            self._begin_search()
            return
        if written is None:
            self._meet_unpaired(
                found,
                f"source offset {step.source_start} and sequence {expected} were expected there",
                source_has_holes=in_sequence and any(gap.cause is GapCause.COMPACTED for gap in step.gaps),
            )
            return
        self._troubles.settle_trouble(WRITING)
        while isinstance(self._window.first, Skip):
            self._window.pass_first()
        self._settle()
        self._window.take_first()
        at = found.header
        self._builder.copied(written, base_offset=at.base_offset, recovered=True, producer_id=at.producer_id)
        self._pass(found)

    def _pass(self, found: TailBatch) -> None:
        at = self._builder.position
        self._window.expect_next(offset=at.target_offset, sequence=at.next_sequence)
        self._take_over(found)

    def _take_over(self, found: TailBatch) -> None:
        self.tail.pop()
        self._window.expect_behind(found.header.end_offset)

    def _meet_unpaired(self, found: TailBatch, expected: str, *, source_has_holes: bool = False) -> None:
        """The flow's own records without a source: recorded as such where that is explained, else a stop."""
        cause = self._explanations.cause(found, source_has_holes=source_has_holes)
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

    def _meet_foreign(self, found: TailBatch) -> None:
        if self.assignment.exclusive and not self._explanations.is_accepted(found) and found.header.count:
            others = self.tail.others(self._producer) or ForeignRecords.beginning(found.header)
            self.stop_at_once(partition_stops.foreign(others, own=self.assignment.producer_id))
            return
        self._take_over(found)

    # -- a tail that cleaners have been at -------------------------------------------------------

    @property
    def is_searching(self) -> bool:
        """Both sides are read from what is settled on, to find out what can be proved of the tail."""
        return self._search is not None and self.is_active

    @property
    def has_enough_source(self) -> bool:
        """What comes next at the source is not needed to find that out."""
        return self._search is not None and self._search.has_enough_source

    def _begin_search(self) -> None:
        self._settle()
        self.start_over()
        self._search = TailSearch(
            self._builder,
            source_may_be_gone=self.assignment.position.source_may_be_gone,
            is_target_cleaned=self.assignment.is_target_cleaned,
            is_target_known=not self._explanations.has_expired,
        )

    def _go_on_searching(self, search: TailSearch) -> None:
        while self.stop is None and (found := self.tail.head) is not None:
            if self._producer.wrote(found.header.producer_id):
                search.take_batch(found, self._explanations.expected_sequence(found))
                self.tail.pop()
            else:
                self._meet_foreign(found)
        has_enough = self._source.has_all or search.has_enough_source
        if self.stop is None and self.tail.complete and has_enough:
            self._end_search(search)

    def _end_search(self, search: TailSearch) -> None:
        """Record what is proved; the rest is left behind where the flow's policy says so, else examined as before."""
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
        self.start_over()
        self._was_searched, self._may_guess = proof is None, search.is_given_up
        self._leaves_tail = self._was_searched and self.assignment.copies_tail_again

    # -- recording -------------------------------------------------------------------------------

    def _settle(self) -> None:
        waiting = None if self._between is None else self._between.landed
        self._settling.settle(waiting=waiting, has_stopped=self.stop is not None)

    def conclude(self) -> None:
        """The task ends: own records that still wait at the target for a source which has no more are unpaired.

        Not sooner: right after a change of leader a source may show less than it has.
        """
        while self._waits_in_vain and self.tail.head is not None:
            if self._producer.wrote(self.tail.head.header.producer_id):
                self._meet_unpaired(self.tail.head, "the source has no more records")
            else:
                self._meet_foreign(self.tail.head)
        self.advance()

    @property
    def _waits_in_vain(self) -> bool:
        """What is left of the tail has no source: there are no more records to come, and none waits to be sent."""
        return self.stop is None and self._source.is_drained and self._window.first_copy is None

    def stop_at_once(self, stop: Stop) -> None:
        """Nothing more is sent; what is on its way is still settled."""
        self.stop = stop
        self._window.drop_planned()
        self.reading.read_from(self.tail.position)
