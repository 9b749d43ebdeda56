"""Taking over what came from one cluster to another through a third one that was given up: by maps, nothing is read.

East was mirrored to west and west to north, applications went from east to west and on to north, and only east comes
back. What north has of it says the ledger, by both maps. Composed they are the map of a flow from east to north: so
what east alone has is listed and decided against north, and a failback is one as any.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ledger.adopt.adopting import start_of, syncs_of_pieces
from ledger.adopt.pairing import Run
from ledger.changeover.deficits import copies_of
from ledger.changeover.directions import change_direction
from ledger.changeover.pairs import Pair, enabled_between, require_opposites, way_home
from ledger.changeover.scope import SeenCluster
from ledger.config.values import FlowConfig
from ledger.context import Context, require_stopped
from ledger.errors import PreconditionError, UsageError
from ledger.facts.direction import Promoted
from ledger.facts.fences import MirrorLetIn, MirrorShutOut
from ledger.facts.state import LedgerState
from ledger.facts.syncs import (
    Gap,
    OffsetSync,
    PartitionPair,
    SyncCause,
    SyncKind,
    holding,
    without,
)
from ledger.facts.ways import Direction
from ledger.kafka.cluster import topic_ids
from ledger.mirror.driver import claimed_beside_no_driver
from ledger.words import counted

# Composed -----------------------------------------------------------------------------------------


def composed(
    pair: PartitionPair, first: Sequence[OffsetSync], second: Sequence[OffsetSync]
) -> list[OffsetSync]:
    """The map of a pair by what holds of two others, oldest first: from its source, and from there to its target.

    It ends in front of the first record that the second one has not come to. What either has left out is a gap of that
    cause, and what else is missing is lost.
    """
    copies = sorted(((*at, (start, one)) for one in first for (start, _), at in copies_of(one)), key=_start)
    onward = sorted((*at, start) for one in second for at, (start, _) in copies_of(one))
    reached = second[-1].source_end
    not_reached = (start + max(reached - at, 0) for at, stop, (start, _) in copies if stop > reached)
    end = min(not_reached, default=first[-1].source_end)
    runs = sorted(
        (
            Run(
                source_start=start + left - at,
                target_start=target + left - middle,
                records=right - left,
                first_timestamp_ms=one.first_timestamp_ms or 0,
                last_timestamp_ms=one.last_timestamp_ms or 0,
                leader_epoch=one.source_leader_epoch,
            )
            for left, right, (at, _, (start, one)), (middle, _, target) in _overlaps(copies, onward)
        ),
        key=lambda run: run.source_start,
    )
    begin = runs[0].source_start if runs else end
    gaps = [(gap.source_start, gap.source_end, gap.cause) for one in first for gap in one.gaps]
    left_out = sorted((gap.source_start, gap.source_end, gap.cause) for one in second for gap in one.gaps)
    gaps += [
        (start + left - at, start + right - at, cause)
        for left, right, (at, _, (start, _)), (_, _, cause) in _overlaps(copies, left_out)
    ]
    holes = [
        (*hole, None) for hole in without((begin, end), [(run.source_start, run.source_end) for run in runs])
    ]
    known = [Gap(left, right, cause) for left, right, _, (_, _, cause) in _overlaps(holes, sorted(gaps))]
    caused: list[Run | Gap] = [*runs, *known]
    covered = sorted((one.source_start, one.source_end) for one in caused)
    pieces = sorted([*caused, *without((begin, end), covered)], key=start_of)
    target_start = runs[0].target_start if runs else second[-1].target_end
    syncs = syncs_of_pieces(pair, pieces, source_start=begin, target_start=target_start)
    return [replace(one, cause=SyncCause.THROUGH) if one.kind is SyncKind.ADOPTED else one for one in syncs]


_Part = tuple[int, int, Any]
"""A range of offsets, and what is known of it."""


def _overlaps(ours: Sequence[_Part], theirs: Sequence[_Part]) -> Iterator[tuple[int, int, _Part, _Part]]:
    """Where ranges of both meet; those of each ascend, and do not overlap."""
    first = 0
    for one in ours:
        while first < len(theirs) and theirs[first][1] <= one[0]:
            first += 1
        at = first
        while at < len(theirs) and theirs[at][0] < one[1]:
            yield max(one[0], theirs[at][0]), min(one[1], theirs[at][1]), one, theirs[at]
            at += 1


def _start(part: _Part) -> int:
    return part[0]


# Put together -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Chain:
    """A partition that one flow has copied to the cluster `through`, and another one from there; both as recorded."""

    through: str
    flows: tuple[str, str]
    first: PartitionPair
    second: PartitionPair

    @property
    def pair(self) -> PartitionPair:
        return PartitionPair(self.first.source, self.second.target)


def adopt_chain(context: Context, flow_name: str, through: str) -> str:
    """Record the map of a flow that has copied nothing, by what others have copied through a cluster that was given up;
    and that its target is promoted over its source, where it is by way of that one. Returns what was done, in words.

    Raises `UsageError` for a cluster that the flow does not go around, `PreconditionError` while the configuration has
    flows of that cluster, while a driver of the flow may be at work, and where nothing came through.
    """
    config, state = context.config, context.state
    flow = config.flow(flow_name)
    if through in (flow.source, flow.target):
        raise UsageError(f"--through {through}: {flow_name} goes from or to it; nothing was recorded")
    require_opposites([flow])
    if left := sorted(one.name for one in config.flows.values() if through in (one.source, one.target)):
        raise PreconditionError(
            f"the configuration has flows of {through} ({', '.join(left)}): take them out of it, for it is given up; "
            "nothing was recorded"
        )
    require_stopped(flow, state)
    source, target = context.cluster(flow.source), context.cluster(flow.target)
    begun, selection = {at.pair for at in state.positions(flow_name)}, config.topic_selection(flow_name)
    chains = [
        one
        for one in _chains(state, Direction(flow.source, flow.target), topic_ids(source), topic_ids(target))
        if one.through == through and one.pair not in begun
        if selection.selects(one.pair.source.topic)
        if flow.naming.target_name(one.pair.source.topic) == one.pair.target.topic
    ]
    if not chains:
        raise PreconditionError(
            f"nothing that the ledger has came from {flow.source} through {through} to topics of {flow.target} that "
            f"{flow_name} copies to and has not begun with; nothing was recorded"
        )
    directions, words = state.directions(), []
    promoted = {
        name
        for name in (one.pair.target.topic for one in chains)
        if directions.promotion(flow.source, through, name)
        and directions.promotion(through, flow.target, name)
    }
    if promoted:  # first: then no driver of the flow writes there
        pair = Pair(flow.target, flow.source, tuple(sorted(promoted)))
        words.append(change_direction(context, Promoted, pair).words)
        _keep_out(context, flow, through, promoted)
    syncs = [sync for one in chains for sync in composed(one.pair, *_held(state, one))]
    claimed = claimed_beside_no_driver(
        flow, source, target, state, context.fact_log, host=str(context.processes.own())
    )
    with claimed.session.held(flow.heartbeat_seconds):
        claimed.append(syncs)
    paired = sum(sync.records or 0 for sync in syncs)
    words.append(
        f"{flow_name}: {counted(paired, 'record')} of {counted(len(chains), 'partition')} of {flow.source} came to "
        f"{flow.target} through {through}; then: {way_home(flow.target, flow.source)}"
    )
    return "; ".join(words)


def _keep_out(context: Context, flow: FlowConfig, through: str, topics: Collection[str]) -> None:
    """Rules that keep flows from the cluster that was given up out of these topics keep this one out, until it is let
    in when applications leave: as the ledger has it; at the cluster nothing changes."""
    known, cluster_id = context.state.shut_outs(), context.cluster(flow.target).cluster_id()
    rules = tuple(sorted(known.rules(cluster_id, topics, through)))
    made = [one for one in known.changes if isinstance(one, MirrorShutOut) and one.cluster_id == cluster_id]
    if rules:
        last = [one for one in made if one.former == through][-1]
        context.record(
            replace(
                last,
                former=flow.source,
                flows={flow.name: 0},
                topics=tuple(sorted(topics)),
                rules=rules,
                markers=(),
            ),
            MirrorLetIn(
                cluster=last.cluster, cluster_id=cluster_id, former=through, topics=last.topics, rules=rules
            ),
        )


def require_no_chain(context: Context, pair: Direction, here: SeenCluster, there: SeenCluster) -> None:
    """`pair`: to a cluster that is back. Raise `UsageError` where what it had came to the source through a third one,
    and no flow has the map of that: what it has alone could not be listed."""
    state = context.state
    if None in (here.live_id, there.live_id):
        return
    for flow in enabled_between(context.config, pair):
        opposite = "FLOW" if flow.opposite is None else flow.opposite
        begun = (
            set[PartitionPair]() if flow.opposite is None else {at.pair for at in state.positions(opposite)}
        )
        way = Direction(pair.target, pair.source)
        for one in _chains(state, way, there.topic_ids, here.topic_ids):
            if one.pair not in begun and context.config.copies(flow, one.pair.source.topic):
                first = f"give {flow.name} an opposite, then " if flow.opposite is None else ""
                raise UsageError(
                    f"{one.pair.source.topic} of {pair.target} came to {pair.source} through {one.through}; what did "
                    f"not has to be listed first: {first}mirror-ledger adopt {opposite} --through {one.through}, then "
                    f"{way_home(pair.source, pair.target)}; nothing was planned"
                )


def _chains(
    state: LedgerState, way: Direction, source: Mapping[str, str], target: Mapping[str, str]
) -> Iterator[_Chain]:
    """Those from one cluster to another, of topics that are there as they were copied: by name as they are now."""
    ways = sorted(state.identities().ways().items())
    onward = {
        (at.pair.source, middle): (name, at.pair)
        for name, (middle, end) in ways
        if end == way.target
        for at in state.positions(name)
        if target.get(at.target_topic) == at.target_topic_id
    }
    for name, (begin, middle) in ways:
        if begin != way.source:
            continue
        for at in state.positions(name):
            found = onward.get((at.pair.target, middle))
            if found is not None and source.get(at.source_topic) == at.source_topic_id:
                yield _Chain(middle, (name, found[0]), at.pair, found[1])


def _held(state: LedgerState, chain: _Chain) -> Iterator[list[OffsetSync]]:
    for flow, pair in zip(chain.flows, (chain.first, chain.second), strict=True):
        rows = state.recorded_syncs(flow, pair.source.topic, pair.source.partition)
        yield [one for one in holding(rows) if (one.source, one.target) == (pair.source, pair.target)]
