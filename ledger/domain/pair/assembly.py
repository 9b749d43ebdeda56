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
from ledger.domain.pair.claims import claims_of, leftover
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
    told = _each_told(flows)
    links = tuple(_links(_routes(flows, ways), here, there))
    ends = [link.decided_to for link in links if link.decided_to is not None]
    return KnownPair(
        here=_known_log(here, told, flows, ends_here),
        there=_known_log(there, _not_returning(told, here, former_lives), flows, ends_there),
        links=links,
        brought_from=min(ends, default=None),
        kept_local=tuple(kept_local),
        is_other_life=not links and any(_is_former(flow, here, there, former_lives) for flow in flows),
    )


def _routes(flows: Sequence[RecordedFlow], ways: Iterable[PartitionPair]) -> list[Route]:
    begun = [_route_of(flow, told) for flow, told in zip(flows, _each_told(flows), strict=True)]
    return begun + [
        Route(offset_map=_empty_map(way), is_begun=False)
        for way in ways
        if not any(one.goes(way.source, way.target) for one in begun)
    ]


def _route_of(flow: RecordedFlow, told: RecordedFlow) -> Route:
    before, after = flow.offset_map(), told.offset_map()
    return Route(
        offset_map=after,
        former=tuple(former_segments(told.rows)),
        doubted=leftover(_written(before), _written(after)),
        doubted_at_source=leftover(_sources(before), _sources(after)),
    )


def _written(offset_map: OffsetMap) -> list[OffsetRange]:
    stretches: list[Segment | Unpaired] = [*offset_map.segments, *offset_map.unpaired]
    return [(found.target_start, found.target_end) for found in stretches]


def _sources(offset_map: OffsetMap) -> list[OffsetRange]:
    return [(found.source_start, found.source_end) for found in offset_map.segments]


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


def former_segments(rows: FlowRows) -> Iterator[Segment]:
    """Copies that supersession took out of a map, that lie at its target still and have not been copied again.

    Neither log lost them: they were to be copied again by a decision (`resync`).
    """
    syncs = [row.sync for row in rows]
    holding = effective(syncs)
    again = sorted(_copied_ranges(holding, holding[-1].target))
    for index, sync in enumerate(syncs):
        for segment in _copies(sync, holding[-1].target):
            shift = segment.target_start - segment.source_start
            for start, end in without(_still_there(segment, syncs[index + 1 :]), again):
                yield Segment(start, end, start + shift)


def _copies(sync: OffsetSync, target: TopicPartition) -> tuple[Segment, ...]:
    is_copy = sync.kind in (SyncKind.COPIED, SyncKind.ADOPTED) and is_same(sync.target, target)
    return expand(sync) if is_copy else ()


def _copied_ranges(syncs: Iterable[OffsetSync], target: TopicPartition) -> Iterator[OffsetRange]:
    for sync in syncs:
        yield from ((found.source_start, found.source_end) for found in _copies(sync, target))


def _still_there(segment: Segment, later: Sequence[OffsetSync]) -> OffsetRange:
    """The source offsets of a segment whose copies and originals no log has lost since; empty when its end is low."""
    end, shift = segment.source_end, segment.target_start - segment.source_start
    for sync in later:
        if sync.cause is SyncCause.SOURCE_TRUNCATED:
            end = min(end, sync.source_start)
        elif sync.cause is SyncCause.TARGET_TRUNCATED:
            end = min(end, sync.target_start - shift)
    return segment.source_start, end


def _each_told(flows: Sequence[RecordedFlow]) -> list[RecordedFlow]:
    """The flows, each with what the others found of its logs."""
    return [
        RecordedFlow(
            flow.name,
            as_if_told(
                flow.rows,
                of_source=_found(flows, flow.source, but=flow),
                of_target=_found(flows, flow.target, but=flow),
                at_target=[witness_of(one.rows) for one in flows if is_same(one.source, flow.target)],
            ),
        )
        for flow in flows
    ]


def _found(flows: Iterable[RecordedFlow], log: TopicPartition, but: RecordedFlow) -> Iterator[Truncation]:
    for flow in flows:
        if flow is not but:
            if is_same(flow.source, log):
                yield from told_of_source(flow.rows)
            yield from told_of_target(flow.rows, log)


def _not_returning(
    flows: Iterable[RecordedFlow], here: TopicPartition, former_lives: frozenset[str]
) -> list[RecordedFlow]:
    """Flows less those from a life of the topic here that is over: what they copied comes back to here."""
    over = former_lives - {here.topic_id}
    return [flow for flow in flows if flow.source.topic_id not in over]


def _known_log(
    log: TopicPartition, told: Sequence[RecordedFlow], flows: Sequence[RecordedFlow], ends: Ends | None
) -> KnownLog:
    own = [cut for flow in flows if is_same(flow.source, log) for cut in told_of_source(flow.rows)]
    by_targets = [cut for flow in flows for cut in told_of_target(flow.rows, log)]
    starts = [start for flow in told if is_same(flow.source, log) for start in flow.offset_map().epoch_starts]
    return KnownLog(
        topic_id=log.topic_id,
        log_start=None if ends is None else ends.log_start,
        high_watermark=None if ends is None else ends.high_watermark,
        epoch_starts=tuple(starts),
        told=tuple(own),
        heard=untold(by_targets, own),
        claims=claims_of([flow.rows for flow in told], log),
    )
