"""One partition inside a copy task: from fetched source bytes to acknowledged target offsets.

It joins parts that each hold rules which PROTOCOL.md numbers ("Copying a partition"): P1, P3 and P5 `SendWindow`, P2
and P6 `TailReconciliation`, P4 `OpenRequests` and `Troubles`.
"""

from collections.abc import Collection
from dataclasses import replace

from ledger.durations import Durations
from ledger.errors import ProtocolError, UnpackedSizeError
from ledger.facts.findings import Side
from ledger.facts.state import MirrorProducers
from ledger.kafka.requests import Fetched, describe
from ledger.mirror import tail
from ledger.mirror.assignment import (
    LEDGER,
    WRITING,
    Assignment,
    OpenRequests,
    PartitionResult,
    RefusedRecord,
    RequestKind,
    Stop,
    StopCause,
    Troubles,
)
from ledger.mirror.cutting import BY_SIZE, Cutting, dead_letter
from ledger.mirror.merging import Merging
from ledger.mirror.reconciliation import TailReconciliation
from ledger.mirror.source import SourceReading
from ledger.mirror.source_history import SourceComparison
from ledger.mirror.steps import Copy, Planned, Skip, SmallBatches
from ledger.mirror.window import SendWindow

_REFUSED_SEQUENCES = 6


class PartitionCopy:
    """The state of one partition; does no IO and knows no clock beyond the instants passed in.

    Whoever copies asks the parts themselves; here is what concerns several of them.
    """

    def __init__(self, assignment: Assignment, writers: MirrorProducers, *, merges_up_to: int = 0) -> None:
        """`merges_up_to`: bytes of a batch that is merged of several; 0: none is."""
        self.assignment = assignment
        self.troubles = Troubles()
        self.requests = OpenRequests()
        together = merges_up_to > 0 and assignment.dead_letter is None
        self.source = SourceReading(assignment, writers, together=together)
        self.window = SendWindow(assignment.producer.current, self.requests)
        self.target = TailReconciliation(assignment, self.source, self.window, self.requests, self.troubles)
        self.comparison = SourceComparison(assignment, self.source, self.target.reading)
        self._cutting = Cutting(assignment.is_source_cleaned)
        self.merging = Merging(merges_up_to)
        self._latency = Durations()
        self._refused: RefusedRecord | None = None
        self._refuses_id = False
        self._refused_sequences = assignment.tail.refused_sequences

    # -- reading the source ----------------------------------------------------------------------

    def wants_records(self, now: float, *, buffer_limit: int) -> bool:
        """Not before the tail is read: what cannot be sent yet would take the room of what can."""
        if self.requests.is_open(RequestKind.RECORDS) or now < self.troubles.retry_at:
            return False
        is_first = self.source.ends is None and not self.assignment.tail.both_sides_seen
        wanted = not self.source.is_at_end or is_first
        has_room = self.window.planned_bytes < buffer_limit or self.target.needs_more_source
        room = has_room and not self.target.tail.needs_read
        return wanted and room and self.target.is_active and not self.target.has_enough_source

    @property
    def replica(self) -> int | None:
        """The node to read the source from in the leader's place.

        Not while it has to be found out what of the target's tail the source has: that is the leader's word.
        """
        return self.source.replica if self.target.may_send and not self.comparison.is_due else None

    @property
    def may_read_nearest(self) -> bool:
        """The leader may name such a node."""
        return self.target.may_send and self.source.may_read_nearest and not self.comparison.is_due

    def take_fetched(self, fetched: Fetched, *, of_replica: bool = False) -> None:
        """Plan the batches of a successful Fetch response; bad bytes stop the partition.

        `of_replica`: it is none of the leader's. Raises `LedgerUnavailableError` at a batch whose writer cannot be
        looked up; those before it are planned.
        """
        self.troubles.settle_trouble(Side.SOURCE)
        if of_replica and not self.source.note_replica(fetched):
            return
        divergence = None if of_replica else self.source.note(fetched)
        if divergence is not None:
            stop = tail.source_truncated(self.source.position, self.source.leader_epoch, divergence)
            self.target.stop_at_once(stop)
            return
        try:
            if self.comparison.is_due and (of_replica or not self._is_as_copied(fetched)):
                return
            for step in self.source.steps(fetched):
                if (wanted := self._wanted(step)) is not None:
                    self.target.take_step(wanted)
            self.troubles.settle_trouble(LEDGER)
        except ProtocolError as error:
            is_too_large = isinstance(error, UnpackedSizeError)
            if is_too_large and self.target.may_send and not self.window.is_empty:
                return  # it is met again when what lies before it is copied
            self.halt(StopCause.TOO_LARGE if is_too_large else StopCause.CORRUPT, str(error))
        finally:
            self.target.advance()

    def _is_as_copied(self, fetched: Fetched) -> bool:
        """Whether the source holds what was copied last, as far as that can be compared: then the answer is planned."""
        if not self.target.reading.is_last_known:
            self.target.start_over()
            return False
        at = self.target.builder.position
        is_same = self.comparison.finds_same(fetched, at)
        if is_same is False:
            self.target.stop_at_once(tail.source_differs(at.source_offset))
        return bool(is_same)

    def _wanted(self, step: Planned) -> Planned | None:
        """Of a dead letter's task nothing but that record."""
        cause, source = self.assignment.dead_letter, self.assignment.source
        if cause is None or isinstance(step, SmallBatches):
            return step
        return dead_letter(step, source, self.assignment.position.source_offset, cause)

    # -- writing ---------------------------------------------------------------------------------

    @property
    def next_copy(self) -> Copy | SmallBatches | None:
        """What is sent next, or begins with that, if there is anything: P1 and P2 hold for it."""
        while self.target.may_send and not isinstance(first := self.window.first, Skip | None):
            if isinstance(first, SmallBatches) and not self._cutting.has_refused:
                return first
            step = self.window.first_copy
            assert step is not None
            if (parts := self._cutting.parts(step)) == [step]:
                return step
            self.window.replace_first_copy(parts)
            self.target.advance()
        return None

    def send_next(self, node: int) -> memoryview:
        """The next step's batch, counted as sent; call only when `next_copy` is not None.

        With those that wait behind it and may be merged with it.
        """
        if not self._cutting.has_refused:
            self.merging.merge_first(self.window)
        step = self.window.first_copy
        assert step is not None
        self.merging.sent(step, settled=self.target.builder.position.source_offset)
        batch = self.window.send_first(node)
        self.target.advance()
        return batch

    def acknowledged(self, base_offset: int, *, at_ms: int) -> None:
        """The oldest unacknowledged batch lies at `base_offset` (acks=all); `at_ms`: when that was said, by the clock
        that a producer's time is compared with."""
        if self.target.lost_from is not None:
            return  # what else is on its way landed behind that and is found by reconciliation
        self.troubles.settle_trouble(Side.TARGET)
        self.troubles.settle_trouble(WRITING)
        self._refused_sequences = 0
        landed = self.target.acknowledged(base_offset)
        if landed is not None and landed.base_timestamp >= 0:
            self._latency.add((at_ms - landed.base_timestamp) / 1000)

    def doubt(self, trouble: str, *, now: float) -> None:
        """P4: fall back to what is settled and start over after a pause.

        The tail can be read where nothing can be written: the trouble lasts until a batch is known to be there.
        """
        self.troubles.pause(Side.TARGET, trouble, now=now)
        self.troubles.trouble_writing(trouble)
        self.target.start_over()

    def refused(self, code: int, detail: str, *, indexes: Collection[int], now: float) -> None:
        """The target does not take the oldest batch that waits: it is cut, and a record alone stops the partition.

        `indexes`: of the records in it that the target named.
        """
        step = self.window.oldest_sent
        if step is not None and self.merging.refused(step, is_too_large=code in BY_SIZE):
            self.target.start_over()
            return
        if step is not None and self._cutting.refused(step, code, detail, indexes=indexes):
            self.target.start_over()
            return
        if step is None:
            self.doubt(f"the target answered a produce request with error {detail}", now=now)
            return
        self._refused = RefusedRecord(step.source_start, describe(code))
        self.target.start_over()
        self.target.stop_at_once(tail.refused(step, code, detail))

    def sequence_refused(self) -> None:
        """45 means to read the tail: only when that has explained nothing several times is it a stop."""
        self._refused_sequences += 1
        if self._refused_sequences >= _REFUSED_SEQUENCES:
            self.target.stop_at_once(tail.sequence_refused(self._refused_sequences))

    # -- the end ---------------------------------------------------------------------------------

    def halt(self, cause: StopCause, message: str, *, refuses_id: bool = False) -> None:
        """Nothing more is sent; what is on its way is still settled."""
        self._refuses_id |= refuses_id
        self.target.stop_at_once(Stop(cause, message))

    def result(self) -> PartitionResult:
        """What was done; the copy is finished with."""
        target, troubles = self.target, self.troubles
        syncs = target.builder.syncs()
        position = target.builder.position.after(syncs)
        refused = 0 if target.stop is not None else self._refused_sequences
        return PartitionResult(
            assignment=self.assignment,
            syncs=syncs,
            position=replace(position, former_sequence=None) if target.has_read_tail else position,
            tail=replace(
                target.knowledge(), refused_sequences=refused, source_epoch=self.comparison.leader_epoch
            ),
            stop=target.stop,
            trouble=troubles.trouble,
            unreached=troubles.unreached,
            throttled_ms=troubles.throttled_ms,
            divergence=self.source.divergence,
            target_lost_from=target.lost_from,
            target_whole_below=target.reading.whole_below,
            source_ends=self.source.ends,
            copied_again=target.copied_again,
            has_paired=target.has_paired,
            cut=self._cutting.reason,
            refused=self._refused,
            refuses_id=self._refuses_id,
            latency=self._latency if self._latency else None,
            markers=tuple(at for at in sorted(target.markers) if at[1] <= position.target_offset),
            uncompared=self.comparison.was_impossible,
            seen_at=self.comparison.seen_at,
        )
