"""One partition inside a copy task: from fetched source bytes to acknowledged target offsets.

It joins parts that each hold rules which PROTOCOL.md numbers ("Copying a partition"): P1 and P5 `SendWindow`, P2 and P6
`TailReconciliation`, P3 `Settling`, P4 `OpenRequests` and `Troubles`.
"""

from dataclasses import replace

from ledger.errors import ProtocolError
from ledger.facts.findings import Side
from ledger.facts.state import MirrorProducers
from ledger.facts.syncs import TopicPartition
from ledger.kafka.requests import Fetched
from ledger.mirror import tail
from ledger.mirror.assignment import (
    LEDGER,
    WRITING,
    Asked,
    Assignment,
    OpenRequests,
    PartitionResult,
    Stop,
    StopCause,
    Troubles,
)
from ledger.mirror.batches import Copy, SourceReading
from ledger.mirror.reconciliation import TailReconciliation
from ledger.mirror.tail import TargetTail
from ledger.mirror.window import SendWindow

_REFUSED_SEQUENCES = 6


class PartitionCopy:
    """The state of one partition; does no IO and knows no clock beyond the instants passed in."""

    def __init__(self, assignment: Assignment, writers: MirrorProducers) -> None:
        self.assignment = assignment
        self.troubles = Troubles()
        self._requests = OpenRequests()
        self._source = SourceReading(assignment, writers)
        self._window = SendWindow(assignment.producer_id, self._requests)
        self._target = TailReconciliation(
            assignment, self._source, self._window, self._requests, self.troubles
        )
        self._refused_sequences = assignment.tail.refused_sequences

    def side(self, side: Side) -> TopicPartition:
        """The partition at one side."""
        return self.assignment.side(side)

    # -- how it stands ---------------------------------------------------------------------------

    @property
    def stop(self) -> Stop | None:
        """Why nothing more is written."""
        return self._target.stop

    @property
    def is_active(self) -> bool:
        """Still has something to do in this task."""
        return self._target.is_active

    @property
    def has_reached_end(self) -> bool:
        """All that it was to copy is at the target and settled."""
        return self._target.has_reached_end

    @property
    def gap_count(self) -> int:
        """Gaps that wait to be recorded."""
        return self._target.builder.gap_count

    @property
    def pending_bytes(self) -> int:
        """Memory that records take which are not sent yet."""
        return self._window.planned_bytes

    @property
    def has_more(self) -> bool:
        """Fetched records are on their way, or still to be sent."""
        return not self._window.is_empty

    # -- requests --------------------------------------------------------------------------------

    @property
    def attempt(self) -> int:
        """Which attempt asks now (P4)."""
        return self._requests.attempt

    def asked(self, asked: Asked) -> int:
        """A request was sent that reads; returns of which attempt it is. Batches are counted as they are sent."""
        self._requests.sent(asked)
        return self._requests.attempt

    def answered(self, asked: Asked, attempt: int) -> bool:
        """A request of that attempt is answered, or never will be; returns whether its answer counts (P4)."""
        return self._requests.answered(asked, attempt)

    # -- reading the source ----------------------------------------------------------------------

    @property
    def fetch_position(self) -> int:
        """The source offset to fetch next."""
        return self._source.position

    @property
    def fetch_epoch(self) -> int | None:
        """The leader epoch of the last source batch before it."""
        return self._source.leader_epoch

    def wants_records(self, now: float, *, buffer_limit: int) -> bool:
        """Not before the tail is read: what cannot be sent yet would take the room of what can."""
        is_first = self._source.ends is None and not self.assignment.tail.both_sides_seen
        wanted = not self._source.is_at_end or is_first
        room = self.pending_bytes < buffer_limit and not self.tail.needs_read
        is_free = not self._requests.is_open(Asked.RECORDS) and now >= self.troubles.retry_at
        return self.is_active and wanted and room and is_free and not self._target.has_enough_source

    def take_fetched(self, fetched: Fetched) -> None:
        """Plan the batches of a successful Fetch response; bad bytes stop the partition.

        Raises `LedgerUnavailableError` at a batch whose writer cannot be looked up; those before it are planned.
        """
        self.troubles.settle_trouble(Side.SOURCE)
        divergence = self._source.note(fetched)
        if divergence is not None:
            stop = tail.source_took_back(self.fetch_position, self.fetch_epoch, divergence)
            self._target.stop_at_once(stop)
            return
        try:
            for step in self._source.steps(fetched):
                self._target.take_step(step)
            self.troubles.settle_trouble(LEDGER)
        except ProtocolError as error:
            self.halt(StopCause.CORRUPT, str(error))
        finally:
            self._target.advance()

    # -- reading the target ----------------------------------------------------------------------

    @property
    def tail(self) -> TargetTail:
        """What of the target is read, and from where on."""
        return self._target.tail

    def wants_tail(self, now: float) -> bool:
        """P2, P4: the tail is read when no request of this partition can still change it."""
        return self._target.wants_tail(now)

    @property
    def reads_between(self) -> bool:
        """A batch that is at the target waits to be settled until what came before it was read (P6)."""
        return self._target.reads_between

    @property
    def is_searching(self) -> bool:
        """Both sides are read from what is settled on, to find out what can be proved of the tail."""
        return self._target.is_searching

    def begin_tail(self, leader_epoch: int | None) -> None:
        """The tail is read next, under this leader."""
        self._target.reading.begin_under(leader_epoch)

    def stops_looking(self) -> bool:
        """The target answers that what was asked for is out of range; whether that was the flow's last record."""
        return self._target.reading.pass_over_last_record()

    def take_tail(self, records: memoryview, *, high_watermark: int) -> None:
        """Take the next piece of what the target holds past the recorded end, or between (P6); bad bytes stop it."""
        self._target.take_tail(records, high_watermark=high_watermark)

    # -- writing ---------------------------------------------------------------------------------

    @property
    def next_copy(self) -> Copy | None:
        """The step to send now, if there is one: P1 and P2 hold for it."""
        step = self._window.first if self._target.may_send else None
        return step if isinstance(step, Copy) else None

    def may_send_to(self, node: int) -> bool:
        """P5."""
        return self._window.may_send_to(node)

    def send_next(self, node: int) -> memoryview:
        """The next step's batch, counted as sent; call only when `next_copy` is not None."""
        batch = self._window.send_first(node)
        self._target.advance()
        return batch

    def acknowledged(self, base_offset: int) -> None:
        """The oldest unacknowledged batch lies at `base_offset` (acks=all)."""
        if self._target.lost_from is not None:
            return  # what else is on its way landed behind that and is found by reconciliation
        self.troubles.settle_trouble(Side.TARGET)
        self.troubles.settle_trouble(WRITING)
        self._refused_sequences = 0
        self._target.acknowledged(base_offset)

    def doubt(self, trouble: str, *, now: float) -> None:
        """P4: fall back to what is settled and start over after a pause.

        The tail can be read where nothing can be written: the trouble lasts until a batch is known to be there.
        """
        self.troubles.pause(Side.TARGET, trouble, now=now)
        self.troubles.trouble_writing(trouble)
        self._target.start_over()

    def sequence_refused(self) -> None:
        """45 means to read the tail: only when that has explained nothing several times is it a stop."""
        self._refused_sequences += 1
        if self._refused_sequences >= _REFUSED_SEQUENCES:
            self._target.stop_at_once(tail.sequence_refused(self._refused_sequences))

    # -- the end ---------------------------------------------------------------------------------

    def halt(self, cause: StopCause, message: str) -> None:
        """Nothing more is sent; what is on its way is still settled."""
        self._target.stop_at_once(Stop(cause, message))

    def conclude(self) -> None:
        """The task ends: what still waits at the target for a source that has no more is recorded."""
        self._target.conclude()

    def result(self) -> PartitionResult:
        """What was done; the copy is finished with."""
        builder, troubles = self._target.builder, self.troubles
        syncs = builder.syncs()
        position = builder.position.after(syncs)
        refused = 0 if self.stop is not None else self._refused_sequences
        return PartitionResult(
            assignment=self.assignment,
            syncs=syncs,
            position=replace(position, former_sequence=None) if self._target.has_read_tail else position,
            tail=replace(self._target.knowledge(), refused_sequences=refused),
            stop=self.stop,
            trouble=troubles.trouble,
            unreached=troubles.unreached,
            throttled_ms=troubles.throttled_ms,
            divergence=self._source.divergence,
            target_lost_from=self._target.lost_from,
            source_ends=self._source.ends,
            copied_again=self._target.copied_again,
        )
