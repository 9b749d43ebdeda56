"""Why own records at the target may have no source record any more, or may not be distinguished from copies of others.

What is not explained is nobody's to guess: then the partition stops.
"""

from ledger.domain.facts import SyncCause
from ledger.mirror.task.assignments import Assignment
from ledger.mirror.task.batch_plan import Skip
from ledger.mirror.task.send_window import SendWindow
from ledger.mirror.task.sync_builder import SyncBuilder
from ledger.mirror.task.tail.target_tail import TailBatch


class Explanations:
    """Of one partition, as it stands with what is settled and planned."""

    def __init__(self, assignment: Assignment, window: SendWindow, builder: SyncBuilder) -> None:
        self._assignment = assignment
        self._window = window
        self._builder = builder
        self._has_expired = False

    def expected_sequence(self, found: TailBatch) -> int | None:
        """The next sequence of the batch's producer id; None when it is not known any more."""
        producer_id = found.header.producer_id
        is_current = producer_id == self._assignment.producer.current
        return self._window.next_sequence if is_current else self._builder.former_next(producer_id)

    def own_have_expired(self) -> None:
        """Own records were deleted at the target before anybody read them."""
        self._has_expired = True

    @property
    def has_expired(self) -> bool:
        return self._has_expired

    @property
    def is_behind_hole(self) -> bool:
        """A cleaner took what was before the next record, and an equal one may have been there."""
        return isinstance(self._window.first, Skip)

    @property
    def may_be_gone(self) -> bool:
        """Whether source records before the next one may be deleted that this flow had copied."""
        is_hole_passed = self.is_behind_hole or self._builder.ends_in_hole
        return is_hole_passed or self._assignment.position.source_may_be_gone or self._has_expired

    def is_accepted(self, found: TailBatch) -> bool:
        """An operator has accepted what lies there."""
        return found.header.base_offset < self._assignment.accepted_below

    def cause(self, found: TailBatch, *, source_has_holes: bool) -> SyncCause | None:
        """Why a batch of the flow's own has no source record; None when nothing explains it."""
        if self.is_accepted(found):
            return SyncCause.ACCEPTED
        in_sequence = found.header.base_sequence == self.expected_sequence(found)
        is_explained = source_has_holes or self.may_be_gone
        if in_sequence and is_explained:
            return SyncCause.LOST_SOURCE
        return SyncCause.COMPACTED if self._assignment.copies_tail_again else None
