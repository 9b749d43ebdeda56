"""Which records lie at both of two logs, by one map between them: a link, seen from where a group is.

*Here* is the log on which the group has committed, *there* the one on which it shall go on. A map from there to here
has *brought* records, one from here to there has *taken* them; where both were filled from a third log, they are
*of one origin*. A chain of maps is a map (`composition`).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ledger.domain.facts import GapCause
from ledger.domain.offset_ranges import OffsetRange
from ledger.domain.offsets import OffsetMap, Segment, Unpaired
from ledger.domain.pair.claims import leftover


@dataclass(frozen=True, slots=True, order=True)
class Stretch:
    """The records `[here_start, here_start + length)` here are, in order, those from `there_start` on there."""

    here_start: int
    there_start: int
    length: int

    @property
    def here_end(self) -> int:
        return self.here_start + self.length

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

    They count as read by who has come to `passed_at` here, where the map goes on behind them; None: by nobody.
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
class Link:
    """What one map, or two of one origin, say of records at both sides.

    `there_end`: up to where it reaches there. `decided_to`: all below it there was copied to here, or shall not be;
    None: nothing is copied from there to here. `taken_to`: all below it here was copied to there, or shall not be;
    None: nothing is copied from here to there. `only_there`, `only_here`: records of the origin that the other side
    has not got yet. `mirror_writes`: what mirrors wrote there, as far as this map has read it. `here_start`: the first
    offset here that it knows of, None: it knows none.
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


def brought(offset_map: OffsetMap) -> Link:
    """The link of a map from there to here."""
    return Link(
        stretches=tuple(
            Stretch(found.target_start, found.source_start, found.source_end - found.source_start)
            for found in offset_map.segments
        ),
        there_end=offset_map.source_end,
        decided_to=offset_map.source_end,
        unplaced_here=tuple(
            UnplacedHere((found.target_start, found.target_end), found.source_start)
            for found in offset_map.unpaired
        ),
        mirror_writes=tuple(
            (gap.source_start, gap.source_end)
            for gap in offset_map.unmapped
            if gap.cause is GapCause.MIRROR_WRITE
        ),
        here_start=min((found.target_start for found in offset_map.segments), default=None),
    )


def taken(offset_map: OffsetMap, former: Iterable[Segment] = ()) -> Link:
    """The link of a map from here to there.

    `former`: copies that supersession took out of the map, which lie there still (`former_segments`).
    """
    stretches = (*offset_map.segments, *former)
    return Link(
        stretches=tuple(
            sorted(
                Stretch(found.source_start, found.target_start, found.source_end - found.source_start)
                for found in stretches
            )
        ),
        there_end=offset_map.target_end,
        taken_to=offset_map.source_end,
        unplaced_there=tuple(
            UnplacedThere((found.target_start, found.target_end), _next_start(offset_map, found))
            for found in offset_map.unpaired
        ),
        here_start=offset_map.source_start,
    )


def _next_start(offset_map: OffsetMap, unpaired: Unpaired) -> int | None:
    starts = [found.source_start for found in offset_map.segments]
    following = bisect_left(starts, unpaired.source_start)
    return starts[following] if following < len(starts) else None


def of_one_origin(to_there: OffsetMap, to_here: OffsetMap) -> Link:
    """The link of two maps from the same origin: the inverse of one, then the other."""
    pairs = list(_origin_pairs(to_there.segments, to_here.segments))
    return Link(
        stretches=tuple(sorted(stretch for _, stretch in pairs)),
        there_end=to_there.target_end,
        only_there=_not_reached(to_there.segments, to_here.source_end),
        only_here=_not_reached(to_here.segments, to_there.source_end),
        unplaced_there=tuple(
            UnplacedThere((found.target_start, found.target_end), _here_of(pairs, found.source_start))
            for found in to_there.unpaired
        ),
        unplaced_here=tuple(
            UnplacedHere((found.target_start, found.target_end), _there_of(to_there, found.source_start))
            for found in to_here.unpaired
        ),
        here_start=min((found.target_start for found in to_here.segments), default=None),
    )


def _origin_pairs(to_there: Sequence[Segment], to_here: Sequence[Segment]) -> Iterator[tuple[int, Stretch]]:
    """The stretches that both hold, each with its first offset at the origin, ascending."""
    for one in to_there:
        for other in to_here:
            start = max(one.source_start, other.source_start)
            length = min(one.source_end, other.source_end) - start
            if length > 0:
                yield (
                    start,
                    Stretch(
                        other.target_start + start - other.source_start,
                        one.target_start + start - one.source_start,
                        length,
                    ),
                )


def _not_reached(segments: Iterable[Segment], source_end: int) -> tuple[OffsetRange, ...]:
    """Where records lie that the other map has not come to."""
    return tuple(
        (found.target_start + max(source_end - found.source_start, 0), found.target_end)
        for found in segments
        if found.source_end > source_end
    )


def _here_of(pairs: Iterable[tuple[int, Stretch]], origin_offset: int) -> int | None:
    return next((stretch.here_start for start, stretch in pairs if start >= origin_offset), None)


def _there_of(to_there: OffsetMap, origin_offset: int) -> int:
    starts = (
        found.target_start + max(origin_offset - found.source_start, 0)
        for found in to_there.segments
        if found.source_end > origin_offset
    )
    return min(starts, default=to_there.target_end)


def pairs_there(links: Iterable[Link]) -> list[OffsetRange]:
    """Where records lie there that are known to lie here, too, ascending."""
    return list(leftover((stretch.there for link in links for stretch in link.stretches), ()))
