"""The flow's last record is looked for where it was recorded: a target that went back may have grown past it since.

Where the target's log lost its end and others have written since, its end tells nothing. So the tail begins one record
earlier, with the flow's last one, under every leader under which it was not looked for yet.
"""

from ledger.domain.offsets.position import Position
from ledger.mirror.task.assignments import Assignment, Stop
from ledger.mirror.task.tail import partition_stops
from ledger.wire.record_batch import BatchHeader, next_sequence


class LastRecord:
    """Whether it is looked for now, and the leader epoch under which it was looked for last."""

    def __init__(self, assignment: Assignment) -> None:
        self._producer = assignment.producer
        self._target_log_start = assignment.target_log_start
        self._leader_epoch = assignment.tail.leader_epoch
        self._is_looked_for = False

    @property
    def leader_epoch(self) -> int | None:
        """Of the target's leader under which it was looked for, None when it was not."""
        return self._leader_epoch

    def look_under(self, leader_epoch: int | None, at: Position) -> bool:
        """Whether it is to be looked for now; there is none where nothing was written, or all of it has expired."""
        if leader_epoch == self._leader_epoch:
            return False
        self._leader_epoch = leader_epoch
        has_expired = at.target_offset < self._target_log_start
        if not at.next_sequence or not at.target_offset or has_expired:
            return False
        self._is_looked_for = True
        return True

    def end(self) -> bool:
        """It is not looked for any more; returns whether it was."""
        was_looked_for, self._is_looked_for = self._is_looked_for, False
        return was_looked_for

    def another(self, found: BatchHeader, at: Position) -> Stop | None:
        """The stop for a batch that lies where the flow's last record lay and has another one, None when it has it."""
        last = at.target_offset - 1
        is_former = found.producer_id in self._producer.former
        is_next = next_sequence(found.sequence_at(last), 1) == at.next_sequence
        if self._producer.wrote(found.producer_id) and (is_former or is_next):
            return None
        return partition_stops.another_record(found, offset=last, wanted=at.next_sequence - 1)
