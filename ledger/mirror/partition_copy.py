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
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from ledger.domain.facts import TopicPartition
from ledger.errors import ProtocolError
from ledger.mirror.assignments import Assignment, PartitionResult, Stop, StopCause
from ledger.mirror.batch_plan import Copy, Skip, Step, plan_batches
from ledger.mirror.sync_builder import SyncBuilder
from ledger.mirror.tail import TailBatch, TargetTail, same_records
from ledger.wire.record_batch import next_sequence, patch_for_target
from ledger.wire.requests import Fetched


class Side(StrEnum):
    """Which cluster of a copy."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(slots=True)
class _Sent:
    """A step on its way; `base_offset` is set by the acknowledgement."""

    step: Step
    expected_offset: int
    base_offset: int | None = None


class PartitionCopy:
    """The state of one partition; does no IO and knows no clock beyond the instants passed in."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.generation = 0
        self.fetching = False
        self.reading_tail = False
        self.produce_requests = 0
        self.retry_at = 0.0
        self.stop: Stop | None = None
        self._failures: dict[Side, int] = {}
        self._troubles: dict[Side, str] = {}
        self._node: int | None = None
        self._builder = SyncBuilder(assignment)
        self._fall_back()

    def _fall_back(self) -> None:
        self._pending: deque[Step] = deque()
        self.pending_bytes = 0
        self._unsettled: deque[_Sent] = deque()
        self._is_known_to_target = False
        self.fetch_position = self._builder.position
        self._next_offset = self._builder.target_end
        self._next_sequence = self._builder.next_sequence
        self.tail = TargetTail(start=self._builder.target_end)

    def side(self, side: Side) -> TopicPartition:
        """The partition at one side."""
        return self.assignment.source if side is Side.SOURCE else self.assignment.target

    @property
    def is_active(self) -> bool:
        """Still has something to do in this task."""
        return self.stop is None and not self.has_reached_end

    @property
    def has_reached_end(self) -> bool:
        stop_at = self.assignment.stop_at
        return stop_at is not None and self._builder.position >= stop_at

    @property
    def has_more(self) -> bool:
        """Fetched records are on their way, or still to be sent."""
        return bool(self._unsettled or self._pending)

    def wants_tail(self, now: float) -> bool:
        """P2, P4: the tail is read when no request of this partition can still change it."""
        idle = not self.reading_tail and self.produce_requests == 0
        return self.is_active and idle and self.tail.needs_read and now >= self.retry_at

    def wants_records(self, now: float, *, buffer_limit: int) -> bool:
        stop_at = self.assignment.stop_at
        wanted = stop_at is None or self.fetch_position < stop_at
        room = self.pending_bytes < buffer_limit
        return self.is_active and wanted and room and not self.fetching and now >= self.retry_at

    def take_fetched(self, fetched: Fetched) -> None:
        """Plan the batches of a successful Fetch response; bad bytes stop the partition."""
        self.settle_trouble(Side.SOURCE)
        try:
            for step in plan_batches(
                fetched,
                position=self.fetch_position,
                stop_at=self.assignment.stop_at,
                mirror_producer_ids=self.assignment.mirror_producer_ids,
            ):
                self._plan(step)
        except ProtocolError as error:
            self.halt(StopCause.CORRUPT, str(error))
        self.advance()

    def _plan(self, step: Step) -> None:
        self._pending.append(step)
        self.fetch_position = step.source_end
        if isinstance(step, Copy):
            self.pending_bytes += len(step.batch)

    def take_tail(self, records: memoryview, *, high_watermark: int) -> None:
        self.tail.add(records, high_watermark=high_watermark)
        self.settle_trouble(Side.TARGET)
        self.advance()

    def advance(self) -> None:
        """Pass over gaps and recognise what the target already holds, as far as possible without IO."""
        while self.stop is None and self._pending:
            step = self._pending[0]
            if isinstance(step, Skip):
                self._unsettled.append(_Sent(step, self._next_offset))
                self._pending.popleft()
            elif self.tail.head is None or not self._recognise(step, self.tail.head):
                break
        self._settle()
        while self.stop is None and self.tail.head is not None and not self._is_own(self.tail.head):
            self._meet_foreign(self.tail.head)
        if self.tail.complete and self.tail.head is None and not self._unsettled:
            # Transaction markers at the target take an offset each and hold no record.
            self._next_offset = max(self._next_offset, self.tail.position)

    def _is_own(self, found: TailBatch) -> bool:
        return found.header.producer_id == self.assignment.producer_id

    def _recognise(self, step: Copy, found: TailBatch) -> bool:
        """Pair one planned step with the head of the tail; False when there is nothing more to pair."""
        if not self._is_own(found):
            self._meet_foreign(found)
            return self.stop is None
        if found.header.base_sequence != self._next_sequence or not self._holds(step, found):
            self.halt(
                StopCause.TAIL_MISMATCH,
                f"target offset {found.header.base_offset} holds {found.header.count} records of this flow with "
                f"sequence {found.header.base_sequence}, but source offset {step.source_start} and sequence "
                f"{self._next_sequence} were expected there; nothing was written",
            )
            return False
        self._pending.popleft()
        self.pending_bytes -= len(step.batch)
        self._settle()
        self._builder.copied(step, base_offset=found.header.base_offset, recovered=True)
        self._next_offset = self._builder.target_end
        self._next_sequence = self._builder.next_sequence
        self.tail.pop()
        return True

    def _holds(self, step: Copy, found: TailBatch) -> bool:
        """Whether the batch on the target is the step's; bytes that cannot be decoded prove nothing."""
        try:
            return same_records(step, found)
        except ProtocolError:
            return False

    def _meet_foreign(self, found: TailBatch) -> None:
        if self.assignment.exclusive:
            self.halt(
                StopCause.FOREIGN_WRITE,
                f"target offset {found.header.base_offset} was written by producer id {found.header.producer_id}, "
                f"not by this flow's {self.assignment.producer_id}; nothing was written after it",
            )
            return
        self._next_offset = found.header.end_offset
        self.tail.pop()

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
        self.pending_bytes -= len(step.batch)
        self._unsettled.append(_Sent(step, self._next_offset))
        self._next_offset += step.count
        self._next_sequence = next_sequence(self._next_sequence, step.count)
        self.advance()
        return step.batch

    def acknowledged(self, base_offset: int) -> None:
        """The oldest unacknowledged batch lies at `base_offset` (acks=all)."""
        self.settle_trouble(Side.TARGET)
        self._is_known_to_target = True
        sent = next(
            entry for entry in self._unsettled if isinstance(entry.step, Copy) and entry.base_offset is None
        )
        sent.base_offset = base_offset
        self._settle()
        if self.assignment.exclusive and base_offset != sent.expected_offset and self.stop is None:
            self.halt(
                StopCause.FOREIGN_WRITE,
                f"a batch was expected at target offset {sent.expected_offset} and landed at {base_offset}: "
                "somebody else writes to this exclusive target; nothing was written after it",
            )

    def _settle(self) -> None:
        while self._unsettled:
            sent = self._unsettled[0]
            if isinstance(sent.step, Skip):
                self._builder.skip(sent.step)
            elif sent.base_offset is None:
                return
            else:
                self._builder.copied(sent.step, base_offset=sent.base_offset, recovered=False)
            self._unsettled.popleft()

    @property
    def trouble(self) -> str | None:
        """What keeps the partition from getting on; one side's success says nothing about the other."""
        return next(iter(self._troubles.values()), None)

    def failures(self, side: Side) -> int:
        """Failures at one side since something worked there."""
        return self._failures.get(side, 0)

    def settle_trouble(self, side: Side) -> None:
        """Something worked again."""
        self._failures.pop(side, None)
        self._troubles.pop(side, None)

    def note(self, side: Side, trouble: str) -> None:
        """Something is not as it should be; a reason that is known already stays."""
        self._troubles.setdefault(side, trouble)

    def doubt(self, trouble: str, *, now: float) -> None:
        """P4: fall back to what is settled and start over after a pause that grows with every failure."""
        self.generation += 1
        self.pause(Side.TARGET, trouble, now=now)
        self._fall_back()

    def pause(self, side: Side, trouble: str, *, now: float) -> None:
        """A read failed: nothing is in doubt, try again after a pause."""
        failures = self._failures[side] = self.failures(side) + 1
        self._troubles[side] = trouble
        self.retry_at = now + min(0.05 * 2 ** min(failures, 6), 2.0)

    def halt(self, cause: StopCause, message: str) -> None:
        self.stop = Stop(cause, message)

    def result(self) -> PartitionResult:
        return PartitionResult(
            assignment=self.assignment,
            syncs=self._builder.syncs(),
            position=self._builder.position,
            target_end=self._builder.target_end,
            next_sequence=self._builder.next_sequence,
            stop=self.stop,
            trouble=self.trouble,
        )
