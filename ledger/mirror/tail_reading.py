"""Where the tail of a target is read from: from the recorded end, or from the flow's last record on.

The end of a log that lost its end and in which others have written since tells nothing. So the tail begins one record
earlier, with the flow's last one, under every leader under which it was not searched yet.
"""

from ledger.facts.syncs import Position
from ledger.mirror.assignment import Assignment, Stop
from ledger.mirror.sync_builder import SyncBuilder
from ledger.mirror.tail import TailBatch, TargetTail, another_record, went_back
from ledger.mirror.window import SendWindow


class TailReading:
    """`tail` is what was read of it so far.

    `leader_epoch`: of the leader that has shown the flow's last record, or had none to show; None without one. A search
    that is cut off, or that finds another record, does not count: it begins again with the next attempt. One that
    finds the offset out of range counts once the tail can be read behind it.

    `asks_by_epoch`: the next read asks whether the log still has all of that leader's: others may have written where it
    lost its end. `whole_below`: it has not, from that target offset on.

    `is_searched`: what is read next begins with the flow's last record. `last`: the batch that has it, once
    `is_last_known`; None: it is not there, or nobody knows.
    """

    def __init__(self, assignment: Assignment, window: SendWindow, builder: SyncBuilder) -> None:
        self._assignment = assignment
        self._window = window
        self._builder = builder
        self.leader_epoch = self._searched_under = assignment.tail.leader_epoch
        self.is_searched = False
        self.last: TailBatch | None = None
        self.is_last_known = False
        self.whole_below: int | None = None
        self.read_from(window.next_offset)

    def begin_again(self, start: int) -> None:
        """A doubt: the tail is read again, from what is settled on."""
        self._give_up()
        self.read_from(start)

    def read_from(self, start: int) -> None:
        """The next read is at this target offset."""
        self.tail = TargetTail(start=start)
        self.asks_by_epoch = False

    def read_between(self, start: int) -> None:
        """The same, behind a tail that was read to its end, which may not be there any more."""
        self.read_from(start)
        self.asks_by_epoch = True

    def forget_last_record(self) -> None:
        """It is searched once more, when the tail is read again."""
        self.last, self.is_last_known = None, False

    @property
    def held_bytes(self) -> int:
        return self.tail.held_bytes + (0 if self.last is None else len(self.last.batch))

    @property
    def last_epoch(self) -> int | None:
        """What the next read asks by."""
        return self.leader_epoch if self.asks_by_epoch else None

    def take_divergence(self, end: int | None) -> Stop | None:
        """The leader has nothing of the epoch that was asked by from `end` on: what the flow had there may be lost.

        None: it has all of it.
        """
        self.asks_by_epoch = False
        if end is None or end >= self.tail.position:
            return None
        self._give_up()
        self.whole_below = end
        return went_back(end, epoch=self.leader_epoch)

    def begin_under(self, leader_epoch: int | None, *, again: bool = False) -> None:
        """The next read is of this leader: under another than before one record earlier, with the flow's last one.

        Where that is not there any more the log went back, and may have grown past it since by others' records.
        `again`: under the same leader, too.
        """
        is_known = leader_epoch == self._searched_under and (self.is_last_known or not again)
        if self.tail.position != self._window.next_offset or is_known:
            return
        self._searched_under = leader_epoch
        at = self._builder.position
        if (
            not at.target_offset
            or at.target_offset < self._assignment.target_log_start
            or not self._wrote(at)
        ):
            self._finish()
            return
        self.is_searched = True
        self.read_between(at.target_offset - 1)

    def _wrote(self, at: Position) -> bool:
        """Whether the last record is the flow's, with its producer id or the one before; one given up is nobody's."""
        former_id, former_next = at.former_sequence or (None, 0)
        return bool(at.next_sequence or (former_next and former_id in self._assignment.producer.former))

    def _finish(self) -> None:
        """It need not be searched again under this leader."""
        self.leader_epoch, self.is_searched = self._searched_under, False
        self.is_last_known = True

    def _give_up(self) -> None:
        self._searched_under, self.is_searched = self.leader_epoch, False
        self.forget_last_record()

    def skip_last_record(self) -> bool:
        """The target answers that its offset is out of range: its retention may have deleted it.

        Then the tail is read from the recorded end after all, which tells whether the log went back. False when
        the last record was not searched.
        """
        if not self.is_searched:
            return False
        self.is_searched, self.is_last_known = False, True
        self.read_from(self._window.next_offset)
        return True

    def take_last_record(self) -> Stop | None:
        """Judge what lies where the flow's last record lay; a hole that a cleaner left there proves nothing."""
        if not self.is_searched:
            self._finish()
            return None
        found, at = self.tail.first, self._builder.position
        if found is None:
            self._finish()
            self.read_from(self._window.next_offset)
            return None
        is_there = found.base_offset < at.target_offset
        if is_there and (stop := another_record(self._assignment.producer, found, at)) is not None:
            self._give_up()
            return stop
        self._finish()
        if is_there and not found.is_control:
            self.last = self.tail.head
            self.tail.pop()
        return None
