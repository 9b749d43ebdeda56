"""What a tail is where cleaners have been at work since it was written, record by record.

A cleaner removes records and never moves one. At the target a batch keeps the range of its sequences, so of each
record that is left its index is known: how many records the flow had written before it, since the recorded end. At
the source the records that are left stand in runs without a hole between them. Within a run indexes go up by one;
what is not known of a run is the index that it begins with.

Rules, by name
    T1  a run begins behind the one before it, at most as many indexes later as the hole between them has offsets.
        Where that leaves one index only it is proved, by counting
    T2  else by content (time, key, value and headers): of a record that is left on both sides exactly once within
        these bounds. All such records of a run have to tell the same index, whatever else of the run is left at the
        target has to agree, and no two runs may cross
    T3  nothing else is paired. What lies between proved pairs is bounded by them: source records are gaps, target
        records have no source that could be identified
    T4  the flow continues behind a paired record only if every source record up to there is at the target, or a later
        one of its key is; and the last one of each key there is the last one that the source has. So a pair that is
        none, because a cleaner took one of two equal records, and records that the target lost otherwise hide nothing
        that a reader of the target could miss
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

# Sides --------------------------------------------------------------------------------------------
# What is left of a tail on both sides, as values.


ANY_NUMBER = 1 << 40
"""More than any log has: nobody knows how many."""


@dataclass(frozen=True, slots=True)
class Left:
    """A record that is left: `at` its source offset, or at the target its index; `digest` stands for its content."""

    at: int
    digest: bytes
    key: bytes | None
    timestamp: int


@dataclass(frozen=True, slots=True)
class SourceSide:
    """What is left of the source from `start` on: records to copy, and the holes that cleaners left.

    `hole_before`: how many records right before `start` may have been copied, and were deleted.
    """

    start: int
    records: Sequence[Left]
    holes: Sequence[tuple[int, int]]
    hole_before: int = 0


@dataclass(frozen=True, slots=True)
class TailRange:
    """Own records at the target, `count` of them were written: from this offset and index on."""

    target_start: int
    count: int
    index: int

    @property
    def end(self) -> int:
        return self.index + self.count

    def part(self, start: int, end: int) -> "TailRange":
        """By indexes."""
        return TailRange(self.target_start + start - self.index, end - start, start)


@dataclass(frozen=True, slots=True)
class TargetSide:
    """What is left of the tail: its batches in order, and records by index."""

    batches: Sequence[TailRange]
    records: Mapping[int, Left]

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    def batch_with(self, index: int) -> TailRange | None:
        """None where the cleaner has removed the whole batch."""
        place = bisect_left(self.batches, index + 1, key=lambda batch: batch.end)
        found = self.batches[place] if place < len(self.batches) else None
        return found if found is not None and found.index <= index else None


# Runs ---------------------------------------------------------------------------------------------
# Where runs of source records begin at the target (T1, T2).


_PASSES = 32
_MOST_WAYS = 64
"""A content that could be paired in more ways is not examined: it proves nothing before others have set bounds."""


@dataclass(slots=True)
class Run:
    """`count` records from the `first` on, behind a hole of `hole` offsets; `low`, `high`: which index it may have."""

    first: int
    count: int
    hole: int
    low: int = 0
    high: int = ANY_NUMBER
    index: int | None = None


class _ContradictionError(Exception):
    """There is no index left that a run could have."""


def runs_of(source: SourceSide) -> Iterator[Run]:
    hole = source.hole_before
    first, holes = 0, list(source.holes)
    following = 0
    for number, record in enumerate(source.records):
        before = 0
        while following < len(holes) and holes[following][0] < record.at:
            before += holes[following][1] - holes[following][0]
            following += 1
        if before and number > first:
            yield Run(first, number - first, hole)
            first, hole = number, 0
        hole += before
    if source.records:
        yield Run(first, len(source.records) - first, hole)


def place_runs(runs: list[Run], source: SourceSide, target: TargetSide) -> None:
    """Find the index of as many runs as can be proved; of none where what is left contradicts itself."""
    try:
        _bound(runs)
        _settle_counted(runs, source.records, target)
    except _ContradictionError:
        for run in runs:
            run.index = None
        return
    counted = [run.index for run in runs]
    try:
        _place_by_content(runs, source.records, target)
    except _ContradictionError:
        for run, index in zip(runs, counted, strict=True):
            run.index = index


def _place_by_content(runs: list[Run], records: Sequence[Left], target: TargetSide) -> None:
    contents = _on_both_sides(runs, records, target)
    for _ in range(_PASSES):
        proposed = _proposals(runs, contents)
        agreed = {n: index for n, index in proposed.items() if _agrees(runs[n], index, records, target)}
        placed = _not_crossing(runs, agreed)
        if not placed:
            return
        for number, index in placed.items():
            runs[number].index = index
        _bound(runs)
        _settle_counted(runs, records, target)


def _bound(runs: list[Run]) -> None:
    """Narrow which index each run may have (T1), from both ends."""
    low = high = 0
    for run in runs:
        run.low, run.high = max(run.low, low), min(run.high, high + run.hole)
        if run.index is not None:
            if not run.low <= run.index <= run.high:
                raise _ContradictionError
            run.low = run.high = run.index
        low, high = run.low + run.count, run.high + run.count
    for run, following in reversed(list(pairwise(runs))):
        run.high = min(run.high, following.high - run.count)
        run.low = max(run.low, following.low - following.hole - run.count)
    if any(run.low > run.high for run in runs):
        raise _ContradictionError


def _settle_counted(runs: list[Run], records: Sequence[Left], target: TargetSide) -> None:
    for run in runs:
        if run.index is None and run.low == run.high:
            if not _agrees(run, run.low, records, target):
                raise _ContradictionError
            run.index = run.low


def _agrees(run: Run, index: int, records: Sequence[Left], target: TargetSide) -> bool:
    """Whether what the target has left where the run would lie are its records."""
    return all(
        found is None or found.digest == records[run.first + n].digest
        for n in range(run.count)
        for found in [target.records.get(index + n)]
    )


_Places = list[tuple[int, int]]
"""Number of a run, and which record of it."""


def _on_both_sides(
    runs: list[Run], records: Sequence[Left], target: TargetSide
) -> list[tuple[_Places, list[int]]]:
    """For each content that both sides have: where at the source, and at which indexes."""
    indexes = defaultdict[bytes, list[int]](list)
    for index, left in target.records.items():
        indexes[left.digest].append(index)
    places = defaultdict[bytes, _Places](list)
    for number, run in enumerate(runs):
        for n in range(run.count):
            digest = records[run.first + n].digest
            if digest in indexes:
                places[digest].append((number, n))
    found = [(at, indexes[digest]) for digest, at in places.items()]
    return [(at, there) for at, there in found if len(at) * len(there) <= _MOST_WAYS]


def _proposals(runs: list[Run], contents: list[tuple[_Places, list[int]]]) -> dict[int, int]:
    """By run the index that all its records tell which can be one record of the target only (T2)."""
    shifts = defaultdict[int, set[int]](set)
    for places, indexes in contents:
        ways = [
            (place, index)
            for place in places
            for index in indexes
            if runs[place[0]].low <= index - place[1] <= runs[place[0]].high
        ]
        of_place, of_index = Counter(way[0] for way in ways), Counter(way[1] for way in ways)
        for (number, n), index in ways:
            if runs[number].index is None and of_place[number, n] == of_index[index] == 1:
                shifts[number].add(index - n)
    return {number: min(found) for number, found in shifts.items() if len(found) == 1}


def _not_crossing(runs: list[Run], proposed: dict[int, int]) -> dict[int, int]:
    """Those before which all earlier ones end, and behind which all later ones begin."""
    numbers = sorted(proposed)
    ends = list(accumulate((proposed[n] + runs[n].count for n in numbers), max, initial=0))
    starts = list(accumulate((proposed[n] for n in reversed(numbers)), min, initial=ANY_NUMBER))[::-1]
    return {
        number: proposed[number]
        for place, number in enumerate(numbers)
        if proposed[number] >= ends[place] and proposed[number] + runs[number].count <= starts[place + 1]
    }


# Proof --------------------------------------------------------------------------------------------
# What follows from where runs begin (T3, T4): pairings, and from where on nothing is proved.


@dataclass(frozen=True, slots=True)
class Pairing:
    """Source offsets from `source_start` on, all of them copied, and where their records are, or were.

    Times are those of what is left of them on either side.
    """

    source_start: int
    place: TailRange
    first_timestamp: int
    last_timestamp: int

    @property
    def source_end(self) -> int:
        return self.source_start + self.place.count


@dataclass(frozen=True, slots=True)
class Proof:
    """What was found out: pairings, and records of the target between them without a source, in order.

    They end with a batch. The flow continues at `source_end`; `rest` is what the tail holds behind, whole batches.
    `rest_holds_records`: not only such as a cleaner has emptied.
    """

    found: tuple[Pairing | TailRange, ...]
    source_end: int
    rest: tuple[TailRange, ...]
    rest_holds_records: bool


def prove(source: SourceSide, target: TargetSide) -> Proof:
    """Pair what can be paired without a guess, and say from where on nothing can."""
    runs = list(runs_of(source))
    place_runs(runs, source, target)
    last = _last_that_may_be_left_behind(runs, source.records, target)
    if last is None:
        return Proof((), source.start, tuple(target.batches), bool(target.records))
    spans = _spans(runs, source, last)
    pairings = [pairing for span in spans for pairing in _pairings(span, source, target)]
    end = pairings[-1].place.end
    rest = tuple(batch for batch in target.batches if batch.index >= end)
    return Proof(
        found=tuple(_with_what_lies_between(pairings, target)),
        source_end=source.records[last].at + 1,
        rest=rest,
        rest_holds_records=any(index >= rest[0].index for index in target.records) if rest else False,
    )


def _last_that_may_be_left_behind(runs: list[Run], records: Sequence[Left], target: TargetSide) -> int | None:
    """The last paired record behind which the flow may continue (T4); None: it has to continue at its position."""
    last_at_source = {left.key: number for number, left in enumerate(records)}
    last_at_target = {left.key: index for index, left in sorted(target.records.items())}
    missing: set[bytes | None] = set()
    last: int | None = None
    for run in runs:
        for number in range(run.first, run.first + run.count):
            index = None if run.index is None else run.index + number - run.first
            if index is not None and index >= target.end:
                return last
            key = records[number].key
            is_overtaken = last_at_source[key] == number and last_at_target.get(key) != index
            if index in target.records and (key is None or not is_overtaken):
                missing -= {key} - {None}
            else:
                missing.add(key)
            if index is not None and not missing and target.batch_with(index) is not None:
                last = number
    return last


@dataclass(frozen=True, slots=True)
class _Span:
    """Source offsets without a gap that were copied one behind the other."""

    source_start: int
    count: int
    index: int


def _spans(runs: list[Run], source: SourceSide, last: int) -> list[_Span]:
    """Copied source offsets up to record number `last`, with holes of which counting says that all was copied."""
    spans: list[_Span] = []

    def add(start: int, count: int, index: int) -> None:
        before = spans[-1] if spans else None
        if before and (before.source_start + before.count, before.index + before.count) == (start, index):
            spans[-1] = _Span(before.source_start, before.count + count, before.index)
        else:
            spans.append(_Span(start, count, index))

    at, index = (None if source.hole_before else source.start), 0
    for run in runs:
        if run.first > last:
            break
        if run.index is None:
            at = None
            continue
        for n in range(min(run.count, last + 1 - run.first)):
            record = source.records[run.first + n]
            if at is not None:
                holes = _holes_between(source, at, record.at)
                if sum(end - start for start, end in holes) == run.index + n - index:
                    for start, end in holes:
                        add(start, end - start, index)
                        index += end - start
            at, index = record.at + 1, run.index + n
            add(record.at, 1, index)
            index += 1
    return spans


def _holes_between(source: SourceSide, start: int, end: int) -> list[tuple[int, int]]:
    if start == end:
        return []
    first = bisect_left(source.holes, start, key=lambda hole: hole[0])
    last = bisect_left(source.holes, end, lo=first, key=lambda hole: hole[0])
    return list(source.holes[first:last])


def _pairings(span: _Span, source: SourceSide, target: TargetSide) -> Iterator[Pairing]:
    """The parts of a span that lie in batches which are there still, and of which something is left."""
    end = span.index + span.count
    first = bisect_left(target.batches, span.index + 1, key=lambda batch: batch.end)
    for number in range(first, len(target.batches)):
        batch = target.batches[number]
        if batch.index >= end:
            return
        place = batch.part(max(batch.index, span.index), min(batch.end, end))
        start = span.source_start + place.index - span.index
        times = times_of(source, target, start, place)
        if times:
            yield Pairing(start, place, times[0], max(times))


def times_of(source: SourceSide, target: TargetSide, source_start: int, place: TailRange) -> list[int]:
    """Of the records of a pair those of what is left at the source, else at the target."""
    first = bisect_left(source.records, source_start, key=lambda record: record.at)
    last = bisect_left(source.records, source_start + place.count, lo=first, key=lambda record: record.at)
    if last > first:
        return [record.timestamp for record in source.records[first:last]]
    return [
        target.records[index].timestamp for index in range(place.index, place.end) if index in target.records
    ]


def _with_what_lies_between(pairings: Sequence[Pairing], target: TargetSide) -> Iterator[Pairing | TailRange]:
    """The pairings and, in their order, ranges between them that hold records (T3); to the end of the last batch."""
    following = 0
    for batch in target.batches:
        index = batch.index
        while following < len(pairings) and pairings[following].place.index < batch.end:
            pairing = pairings[following]
            yield from _holding_records(batch.part(index, pairing.place.index), target)
            yield pairing
            index = pairing.place.end
            following += 1
        if following == len(pairings):
            if index < batch.end:
                yield batch.part(index, batch.end)
            return
        yield from _holding_records(batch.part(index, batch.end), target)


def _holding_records(between: TailRange, target: TargetSide) -> Iterator[TailRange]:
    if any(index in target.records for index in range(between.index, between.end)):
        yield between
