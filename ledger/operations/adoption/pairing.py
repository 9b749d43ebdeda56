"""Pairing the records of a target partition with those of its source, both read once, in order.

What filled the target copied in order, at least once, and may have left records out. So the sides agree for
long stretches (read side by side, without a search) that are parted by

    repeats       the copier had started again further back: target records that were passed already and do not
                  come again at the source; the first copy is the mapped one
    leftovers     target records whose source retention or the cleaner has removed
    missing ones  source records that were left out, or that the target's cleaner has removed
    uncommitted   source records of aborted transactions, which a copier may or may not have copied

Where the sides disagree, a window of both is aligned (`alignment`) and its first half is decided; records
decided shortly before take part again when one of them equals a source record of the window that has no
partner, for its copy may be that one's. Of several pairings that explain a window equally well the earliest
landing counts: a translation may then repeat records and never passes one that was not read. Such records are
reported as ambiguous. What no window explains is refused, with coordinates. Only before the first pair the
whole log is searched, first the source (the copier began late), then the target (the source has lost its
beginning).
"""

from collections import deque
from collections.abc import Hashable, Iterator

from ledger.operations.adoption.alignment import Alignment, align
from ledger.operations.adoption.history import PassedRecords
from ledger.operations.adoption.pairing_result import PairingResult, Ranges, RefusedPartitionError
from ledger.operations.adoption.records import (
    WINDOW_RECORDS,
    LogRecord,
    Lookahead,
    ReadableLog,
    by_content,
    by_time_and_content,
)

_WINDOWS = (256, 2_048, WINDOW_RECORDS)
_AGREEMENT = 16  # pairs that make a window's alignment more than chance
_CONTEXT = 1_000
_CANDIDATES = 20

Decision = tuple[LogRecord, LogRecord | None]
"""A source record, and the target record that it is paired with."""


def pair_partition(source: ReadableLog, target: ReadableLog, *, is_target_compacted: bool) -> PairingResult:
    """Compare two partitions up to their ends. Raises `RefusedPartitionError` when they cannot be paired."""
    return _PartitionPairing(source, target, is_target_compacted=is_target_compacted).run()


class _PartitionPairing:
    """One comparison; `_recent` are the last decisions, which may still be revised."""

    def __init__(self, source: ReadableLog, target: ReadableLog, *, is_target_compacted: bool) -> None:
        self._source_log, self._target_log = source, target
        self._source, self._target = (Lookahead(log.read(log.start)) for log in (source, target))
        self._findings = PairingResult(is_target_compacted, source.start)
        self._recent: deque[Decision] = deque()
        self._is_recent_cut = False
        self._furthest = (0, 0)
        self._passed = PassedRecords(source.end - source.start)
        self._has_paired = self._has_sought = False
        self._ahead: tuple[int, frozenset[Hashable]] = (-1, frozenset())
        first = self._target.head()
        self._findings.is_stamped = first is not None and first.stamped
        self._match = by_content if self._findings.is_stamped else by_time_and_content

    def run(self) -> PairingResult:
        while (target := self._target.head()) is not None:
            source = self._source.head()
            if source is None and self._has_paired:
                break
            if source is not None and self._match(source) == self._match(target):
                self._decide(self._source.take(), self._target.take())
            elif not self._skip_repeats() and not self._realign():
                break
        self._settle(0)
        self._pass_rest()
        self._findings.finish()
        return self._findings

    # -- deciding --------------------------------------------------------------------------------

    def _decide(self, source: LogRecord, target: LogRecord | None) -> None:
        self._passed.add(hash(self._match(source)))
        self._has_paired = self._has_paired or target is not None
        self._recent.append((source, target))
        if len(self._recent) > _CONTEXT:
            self._settle(_CONTEXT)

    def _settle(self, kept: int) -> None:
        """All but the last `kept` decisions are final."""
        while len(self._recent) > kept:
            source, target = self._recent.popleft()
            self._is_recent_cut = True
            if target is None:
                self._findings.leave_out(source)
            elif source.is_mapped:
                self._findings.pair(source, target.offset)
            else:
                self._findings.leave_out(source)
                self._findings.uncommitted.add(target.offset)

    # -- repeats ---------------------------------------------------------------------------------

    def _skip_repeats(self) -> bool:
        """Pass target records that were passed before and do not come again within the window ahead.

        As they do not come again, no pairing of the window could use them.
        """
        place = self._passed.find_run([self._hash(record) for record in self._target.peek(_AGREEMENT)])
        head = self._target.head()
        if head is None or place is None or self._match(head) in self._matches_ahead():
            return False
        while head is not None and self._is_repeat(head, place):
            self._findings.duplicates.add(self._target.take().offset)
            place += 1
            head = self._target.head()
        return True

    def _is_repeat(self, target: LogRecord, place: int) -> bool:
        return (
            self._passed.is_at(place, self._hash(target)) and self._match(target) not in self._matches_ahead()
        )

    def _hash(self, record: LogRecord) -> int:
        return hash(self._match(record))

    def _matches_ahead(self) -> frozenset[Hashable]:
        if self._ahead[0] != self._source.taken:
            ahead = frozenset(self._match(record) for record in self._source.peek(WINDOW_RECORDS))
            self._ahead = (self._source.taken, ahead)
        return self._ahead[1]

    # -- windows ---------------------------------------------------------------------------------

    def _realign(self) -> bool:
        """Decide the next stretch by a window; False when nothing ahead can be paired any more."""
        for size in _WINDOWS:
            found = self._aligned(size, size)
            ended = (self._source.ends_within(size), self._target.ends_within(size))
            if all(ended):
                return self._take_pairs(found, len(found.pairs), size)
            if len(found.pairs) >= 2 * _AGREEMENT:
                return self._take_pairs(found, len(found.pairs) // 2, size)
        if not self._has_paired and not self._has_sought and len(found.pairs) < _AGREEMENT and self._seek():
            return True
        if found.pairs:
            count = len(found.pairs) if any(ended) else (len(found.pairs) + 1) // 2
            return self._take_pairs(found, count, WINDOW_RECORDS)
        if any(ended) or not self._has_paired:
            return False
        raise self._refusal(f"no record in common within {WINDOW_RECORDS:,} records")

    def _aligned(self, source_records: int, target_records: int) -> Alignment:
        source, target = self._source.peek(source_records), self._target.peek(target_records)
        found = align(
            [self._match(record) for record in source],
            [self._match(record) for record in target],
            readable=[record.is_mapped for record in source],
        )
        if found is None:
            raise self._refusal(f"too many equal records within {len(source):,}")
        return found

    def _refusal(self, what: str) -> RefusedPartitionError:
        places = [
            "the end" if record is None else f"offset {record.offset}"
            for record in (self._source.head(), self._target.head())
        ]
        return RefusedPartitionError(
            f"from {places[0]} of the source and {places[1]} of the target on: {what}; "
            "nothing of the partition was recorded"
        )

    def _take_pairs(self, found: Alignment, count: int, size: int) -> bool:
        """Decide everything up to the pair before `count`; if that may revise recent decisions, search back."""
        if not count:
            return False
        if self._is_equal_to_recent(found, size):
            found, count = self._search_back(found, count, size)
        first_target = found.pairs[0][1]
        last_source, last_target = found.pairs[count - 1]
        if not self._has_paired:
            for _ in range(first_target):
                self._findings.target_before.add(self._target.take().offset)
        else:
            first_target = 0
        ambiguous = set(found.ambiguous)
        partners = {s: t - first_target for s, t in found.pairs[:count]}
        targets = [self._target.take() for _ in range(last_target + 1 - first_target)]
        for place in range(last_source + 1):
            source = self._source.take()
            if place in ambiguous:
                self._findings.ambiguous.add(source.offset)
            partner = partners.get(place)
            self._decide(source, None if partner is None else targets[partner])
        self._leave_unpaired(targets, set(partners.values()))
        return True

    def _leave_unpaired(self, targets: list[LogRecord], paired: set[int]) -> None:
        """Target records between pairs: repeats of what stands before them, or leftovers."""
        copied: set[Hashable] = set()
        for place, target in enumerate(targets):
            if place in paired:
                copied.add(self._match(target))
            elif self._match(target) in copied:
                self._findings.duplicates.add(target.offset)
            else:
                self._findings.target_between.add(target.offset)

    def _is_equal_to_recent(self, found: Alignment, size: int) -> bool:
        """Whether a source record ahead without a pair equals a recent one, whose pair might be its copy."""
        paired = {s for s, _ in found.pairs}
        unpaired = {
            self._match(record) for place, record in enumerate(self._source.peek(size)) if place not in paired
        }
        return any(self._match(source) in unpaired for source, _ in self._recent)

    def _search_back(self, found: Alignment, count: int, size: int) -> tuple[Alignment, int]:
        """Take the recent decisions back and align again, with them, as far ahead as before."""
        recent = [*self._recent]
        targets = [target for _, target in recent if target is not None]
        is_whole, (_, cut) = count == len(found.pairs), found.pairs[count - 1]
        self._reach(self._source.taken, self._target.taken)
        self._recent.clear()
        self._passed.rewind(len(recent))
        self._source.push_back(source for source, _ in recent)
        self._target.push_back(targets)
        again = self._aligned(len(recent) + size, len(targets) + size)
        count = sum(is_whole or t <= len(targets) + cut for _, t in again.pairs)
        first = next((place for place, (_, target) in enumerate(recent) if target is not None), None)
        if self._is_recent_cut and (again.pairs[0] != (first, 0) or first in again.ambiguous):
            raise self._refusal(f"equal records and a missing one over more than {_CONTEXT:,} records")
        if not self._reach_pair(again, count):
            raise self._refusal(f"equal records that pair up differently with each search, within {size:,}")
        return again, count

    def _reach_pair(self, found: Alignment, count: int) -> bool:
        if not count:
            return False
        source, target = found.pairs[count - 1]
        return self._reach(self._source.taken + source + 1, self._target.taken + target + 1)

    def _reach(self, source: int, target: int) -> bool:
        """Whether one side gets further than ever: who searches back again and again would not come to an end."""
        furthest = self._furthest
        self._furthest = (max(source, furthest[0]), max(target, furthest[1]))
        return self._furthest != furthest

    # -- the beginning ---------------------------------------------------------------------------

    def _seek(self) -> bool:
        """Find where the sides begin to agree: first further on at the source, then at the target."""
        self._has_sought = True
        return self._seek_source() or self._seek_target()

    def _seek_source(self) -> bool:
        anchors = {self._match(record) for record in self._target.peek(WINDOW_RECORDS)}
        before = Ranges()
        for number, candidate in enumerate(self._candidates(self._source_log, anchors, before)):
            # With nothing readable before it, the gaps before it belong to the map.
            ahead = Lookahead(self._source_log.read(candidate if before else self._source_log.start))
            kept, self._source = self._source, ahead
            self._ahead = (-1, frozenset())
            if self._agrees():
                self._findings.before = before
                self._findings.gaps.clear()
                return True
            self._source = kept
            if number >= _CANDIDATES:
                break
        self._ahead = (-1, frozenset())
        return False

    def _seek_target(self) -> bool:
        anchors = {self._match(record) for record in self._source.peek(WINDOW_RECORDS)}
        before = Ranges()
        for number, candidate in enumerate(self._candidates(self._target_log, anchors, before)):
            kept, self._target = self._target, Lookahead(self._target_log.read(candidate))
            if self._agrees():
                self._findings.target_before = before
                return True
            self._target = kept
            if number >= _CANDIDATES:
                break
        return False

    def _candidates(self, log: ReadableLog, anchors: set[Hashable], before: Ranges) -> Iterator[int]:
        """Offsets of records that the other side begins with; `before` collects what lies before the last."""
        for record in log.read(log.start):
            if self._match(record) in anchors:
                yield record.offset
            before.add_range(record.offset, record.offset + 1, records=int(record.cause is None))

    def _agrees(self) -> bool:
        pairs = self._aligned(WINDOW_RECORDS, WINDOW_RECORDS).pairs
        ended = self._source.ends_within(WINDOW_RECORDS) or self._target.ends_within(WINDOW_RECORDS)
        return len(pairs) >= _AGREEMENT or (ended and bool(pairs))

    # -- the end ---------------------------------------------------------------------------------

    def _pass_rest(self) -> None:
        """Target records behind the last pair: repeats, copies of what was aborted, or somebody else's."""
        while (target := self._target.head()) is not None:
            if not self._skip_repeats():
                self._findings.foreign.add(target.offset)
                self._target.take()
