"""Aligning two stretches of records: which of them pair up, in order.

A pairing is a set of (source, target) places of equal records that rises on both sides. What was copied is a
pairing, and one that leaves few records without a partner; there may be several, when equal records repeat. So
the longest count, of whatever records (a copier may have copied what a flow leaves out), and those longest in
readable records (it may have left that out, too). For a readable record that these leave out between others
those count, too, that are shorter by a few pairs: repeats at the target are in no pairing, and records that
equal them may make up a longer one than what happened.

The one returned is put together from all that count so that it lands as early as any of them: for every source
place, the first target place that one of them gives to that record or to a later one, of those that readers
see. Hence, if the true pairing is among them, following the answer never passes a record that was not read.
That the answer is itself a pairing: a place is paired where it lands earlier than all behind it, and only with
an equal record.

Records that readers do not see are paired where that leaves room for them.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

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
    turned = ((s, [size - 1 - t for t in reversed(targets)]) for s, targets in _backwards(rows))
    after = _chain_weights(turned, size, weights)
    heaviest = max(before.values(), default=0)
    return {
        (s, t): heaviest - weight - after[(s, size - 1 - t)] + weights[s] for (s, t), weight in before.items()
    }


def _lacking(rows: list[list[int]], lacks: Mapping[Point, int], *, at_most: int) -> list[list[int]]:
    return [[t for t in targets if lacks[(s, t)] <= at_most] for s, targets in enumerate(rows)]


def _backwards(rows: list[list[int]]) -> Iterator[tuple[int, list[int]]]:
    return ((s, rows[s]) for s in range(len(rows) - 1, -1, -1))


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
