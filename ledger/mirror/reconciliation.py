"""What of one partition is at the target already: its tail is read and recognised before anything is sent there.

The rules P1 to P6 are those of PROTOCOL.md ("Copying a partition").
"""

from collections.abc import Sequence
from itertools import takewhile

from ledger.errors import ProtocolError
from ledger.facts.findings import Side
from ledger.facts.identity import FlowProducer
from ledger.facts.syncs import GapCause, OffsetRange, SyncCause, TailKnowledge, without
from ledger.kafka.batches import BatchHeader, next_sequence
from ledger.mirror.assignment import WRITING, Assignment, OpenRequests, RequestKind, Stop, Troubles
from ledger.mirror.cutting import cut_behind, without_keyless
from ledger.mirror.merging import merged, parts_of
from ledger.mirror.source import SourceReading
from ledger.mirror.steps import Copy, Planned, Skip, SmallBatches, Step
from ledger.mirror.sync_builder import SyncBuilder
from ledger.mirror.tail import (
    ForeignRecords,
    TailBatch,
    TailSearch,
    TargetTail,
    begins,
    copied_again,
    foreign,
    landed_behind,
    landed_below,
    not_explained,
    paired,
    records_by_index,
    records_by_source_offset,
    repeated,
    unreadable,
)
from ledger.mirror.tail_reading import TailReading
from ledger.mirror.window import SendWindow, Sent

# Between ------------------------------------------------------------------------------------------
# What lies at the target before a batch of the flow's own that landed further on than expected (P6).


class Between:
    """P6: it is read before the batch is settled; a record of the flow's own in it was written twice.

    `landed`: the batch. `own`: what of it the flow wrote, as far as it was read.
    """

    def __init__(self, landed: Sent, producer: FlowProducer) -> None:
        self.landed = landed
        self.own: list[TailBatch] = []
        self._producer = producer
        self._others: ForeignRecords | None = None
        self._markers: list[OffsetRange] = []

    def take(self, tail: TargetTail) -> None:
        """Take what was read of it."""
        self._others = self._others or tail.others(self._producer, below=self.landed.landed_offset)
        self._markers = tail.markers
        while (found := tail.head) is not None:
            tail.pop()
            is_own = self._producer.wrote(found.header.producer_id)
            if is_own and found.header.base_offset < self.landed.landed_offset:
                self.own.append(found)

    def stop(self, assignment: Assignment) -> Stop | None:
        """Why nothing may be written after it; None where others may write, or markers of transactions alone came, and
        the flow wrote nothing twice."""
        if self.own:
            return repeated(self.own)
        between = self.landed.expected_offset, self.landed.landed_offset
        if not assignment.exclusive or not list(without(between, self._markers)):
            return None
        return landed_behind(
            self.landed.landed_offset,
            expected=self.landed.expected_offset,
            between=self._others,
            own=assignment.producer.current,
        )


# Reconciliation -----------------------------------------------------------------------------------


class TailReconciliation:
    """P2, P6: what is at the target is known before anything is sent there, and what came between before it is settled.

    It settles what `window` has sent, and starts over with it and with `source` where that is not enough.
    `builder`: what is proved to be at the target. `stop`: why nothing more is written. `lost_from`: the target offset
    at which a batch landed though this flow had written beyond it. `copied_again`: as a `PartitionResult` has it.
    `markers`: what was read at the target.
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
        self.markers = set[OffsetRange]()
        self._producer = assignment.producer
        self._source = source
        self._window = window
        self._requests = requests
        self._troubles = troubles
        self.builder = SyncBuilder(assignment)
        self._tail_start = assignment.tail.start
        self.reading = TailReading(assignment, window, self.builder)
        self.lost_from: int | None = None
        self._has_expired = False
        """Own records were deleted at the target before anybody read them."""
        self._begin()

    def start_over(self) -> None:
        """Fall back to what is settled; what is on its way is found in the tail, or sent again (P4)."""
        self._requests.begin_again()
        self._begin()

    def _begin(self) -> None:
        at = self.builder.position
        next_offset = max(at.target_offset, self._tail_start, self.assignment.target_log_start)
        self._source.go_back_to(at)
        self._window.begin_again(next_offset=next_offset, next_sequence=at.next_sequence)
        self.reading.begin_again(next_offset)
        self._between: Between | None = None
        self._search: TailSearch | None = None
        self._was_searched = False
        """The search of the tail proved nothing: it is examined batch by batch, and not searched again."""
        self._is_concluding = False
        self.needs_more_source = False
        """What lies at the target begins with all that is planned, however much that is."""
        self._may_guess = False
        """It could not even be searched, so nothing speaks against what else tells that a batch is a copy."""

    # -- what is known ---------------------------------------------------------------------------

    @property
    def tail(self) -> TargetTail:
        """What was read of what lies at the target behind what is settled."""
        return self.reading.tail

    @property
    def is_active(self) -> bool:
        """Still has something to do in this task."""
        return self.stop is None and not self.has_reached_end and not self.has_paired

    @property
    def has_reached_end(self) -> bool:
        end_offset = self.assignment.end_offset
        is_there = end_offset is not None and self.builder.position.source_offset >= end_offset
        is_seen = self._source.ends is not None and not self.tail.needs_read
        return is_there and (is_seen or self.assignment.tail.both_sides_seen)

    @property
    def may_send(self) -> bool:
        """P2."""
        is_known = self.tail.complete and self.tail.head is None
        return self.stop is None and is_known and self.assignment.pairs_below is None

    @property
    def has_paired(self) -> bool:
        """All that the flow wrote is recorded, the source knows where it stands, and nothing else was asked for."""
        is_done = self.has_read_tail and self.tail.head is None and self._source.ends is not None
        return self.assignment.pairs_below is not None and self.stop is None and is_done

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
        if not self.tail.needs_read:
            return False
        idle = not self._requests.is_open(RequestKind.TAIL) and not self._requests.is_open(RequestKind.WRITE)
        return idle and self.is_active and now >= self._troubles.retry_at

    def take_tail(
        self, records: memoryview, *, high_watermark: int, diverging_end: int | None = None
    ) -> None:
        """Take the next piece of what the target holds past the recorded end, or between (P6); bad bytes stop it.

        `diverging_end`: what it said of the leader epoch that it was asked by, in place of records.
        """
        if (stop := self.reading.take_divergence(diverging_end)) is not None:
            self.stop_at_once(stop)
        if diverging_end is not None:
            return
        between, below = self._between, self.assignment.pairs_below
        end = high_watermark if below is None else min(high_watermark, below)
        try:
            self.tail.add(records, high_watermark=end if between is None else between.landed.landed_offset)
        except ProtocolError as error:
            self.stop_at_once(unreadable(self.tail, error))
            return
        self._troubles.settle_trouble(Side.TARGET)
        if self.assignment.exclusive:
            self.markers.update(self.tail.markers)
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
        for batch in between.own:
            self.builder.repeated(
                first_sequence=batch.header.base_sequence,
                target_start=batch.header.base_offset,
                count=batch.written,
                producer_id=batch.header.producer_id,
            )
        self._window.settle_oldest(self.builder)
        if (stop := between.stop(self.assignment)) is not None:
            self.stop_at_once(stop)
        self.advance()

    # -- what is there and what is planned -------------------------------------------------------

    def take_step(self, step: Planned) -> None:
        """The next step of the source's plan: to be sent, unless it is searched at the target."""
        if self._search is not None:
            for one in step.singles() if isinstance(step, SmallBatches) else [step]:
                self._search.take_step(one)
        else:
            self._window.plan(step)

    def acknowledged(self, base_offset: int) -> Copy | None:
        """The oldest unacknowledged batch lies at `base_offset` (acks=all); None: that is below what it was sent to."""
        is_first = not self._window.is_known_to_target
        sent = self._window.take_acknowledgement()
        if base_offset < sent.expected_offset:
            self._landed_below(base_offset, sent.expected_offset)
            return None
        sent.land_at(base_offset)
        may_hide_own = is_first or self.assignment.exclusive
        if base_offset > sent.expected_offset and may_hide_own and self._between is None:
            self._between = Between(sent, self._producer)  # P6
            self.reading.read_between(sent.expected_offset)
        self._settle()
        assert isinstance(sent.step, Copy), "it was sent"
        return sent.step

    def _landed_below(self, base_offset: int, expected_offset: int) -> None:
        """A log that goes back has lost records: others' alone, or those that were recorded as this flow's."""
        if base_offset >= self.builder.position.target_offset:
            self._tail_start = 0
            self.start_over()
            return
        self.lost_from = base_offset
        self.stop_at_once(landed_below(base_offset, expected=expected_offset))

    def advance(self) -> None:
        """Skip gaps and recognise what the target already holds, as far as possible without IO."""
        if self._search is not None:
            self._continue_search(self._search)
            return
        while self.stop is None and self._advance_once():
            pass
        self._settle()
        if self.tail.complete and self.tail.head is None and self._window.is_settled:
            if self.builder.position.target_offset < self.assignment.target_log_start:
                self._begin_behind_expired(None)
            # Transaction markers at the target take an offset each and hold no record.
            self._window.expect_behind(max(self.tail.position, self.builder.position.target_offset))

    def _advance_once(self) -> bool:
        """One step further; False when only IO brings more."""
        self.needs_more_source = False
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
        if self.builder.position.target_offset < self.assignment.target_log_start:
            self._begin_behind_expired(found.header)
        if self._was_searched and self.assignment.copies_tail_again:
            self._leave_unpaired(found, SyncCause.COMPACTED)
            return True
        copy = self._window.first_copy
        if copy is None:
            return False
        return self._recognise(copy, found)

    def _may_be_in_tail(self, step: Skip) -> bool:
        """A hole is skipped once it is known that nothing of the tail is a copy of what was there."""
        is_read = self.tail.complete and self.tail.head is None
        return step.gap.cause is GapCause.COMPACTED and not is_read

    def _begin_behind_expired(self, first: BatchHeader | None) -> None:
        """Continue where the target's log begins, or at the flow's own `first` batch there if that reaches below.

        Retention deleted what lay before. The next sequence is that of this batch, else the one that the target
        remembers. Where both are unknown it is the expected one, as if nothing of the flow was deleted: the target
        refuses the next batch if anything was.
        """
        self._settle()
        begins, reported = self.assignment.target_log_start, self.assignment.remembered_sequence
        end = begins if first is None else min(begins, first.base_offset)
        if end <= self.builder.position.target_offset:
            return
        expected = self.builder.position.next_sequence
        following = expected if reported is None else reported
        if first is not None and first.producer_id == self._producer.current:
            following = first.base_sequence
        if following != expected:
            self._has_expired = True
        self.builder.expired(target_end=end, next_sequence=following, first=first)
        self._window.expect_next(offset=self._window.next_offset, sequence=following)

    def _recognise(self, step: Copy, found: TailBatch) -> bool:
        """Pair one planned step with the head of the tail; False when only IO brings more."""
        self._settle()
        expected = self._expected_sequence(found)
        in_sequence = found.header.base_sequence == expected
        may_pair = in_sequence and (self._may_guess or not self._is_behind_hole)
        written = paired(step, found, others_may_be_deleted=self._source_may_be_deleted) if may_pair else None
        if written is None and may_pair and (parts := self._cut_as(step, found)) is not None:
            self._window.replace_first_copy(parts)
            return True
        if written is None and may_pair and (is_merged := self._merge_as(found)) is not None:
            return is_merged
        if written is None and not self._was_searched and not self._is_accepted(found):
            self._begin_search()
            return True
        if written is None:
            self._meet_unpaired(
                found,
                f"source offset {step.source_start} and sequence {expected} were expected there",
                source_has_holes=in_sequence and any(gap.cause is GapCause.COMPACTED for gap in step.gaps),
            )
            return True
        self._troubles.settle_trouble(WRITING)
        self._record_first(written, found)
        self._pass(found)
        return True

    def _record_first(self, written: Copy, found: TailBatch, index: int = 0) -> None:
        """The next step that has a batch lies in the target's batch, from its record `index` on."""
        while isinstance(self._window.first, Skip):
            self._window.pass_first()
        self._settle()
        self._window.take_first()
        at = found.header
        base_offset = at.base_offset + index
        self.builder.copied(written, base_offset=base_offset, recovered=True, producer_id=at.producer_id)

    def _merge_as(self, found: TailBatch) -> bool | None:
        """Several steps become one where the batch is what they were merged to; None where it is not.

        False where the batch begins with them and more of the source has to be read, also behind the end that the
        task goes to. Where the source has no more than that, it may show less than it has, so that is for the end of
        the task to say, unless what is lacking may be deleted.
        """
        parts, is_open = parts_of(self._window.copies(), found.written)
        whole = merged(parts) if parts else None
        if whole is None or not begins(whole, found):
            return None
        if whole.count == found.written:
            if len(parts) == 1 or not paired(whole, found, others_may_be_deleted=self._source_may_be_deleted):
                return None
            self._window.merge_first(parts, whole)
            return True
        if not is_open or (self._source.is_drained and self._source_may_be_deleted):
            return None
        self._source.reach(whole.source_start + found.written)
        if not (self._source.is_drained and self._is_concluding):
            self.needs_more_source = True
            return False
        self._meet_unpaired(found, "the source has no more records")
        return True

    def _cut_as(self, step: Copy, found: TailBatch) -> Sequence[Step] | None:
        """The step in parts, the first of which is the batch: the target had refused the step, and it was cut.

        A step of which it had refused every record, for none has a key, is a gap where the batch is of a later one.
        """
        try:
            for whole in ([step], self._keyed(step)):
                at = next((at for at, part in enumerate(whole) if isinstance(part, Copy)), None)
                if at is None:
                    later = [part for one in self._window.planned for part in self._keyed(one)]
                    first = next((part for part in later if isinstance(part, Copy)), None)
                    return whole if first is not None and self._is_begun_by(first, found) else None
                copy = whole[at]
                assert isinstance(copy, Copy)
                if self._is_begun_by(copy, found) and (cut_behind(copy, found.written) != [step]):
                    return [*whole[:at], *cut_behind(copy, found.written), *whole[at + 1 :]]
        except ProtocolError:
            pass  # bytes that cannot be decoded prove nothing
        return None

    def _keyed(self, step: Step) -> list[Step]:
        is_whole = isinstance(step, Skip) or not self.assignment.is_source_cleaned
        return [step] if is_whole or not isinstance(step, Copy) else without_keyless(step)

    def _is_begun_by(self, copy: Copy, found: TailBatch) -> bool:
        first = cut_behind(copy, found.written)[0]
        may_be_deleted = self._source_may_be_deleted
        return isinstance(first, Copy) and bool(paired(first, found, others_may_be_deleted=may_be_deleted))

    def _pass(self, found: TailBatch) -> None:
        at = self.builder.position
        self._window.expect_next(offset=at.target_offset, sequence=at.next_sequence)
        self._take_over(found)

    def _take_over(self, found: TailBatch) -> None:
        self.tail.pop()
        self._window.expect_behind(found.header.end_offset)

    def _meet_unpaired(self, found: TailBatch, expected: str, *, source_has_holes: bool = False) -> None:
        """The flow's own records without a source: recorded as such where that is explained, else a stop."""
        cause = self._explanation(found, source_has_holes=source_has_holes)
        if cause is None:
            self.stop_at_once(not_explained(found, expected=expected))
        else:
            self._leave_unpaired(found, cause)

    def _leave_unpaired(self, found: TailBatch, cause: SyncCause) -> None:
        self._settle()
        known = self._record_beginning(found) if self._may_part(found, cause) else 0
        if known < found.written:
            self.builder.unpaired(
                first_sequence=next_sequence(found.header.base_sequence, known),
                target_start=found.header.base_offset + known,
                count=found.written - known,
                cause=cause,
                producer_id=found.header.producer_id,
            )
        self._pass(found)

    def _may_part(self, found: TailBatch, cause: SyncCause) -> bool:
        """Whether the source may have lost its end in the middle of a batch: its next record is the batch's first."""
        in_sequence = found.header.base_sequence == self._expected_sequence(found)
        is_pairing = self.assignment.pairs_below is not None
        is_next = not self._is_behind_hole and (is_pairing or not self._source_may_be_deleted)
        return cause in (SyncCause.LOST_SOURCE, SyncCause.ACCEPTED) and in_sequence and is_next

    def _record_beginning(self, found: TailBatch) -> int:
        """Pair the first records of a batch one by one up to where the source parts from it; returns how many."""
        count = 0
        try:
            stored = records_by_index(found)
            while (copy := self._window.first_copy) is not None:
                wanted = enumerate(records_by_source_offset(copy).values(), start=count)
                same = sum(1 for _ in takewhile(lambda one: stored.get(one[0]) == one[1], wanted))
                if not same:
                    break
                part, *rest = cut_behind(copy, same)
                assert isinstance(part, Copy), "it begins with a record"
                self._window.replace_first_copy([part, *rest])
                self._record_first(part, found, count)
                count += same
        except ProtocolError:
            pass  # bytes that cannot be decoded prove nothing
        return count

    def _meet_foreign(self, found: TailBatch) -> None:
        if self.assignment.exclusive and not self._is_accepted(found) and found.header.count:
            others = self.tail.others(self._producer) or ForeignRecords.beginning(found.header)
            self.stop_at_once(foreign(others, own=self._producer.current))
            return
        self._take_over(found)

    # -- why own records may have no source any more: what is not explained stops the partition -----------

    def _expected_sequence(self, found: TailBatch) -> int | None:
        """The next sequence of the batch's producer id; None when it is not known any more."""
        producer_id = found.header.producer_id
        is_current = producer_id == self._producer.current
        return self._window.next_sequence if is_current else self.builder.former_next(producer_id)

    @property
    def _is_behind_hole(self) -> bool:
        """A cleaner took what was before the next record, and an equal one may have been there."""
        return isinstance(self._window.first, Skip)

    @property
    def _source_may_be_deleted(self) -> bool:
        """Whether source records before the next one may be deleted that this flow had copied."""
        is_hole_passed = self._is_behind_hole or self.builder.ends_in_hole
        return is_hole_passed or self.assignment.position.source_may_be_deleted or self._has_expired

    def _is_accepted(self, found: TailBatch) -> bool:
        """An operator has accepted what lies there."""
        return found.header.base_offset < self.assignment.accepted_below

    def _explanation(self, found: TailBatch, *, source_has_holes: bool) -> SyncCause | None:
        """Why a batch of the flow's own has no source record; None when nothing explains it."""
        if self._is_accepted(found):
            return SyncCause.ACCEPTED
        in_sequence = found.header.base_sequence == self._expected_sequence(found)
        if in_sequence and (source_has_holes or self._source_may_be_deleted):
            return SyncCause.LOST_SOURCE
        return SyncCause.COMPACTED if self.assignment.copies_tail_again else None

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
            self.builder,
            source_may_be_deleted=self.assignment.position.source_may_be_deleted,
            is_target_cleaned=self.assignment.is_target_cleaned,
            is_target_known=not self._has_expired,
        )

    def _continue_search(self, search: TailSearch) -> None:
        while self.stop is None and (found := self.tail.head) is not None:
            if self._producer.wrote(found.header.producer_id):
                search.take_batch(found, self._expected_sequence(found))
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
            self.copied_again = copied_again(
                self.builder.position.target_offset, self.builder.position.source_offset
            )
        if proof is not None and (self.assignment.copies_tail_again or not is_lost):
            search.leave_unpaired(proof.rest)
        self.start_over()
        self._was_searched, self._may_guess = proof is None, search.is_given_up

    # -- recording -------------------------------------------------------------------------------

    def _settle(self) -> None:
        """As far as it goes: not up to a batch whose surroundings are not known yet (P6).

        Behind a stop nothing is read any more: what has others before it is left to the next attempt.
        """
        self._window.settle(
            self.builder,
            waiting=None if self._between is None else self._between.landed,
            only_adjacent=self.stop is not None and self.assignment.exclusive,
        )

    def conclude(self) -> None:
        """The task ends: own records that still wait at the target for a source which has no more are unpaired.

        Not sooner: right after a change of leader a source may show less than it has.
        """
        while self._waits_in_vain and self.tail.head is not None:
            if self._producer.wrote(self.tail.head.header.producer_id):
                self._meet_unpaired(self.tail.head, "the source has no more records")
            else:
                self._meet_foreign(self.tail.head)
        self._is_concluding = True
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
