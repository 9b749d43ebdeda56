"""Where a running flow stands on one partition, and the facts that move it other than by copying.

Each method that moves the standing returns the fact to record, so that the two cannot disagree.
"""

from dataclasses import dataclass

from ledger.domain.facts import OffsetSync, SyncCause, SyncKind, source_may_be_gone
from ledger.domain.supersession import Restart
from ledger.mirror.assignments import NOT_BEGUN, Stop
from ledger.mirror.flow_topics import PartitionPair
from ledger.ports import FlowPosition, PartitionEnds


@dataclass(slots=True)
class Standing:
    """One partition that the flow takes care of; `stop`: why it stands still.

    `is_first_time`: it began in this run and was not at the source's end yet. `is_looked_at`: a task of this run
    has read at both sides.
    """

    pair: PartitionPair
    position: int
    target_end: int
    next_sequence: int
    leader_epoch: int | None = None
    follows_loss: bool = False
    accepted_below: int = 0
    tail_start: int = 0
    stop_at: int | None = None
    stop: Stop | None = None
    copied_bytes: int = 0
    is_first_time: bool = False
    is_looked_at: bool = False
    target_leader_epoch: int | None = None
    refused_sequences: int = 0
    former_sequence: tuple[int, int] | None = None
    target_log_start: int = 0
    remembered_sequence: int | None = None

    @classmethod
    def recorded(cls, pair: PartitionPair, position: FlowPosition) -> "Standing":
        return cls(
            pair,
            position.source_end,
            position.target_end,
            position.next_sequence,
            position.leader_epoch,
            position.follows_loss,
            former_sequence=position.former_sequence,
        )

    def as_recorded(self) -> FlowPosition:
        """The position that its facts add up to."""
        source, target = self.pair.source, self.pair.target
        return FlowPosition(
            source_topic=source.topic,
            source_topic_id=source.topic_id,
            partition=source.partition,
            target_topic=target.topic,
            target_topic_id=target.topic_id,
            source_end=self.position,
            target_end=self.target_end,
            next_sequence=self.next_sequence,
            leader_epoch=self.leader_epoch,
            follows_loss=self.follows_loss,
        )

    @property
    def has_begun(self) -> bool:
        """Whether a fact says so; what waits for an operator before its beginning has none."""
        return self.stop is None or self.stop.cause not in NOT_BEGUN

    @property
    def name(self) -> str:
        return f"{self.pair.source.topic} partition {self.pair.source.partition}"

    @property
    def has_reached_end(self) -> bool:
        """Where it is to go; it is looked at all the same, once: either side may have taken records back."""
        return self.stop_at is not None and self.position >= self.stop_at and self.is_looked_at

    def end_at(self, source: PartitionEnds) -> None:
        """Go up to what is stable now."""
        self.stop_at = source.last_stable

    def started(self, cause: SyncCause) -> OffsetSync:
        """The flow begins with this partition where it stands."""
        self.follows_loss = source_may_be_gone(SyncKind.STARTED, cause)
        self.is_first_time = True
        return self._fact(SyncKind.STARTED, cause, self.position, self.position)

    def lose(self, source_end: int, cause: SyncCause) -> OffsetSync:
        """Source offsets up to `source_end` are not copied (L6): go on there."""
        fact = self._fact(SyncKind.LOST, cause, self.position, source_end)
        self.position = source_end
        self.leader_epoch = None
        self.follows_loss = True
        return fact

    def expired(self, *, next_sequence: int) -> OffsetSync:
        """What the flow wrote and did not record was deleted at the target: of it only the sequence is left."""
        self.next_sequence = next_sequence
        self.follows_loss = source_may_be_gone(SyncKind.UNPAIRED, SyncCause.RETENTION)
        return self._fact(SyncKind.UNPAIRED, SyncCause.RETENTION, self.position, self.position)

    def supersede(self, restart: Restart, cause: SyncCause) -> OffsetSync:
        """What was recorded from `restart.source_start` on holds no longer: go on there."""
        source_end = max(self.position, restart.source_start)
        self.position = restart.source_start
        self.target_end = restart.target_end
        self.tail_start = self.target_log_start = 0
        self.next_sequence = restart.next_sequence
        self.leader_epoch = restart.leader_epoch
        self.follows_loss = source_may_be_gone(SyncKind.SUPERSEDED, cause)
        return self._fact(SyncKind.SUPERSEDED, cause, restart.source_start, source_end)

    def _fact(self, kind: SyncKind, cause: SyncCause, source_start: int, source_end: int) -> OffsetSync:
        return OffsetSync(
            source=self.pair.source,
            target=self.pair.target,
            source_leader_epoch=self.leader_epoch,
            source_start=source_start,
            source_end=source_end,
            target_start=self.target_end,
            target_end=self.target_end,
            first_sequence=self.next_sequence,
            kind=kind,
            cause=cause,
        )
