"""A pair of partitions put together from the rows of all flows that touch them.

Between two incarnations of a topic records go by a flow, by a chain of two through a third log, or from one origin
to both sides. A chain counts where no flow goes there directly.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ledger.domain.facts import PartitionPair, TopicPartition
from ledger.domain.offsets.offset_ranges import OffsetRange
from ledger.domain.offsets.translation import SeenEnd
from ledger.domain.pair.composition import composed
from ledger.domain.pair.first_unread import KnownPair
from ledger.domain.pair.links import Link, Route, brought, of_one_origin, taken
from ledger.domain.pair.read_offsets import KnownLog
from ledger.domain.pair.routes import KnownFlows, RecordedFlow
from ledger.domain.pair.untold import untold


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The last recorded ends of a log; `seen`: how far recorders saw it reach by leader epoch."""

    log_start: int
    high_watermark: int
    seen: tuple[SeenEnd, ...] = ()


def known_pair(
    *,
    here: TopicPartition,
    there: TopicPartition,
    flows: Sequence[RecordedFlow],
    ways: Iterable[PartitionPair] = (),
    relayed: Iterable[PartitionPair] = (),
    ends_here: Ends | None = None,
    ends_there: Ends | None = None,
    kept_local: Iterable[OffsetRange] = (),
    former_lives: frozenset[str] = frozenset(),
) -> KnownPair:
    """What is known of two partitions of current topics.

    `flows`: all that have rows from or to either, or from or to what these have rows of. `ways`: between which current
    partitions flows copy, though they may have recorded nothing of these incarnations. `relayed`: between which of
    them a flow copies also what mirrors wrote. `former_lives`: topic ids that the topics had before.
    """
    known = KnownFlows(tuple(flows), tuple(ways), tuple(relayed))
    links = tuple(_links(known.routes(), here, there))
    ends = [link.decided_to for link in links if link.decided_to is not None]
    return KnownPair(
        here=_known_log(here, known, ends_here),
        there=_known_log(there, known, ends_there, over=former_lives - {here.topic_id}),
        links=links,
        brought_from=min(ends, default=None),
        kept_local=tuple(kept_local),
        is_other_life=not links and any(_is_former(flow, here, there, former_lives) for flow in flows),
    )


def _is_former(
    flow: RecordedFlow, here: TopicPartition, there: TopicPartition, former_lives: frozenset[str]
) -> bool:
    """Whether a flow has rows between the two topics of which one is of an incarnation that has ended."""
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


def _known_log(
    log: TopicPartition, known: KnownFlows, ends: Ends | None, *, over: frozenset[str] = frozenset()
) -> KnownLog:
    told = known.told_by_readers(log, () if ends is None else ends.seen)
    return KnownLog(
        topic_id=log.topic_id,
        log_start=None if ends is None else ends.log_start,
        high_watermark=None if ends is None else ends.high_watermark,
        epoch_starts=known.epoch_starts(log),
        told=told,
        heard=untold(known.told_by_writers(log), told),
        claims=known.claims(log, over=over),
    )
