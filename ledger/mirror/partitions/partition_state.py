"""Where a running flow stands on one partition, and the facts that move it other than by copying.

Each method that moves the state returns the fact to record, so that the two cannot disagree.
"""

from dataclasses import dataclass, replace

from ledger.domain.facts import (
    Gap,
    GapCause,
    OffsetSync,
    PartitionPair,
    SyncCause,
    SyncKind,
    source_may_be_gone,
)
from ledger.domain.offsets.position import NOTHING_KNOWN, Position, TailKnowledge
from ledger.mirror.task.assignments import Stop
from ledger.ports.clusters import PartitionEnds
from ledger.ports.ledger import FlowPosition


@dataclass(slots=True)
class PartitionState:
    """One partition that the flow takes care of; `stop`: why it stands still.

    `is_waiting`: this run has done nothing about it; when what it waits for is over, it is to be taken on again.
    `is_first_time`: it began in this run and was not at the source's end yet. `target_log_start`,
    `remembered_sequence`: as an assignment has them.
    """

    pair: PartitionPair
    position: Position
    tail: TailKnowledge = NOTHING_KNOWN
    accepted_below: int = 0
    end_offset: int | None = None
    stop: Stop | None = None
    is_waiting: bool = False
    copied_bytes: int = 0
    is_first_time: bool = False
    target_log_start: int = 0
    remembered_sequence: int | None = None

    def as_recorded(self) -> FlowPosition:
        """The position that its facts add up to."""
        source, target = self.pair.source, self.pair.target
        return FlowPosition(
            source_topic=source.topic,
            source_topic_id=source.topic_id,
            partition=source.partition,
            target_topic=target.topic,
            target_topic_id=target.topic_id,
            position=self.position,
        )

    @property
    def name(self) -> str:
        return f"{self.pair.source.topic} partition {self.pair.source.partition}"

    @property
    def has_reached_end(self) -> bool:
        """Where it is to end; it is checked all the same, once: either side may have truncated its log."""
        is_there = self.end_offset is not None and self.position.source_offset >= self.end_offset
        return is_there and self.tail.both_sides_seen

    def end_at(self, source: PartitionEnds) -> None:
        """Go up to what is stable now."""
        self.end_offset = source.last_stable

    def started(self, cause: SyncCause) -> OffsetSync:
        """The flow begins with this partition where it stands."""
        self.position = replace(self.position, source_may_be_gone=source_may_be_gone(SyncKind.STARTED, cause))
        self.is_first_time, self.is_waiting = True, False
        return self._fact(SyncKind.STARTED, cause)

    def pass_copies(self, source_end: int, *, target_end: int) -> OffsetSync:
        """Source offsets up to `source_end` hold what the opposite flow wrote: continue behind both sides of a cut."""
        at = self.position
        self.position = replace(at, target_offset=target_end, leader_epoch=None, former_sequence=None)
        passed = self._fact(SyncKind.COPIED, None, source_end=source_end)
        self.position = replace(self.position, source_offset=source_end)
        return replace(passed, gaps=(Gap(at.source_offset, source_end, GapCause.MIRROR_WRITE),))

    def pass_target(self, target_end: int) -> OffsetSync:
        """What others wrote at the target up to there, while it was promoted, is neither read nor foreign."""
        self.position = replace(self.position, target_offset=target_end, former_sequence=None)
        return self._fact(SyncKind.UNPAIRED, SyncCause.CUT)

    def lose(self, source_end: int, cause: SyncCause) -> OffsetSync:
        """Source offsets up to `source_end` are not copied (L6): continue there."""
        fact = self._fact(SyncKind.LOST, cause, source_end=source_end)
        self.position = self.position.lost_up_to(source_end)
        return fact

    def expired(self, *, next_sequence: int) -> OffsetSync:
        """What the flow wrote and did not record was deleted at the target: of it only the sequence is left."""
        may_be_gone = source_may_be_gone(SyncKind.UNPAIRED, SyncCause.RETENTION)
        self.position = replace(self.position, next_sequence=next_sequence, source_may_be_gone=may_be_gone)
        return self._fact(SyncKind.UNPAIRED, SyncCause.RETENTION)

    def supersede(self, restart: Position, cause: SyncCause) -> OffsetSync:
        """What was recorded from `restart.source_offset` on holds no longer: continue there."""
        source_end = max(self.position.source_offset, restart.source_offset)
        self.position = replace(
            restart,
            source_may_be_gone=source_may_be_gone(SyncKind.SUPERSEDED, cause),
            former_sequence=self.position.former_sequence,
        )
        self.tail = replace(self.tail, start=0)
        self.target_log_start = 0
        return self._fact(SyncKind.SUPERSEDED, cause, source_end=source_end)

    def _fact(self, kind: SyncKind, cause: SyncCause | None, *, source_end: int | None = None) -> OffsetSync:
        """From the source offset where it stands up to `source_end`, or of none."""
        at = self.position
        return OffsetSync(
            source=self.pair.source,
            target=self.pair.target,
            source_leader_epoch=at.leader_epoch,
            source_start=at.source_offset,
            source_end=at.source_offset if source_end is None else source_end,
            target_start=at.target_offset,
            target_end=at.target_offset,
            first_sequence=at.next_sequence,
            kind=kind,
            cause=cause,
        )
