"""Where the tail of a target is read from: under a leader that is new, with the flow's last record first."""

from ledger.mirror.task.assignments import Assignment, Stop
from ledger.mirror.task.send_window import SendWindow
from ledger.mirror.task.sync_builder import SyncBuilder
from ledger.mirror.task.tail.last_record import LastRecord
from ledger.mirror.task.tail.target_tail import TargetTail


class TailReading:
    """`tail` is what was read of it so far."""

    def __init__(self, assignment: Assignment, window: SendWindow, builder: SyncBuilder) -> None:
        self._window = window
        self._builder = builder
        self._last_record = LastRecord(assignment)
        self.read_from(window.next_offset)

    @property
    def leader_epoch(self) -> int | None:
        """Of the leader that has shown the flow's last record, or had none to show."""
        return self._last_record.leader_epoch

    def begin_again(self, start: int) -> None:
        """A doubt: the tail is read again, from what is settled on."""
        self._last_record.give_up()
        self.read_from(start)

    def read_from(self, start: int) -> None:
        """The next read is at this target offset."""
        self.tail = TargetTail(start=start)

    def begin_under(self, leader_epoch: int | None) -> None:
        """The next read is of this leader: under another than before one record earlier, with the flow's last one.

        Where that is not there any more the log went back, and may have grown past it since by others' records.
        """
        at = self._builder.position
        is_at_start = self.tail.position == self._window.next_offset
        if is_at_start and self._last_record.search_under(leader_epoch, at):
            self.read_from(at.target_offset - 1)

    def pass_over_last_record(self) -> bool:
        """The target answers that its offset is out of range: its retention may have deleted it.

        Then the tail is read from the recorded end after all, which tells whether the log went back. False when
        the last record was not searched.
        """
        if not self._last_record.is_searched:
            return False
        self._last_record.pass_over()
        self.read_from(self._window.next_offset)
        return True

    def take_last_record(self) -> Stop | None:
        """Judge what lies where the flow's last record lay; a hole that a cleaner left there proves nothing."""
        if not self._last_record.is_searched:
            self._last_record.finish()
            return None
        found, at = self.tail.first, self._builder.position
        is_there = found is not None and found.base_offset < at.target_offset
        if found is not None and is_there and (stop := self._last_record.another(found, at)) is not None:
            self._last_record.give_up()
            return stop
        self._last_record.finish()
        if found is None:
            self.read_from(self._window.next_offset)
        elif is_there and not found.is_control:
            self.tail.pop()
        return None
