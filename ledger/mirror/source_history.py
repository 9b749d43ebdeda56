"""Whether a source still holds what was copied of it, where leader epochs and offsets do not tell.

A source that was brought back from an older copy of its folders writes other records under epochs and offsets that it
has had before. So the record that was copied last is compared with the source's own: when a driver begins, under
another leader, and when the source could not be read in between. What a task suspects the driver proves by the map.
"""

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ledger.errors import ProtocolError
from ledger.facts.history import Segment
from ledger.facts.syncs import PartitionPair, Position, TopicPartition
from ledger.kafka.batches import decode
from ledger.kafka.cluster import ClusterAdmin
from ledger.kafka.requests import Fetched
from ledger.mirror.assignment import Assignment
from ledger.mirror.source import SourceReading
from ledger.mirror.steps import Copy
from ledger.mirror.tail import Kept, TailBatch, are_same_bytes, records_by_index, records_by_source_offset
from ledger.mirror.tail_reading import TailReading

_BACK, _FURTHER_BACK = 2, 15
"""So many offsets before the position a task compares from: halved, the second one never comes to the first again."""
_READS = 20
"""At each side, from one offset on, where cleaners have left little that both have."""


class SourceComparison:
    """The flow's last record at the target, beside the last one before the position that the source has for it.

    `is_due`: nothing more is read before it is done. `was_impossible`: one side has nothing to compare; None: nobody
    knows yet. `seen_at`: the source offset of what was compared.
    """

    def __init__(self, assignment: Assignment, source: SourceReading, reading: TailReading) -> None:
        self._assignment = assignment
        self._source = source
        self._reading = reading
        self._epoch = assignment.tail.source_epoch
        self._back = _BACK
        self.is_due = assignment.compares_source and self._epoch is None
        self.was_impossible: bool | None = None
        self.seen_at: int | None = None

    @property
    def leader_epoch(self) -> int | None:
        """What it was done under; None: it is to be done."""
        return None if self.is_due else self._epoch

    def ask_under(self, leader_epoch: int | None) -> None:
        """This leader is read next."""
        if self._epoch not in (None, leader_epoch) and leader_epoch is not None:
            self.ask_again()
        self._epoch = self._epoch if leader_epoch is None else leader_epoch

    def ask_again(self) -> None:
        """What is read next may be another history: the source could not be read."""
        self.is_due, self._back = self._assignment.compares_source, _BACK
        self._reading.forget_last_record()

    @property
    def offset(self) -> int:
        """The source offset to fetch from."""
        is_compared = self.is_due and self._reading.last is not None
        return max(0, self._source.position - self._back) if is_compared else self._source.position

    def is_out_of_range(self) -> bool:
        """The source has deleted what lies before the record, or that, too; False where the position was asked for."""
        is_before = self.offset < self._source.position
        self._back //= 2
        return is_before

    def finds_same(self, fetched: Fetched, at: Position) -> bool | None:
        """Whether an answer from `offset` on has the record that was copied last, or nothing can be compared.

        False also for what only seems to differ: a cleaner, the flow's rules or an operator may have taken it. None:
        another answer, from further back, may have it.
        """
        if fetched.high_watermark < at.source_offset:
            self.ask_again()  # the position itself is asked for: it is out of range, or to come
            return None
        last = self._reading.last
        step = None if last is None else self._source.last_copy(fetched)
        if last is not None and step is None and self._back == _BACK:
            self._back = _FURTHER_BACK
            return None
        self.is_due = False
        if last is not None and step is not None:
            self.seen_at = min(max(records_by_source_offset(step)), at.source_offset - 1)
            is_same = step.source_end <= at.source_offset and _is_copy(step, last, at)
            self.was_impossible = False if is_same else None
            return is_same
        has_written = bool(at.next_sequence or at.former_sequence)
        is_cleaned = self._assignment.is_source_cleaned or self._assignment.is_target_cleaned
        if has_written and is_cleaned and self._back:
            return False
        self.was_impossible = has_written and self._back > 0  # else the source's log begins at the position
        return True


def _is_copy(step: Copy, found: TailBatch, at: Position) -> bool:
    """Whether the last record of a step is the flow's last record."""
    header, end = found.header, at.target_offset - found.header.base_offset
    if header.end_offset == at.target_offset and step.count == found.written and are_same_bytes(step, found):
        return True
    try:
        sent, stored = records_by_source_offset(step), records_by_index(found)
    except ProtocolError:
        return False
    kept, is_stamped = stored.get(end - 1), header.has_log_append_time
    return kept is not None and kept[is_stamped:] == sent[max(sent)][is_stamped:]


@dataclass(frozen=True, slots=True)
class SourceHistory:
    """What both sides hold of one partition, by `segments` of its map, at least one, in order.

    `is_cleaned`: a record that one side lacks may have been taken by a cleaner.
    """

    source: ClusterAdmin
    target: ClusterAdmin
    pair: PartitionPair
    segments: Sequence[Segment]
    is_cleaned: bool

    def compared(self) -> tuple[bool, int | None]:
        """Whether a record was compared at all, and the source offset from which on the source has other records."""
        first, end = self.segments[0].source_start, self.segments[-1].source_end
        same_below, other_from = None, end
        for start in dict.fromkeys(max(first, end - 4**n) for n in range(32)):
            found = self._first_from(start, other_from)
            if found is not None and found[1]:
                same_below = found[0] + 1
                break
            other_from = other_from if found is None else found[0]
        if same_below is None or (self.is_cleaned and other_from == end):
            return same_below is not None or other_from < end, other_from if other_from < end else None
        while same_below < other_from:  # two logs part once
            middle = (same_below + other_from) // 2
            found = self._first_from(middle, other_from)
            if found is not None and found[1]:
                same_below = found[0] + 1
            else:
                other_from = middle
        return True, same_below if same_below < end else None

    def _first_from(self, start: int, end: int) -> tuple[int, bool] | None:
        """The first source offset of `[start, end)` with a record at both sides, and whether it is the same one."""
        for _ in range(_READS):
            following = bisect_right(self.segments, start, key=lambda one: one.source_end)
            start = (
                max(start, self.segments[following].source_start) if following < len(self.segments) else end
            )
            sent = _records_at(self.source, self.pair.source, start) if start < end else {}
            places = {offset: self._place(offset) for offset in sent if start <= offset < end}
            first = next((place for place in places.values() if place is not None), None)
            stored = {} if first is None else _records_at(self.target, self.pair.target, first)
            for offset, place in places.items():
                if place in stored:
                    kept, is_stamped = stored[place]
                    return offset, sent[offset][0][is_stamped:] == kept[is_stamped:]
            if not sent:
                return None
            start = max(start, *sent) + 1
        return None

    def _place(self, offset: int) -> int | None:
        """The target offset that the map has for it; None: it has none."""
        one = self.segments[bisect_right(self.segments, offset, key=lambda one: one.source_start) - 1]
        is_copied = one.source_start <= offset < one.source_end
        return one.target_start + offset - one.source_start if is_copied else None


def _records_at(
    cluster: ClusterAdmin, partition: TopicPartition, offset: int
) -> dict[int, tuple[Kept, bool]]:
    """Records that a request brings from an offset on, and whether the log has put its own time to each."""
    found: dict[int, tuple[Kept, bool]] = {}
    for header, batch in cluster.whole_batches_at(partition, offset):
        with suppress(ProtocolError):  # bytes that cannot be decoded prove nothing
            records = [] if header.is_control else decode(header, batch)
            found |= {
                one.offset: ((one.timestamp, one.content), header.has_log_append_time) for one in records
            }
    return found
