"""The flow's last record is searched where it was recorded: a truncated target may have grown past it since.

Where the target's log lost its end and others have written since, its end tells nothing. So the tail begins one record
earlier, with the flow's last one, under every leader under which it was not searched yet.
"""

from ledger.domain.offsets.position import Position
from ledger.mirror.task.assignments import Assignment, Stop
from ledger.mirror.task.tail import partition_stops
from ledger.wire.record_batch import BatchHeader, next_sequence


class LastRecord:
    """Whether it is searched now, and the leader epoch under which that was done with last.

    A search that is cut off, or that finds another record, is not done with: it begins again with the next attempt. One
    that finds the offset out of range is done with once the tail can be read behind it.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._producer = assignment.producer
        self._target_log_start = assignment.target_log_start
        self._leader_epoch = self._searched_under = assignment.tail.leader_epoch
        self._is_searched = False

    @property
    def leader_epoch(self) -> int | None:
        """Of the target's leader under which it was found, or nothing was to be searched; None without one."""
        return self._leader_epoch

    @property
    def is_searched(self) -> bool:
        return self._is_searched

    def search_under(self, leader_epoch: int | None, at: Position) -> bool:
        """Whether it is to be searched now; there is none where nothing was written, or all of it has expired."""
        if leader_epoch == self._searched_under:
            return False
        self._searched_under = leader_epoch
        has_expired = at.target_offset < self._target_log_start
        if not self._is_own(at) or not at.target_offset or has_expired:
            self.finish()
            return False
        self._is_searched = True
        return True

    def _is_own(self, at: Position) -> bool:
        """Whether the flow wrote it, with its producer id or the one before; one that was given up is nobody's."""
        former_id, former_next = at.former_sequence or (None, 0)
        return bool(at.next_sequence or (former_next and former_id in self._producer.former))

    def finish(self) -> None:
        """It need not be searched again under this leader."""
        self._leader_epoch, self._is_searched = self._searched_under, False

    def pass_over(self) -> None:
        """Its offset is out of range; whether the log was truncated is shown by what can be read behind it."""
        self._is_searched = False

    def give_up(self) -> None:
        """It is not searched any more, and what lies there is not dealt with."""
        self._searched_under, self._is_searched = self._leader_epoch, False

    def another(self, found: BatchHeader, at: Position) -> Stop | None:
        """The stop for a batch that lies where the flow's last record lay and has another one, None when it has it."""
        last = at.target_offset - 1
        is_former = found.producer_id in self._producer.former
        is_next = next_sequence(found.sequence_at(last), 1) == at.next_sequence
        if not found.is_control and self._producer.wrote(found.producer_id) and (is_former or is_next):
            return None
        return partition_stops.another_record(found, offset=last, wanted=at.next_sequence - 1)
