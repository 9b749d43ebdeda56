"""Where a flow stands on one partition, and what it knows of the target behind that.

Both are carried: from the ledger's last row to the driver, from the driver to a task, and back from it. Who carries
them holds them whole, so that what is to be carried, too, is one more field here and a line where it changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ledger.domain.facts import OffsetSync, SyncKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Up to where one partition is copied.

    `source_offset`: the next to be copied. `target_offset`: behind the last record there that is recorded.
    `next_sequence`: of the flow's next record. `former_sequence`: the producer id that the flow had before, and its
    next sequence, where nothing was written with the present one yet. `leader_epoch`: that of the last source batch
    before `source_offset`, None when unknown. `source_may_be_gone`: source records before it were deleted, so records
    of the flow at the target, behind `target_offset`, may have no source any more.
    """

    source_offset: int
    target_offset: int
    next_sequence: int
    leader_epoch: int | None = None
    source_may_be_gone: bool = False
    former_sequence: tuple[int, int] | None = None

    def copied_up_to(self, source_offset: int, target_offset: int, next_sequence: int) -> "Position":
        """A batch further; made for every one of them, so without `replace`, which takes twice the time."""
        return Position(
            source_offset=source_offset,
            target_offset=target_offset,
            next_sequence=next_sequence,
            leader_epoch=self.leader_epoch,
            source_may_be_gone=self.source_may_be_gone,
            former_sequence=self.former_sequence,
        )

    def lost_up_to(self, source_offset: int) -> "Position":
        """Source records before `source_offset` were deleted, or left out: whatever leader wrote the last of them."""
        return replace(self, source_offset=source_offset, leader_epoch=None, source_may_be_gone=True)

    def with_another_producer(self, former_producer_id: int) -> "Position":
        """As it is for a producer id that nothing was written with, after one that all of it was."""
        return replace(self, next_sequence=0, former_sequence=(former_producer_id, self.next_sequence))

    def after(self, syncs: Sequence[OffsetSync]) -> "Position":
        """As it is known to be by what a task has to record; the next driver will tell the same from the last row."""
        may_be_gone = self.source_may_be_gone
        if any(sync.records and not sync.recovered for sync in syncs):
            may_be_gone = False  # something new was written, so all of the tail was explained
        if syncs and syncs[-1].kind is SyncKind.UNPAIRED:
            may_be_gone = True
        return replace(self, source_may_be_gone=may_be_gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class TailKnowledge:
    """What the tasks of one run have learned of a target behind the flow's position.

    `start`: target offsets below it hold nothing unrecorded of this flow. `leader_epoch`: that of the target's leader
    under which the flow's last record was searched, None when it was not. `refused_sequences`: how often the target
    refused the next sequence since it last took one. `both_sides_seen`: the source answered, and the tail was read up
    to its end.
    """

    start: int = 0
    leader_epoch: int | None = None
    refused_sequences: int = 0
    both_sides_seen: bool = False


NOTHING_KNOWN = TailKnowledge()
"""When a run begins."""
