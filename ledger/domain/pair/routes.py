"""The flows between some logs: their maps, each with what other flows found of its logs and it does not know yet.

A flow that has recorded nothing yet between current topics has a map that holds nothing: what it will bring is on its
way. What supersession took out of a map lies at its target still, unless a log has lost it (`OldCopy`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ledger.domain.facts import OffsetSync, PartitionPair, SyncCause, SyncKind, TopicPartition
from ledger.domain.offsets.earlier_copies import still_held
from ledger.domain.offsets.offset_map import EpochStart, OffsetMap
from ledger.domain.offsets.offset_ranges import OffsetRange, without
from ledger.domain.offsets.stretches import Segment, Unpaired, expand
from ledger.domain.offsets.supersession import effective
from ledger.domain.offsets.translation import SeenEnd, Truncation
from ledger.domain.pair.claims import Found, claims_of, leftover
from ledger.domain.pair.links import Route
from ledger.domain.pair.untold import (
    FlowRows,
    as_if_told,
    is_same,
    told_of_source,
    told_of_target,
    witness_of,
)


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
            Route(offset_map=_empty_map(way), is_begun=False)
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

    def epoch_starts(self, log: TopicPartition) -> tuple[EpochStart, ...]:
        """Where leader epochs begin, by the maps that read a log."""
        reading = (self._told(flow) for flow in self.flows if is_same(flow.source, log))
        return tuple(start for flow in reading for start in flow.offset_map().epoch_starts)

    def told_by_readers(self, log: TopicPartition, seen: Sequence[SeenEnd]) -> tuple[Truncation, ...]:
        reading = (flow for flow in self.flows if is_same(flow.source, log))
        return tuple(cut for flow in reading for cut in told_of_source(flow.rows, seen))

    def told_by_writers(self, log: TopicPartition) -> tuple[Truncation, ...]:
        return tuple(cut for flow in self.flows for cut in told_of_target(flow.rows, log))

    def _route_of(self, flow: RecordedFlow) -> Route:
        before, after = flow.offset_map(), self._told(flow).offset_map()
        old = old_copies(flow.rows)
        sound = list(_sound(old, self._found(flow.source, but=flow), self._found(flow.target, but=flow)))
        old_segments, sound_segments = [one.segment for one in old], [one.segment for one in sound]
        return Route(
            offset_map=after,
            old=tuple(sorted(sound_segments)),
            old_unpaired=tuple(old_unpaired(flow.rows)),
            doubted=leftover(
                (*_targets(before), *_targets_of(old_segments)),
                (*_targets(after), *_targets_of(sound_segments)),
            ),
            doubted_at_source=leftover(
                _sources([*before.segments, *old_segments]), _sources([*after.segments, *sound_segments])
            ),
        )

    def _told(self, flow: RecordedFlow) -> RecordedFlow:
        """A flow with what the others found of its logs."""
        of_target = self._found_of_target(flow)
        rows = as_if_told(
            flow.rows,
            of_source=self._found(flow.source, but=flow),
            of_target=of_target.cuts,
            at_target=of_target.witnesses,
        )
        return RecordedFlow(flow.name, rows)

    def _found(self, log: TopicPartition, but: RecordedFlow) -> tuple[Truncation, ...]:
        others = [flow for flow in self.flows if flow is not but]
        by_readers = (
            cut for flow in others if is_same(flow.source, log) for cut in told_of_source(flow.rows)
        )
        return (*by_readers, *(cut for flow in others for cut in told_of_target(flow.rows, log)))

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
