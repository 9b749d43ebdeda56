"""Whether a source still holds what was copied of it, where leader epochs and offsets do not tell.

A source that was brought back from an older copy of its folders writes other records under epochs and offsets that it
has had before. So the record that was copied last is compared with the source's own: when a driver begins, under
another leader, and when the source could not be read in between. What a task suspects the driver proves by the map.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.errors import ProtocolError
from ledger.facts.history import Segment, expand
from ledger.facts.syncs import OffsetSync, PartitionPair, Position, TopicPartition
from ledger.kafka.cluster import ClusterAdmin
from ledger.kafka.requests import Fetched
from ledger.mirror.assignment import Assignment
from ledger.mirror.source import SourceReading
from ledger.mirror.steps import Copy
from ledger.mirror.tail import Kept, TailBatch, are_same_bytes, records_by_index, records_by_source_offset
from ledger.mirror.tail_reading import TailReading

# Comparison in a task -------------------------------------------------------------------------------

_FURTHER_BACK, _NEARER = {2: 64}, {2: 1}
"""How many offsets before the position the source is read from next: behind a record there may be a marker."""


class SourceComparison:
    """The flow's last record at the target, beside the last one before the position that the source has for it.

    `is_due`: nothing more is read before it is done. `was_impossible`: one side has nothing to compare.
    """

    def __init__(self, assignment: Assignment, source: SourceReading, reading: TailReading) -> None:
        self._is_asked = assignment.compares_source
        self._is_cleaned = assignment.is_source_cleaned or assignment.is_target_cleaned
        self._source = source
        self._reading = reading
        self._epoch = assignment.tail.source_epoch
        self._back = 2
        self.is_due = self._is_asked and self._epoch is None
        self.was_impossible = False

    @property
    def leader_epoch(self) -> int | None:
        """What it was done under; None: it is to be done."""
        return None if self.is_due else self._epoch

    def ask_under(self, leader_epoch: int | None) -> None:
        """This leader is read next."""
        if leader_epoch is None or leader_epoch == self._epoch:
            return
        if self._epoch is not None:
            self.ask_again()
        self._epoch = leader_epoch

    def ask_again(self) -> None:
        """What is read next may be another history: the source could not be read."""
        self.is_due, self._back = self._is_asked, 2
        self._reading.forget_last_record()

    @property
    def offset(self) -> int:
        """The source offset to fetch from."""
        is_compared = self.is_due and self._reading.last is not None
        return max(0, self._source.position - self._back) if is_compared else self._source.position

    def is_out_of_range(self) -> bool:
        """The source has deleted the record, or what lies before it; False where the position itself was asked for."""
        if self.offset == self._source.position:
            return False
        self._back = _NEARER.get(self._back, 0)
        return True

    def finds_same(self, fetched: Fetched, at: Position) -> bool | None:
        """Whether an answer from `offset` on has the record that was copied last; None: another answer may have it.

        False also for what only seems to differ: a cleaner, the flow's rules, an operator or a refusal may have taken it.
        """
        last = self._reading.last
        step = None if last is None else self._source.last_copy(fetched)
        if step is None and last is not None and (back := _FURTHER_BACK.get(self._back, 0)) and self.offset:
            self._back = back
            return None
        self.is_due = False
        if last is None or step is None:
            has_written = bool(at.next_sequence or at.former_sequence)
            may_have_older = has_written and self._is_cleaned and self._back > 0
            self.was_impossible = has_written and not may_have_older
            return not may_have_older
        return step.source_end <= at.source_offset and _is_copy(step, last, at)


def _is_copy(step: Copy, found: TailBatch, at: Position) -> bool:
    """Whether the last record of a step is the flow's last record; of a cleaned step one of its batch."""
    header, end = found.header, at.target_offset - found.header.base_offset
    if header.end_offset == at.target_offset and step.count == found.written and are_same_bytes(step, found):
        return True
    try:
        sent, stored = records_by_source_offset(step), records_by_index(found)
    except ProtocolError:
        return False
    last = max(sent)
    wanted = {end - 1} & stored.keys() if last == at.source_offset - 1 else set()
    may_be = wanted or {index for index in stored if index < end}
    return any(_are_same(sent[last], stored[index], found) for index in may_be)


def _are_same(sent: Kept, kept: Kept, found: TailBatch) -> bool:
    return sent[1] == kept[1] and (found.header.has_log_append_time or sent[0] == kept[0])


# Proof by the map -----------------------------------------------------------------------------------

_BATCHES_READ = 20
"""At each side, from one offset on: behind holes that cleaners left."""


@dataclass(frozen=True, slots=True)
class SourceHistory:
    """The records of one partition that both sides have, by its map."""

    source: ClusterAdmin
    target: ClusterAdmin
    pair: PartitionPair
    held: Sequence[OffsetSync]

    def compared(self) -> tuple[bool, int | None]:
        """Whether a record was compared at all, and the first source offset whose record is another one."""
        there = (sync for sync in self.held if sync.target.topic_id == self.pair.target.topic_id)
        segments = sorted((one for sync in there for one in expand(sync)), key=_start)
        first, high = (segments[0].source_start, segments[-1].source_end) if segments else (0, 0)
        found, back = None, 1
        while found is None and back < 4 * (high - first):
            found = self._first_from(max(first, high - back), high, segments)
            back *= 4
        if found is None or found[1]:
            return found is not None, None
        other = high = found[0]
        while first < high:  # a log parts from another one once: what is common lies below
            middle = (first + high) // 2
            found = self._first_from(middle, high, segments)
            if found is not None and found[1]:
                first = found[0] + 1
            else:
                high, other = middle, other if found is None else found[0]
        return True, other

    def _first_from(self, start: int, end: int, segments: Sequence[Segment]) -> tuple[int, bool] | None:
        """The first source offset of `[start, end)` whose record both sides have, and whether it is the same one."""
        copies: dict[int, tuple[Kept, TailBatch]] = {}
        reads = 0
        for _ in range(_BATCHES_READ):
            following = bisect_right(segments, start, key=lambda one: one.source_end)
            start = max(start, segments[following].source_start) if following < len(segments) else end
            found = _records_at(self.source, self.pair.source, start) if start < end else None
            if found is None:
                return None
            for offset, (kept, _) in found[1].items():
                segment = segments[bisect_right(segments, offset, key=_start) - 1]
                if not (start <= offset < end and offset < segment.source_end):
                    continue
                place = segment.target_start + offset - segment.source_start
                if place not in copies and reads < _BATCHES_READ:
                    reads += 1
                    at_target = _records_at(self.target, self.pair.target, place)
                    copies = {} if at_target is None else at_target[1]
                if place in copies:
                    return offset, _are_same(kept, *copies[place])
            start = found[0]
        return None


def _start(segment: Segment) -> int:
    return segment.source_start


def _records_at(
    cluster: ClusterAdmin, partition: TopicPartition, offset: int
) -> tuple[int, dict[int, tuple[Kept, TailBatch]]] | None:
    """Where the batch ends that holds an offset, or is the next one, and its records; None where the log ends."""
    found = cluster.batch_at(partition, offset)
    if found is None:
        return None
    header, batch = found
    whole = TailBatch(header, batch)
    try:
        records = {} if header.is_control else records_by_index(whole)
    except ProtocolError:
        records = {}  # bytes that cannot be decoded prove nothing
    return header.end_offset, {header.base_offset + index: (kept, whole) for index, kept in records.items()}
