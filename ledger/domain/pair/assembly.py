"""A pair of partitions put together from the rows of all flows that touch them.

Between two lives of a topic records go by one flow, by a chain of two through a third log, or from one origin to both
sides. A chain counts where no flow goes there directly. The maps are those after supersession, each with what other
flows found of its logs and it does not know yet (`untold`). A flow that has recorded nothing yet between living topics
has a map that holds nothing: what it will bring is on its way.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ledger.domain.facts import OffsetSync, PartitionPair, SyncCause, SyncKind, TopicPartition
from ledger.domain.offset_ranges import OffsetRange, without
from ledger.domain.offsets import OffsetMap, Segment, Unpaired, expand
from ledger.domain.pair.claims import Found, claims_of, leftover
from ledger.domain.pair.composition import composed
from ledger.domain.pair.first_unread import KnownPair
from ledger.domain.pair.links import Link, Route, brought, of_one_origin, taken
from ledger.domain.pair.standing import KnownLog
from ledger.domain.pair.untold import (
    FlowRows,
    as_if_told,
    is_same,
    told_of_source,
    told_of_target,
    untold,
    witness_of,
)
from ledger.domain.supersession import effective
from ledger.domain.translation import Truncation


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The last recorded ends of a log."""

    log_start: int
    high_watermark: int


def known_pair(
    *,
    here: TopicPartition,
    there: TopicPartition,
    flows: Sequence[RecordedFlow],
    ways: Iterable[PartitionPair] = (),
    ends_here: Ends | None = None,
    ends_there: Ends | None = None,
    kept_local: Iterable[OffsetRange] = (),
    former_lives: frozenset[str] = frozenset(),
) -> KnownPair:
    """What is known of two partitions of living topics.

    `flows`: all that have rows from or to either, or from or to what these have rows of. `ways`: between which living
    partitions flows copy, though they may have recorded nothing of these lives. `former_lives`: topic ids that the
    topics had before.
    """
    links = tuple(_links(_routes(flows, ways), here, there))
    ends = [link.decided_to for link in links if link.decided_to is not None]
    return KnownPair(
        here=_known_log(here, flows, ends_here, claiming=flows),
        there=_known_log(
            there, flows, ends_there, claiming=[one for one in flows if not _is_over(one, here, former_lives)]
        ),
        links=links,
        brought_from=min(ends, default=None),
        kept_local=tuple(kept_local),
        is_other_life=not links and any(_is_former(flow, here, there, former_lives) for flow in flows),
    )


def _routes(flows: Sequence[RecordedFlow], ways: Iterable[PartitionPair]) -> list[Route]:
    begun = [_route_of(flow, flows) for flow in flows]
    return begun + [
        Route(offset_map=_empty_map(way), is_begun=False)
        for way in ways
        if not any(one.goes(way.source, way.target) for one in begun)
    ]


def _route_of(flow: RecordedFlow, flows: Sequence[RecordedFlow]) -> Route:
    told = _told(flow, flows)
    before, after = flow.offset_map(), told.offset_map()
    old = old_copies(flow.rows)
    sound = list(_sound(old, _found(flows, flow.source, but=flow), _found_of_target(flow, flows)))
    old_segments, sound_segments = [one.segment for one in old], [one.segment for one in sound]
    return Route(
        offset_map=after,
        old=tuple(sorted(sound_segments)),
        old_unpaired=tuple(old_unpaired(flow.rows)),
        doubted=leftover(
            (*_targets(before), *_targets_of(old_segments)), (*_targets(after), *_targets_of(sound_segments))
        ),
        doubted_at_source=leftover(
            _sources([*before.segments, *old_segments]), _sources([*after.segments, *sound_segments])
        ),
    )


def _targets(offset_map: OffsetMap) -> list[OffsetRange]:
    return _targets_of([*offset_map.segments, *offset_map.unpaired])


def _targets_of(stretches: Iterable[Segment | Unpaired]) -> list[OffsetRange]:
    return [(found.target_start, found.target_end) for found in stretches]


def _sources(segments: Iterable[Segment]) -> list[OffsetRange]:
    return [(found.source_start, found.source_end) for found in segments]


def _empty_map(way: PartitionPair) -> OffsetMap:
    return OffsetMap(
        flow="",
        source=way.source,
        target=way.target,
        segments=(),
        unmapped=(),
        unpaired=(),
        source_start=0,
        source_end=0,
        target_end=0,
    )


def _is_former(
    flow: RecordedFlow, here: TopicPartition, there: TopicPartition, former_lives: frozenset[str]
) -> bool:
    """Whether a flow has rows between the two topics of which one is of a life that is over."""
    topic_ids = {flow.source.topic_id, flow.target.topic_id}
    return topic_ids <= {here.topic_id, there.topic_id} | former_lives


def _links(routes: Sequence[Route], here: TopicPartition, there: TopicPartition) -> list[Link]:
    """None where nothing is recorded between the two."""
    found = [
        *((route.is_begun, brought(route)) for route in _between(routes, there, here)),
        *((route.is_begun, taken(route)) for route in _between(routes, here, there)),
        *_from_origins(routes, here, there),
    ]
    return [link for _, link in found] if any(is_begun for is_begun, _ in found) else []


def _between(routes: Sequence[Route], source: TopicPartition, target: TopicPartition) -> list[Route]:
    direct = [route for route in routes if route.goes(source, target)]
    return direct or list(_chains(routes, source, target))


def _chains(routes: Sequence[Route], source: TopicPartition, target: TopicPartition) -> Iterator[Route]:
    for first in routes:
        for second in routes:
            middle = first.offset_map.target
            if first.goes(source, middle) and second.goes(middle, target):
                found = composed(first, second)
                if found is not None:
                    yield found


def _from_origins(
    routes: Sequence[Route], here: TopicPartition, there: TopicPartition
) -> Iterator[tuple[bool, Link]]:
    for to_there in routes:
        for to_here in routes:
            origin = to_there.offset_map.source
            if to_there.goes(origin, there) and to_here.goes(origin, here):
                yield to_there.is_begun and to_here.is_begun, of_one_origin(to_there, to_here)


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
            start, end = _still_there(segment, syncs[index + 1 :])
            for first, last in without((start, end), mapped):
                shift = segment.source_start - segment.target_start
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


def _still_there(segment: Segment, later: Sequence[OffsetSync]) -> OffsetRange:
    """Target offsets of copies that neither log has lost since with their originals; empty when its end is low."""
    end = _held_to(segment.target_end, later)
    shift = segment.target_start - segment.source_start
    cuts = [sync.source_start + shift for sync in later if sync.cause is SyncCause.SOURCE_TRUNCATED]
    return segment.target_start, min([end, *cuts])


def _held_to(target_end: int, later: Iterable[OffsetSync]) -> int:
    cuts = (sync.target_start for sync in later if sync.cause is SyncCause.TARGET_TRUNCATED)
    return min([target_end, *cuts])


def _sound(old: Iterable[OldCopy], of_source: Iterable[Truncation], of_target: Found) -> Iterator[OldCopy]:
    """The part of old copies that is not in doubt by what others found of both logs."""
    source_cuts = list(of_source)
    for one in old:
        segment = one.segment
        shift = segment.source_start - segment.target_start
        cuts = [cut.source_start for cut in source_cuts if cut.may_be_after(one.recorded_at_ms)]
        cuts += [cut.source_start + shift for cut in of_target.cuts if cut.may_be_after(one.recorded_at_ms)]
        end = min([segment.source_end, *cuts])
        if segment.source_start < end:
            yield OldCopy(Segment(segment.source_start, end, segment.target_start), one.recorded_at_ms)


def _told(flow: RecordedFlow, flows: Sequence[RecordedFlow]) -> RecordedFlow:
    """A flow with what the others found of its logs."""
    of_target = _found_of_target(flow, flows)
    rows = as_if_told(
        flow.rows,
        of_source=_found(flows, flow.source, but=flow),
        of_target=of_target.cuts,
        at_target=of_target.witnesses,
    )
    return RecordedFlow(flow.name, rows)


def _found_of_target(flow: RecordedFlow, flows: Sequence[RecordedFlow]) -> Found:
    return Found(
        tuple(_found(flows, flow.target, but=flow)),
        tuple(witness_of(one.rows) for one in flows if is_same(one.source, flow.target)),
    )


def _found(flows: Iterable[RecordedFlow], log: TopicPartition, but: RecordedFlow) -> Iterator[Truncation]:
    for flow in flows:
        if flow is not but:
            if is_same(flow.source, log):
                yield from told_of_source(flow.rows)
            yield from told_of_target(flow.rows, log)


def _is_over(flow: RecordedFlow, here: TopicPartition, former_lives: frozenset[str]) -> bool:
    """Whether a flow is from a life of the topic here that is over: what it copied comes back to here."""
    return flow.source.topic_id in former_lives - {here.topic_id}


def _known_log(
    log: TopicPartition,
    flows: Sequence[RecordedFlow],
    ends: Ends | None,
    *,
    claiming: Iterable[RecordedFlow],
) -> KnownLog:
    own = [cut for flow in flows if is_same(flow.source, log) for cut in told_of_source(flow.rows)]
    by_targets = [cut for flow in flows for cut in told_of_target(flow.rows, log)]
    starts = [
        start
        for flow in flows
        if is_same(flow.source, log)
        for start in _told(flow, flows).offset_map().epoch_starts
    ]
    claims = ((flow.rows, _found_of_target(flow, flows)) for flow in claiming if is_same(flow.target, log))
    return KnownLog(
        topic_id=log.topic_id,
        log_start=None if ends is None else ends.log_start,
        high_watermark=None if ends is None else ends.high_watermark,
        epoch_starts=tuple(starts),
        told=tuple(own),
        heard=untold(by_targets, own),
        claims=claims_of(claims, log),
    )
