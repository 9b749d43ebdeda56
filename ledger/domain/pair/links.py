"""Which records lie at both of two logs, by one map between them: a link, seen from where a group is.

*Here* is the log on which the group has committed, *there* the one on which it shall continue. A map from there to here
has *brought* records, one from here to there has *taken* them; where both were filled from a third log, they are
*of one origin*. A chain of maps is a map (`composition`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ledger.domain.facts import GapCause, TopicPartition
from ledger.domain.offsets.offset_map import OffsetMap
from ledger.domain.offsets.offset_ranges import OffsetRange, without
from ledger.domain.offsets.stretches import Segment, Unpaired
from ledger.domain.pair.claims import leftover
from ledger.domain.pair.untold import is_same


@dataclass(frozen=True, slots=True, order=True)
class Stretch:
    """The records `[here_start, here_start + length)` here are, in order, those from `there_start` on there."""

    here_start: int
    there_start: int
    length: int

    @property
    def here(self) -> OffsetRange:
        return self.here_start, self.here_start + self.length

    @property
    def there(self) -> OffsetRange:
        return self.there_start, self.there_start + self.length

    def there_from(self, here_offset: int) -> Iterator[OffsetRange]:
        """Where those lie that are here at an offset or behind it."""
        passed = max(here_offset - self.here_start, 0)
        if passed < self.length:
            yield self.there_start + passed, self.there_start + self.length


@dataclass(frozen=True, slots=True, order=True)
class UnplacedThere:
    """Records there of which nobody knows where they lie here.

    They count as read by who has come to `passed_at` here, where the map continues behind them; None: by nobody.
    """

    there: OffsetRange
    passed_at: int | None

    def is_unread(self, here_offset: int) -> bool:
        return self.passed_at is None or self.passed_at > here_offset


@dataclass(frozen=True, slots=True, order=True)
class UnplacedHere:
    """Records here of which nobody knows where they lie there: nowhere below `there_from`."""

    here: OffsetRange
    there_from: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A map, of one flow or of a chain, and what else is known to lie at its target.

    `old`: copies that supersession took out of the map and that lie at the target still. `old_unpaired`: the same of
    records that nobody could pair.
    `doubted`: target offsets that hold records of which it is not known where in the source they are from: rows that
    another flow's finding may have made void, or that are not recorded yet. `doubted_at_source`: source offsets of such
    rows: it is not known where at the target they are. `is_relay`: it copies also what mirrors wrote at its source.
    """

    offset_map: OffsetMap
    old: tuple[Segment, ...] = ()
    old_unpaired: tuple[Unpaired, ...] = ()
    doubted: tuple[OffsetRange, ...] = ()
    doubted_at_source: tuple[OffsetRange, ...] = ()
    is_begun: bool = True
    is_relay: bool = False

    @property
    def former(self) -> tuple[Segment, ...]:
        """Old copies of what has not been copied again."""
        again = [(found.source_start, found.source_end) for found in self.offset_map.segments]
        return tuple(
            Segment(start, end, start + found.target_start - found.source_start)
            for found in self.old
            for start, end in without((found.source_start, found.source_end), again)
        )

    @property
    def unpaired(self) -> tuple[Unpaired, ...]:
        return (*self.offset_map.unpaired, *self.old_unpaired)

    @property
    def copies(self) -> tuple[Segment, ...]:
        """All copies, ascending in the source."""
        return tuple(sorted((*self.offset_map.segments, *self.former)))

    def goes(self, source: TopicPartition, target: TopicPartition) -> bool:
        return is_same(self.offset_map.source, source) and is_same(self.offset_map.target, target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one map, or two of one origin, say of records at both sides.

    `there_end`: up to where it reaches there. `decided_to`: all below it there was copied to here, or shall not be;
    None: nothing is copied from there to here. `taken_to`: all below it here was copied to there, or shall not be;
    None: nothing is copied from here to there. `only_there`, `only_here`: records of the origin that the other side
    has not got yet. `mirror_writes`: what mirrors wrote there, as far as this map has read it. `here_start`: the first
    offset here that it knows of, None: it knows none. `brings_copies`: what mirrors wrote there comes to here, too.
    """

    stretches: tuple[Stretch, ...]
    there_end: int
    decided_to: int | None = None
    taken_to: int | None = None
    only_there: tuple[OffsetRange, ...] = ()
    only_here: tuple[OffsetRange, ...] = ()
    unplaced_there: tuple[UnplacedThere, ...] = ()
    unplaced_here: tuple[UnplacedHere, ...] = ()
    mirror_writes: tuple[OffsetRange, ...] = ()
    here_start: int | None = None
    brings_copies: bool = False


def brought(route: Route) -> Link:
    """The link of a map from there to here."""
    offset_map = route.offset_map
    return Link(
        stretches=tuple(
            sorted(
                Stretch(found.target_start, found.source_start, found.source_end - found.source_start)
                for found in route.copies
            )
        ),
        there_end=max([offset_map.source_end, *(found.source_end for found in route.former)]),
        decided_to=offset_map.source_end,
        unplaced_there=tuple(UnplacedThere(found, None) for found in route.doubted_at_source),
        unplaced_here=tuple(
            UnplacedHere((found.target_start, found.target_end), found.source_start)
            for found in route.unpaired
        ),
        mirror_writes=tuple(
            (gap.source_start, gap.source_end)
            for gap in offset_map.unmapped
            if gap.cause is GapCause.MIRROR_WRITE
        ),
        here_start=min((found.target_start for found in route.copies), default=None),
        brings_copies=route.is_relay,
    )


def taken(route: Route) -> Link:
    """The link of a map from here to there."""
    offset_map = route.offset_map
    return Link(
        stretches=tuple(
            sorted(
                Stretch(found.source_start, found.target_start, found.source_end - found.source_start)
                for found in route.copies
            )
        ),
        there_end=offset_map.target_end,
        taken_to=offset_map.source_end,
        unplaced_there=(
            *(
                UnplacedThere((found.target_start, found.target_end), _next_start(offset_map, found))
                for found in route.unpaired
            ),
            *(UnplacedThere(found, None) for found in route.doubted),
        ),
        here_start=offset_map.source_start,
    )


def _next_start(offset_map: OffsetMap, unpaired: Unpaired) -> int | None:
    """Where the map continues behind the place at which the flow stood, or that place where it has copied it again."""
    following = bisect_right(offset_map.segments, unpaired.source_start, key=lambda found: found.source_end)
    if following == len(offset_map.segments):
        return None
    return max(offset_map.segments[following].source_start, unpaired.source_start)


def of_one_origin(to_there: Route, to_here: Route) -> Link:
    """The link of two maps from the same origin: the inverse of one, then the other."""
    pairs = list(_origin_pairs(to_there.copies, to_here.copies))
    return Link(
        stretches=tuple(sorted(stretch for _, stretch in pairs)),
        there_end=to_there.offset_map.target_end,
        only_there=_not_at(to_there.copies, to_here),
        only_here=_not_at(to_here.copies, to_there),
        unplaced_there=(
            *(
                UnplacedThere((found.target_start, found.target_end), _here_of(pairs, found.source_start))
                for found in to_there.unpaired
            ),
            *(UnplacedThere(found, None) for found in to_there.doubted),
        ),
        unplaced_here=tuple(
            UnplacedHere((found.target_start, found.target_end), _there_of(to_there, found.source_start))
            for found in to_here.unpaired
        ),
        here_start=min((found.target_start for found in to_here.copies), default=None),
    )


def _origin_pairs(to_there: Sequence[Segment], to_here: Sequence[Segment]) -> Iterator[tuple[int, Stretch]]:
    """The stretches that both hold, each with its first offset at the origin, ascending."""
    for one in to_there:
        for other in to_here:
            start = max(one.source_start, other.source_start)
            length = min(one.source_end, other.source_end) - start
            if length > 0:
                here_start = other.target_start + start - other.source_start
                yield start, Stretch(here_start, one.target_start + start - one.source_start, length)


def _not_at(copies: Iterable[Segment], other: Route) -> tuple[OffsetRange, ...]:
    """Where those copies lie that the other map has not come to."""
    held = sorted((found.source_start, found.source_end) for found in other.former)
    return leftover(
        (
            (start + copy.target_start - copy.source_start, end + copy.target_start - copy.source_start)
            for copy in copies
            for start, end in without(
                (max(copy.source_start, other.offset_map.source_end), copy.source_end), held
            )
        ),
        (),
    )


def _here_of(pairs: Iterable[tuple[int, Stretch]], origin_offset: int) -> int | None:
    """Where records lie here that are at an offset of the origin or behind it; of several places the last one."""
    behind = (
        (max(start, origin_offset), stretch.here_start + max(origin_offset - start, 0))
        for start, stretch in pairs
        if start + stretch.length > origin_offset
    )
    first = min(found := list(behind), default=None)
    return None if first is None else max(here for start, here in found if start == first[0])


def _there_of(to_there: Route, origin_offset: int) -> int:
    starts = (
        found.target_start + max(origin_offset - found.source_start, 0)
        for found in to_there.copies
        if found.source_end > origin_offset
    )
    return min(starts, default=to_there.offset_map.target_end)


def pairs_there(links: Iterable[Link]) -> list[OffsetRange]:
    """Where records lie there that are known to lie here, too, ascending."""
    return list(leftover((stretch.there for link in links for stretch in link.stretches), ()))
