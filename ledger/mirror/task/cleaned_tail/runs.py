"""Where runs of source records begin at the target (T1, T2)."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from ledger.mirror.task.cleaned_tail.sides import ANY_NUMBER, Left, SourceSide, TargetSide

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
