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

from dataclasses import replace

from ledger.domain.position import TailKnowledge
from ledger.errors import ProtocolError
from ledger.mirror import partition_stops
from ledger.mirror.assignments import Divergence, PartitionResult, StopCause
from ledger.mirror.batch_plan import Copy, Step, plan_batches
from ledger.mirror.sent import Sent
from ledger.mirror.tail import TargetTail
from ledger.mirror.tail_reconciliation import TailReconciliation
from ledger.mirror.troubles import LEDGER, WRITING, Side
from ledger.wire.record_batch import next_sequence, patch_for_target
from ledger.wire.requests import Fetched


class PartitionCopy(TailReconciliation):
    """The state of one partition; does no IO and knows no clock beyond the instants passed in."""

    @property
    def gap_count(self) -> int:
        """Gaps that wait to be recorded."""
        return self._builder.gap_count

    @property
    def has_more(self) -> bool:
        """Fetched records are on their way, or still to be sent."""
        return bool(self._unsettled or self._pending)

    def wants_records(self, now: float, *, buffer_limit: int) -> bool:
        """Not before the tail is read: what cannot be sent yet would take the room of what can."""
        stop_at = self.assignment.stop_at
        is_first = self._source_ends is None and not self.assignment.tail.both_sides_seen
        wanted = stop_at is None or self.fetch_position < stop_at or is_first
        has_enough = self._search is not None and self._search.has_enough_source
        room = self.pending_bytes < buffer_limit and not self.tail.needs_read and not has_enough
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
        self.fetch_position = step.source_end
        if step.leader_epoch is not None:
            self.fetch_epoch = step.leader_epoch
        if self._search is not None:
            self._search.take_step(step)
            return
        self._pending.append(step)
        self.pending_bytes += step.held_bytes

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
        if base_offset >= self._builder.position.target_offset:
            self.generation += 1
            self._tail_start = 0
            self._fall_back()
            return
        self._target_lost_from = base_offset
        self.stop_at_once(partition_stops.landed_below(base_offset, expected=expected_offset))

    def doubt(self, trouble: str, *, now: float) -> None:
        """P4: fall back to what is settled and start over after a pause.

        The tail can be read where nothing can be written: the trouble lasts until a batch is known to be there.
        """
        self.generation += 1
        self.pause(Side.TARGET, trouble, now=now)
        self.trouble_writing(trouble)
        self._fall_back()

    def _next_tail_start(self) -> int:
        """A target that others fill is not read again from the flow's last record in every round."""
        if self.assignment.exclusive or self.stop is not None or self._search is not None:
            return 0
        if self._landed is not None:
            return self._landed.expected_offset
        return self.tail.position if self.tail.head is None else self.tail.head.header.base_offset

    def result(self) -> PartitionResult:
        syncs = self._builder.syncs()
        has_read_tail = self.tail.complete and self._search is None
        position = self._builder.position.told_by(syncs)
        return PartitionResult(
            assignment=self.assignment,
            syncs=syncs,
            position=replace(position, former_sequence=None) if has_read_tail else position,
            tail=self._tail_knowledge(has_read_tail=has_read_tail),
            stop=self.stop,
            trouble=self.trouble,
            unreached=self.unreached,
            throttled_ms=self.throttled_ms,
            divergence=self._divergence,
            target_lost_from=self._target_lost_from,
            source_ends=self._source_ends,
            copied_again=self.copied_again,
        )

    def _tail_knowledge(self, *, has_read_tail: bool) -> TailKnowledge:
        """For the next task; of a partition that stops nothing is known of where its tail begins."""
        are_seen = self._source_ends is not None and has_read_tail and self.tail.head is None
        return TailKnowledge(
            start=self._next_tail_start(),
            leader_epoch=self._target_leader_epoch,
            refused_sequences=0 if self.stop is not None else self.refused_sequences,
            both_sides_seen=are_seen or self.assignment.tail.both_sides_seen,
        )
