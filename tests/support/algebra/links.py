"""What two logs have of each other by the maps between them: links, routes, claims."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ledger.clock import MARGIN_MS
from ledger.facts.history import Segment, expand
from ledger.facts.syncs import (
    GapCause,
    OffsetRange,
    OffsetSync,
    PartitionPair,
    Share,
    SyncCause,
    SyncKind,
    TopicPartition,
    effective,
    joined,
    numbered_effective,
    share_of,
    without,
)
from ledger.facts.truncation import restart_after_target_truncation
from tests.support.algebra.maps import EpochStart, OffsetMap, still_held
from tests.support.algebra.stretches import UnmappedKind, Unpaired
from tests.support.algebra.translation import SeenEnd, Truncation, truncations_of

# Untold -------------------------------------------------------------------------------------------
# What one flow found of a log that another flow does not know yet: that it lost its end.
#
# A truncation is recorded by each flow when it reads the log (`source_truncated`, `target_truncated`,
# leader epochs). Until then its rows speak of records that are not there any more, and at their offsets lie
# others. A group that is placed by such rows passes these unread. So what any flow recorded of a log is put
# at the end of the rows of those that did not, as the `superseded` row that they will write.
#
# Which rows are older than a truncation is known by clocks, which are taken to agree within
# `MARGIN_MS`, and a row in doubt is taken for older: that repeats, and never skips. Two things prove
# a row to be younger whatever clocks say: at its source a leader epoch that begins at or behind the
# truncation, and at its target a gap `mirror_write` of a flow that has read that log again since.


@dataclass(frozen=True, slots=True)
class TimedSync:
    """An offset sync and when it was recorded."""

    sync: OffsetSync
    recorded_at_ms: int


FlowRows = Sequence[TimedSync]
"""What a flow recorded of one source partition and topic id, oldest first (`recording_order`)."""


@dataclass(frozen=True, slots=True)
class Witness:
    """What a flow tells of the log that it reads: where that lost its end, and what mirrors wrote by rows that hold."""

    reported: tuple[Truncation, ...]
    mirror_writes: tuple[OffsetRange, ...]


_MAPPED = (SyncKind.COPIED, SyncKind.ADOPTED)
_WRITTEN = (*_MAPPED, SyncKind.UNPAIRED)


def is_same(one: TopicPartition, other: TopicPartition) -> bool:
    """Whether two name the same partition of the same incarnation of a topic."""
    return (one.topic_id, one.partition) == (other.topic_id, other.partition)


def reported_of_source(rows: FlowRows, seen: Iterable[SeenEnd] = ()) -> tuple[Truncation, ...]:
    """Where a flow found that its source had lost its end; `seen`: how far recorders saw it reach by leader epoch."""
    return truncations_of(((row.sync, row.recorded_at_ms) for row in rows), seen)


def _returning(rows: FlowRows) -> frozenset[Truncation]:
    """What was found, and decided, while no driver of the way back was at work: what that one has written since is
    younger, whatever clocks say."""
    return frozenset(
        Truncation(row.sync.source_start, row.recorded_at_ms)
        for row in rows
        if row.sync.cause is SyncCause.RETURNING
    )


def reported_of_target(rows: FlowRows, held: TopicPartition) -> tuple[Truncation, ...]:
    """Where a flow found that its target had lost its end, in target offsets."""
    return tuple(
        Truncation(row.sync.target_start, row.recorded_at_ms)
        for row in rows
        if row.sync.cause is SyncCause.TARGET_TRUNCATED and is_same(row.sync.target, held)
    )


def unreported(heard: Iterable[Truncation], reported: Sequence[Truncation]) -> tuple[Truncation, ...]:
    """Those of others' truncations that a flow has not recorded itself, at the same offset and about the same time."""
    return tuple(cut for cut in heard if not any(_is_same_cut(own, cut) for own in reported))


def _is_same_cut(one: Truncation, other: Truncation) -> bool:
    apart_ms = abs(one.recorded_at_ms - other.recorded_at_ms)
    return one.source_start == other.source_start and apart_ms <= MARGIN_MS


def as_if_reported(
    rows: FlowRows,
    *,
    of_source: Iterable[Truncation],
    of_target: Iterable[Truncation],
    at_target: Sequence[Witness] = (),
) -> FlowRows:
    """The rows of a flow with what other flows found of its source and of its target's present incarnation.

    `at_target`: the flows that read its target. Each finding is compared with the rows as they are, and of all the
    lowest offset counts.
    """
    if not rows:
        return rows
    source_cut = _source_cut(rows, tuple(of_source))
    target_cut = _target_cut(rows, tuple(of_target), at_target)
    if source_cut is not None and target_cut is not None:
        is_lower = target_cut.sync.source_start < source_cut.sync.source_start
        return [*rows, target_cut if is_lower else source_cut]
    return [*rows, *(cut for cut in (source_cut, target_cut) if cut is not None)]


def _source_cut(rows: FlowRows, cuts: Sequence[Truncation]) -> TimedSync | None:
    holding = _holding(rows)
    met = [cut for cut in cuts if _has_older_beyond(holding, cut)]
    if not met:
        return None
    lowest = min(met, key=lambda cut: cut.source_start)
    last = effective([row.sync for row in rows])[-1]
    before = [row.sync for row in holding if row.sync.source_end <= lowest.source_start]
    return _superseded(
        last,
        cause=SyncCause.SOURCE_TRUNCATED,
        source=(lowest.source_start, last.source_end),
        target_start=last.target_end,
        leader_epoch=before[-1].source_leader_epoch if before else None,
        at_ms=lowest.recorded_at_ms,
    )


def _has_older_beyond(holding: FlowRows, cut: Truncation) -> bool:
    below = [row.sync.source_leader_epoch for row in holding if row.sync.source_start < cut.source_start]
    epoch = max((one for one in below if one is not None), default=None)
    return any(row.sync.source_end > cut.source_start and _is_older(row, cut, epoch) for row in holding)


def _is_older(row: TimedSync, cut: Truncation, epoch_below: int | None) -> bool:
    """Whether a row beyond a truncation may tell of what was there before."""
    epoch = row.sync.source_leader_epoch
    is_of_later_epoch = epoch is not None and epoch_below is not None and epoch > epoch_below
    return cut.may_be_after(row.recorded_at_ms) and not is_of_later_epoch


def _target_cut(rows: FlowRows, cuts: Sequence[Truncation], witnesses: Sequence[Witness]) -> TimedSync | None:
    target = rows[-1].sync.target
    holding = [
        (rows[index], sync)
        for index, sync in numbered_effective([row.sync for row in rows])
        if is_same(sync.target, target)
    ]
    doubts = [(in_doubt_from(row, cuts, witnesses), sync) for row, sync in holding if sync.kind in _WRITTEN]
    in_doubt = [start for start, sync in doubts if start is not None and start < sync.target_end]
    if not in_doubt:
        return None
    end = min(in_doubt)
    at = restart_after_target_truncation((sync for _, sync in holding), end, next_sequence=0)
    if at is None:
        return None
    last = effective([row.sync for row in rows])[-1]
    return _superseded(
        last,
        cause=SyncCause.TARGET_TRUNCATED,
        source=(at.source_offset, last.source_end),
        target_start=end,
        leader_epoch=at.leader_epoch,
        at_ms=max(cut.recorded_at_ms for cut in cuts),
    )


def _is_seen(sync: OffsetSync, cut: Truncation, witnesses: Iterable[Witness]) -> bool:
    """Whether a flow that has read the target again since found records of mirrors where a row says that they lie."""
    start = max(sync.target_start, cut.source_start)
    return any(
        share_of(witness.mirror_writes, start, sync.target_end) is Share.ALL
        for witness in witnesses
        if any(_is_known_after(cut, own) for own in witness.reported)
    )


def _is_known_after(cut: Truncation, own: Truncation) -> bool:
    """Whether who recorded a truncation read the log again behind another one, too."""
    is_later = own.recorded_at_ms > cut.recorded_at_ms + MARGIN_MS
    return own == cut or (is_later and own.source_start <= cut.source_start)


def _holding(rows: FlowRows) -> list[TimedSync]:
    return [
        TimedSync(sync, rows[index].recorded_at_ms)
        for index, sync in numbered_effective([row.sync for row in rows])
    ]


def _superseded(
    last: OffsetSync,
    *,
    cause: SyncCause,
    source: OffsetRange,
    target_start: int,
    leader_epoch: int | None,
    at_ms: int,
) -> TimedSync:
    """The row that the flow will write, as the last one of its rows."""
    row = replace(
        last,
        kind=SyncKind.SUPERSEDED,
        cause=cause,
        source_start=source[0],
        source_end=max(source),
        target_start=target_start,
        target_end=target_start,
        source_leader_epoch=leader_epoch,
        gaps=(),
        records=0,
        bytes=0,
        checksum=None,
    )
    return TimedSync(row, at_ms)


def in_doubt_from(row: TimedSync, cuts: Iterable[Truncation], witnesses: Sequence[Witness]) -> int | None:
    """From which target offset on a row may tell of what the target has lost, by what others found; None: from none."""
    starts = [
        cut.source_start
        for cut in cuts
        if row.sync.target_end > cut.source_start
        and cut.may_be_after(row.recorded_at_ms)
        and not _is_seen(row.sync, cut, witnesses)
    ]
    return max(min(starts), row.sync.target_start) if starts else None


def witness_of(rows: FlowRows) -> Witness:
    """What a flow tells of the log that it reads."""
    gaps = (gap for sync in effective([row.sync for row in rows]) for gap in sync.gaps)
    written = sorted((gap.source_start, gap.source_end) for gap in gaps if gap.cause is GapCause.MIRROR_WRITE)
    return Witness(reported_of_source(rows), tuple(joined(written)))


# Claims -------------------------------------------------------------------------------------------
# Which offsets of a log rows of flows into it claim: what lies there was written by a mirror.
#
# What supersession took out of a map is claimed all the same while the log holds it (`resync`,
# `source_truncated`). Where the log lost its end, nothing from there on is: an application may have written
# there since. A row without records claims nothing: behind adopted rows it tells of others' records, too.


_CLAIMING = (SyncKind.COPIED, SyncKind.ADOPTED, SyncKind.UNPAIRED)


@dataclass(frozen=True, slots=True)
class Found:
    """What others than a flow know of its target: where it lost its end, and who has read it again since."""

    cuts: tuple[Truncation, ...] = ()
    witnesses: tuple[Witness, ...] = ()


def claims_of(flows: Iterable[tuple[FlowRows, Found]], held: TopicPartition) -> tuple[OffsetRange, ...]:
    """What any of these flows claims of a partition, ascending."""
    claimed = (claim for rows, found in flows for claim in _still_held(rows, held, found))
    return tuple(joined(sorted(claimed)))


def _still_held(rows: FlowRows, held: TopicPartition, found: Found) -> list[OffsetRange]:
    claims: list[OffsetRange] = []
    for row in (row for row in rows if is_same(row.sync.target, held)):
        if row.sync.kind in _CLAIMING and row.sync.records:
            end = in_doubt_from(row, found.cuts, found.witnesses)
            claims.append((row.sync.target_start, row.sync.target_end if end is None else end))
        elif row.sync.cause is SyncCause.TARGET_TRUNCATED:
            claims = below(claims, row.sync.target_end)
    return [(start, end) for start, end in claims if start < end]


def below(ranges: Iterable[OffsetRange], offset: int) -> list[OffsetRange]:
    """What of ranges lies below an offset."""
    return [(start, min(end, offset)) for start, end in ranges if start < offset]


def leftover(ranges: Iterable[OffsetRange], taken: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Ranges less others, ascending; neither needs to be in an order."""
    in_order = sorted(taken)
    return tuple(left for one in joined(sorted(ranges)) for left in without(one, in_order))


def shared(ranges: Iterable[OffsetRange], start: int, end: int | None = None) -> tuple[OffsetRange, ...]:
    """What of ranges lies in `[start, end)`, ascending; `end` None: anything from `start` on."""
    cut = (
        (max(first, start), last if end is None else min(last, end)) for first, last in joined(sorted(ranges))
    )
    return tuple((first, last) for first, last in cut if first < last)


def count(ranges: Iterable[OffsetRange]) -> int:
    """How many offsets ranges hold that are apart from each other."""
    return sum(end - start for start, end in ranges)


# Links --------------------------------------------------------------------------------------------
# Which records lie at both of two logs, by one map between them: a link, seen from where a group is.
#
# *Here* is the log on which the group has committed, *there* the one on which it shall continue. A map from
# there to here has *brought* records, one from here to there has *taken* them; where both were filled from
# a third log, they are *of one origin*. So they are of a chain, seen from its middle: what came there and
# what went on from there.


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


_FAR = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The map of a flow, and what else is known to lie at its target.

    `old`: copies that supersession took out of the map and that lie at the target still. `former`: those that were not
    made again.
    `unpaired`: records that nobody could pair, in the map or taken out of it.
    `doubted`: target offsets that hold records of which it is not known where in the source they are from: rows that
    another flow's finding may have made void, or that are not recorded yet. `doubted_at_source`: source offsets of such
    rows: it is not known where at the target they are. `is_relay`: it copies also what mirrors wrote at its source.
    """

    source: TopicPartition
    target: TopicPartition
    segments: tuple[Segment, ...] = ()
    old: tuple[Segment, ...] = ()
    former: tuple[Segment, ...] = ()
    unpaired: tuple[Unpaired, ...] = ()
    lost: tuple[OffsetRange, ...] = ()
    doubted: tuple[OffsetRange, ...] = ()
    doubted_at_source: tuple[OffsetRange, ...] = ()
    source_start: int = 0
    source_end: int = 0
    target_end: int = 0
    is_begun: bool = True
    is_relay: bool = False

    @property
    def copies(self) -> tuple[Segment, ...]:
        """All copies, ascending in the source."""
        return tuple(sorted((*self.segments, *self.former)))

    @property
    def reached(self) -> int:
        """Up to where copies and map reach in the source."""
        return max([self.source_end, *(found.source_end for found in self.former)])

    def inverse(self) -> "Route":
        """From its target to its source: what lies there behind its end may be from the source or not.

        What was copied again counts, too: where it went on from there, it may be alone.
        """
        return replace(
            self,
            source=self.target,
            target=self.source,
            segments=tuple(map(_inverted, self.segments)),
            former=tuple(map(_inverted, self.old)),
            unpaired=(),
            lost=(),
            doubted=self.doubted_at_source,
            doubted_at_source=(*self.doubted, *_targets_of(self.unpaired), (self.target_end, _FAR)),
            source_end=self.target_end,
            target_end=self.reached,
        )

    def goes(self, source: TopicPartition, target: TopicPartition) -> bool:
        return is_same(self.source, source) and is_same(self.target, target)


def _inverted(segment: Segment) -> Segment:
    return Segment(segment.target_start, segment.target_end, segment.source_start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one map, or two of one origin, say of records at both sides.

    `there_end`: up to where it reaches there. `decided_to`: all below it there was copied to here, or shall not be;
    None: nothing is copied from there to here. `taken_to`: all below it here was copied to there, or shall not be;
    None: nothing is copied from here to there. `only_there`, `only_here`: records of the origin that the other side
    has not got yet. `here_start`: the first offset here that it knows of, None: it knows none. `brings_copies`: what
    mirrors wrote there comes to here, too.
    `lost_here`: records here that the way there has lost.
    """

    stretches: tuple[Stretch, ...]
    there_end: int
    decided_to: int | None = None
    taken_to: int | None = None
    only_there: tuple[OffsetRange, ...] = ()
    only_here: tuple[OffsetRange, ...] = ()
    unplaced_there: tuple[UnplacedThere, ...] = ()
    unplaced_here: tuple[UnplacedHere, ...] = ()
    here_start: int | None = None
    brings_copies: bool = False
    lost_here: tuple[OffsetRange, ...] = ()


def without_paired(links: Sequence[Link]) -> tuple[Link, ...]:
    """Of a pair, without what one map cannot place and another one pairs: what came back from there, say."""
    here = [tuple(joined(sorted(one.here for one in link.stretches))) for link in links]
    there = [tuple(joined(sorted(one.there for one in link.stretches))) for link in links]

    def is_paired(by_link: Sequence[Sequence[OffsetRange]], found: OffsetRange) -> bool:
        return any(share_of(ranges, *found) is Share.ALL for ranges in by_link)

    return tuple(
        replace(
            link,
            unplaced_there=tuple(one for one in link.unplaced_there if not is_paired(there, one.there)),
            unplaced_here=tuple(one for one in link.unplaced_here if not is_paired(here, one.here)),
        )
        for link in links
    )


def brought(route: Route) -> Link:
    """The link of a map from there to here."""
    return Link(
        stretches=tuple(
            sorted(
                Stretch(found.target_start, found.source_start, found.source_end - found.source_start)
                for found in route.copies
            )
        ),
        there_end=route.reached,
        decided_to=route.source_end,
        unplaced_there=tuple(UnplacedThere(found, None) for found in route.doubted_at_source),
        unplaced_here=tuple(
            UnplacedHere((found.target_start, found.target_end), found.source_start)
            for found in route.unpaired
        ),
        here_start=min((found.target_start for found in route.copies), default=None),
        brings_copies=route.is_relay,
    )


def taken(route: Route) -> Link:
    """The link of a map from here to there."""
    return Link(
        stretches=tuple(
            sorted(
                Stretch(found.source_start, found.target_start, found.source_end - found.source_start)
                for found in route.copies
            )
        ),
        there_end=route.target_end,
        taken_to=route.source_end,
        unplaced_there=(
            *(
                UnplacedThere((found.target_start, found.target_end), _next_start(route, found))
                for found in route.unpaired
            ),
            *(UnplacedThere(found, None) for found in route.doubted),
        ),
        here_start=route.source_start,
        lost_here=route.lost,
    )


def _next_start(route: Route, unpaired: Unpaired) -> int | None:
    """Where the map continues behind the place at which the flow stood, or that place where it has copied it again."""
    behind = (found for found in route.segments if found.source_end > unpaired.source_start)
    return min((max(found.source_start, unpaired.source_start) for found in behind), default=None)


def of_one_origin(to_there: Route, to_here: Route) -> Link:
    """The link of two maps from the same origin: the inverse of one, then the other."""
    pairs = list(_origin_pairs(to_there.copies, to_here.copies))
    return Link(
        stretches=tuple(sorted(stretch for _, stretch in pairs)),
        there_end=to_there.target_end,
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
        lost_here=tuple(_images(to_there.lost, to_here.copies)),
    )


def taken_on(first: Route, second: Route) -> Link:
    """The link of a chain from here to there: what came to its middle, and went on from there."""
    link = of_one_origin(second, first.inverse())
    return replace(
        link,
        only_there=(),
        taken_to=first.source_end,
        unplaced_there=(*link.unplaced_there, *_unknown(second, first.inverse())),
        lost_here=(*link.lost_here, *first.lost),
    )


def brought_on(first: Route, second: Route) -> Link:
    """The link of a chain from there to here."""
    inverse = first.inverse()
    link = of_one_origin(inverse, second)
    return replace(
        link,
        only_here=(),
        decided_to=first.source_end,
        brings_copies=first.is_relay,
        unplaced_there=(*link.unplaced_there, *_unknown(inverse, second)),
    )


def _unknown(to_there: Route, to_here: Route) -> Iterator[UnplacedThere]:
    """Where those lie there of which it is not known whether they came here."""
    for found in _images(to_here.doubted_at_source, to_there.copies):
        yield UnplacedThere(found, None)


def _images(ranges: Iterable[OffsetRange], copies: Sequence[Segment]) -> Iterator[OffsetRange]:
    """Where source offsets lie at the target."""
    for start, end in ranges:
        for copy in copies:
            low, high = max(start, copy.source_start), min(end, copy.source_end)
            if low < high:
                shift = copy.target_start - copy.source_start
                yield low + shift, high + shift


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
            for start, end in without((max(copy.source_start, other.source_end), copy.source_end), held)
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
    return min(starts, default=to_there.target_end)


def pairs_there(links: Iterable[Link]) -> list[OffsetRange]:
    """Where records lie there that are known to lie here, too, ascending."""
    return list(leftover((stretch.there for link in links for stretch in link.stretches), ()))


# Routes -------------------------------------------------------------------------------------------
# The flows between some logs: their maps, each with what other flows found of its logs and it does not know
# yet.
#
# A flow that has recorded nothing yet between current topics has a map that holds nothing: what it will
# bring is on its way. What supersession took out of a map lies at its target still, unless a log has lost
# it (`OldCopy`).


@dataclass(frozen=True, slots=True)
class RecordedFlow:
    """The rows of a flow about one source partition and topic id, oldest first; at least one."""

    name: str
    rows: FlowRows

    @property
    def source(self) -> TopicPartition:
        return self.rows[0].sync.source

    @property
    def target(self) -> TopicPartition:
        return self.rows[-1].sync.target

    def offset_map(self) -> OffsetMap:
        return OffsetMap.from_syncs(self.name, [row.sync for row in self.rows])


@dataclass(frozen=True, slots=True)
class KnownFlows:
    """All flows that have rows about some logs; `ways`: between which current logs flows copy, recorded or not.

    `relayed`: between which of them a flow copies also what mirrors wrote.
    """

    flows: tuple[RecordedFlow, ...]
    ways: tuple[PartitionPair, ...] = ()
    relayed: tuple[PartitionPair, ...] = ()

    def routes(self) -> list[Route]:
        begun = [self._route_of(flow) for flow in self.flows]
        to_begin = [
            Route(source=way.source, target=way.target, is_begun=False)
            for way in self.ways
            if not any(one.goes(way.source, way.target) for one in begun)
        ]
        return [replace(route, is_relay=self._is_relayed(route)) for route in (*begun, *to_begin)]

    def _is_relayed(self, route: Route) -> bool:
        return any(route.goes(way.source, way.target) for way in self.relayed)

    def claims(self, log: TopicPartition, *, over: frozenset[str]) -> tuple[OffsetRange, ...]:
        """What flows claim of a log; those from incarnations that are `over` do not count: their copies come back."""
        return claims_of(
            (
                (flow.rows, self._found_of_target(flow))
                for flow in self.flows
                if is_same(flow.target, log) and flow.source.topic_id not in over
            ),
            log,
        )

    def mirror_writes(self, log: TopicPartition) -> tuple[OffsetRange, ...]:
        """What mirrors wrote to a log, as far as the flows that read it have come."""
        reading = (self._reported(flow).offset_map() for flow in self.flows if is_same(flow.source, log))
        return tuple(
            (gap.source_start, gap.source_end)
            for offset_map in reading
            for gap in offset_map.unmapped
            if gap.cause is GapCause.MIRROR_WRITE
        )

    def epoch_starts(self, log: TopicPartition) -> tuple[EpochStart, ...]:
        """Where leader epochs begin, by the maps that read a log."""
        reading = (self._reported(flow) for flow in self.flows if is_same(flow.source, log))
        return tuple(start for flow in reading for start in flow.offset_map().epoch_starts)

    def reported_by_readers(self, log: TopicPartition, seen: Sequence[SeenEnd]) -> tuple[Truncation, ...]:
        reading = (flow for flow in self.flows if is_same(flow.source, log))
        return tuple(cut for flow in reading for cut in reported_of_source(flow.rows, seen))

    def reported_by_writers(self, log: TopicPartition) -> tuple[Truncation, ...]:
        return tuple(cut for flow in self.flows for cut in reported_of_target(flow.rows, log))

    def _route_of(self, flow: RecordedFlow) -> Route:
        before, after = flow.offset_map(), self._reported(flow).offset_map()
        old = old_copies(flow.rows)
        sound = list(_sound(old, self._found(flow.source, but=flow), self._found(flow.target, but=flow)))
        old_segments, sound_segments = [one.segment for one in old], [one.segment for one in sound]
        return Route(
            source=after.source,
            target=after.target,
            segments=after.segments,
            old=tuple(sound_segments),
            former=tuple(_not_again(sound_segments, after)),
            unpaired=(*after.unpaired, *old_unpaired(flow.rows)),
            lost=tuple(
                (one.source_start, one.source_end) for one in after.unmapped if one.kind is UnmappedKind.LOST
            ),
            doubted=leftover(
                (*_targets(before), *_targets_of(old_segments)),
                (*_targets(after), *_targets_of(sound_segments)),
            ),
            doubted_at_source=leftover(
                _sources([*before.segments, *old_segments]), _sources([*after.segments, *sound_segments])
            ),
            source_start=after.source_start,
            source_end=after.source_end,
            target_end=after.target_end,
        )

    def _reported(self, flow: RecordedFlow) -> RecordedFlow:
        """A flow with what the others found of its logs."""
        of_target = self._found_of_target(flow)
        rows = as_if_reported(
            flow.rows,
            of_source=self._found(flow.source, but=flow),
            of_target=of_target.cuts,
            at_target=of_target.witnesses,
        )
        return RecordedFlow(flow.name, rows)

    def _found(self, log: TopicPartition, but: RecordedFlow) -> tuple[Truncation, ...]:
        others = [flow for flow in self.flows if flow is not but]
        by_readers = (
            cut
            for flow in others
            if is_same(flow.source, log)
            for cut in reported_of_source(flow.rows)
            if not (is_same(flow.target, but.source) and cut in _returning(flow.rows))
        )
        return (*by_readers, *(cut for flow in others for cut in reported_of_target(flow.rows, log)))

    def _found_of_target(self, flow: RecordedFlow) -> Found:
        """What others know of its target. Mirrors' records prove something where no other flow writes."""
        readers = [one for one in self.flows if is_same(one.source, flow.target)]
        witnesses = () if self._has_other_writer(flow) else tuple(witness_of(one.rows) for one in readers)
        return Found(self._found(flow.target, but=flow), witnesses)

    def _has_other_writer(self, flow: RecordedFlow) -> bool:
        others = ((one.source, one.target) for one in self.flows if one is not flow)
        ways = ((way.source, way.target) for way in self.ways)
        return any(
            is_same(target, flow.target) and not is_same(source, flow.source)
            for source, target in (*others, *ways)
        )


def _not_again(old: Iterable[Segment], offset_map: OffsetMap) -> Iterator[Segment]:
    """Old copies of what has not been copied again."""
    again = _sources(offset_map.segments)
    for found in old:
        for start, end in without((found.source_start, found.source_end), again):
            yield Segment(start, end, start + found.target_start - found.source_start)


def _targets(offset_map: OffsetMap) -> list[OffsetRange]:
    return _targets_of([*offset_map.segments, *offset_map.unpaired])


def _targets_of(stretches: Iterable[Segment | Unpaired]) -> list[OffsetRange]:
    return [(found.target_start, found.target_end) for found in stretches]


def _sources(segments: Iterable[Segment]) -> list[OffsetRange]:
    return [(found.source_start, found.source_end) for found in segments]


@dataclass(frozen=True, slots=True)
class OldCopy:
    """A stretch that supersession took out of a map and its target holds still, and when it was recorded."""

    segment: Segment
    recorded_at_ms: int


def old_copies(rows: FlowRows) -> list[OldCopy]:
    """Copies that are not in a map any more, by a decision (`resync`): neither log has lost them since."""
    syncs = [row.sync for row in rows]
    holding = effective(syncs)
    target = holding[-1].target
    mapped = sorted(
        (found.target_start, found.target_end) for sync in holding for found in _copies(sync, target)
    )
    found: list[OldCopy] = []
    for index, row in enumerate(rows):
        for segment in _copies(row.sync, target):
            shift = segment.source_start - segment.target_start
            for held in _still_copies(segment, row.sync.source_leader_epoch, syncs[index + 1 :]):
                for first, last in without((held.target_start, held.target_end), mapped):
                    found.append(OldCopy(Segment(first + shift, last + shift, first), row.recorded_at_ms))
    return found


def old_unpaired(rows: FlowRows) -> Iterator[Unpaired]:
    """Records that nobody could pair, that supersession took out of a map, and that its target holds still."""
    syncs = [row.sync for row in rows]
    holding = effective(syncs)
    target = holding[-1].target
    known = sorted(
        (sync.target_start, sync.target_end)
        for sync in holding
        if sync.records and is_same(sync.target, target)
    )
    for index, sync in enumerate(syncs):
        if sync.kind is SyncKind.UNPAIRED and sync.records and is_same(sync.target, target):
            end = _held_to(sync.target_end, syncs[index + 1 :])
            for first, last in without((sync.target_start, end), known):
                yield Unpaired(sync.source_start, first, last)


def _copies(sync: OffsetSync, target: TopicPartition) -> tuple[Segment, ...]:
    is_copy = sync.kind in (SyncKind.COPIED, SyncKind.ADOPTED) and is_same(sync.target, target)
    return expand(sync) if is_copy else ()


def _still_copies(
    segment: Segment, leader_epoch: int | None, later: Sequence[OffsetSync]
) -> Iterator[Segment]:
    """What of a copy neither log has lost since with its original, by later rows.

    The source has lost what others were copied for of a later leader epoch, though no row says so.
    """
    others = [sync.source_start for sync in later if _is_of_later_epoch(sync, leader_epoch)]
    for held in still_held(segment, later):
        end = min([held.source_end, *others])
        if held.source_start < end:
            yield replace(held, source_end=end)


def _is_of_later_epoch(sync: OffsetSync, leader_epoch: int | None) -> bool:
    """Whether a copy was made of what a later leader wrote."""
    epochs = leader_epoch, sync.source_leader_epoch
    return sync.kind is SyncKind.COPIED and None not in epochs and (epochs[1] or 0) > (epochs[0] or 0)


def _held_to(target_end: int, later: Iterable[OffsetSync]) -> int:
    cuts = (sync.target_start for sync in later if sync.cause is SyncCause.TARGET_TRUNCATED)
    return min([target_end, *cuts])


def _sound(
    old: Iterable[OldCopy], of_source: Sequence[Truncation], of_target: Sequence[Truncation]
) -> Iterator[OldCopy]:
    """The part of old copies that is not in doubt by what others found of both logs."""
    for one in old:
        segment, at_ms = one.segment, one.recorded_at_ms
        shift = segment.source_start - segment.target_start
        cuts = [cut.source_start for cut in of_source if cut.may_be_after(at_ms)]
        cuts += [cut.source_start + shift for cut in of_target if cut.may_be_after(at_ms)]
        end = min([segment.source_end, *cuts])
        if segment.source_start < end:
            yield OldCopy(Segment(segment.source_start, end, segment.target_start), at_ms)
