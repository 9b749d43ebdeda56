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

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from ledger.adopt.reading import (
    WINDOW_RECORDS,
    LogRecord,
    Lookahead,
    PassedRecords,
    ReadableLog,
    by_content,
    by_time_and_content,
)
from ledger.errors import RefusedPartitionError
from ledger.facts.syncs import Gap, GapCause, OffsetRange, joined
from ledger.kafka.record_fields import key_state

# Pairing result -----------------------------------------------------------------------------------
# What a comparison has found of one partition: the map, and everything that has no partner.


MAXIMUM_PIECES = 2_000_000
MAXIMUM_KEYS = 1_000_000


class Ranges:
    """Offsets as half-open ranges, in any order, neighbours joined."""

    def __init__(self) -> None:
        self._ranges: list[OffsetRange] = []
        self.records = 0

    def add(self, offset: int) -> None:
        self.add_range(offset, offset + 1, records=1)

    def add_range(self, start: int, end: int, *, records: int) -> None:
        self.records += records
        if self._ranges and self._ranges[-1][1] == start:
            self._ranges[-1] = (self._ranges[-1][0], end)
        else:
            self._ranges.append((start, end))
            _check_pieces(len(self._ranges))

    def __iter__(self) -> Iterator[OffsetRange]:
        return joined(sorted(self._ranges))

    def __bool__(self) -> bool:
        return bool(self._ranges)


@dataclass(slots=True)
class Run:
    """Paired records that follow each other on both sides, of one leader epoch of the source."""

    source_start: int
    target_start: int
    records: int
    first_timestamp_ms: int
    last_timestamp_ms: int
    leader_epoch: int | None

    @property
    def source_end(self) -> int:
        return self.source_start + self.records

    @property
    def target_end(self) -> int:
        return self.target_start + self.records


@dataclass(slots=True)
class PairingResult:
    """Collected in source order; the map is what `runs`, `gaps` and `missing` tile from `source_start` on.

    `before`: source records before the first pair. `missing`: source records between pairs that the target
    does not hold, without a cause that proves it harmless. `target_before`, `target_between`: target records
    without a source before the first pair, and between pairs. `duplicates`: the target's repeats.
    `uncommitted`: copies of source records that a flow leaves out. `foreign`: what follows the last pair and
    is neither.
    """

    is_target_compacted: bool
    source_start: int
    runs: list[Run] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    before: Ranges = field(default_factory=Ranges)
    missing: Ranges = field(default_factory=Ranges)
    ambiguous: Ranges = field(default_factory=Ranges)
    target_before: Ranges = field(default_factory=Ranges)
    target_between: Ranges = field(default_factory=Ranges)
    duplicates: Ranges = field(default_factory=Ranges)
    uncommitted: Ranges = field(default_factory=Ranges)
    foreign: Ranges = field(default_factory=Ranges)
    is_stamped: bool = False
    _replaced: dict[bytes, int] = field(default_factory=dict)

    @property
    def source_end(self) -> int:
        """Where the map ends: after the last pair, or a gap right behind it."""
        return max(
            self.runs[-1].source_end if self.runs else self.source_start,
            self.gaps[-1].source_end if self.gaps else self.source_start,
        )

    @property
    def paired(self) -> int:
        return sum(run.records for run in self.runs)

    def pair(self, source: LogRecord, target_offset: int) -> None:
        """The next source record of the map, and where its copy lies."""
        if not self.runs and self.before:
            self.source_start = source.offset
        else:
            self._add_gaps(source)
        last = self.runs[-1] if self.runs else None
        follows = (source.offset, target_offset, source.leader_epoch)
        if last is None or (last.source_end, last.target_end, last.leader_epoch) != follows:
            _check_pieces(len(self.runs))
            last = Run(
                source.offset, target_offset, 0, source.timestamp, source.timestamp, source.leader_epoch
            )
            self.runs.append(last)
        last.records += 1
        last.last_timestamp_ms = max(last.last_timestamp_ms, source.timestamp)
        if self._replaced and (key := key_state(source.content).key) is not None:
            self._replaced.pop(key, None)

    def leave_out(self, source: LogRecord) -> None:
        """The next source record has no copy that the map may name."""
        if not self.runs and (source.cause is None or self.before):
            self.before.add_range(source.offset, source.offset + 1, records=int(source.cause is None))
            self.gaps.clear()  # the map begins later
            return
        self._add_gaps(source)
        if source.cause is not None:
            self._add_gap(Gap(source.offset, source.offset + 1, source.cause))
        elif self.is_target_compacted:
            self._add_gap(Gap(source.offset, source.offset + 1, GapCause.COMPACTED))
            self._expect_replacement(source)
        else:
            self.missing.add(source.offset)

    def finish(self) -> None:
        """What the target's cleaner cannot have removed, because nothing replaces it, is missing."""
        for offset in sorted(self._replaced.values()):
            self.missing.add(offset)
        self._replaced.clear()

    def _expect_replacement(self, source: LogRecord) -> None:
        """A cleaner removes a record for a later one of its key, and in the end a tombstone for good."""
        state = key_state(source.content)
        if state.key is None:
            self.missing.add(source.offset)
        elif state.is_tombstone:
            self._replaced.pop(state.key, None)
        else:
            self._replaced[state.key] = source.offset
            if len(self._replaced) > MAXIMUM_KEYS:
                raise RefusedPartitionError(
                    f"more than {MAXIMUM_KEYS:,} keys are missing at the target up to source offset "
                    f"{source.offset}; nothing of the partition was recorded"
                )

    def _add_gaps(self, source: LogRecord) -> None:
        for gap in source.gaps:
            self._add_gap(gap)

    def _add_gap(self, gap: Gap) -> None:
        last = self.gaps[-1] if self.gaps else None
        if last is not None and last.source_end == gap.source_start and last.cause is gap.cause:
            self.gaps[-1] = Gap(last.source_start, gap.source_end, gap.cause)
        else:
            self.gaps.append(gap)
            _check_pieces(len(self.gaps))


def _check_pieces(pieces: int) -> None:
    if pieces > MAXIMUM_PIECES:
        raise RefusedPartitionError(
            f"the map of the partition has more than {MAXIMUM_PIECES:,} pieces; nothing of it was recorded"
        )


# Alignment ----------------------------------------------------------------------------------------
# Aligning two stretches of records: which of them pair up, in order.
#
# A pairing is a set of (source, target) places of equal records that rises on both sides. What was copied
# is a pairing, and one that leaves few records without a partner; there may be several, when equal records
# repeat. So the longest count, of whatever records (a copier may have copied what a flow leaves out), and
# those longest in readable records (it may have left that out, too). For a readable record that these leave
# out between others those count, too, that are shorter by a few pairs: repeats at the target are in no
# pairing, and records that equal them may make up a longer one than what happened.
#
# The one returned is put together from all that count so that it lands as early as any of them: for every
# source place, the first target place that one of them gives to that record or to a later one, of those
# that readers see. Hence, if the true pairing is among them, following the answer never passes a record
# that was not read. That the answer is itself a pairing: a place is paired where it lands earlier than all
# behind it, and only with an equal record.
#
# Records that readers do not see are paired where that leaves room for them.


MAXIMUM_POINTS = 500_000
_NEARLY = 4  # pairs: a copier's repeats of so many records may fit other records better than what happened


@dataclass(frozen=True, slots=True)
class Alignment:
    """Pairs of places, rising, and the readable source places that another of the pairings treats otherwise.

    Two copies of one record are no ambiguity: the first is the one. Two equal records for one copy are, when
    readers see both.
    """

    pairs: tuple[tuple[int, int], ...]
    ambiguous: tuple[int, ...]


Point = tuple[int, int]


class _BestBelow:
    """The highest value so far at a place below a given one (a Fenwick tree of maxima)."""

    def __init__(self, size: int) -> None:
        self._highest = [0] * (size + 1)

    def put(self, place: int, value: int) -> None:
        node = place + 1
        while node < len(self._highest):
            self._highest[node] = max(self._highest[node], value)
            node += node & -node

    def below(self, place: int) -> int:
        best = 0
        while place > 0:
            best = max(best, self._highest[place])
            place -= place & -place
        return best


def align(
    source: Sequence[Hashable], target: Sequence[Hashable], *, readable: Sequence[bool]
) -> Alignment | None:
    """The earliest-landing pairing; `readable` by source place. None: too many equal records to tell.

    Points are pairs of equal records; a point matters when a heaviest pairing goes through it.
    """
    rows = _points_by_source(source, target)
    if sum(len(targets) for targets in rows) > MAXIMUM_POINTS:
        return None
    size = len(target)
    lacks = _lacks(rows, size, [1] * len(rows))
    if not all(readable):
        of_readable = _lacks(rows, size, [int(is_readable) for is_readable in readable])
        lacks = {point: min(lack, of_readable[point]) for point, lack in lacks.items()}
    matter = _lacking(rows, lacks, at_most=0)
    landings = _earliest(matter, _lacking(rows, lacks, at_most=_NEARLY), readable, size)
    pairs = {**landings, **_between(matter, readable, landings, size)}
    return Alignment(tuple(sorted(pairs.items())), _ambiguous(matter, readable, landings))


def _points_by_source(source: Sequence[Hashable], target: Sequence[Hashable]) -> list[list[int]]:
    places: dict[Hashable, list[int]] = {}
    for place, record in enumerate(target):
        places.setdefault(record, []).append(place)
    return [places.get(record, []) for record in source]


def _lacks(rows: list[list[int]], size: int, weights: Sequence[int]) -> dict[Point, int]:
    """Per point what the heaviest pairing through it lacks in weight of the heaviest of all."""
    before = _chain_weights(enumerate(rows), size, weights)
    backwards = reversed([*enumerate(rows)])
    turned = ((s, [size - 1 - t for t in reversed(targets)]) for s, targets in backwards)
    after = _chain_weights(turned, size, weights)
    heaviest = max(before.values(), default=0)
    return {
        (s, t): heaviest - weight - after[(s, size - 1 - t)] + weights[s] for (s, t), weight in before.items()
    }


def _lacking(rows: list[list[int]], lacks: Mapping[Point, int], *, at_most: int) -> list[list[int]]:
    return [[t for t in targets if lacks[(s, t)] <= at_most] for s, targets in enumerate(rows)]


def _chain_weights(
    rows: Iterator[tuple[int, list[int]]], size: int, weights: Sequence[int]
) -> dict[Point, int]:
    """Per point the weight of the heaviest rising chain that ends there; rows in order, places rising."""
    best = _BestBelow(size)
    chains: dict[Point, int] = {}
    for s, targets in rows:
        for t in reversed(targets):  # so that points of one source place do not build on each other
            chains[(s, t)] = best.below(t) + weights[s]
            best.put(t, chains[(s, t)])
    return chains


def _earliest(
    matter: list[list[int]], nearly: list[list[int]], readable: Sequence[bool], end: int
) -> dict[int, int]:
    """The readable records' pairs: where a record lands earlier than all readable ones behind it.

    What the source holds behind the last pair may not have been copied yet: only for what lies before it
    points count that are `nearly` as good.
    """
    landings: dict[int, int] = {}
    landing = end
    for s in range(len(matter) - 1, -1, -1):
        if not readable[s]:
            continue
        first = next(iter(matter[s]), end)
        if first >= landing and landings:
            first = next(iter(nearly[s]), end)
        if first < landing:
            landing = landings[s] = first
    return landings


def _between(
    matter: list[list[int]], readable: Sequence[bool], landings: dict[int, int], end: int
) -> dict[int, int]:
    """Pairs of records that readers do not see, where those of readable ones leave room for them."""
    bounds = list(accumulate((landings.get(s, -1) for s in range(len(matter))), max))
    found: dict[int, int] = {}
    landing = end
    for s in range(len(matter) - 1, -1, -1):
        if s in landings:
            landing = landings[s]
        elif not readable[s]:
            first = bisect_right(matter[s], bounds[s])
            if first < len(matter[s]) and matter[s][first] < landing:
                landing = found[s] = matter[s][first]
    return found


def _ambiguous(
    matter: list[list[int]], readable: Sequence[bool], landings: dict[int, int]
) -> tuple[int, ...]:
    """Readable records that might be paired otherwise, where it makes a difference to readers."""
    claims = Counter(t for s, targets in enumerate(matter) if readable[s] for t in targets)
    sure = {s for s, t in landings.items() if t in matter[s] and all(claims[t] == 1 for t in matter[s])}
    return tuple(
        s for s, targets in enumerate(matter) if readable[s] and s not in sure and (targets or s in landings)
    )


# Pairing ------------------------------------------------------------------------------------------


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
        if not self._has_paired and not self._has_sought and len(found.pairs) < _AGREEMENT:
            self._has_sought = True
            if self._seek_source() or self._seek_target():
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

    # What the sides begin to agree with is searched further on at the source first, then at the target.

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
