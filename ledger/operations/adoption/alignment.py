"""Aligning two stretches of records: which of them pair up, in order.

A pairing is a set of (source, target) places of equal records that rises on both sides. Of all pairings the
heaviest count; there may be several, when equal records repeat. The one returned is put together from them
all so that it lands as early as any of them: for every source place, the first target place that one of the
heaviest pairings gives to it or to a later one. Hence, if the true pairing is among the heaviest, following
the answer never passes a record that was not read. That the answer is itself a pairing: where the earliest
landing differs from that of the next place, the heaviest pairing that gives it pairs exactly that place, else
it would give the same landing to the next.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

MAXIMUM_POINTS = 500_000


@dataclass(frozen=True, slots=True)
class Alignment:
    """Pairs of places, rising, and the source places that another pairing of the same weight treats otherwise.

    Two copies of one record are no ambiguity: the first is the one. Two equal records for one copy are.
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
    source: Sequence[Hashable], target: Sequence[Hashable], *, weights: Sequence[int]
) -> Alignment | None:
    """The earliest-landing pairing; `weights` by source place. None: too many equal records to tell.

    Points are pairs of equal records; a point matters when a heaviest pairing goes through it.
    """
    rows = _points_by_source(source, target)
    if sum(len(targets) for targets in rows) > MAXIMUM_POINTS:
        return None
    before = _chain_weights(enumerate(rows), len(target), weights)
    size = len(target)
    turned = ((s, [size - 1 - t for t in reversed(targets)]) for s, targets in _backwards(rows))
    after = {(s, size - 1 - t): weight for (s, t), weight in _chain_weights(turned, size, weights).items()}
    heaviest = max(before.values(), default=0)
    matter = [
        [t for t in targets if before[(s, t)] + after[(s, t)] - weights[s] == heaviest]
        for s, targets in enumerate(rows)
    ]
    return _earliest(matter, size)


def _points_by_source(source: Sequence[Hashable], target: Sequence[Hashable]) -> list[list[int]]:
    places: dict[Hashable, list[int]] = {}
    for place, record in enumerate(target):
        places.setdefault(record, []).append(place)
    return [places.get(record, []) for record in source]


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


def _earliest(matter: list[list[int]], end: int) -> Alignment:
    pairs: list[Point] = []
    ambiguous: list[int] = []
    claims = Counter(t for targets in matter for t in targets)
    landing = end
    for s in range(len(matter) - 1, -1, -1):
        targets = matter[s]
        is_paired = bool(targets) and targets[0] < landing
        if is_paired:
            landing = targets[0]
            pairs.append((s, landing))
        if (targets and not is_paired) or any(claims[t] > 1 for t in targets):
            ambiguous.append(s)
    return Alignment(tuple(reversed(pairs)), tuple(reversed(ambiguous)))
