"""Replicating: extras are copied behind what applications have written to the promoted topic since, and only there.

The flow that has copied the topic so far does that, under a claim of its own, though its target is promoted: the one
exception. It continues at the target's end with another producer id, so nothing of its own is searched among what
others wrote, and copies as into a shared target. Its rows say where it stood before: all that others wrote behind that
is still to come back, and the flow of the way back leaves the copies out, for a mirror wrote them. Extras of compacted
topics are refused (`decisions.py`): a copy would replace what applications have written of its key.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ledger.changeover.bounded_copy import BegunCopy, BoundedCopy, Say, bounded_copy, require_committed
from ledger.changeover.extras import Extras, ends_of_extras
from ledger.changeover.pairs import Pair
from ledger.changeover.shut_out import let_in, shut_out
from ledger.config.values import FlowConfig
from ledger.context import Context
from ledger.errors import PreconditionError
from ledger.facts.fences import MirrorLetIn, MirrorShutOut
from ledger.facts.syncs import FlowPosition, OffsetSync, Position, SyncCause, without
from ledger.kafka.cluster import PartitionEnds
from ledger.mirror.states import PartitionState
from ledger.words import counted, some_of

_STOPPED_WITHIN_S = 60.0


def replicate(context: Context, flow: FlowConfig, found: Sequence[Extras], say: Say) -> str:
    """Copy all of these extras of a flow to its promoted topics; returns when each is there and recorded, in words.

    Twice is as once. Raises `PreconditionError` while somebody else may write for the flow, where a transaction is
    open, a partition is lacking, or one cannot be copied; `ClusterUnavailableError` where nothing could be copied for a
    minute. What was copied until then is recorded, and found when it is begun again.
    """
    source, target = context.cluster(flow.source), context.cluster(flow.target)
    require_committed(found, ends_of_extras(source, [one.partition for one in found]), flow.source)
    ends = target.ends([one.pair.target.place for one in found])
    if lacking := [one.pair.target for one in found if one.pair.target.place not in ends]:
        names = [at.words for at in lacking]
        raise PreconditionError(
            f"{flow.target} has no {some_of(names, 'partition')}, or it has no leader: extras cannot be copied there; "
            "nothing was decided. Add it, or try again"
        )
    behind_others = context.state.behind_others(flow.name)
    topics = tuple(sorted({one.pair.target.topic for one in found}))
    pair = Pair(flow.target, flow.source, topics)

    def is_renewed(known: Sequence[FlowPosition]) -> bool:
        """Where it was begun before, the end of the target tells by the producer id what was copied."""
        meant = {one.pair for one in found}
        return any(at.pair in meant and at.pair.target.key not in behind_others for at in known)

    with _let_in(context, pair, say) as words, bounded_copy(context, flow, is_renewed=is_renewed) as copy:
        begun = [
            _begun(copy, one, ends[one.pair.target.place], one.pair.target.key in behind_others)
            for one in found
        ]
        copy.run(begun, say)
    records = counted(sum(map(copy.records_of, found)), "record")
    done = "; ".join([f"{flow.name}: {records} that were left came to {some_of(topics, 'topic')}", *words])
    say(done)
    return done


@contextmanager
def _let_in(context: Context, pair: Pair, say: Say) -> Iterator[list[str]]:
    """The mirror may write to promoted topics while the body runs; what had kept it out does so again, and is proved.

    Yields where the words of the receipt come to. A command that was killed in between leaves the mirror in: the next
    one finds that it was shut out once (`shut_out_again`).
    """
    former = _shut_outs(context, pair)
    words: list[str] = []
    if former:
        say(let_in(context, pair).words)
    try:
        yield words
    finally:
        if former:
            words.append(_shut_out(context, pair, former, say))


def finish_replicating(context: Context, flow: FlowConfig, say: Say) -> list[str]:
    """Shut the mirror out of promoted topics to which a command that was killed had let it in for extras.

    Returns the words of the receipt; none where nothing is to be done. Raises as `replicate`.
    """
    ids = {topic_id for topic_id, _ in context.state.behind_others(flow.name)}
    promoted = context.state.directions()
    named = [
        topic.name
        for _, topic in sorted(context.cluster(flow.target).topics().items())
        if topic.topic_id in ids and promoted.promotion(flow.source, flow.target, topic.name) is not None
    ]
    open_ones = tuple(name for name in named if _is_let_in(context, flow, name))
    if not open_ones:
        return []
    pair = Pair(flow.target, flow.source, open_ones)
    return [_shut_out(context, pair, _shut_outs(context, pair), say)]


def _is_let_in(context: Context, flow: FlowConfig, topic: str) -> bool:
    """Whether the last that was done about the flow's source and this topic was to let the mirror in, or to begin to
    shut it out again."""
    cluster_id = context.cluster(flow.target).cluster_id()
    done = [
        change
        for change in context.state.shut_outs().changes
        if change.cluster_id == cluster_id and topic in change.topics and change.former in (None, flow.source)
    ]
    return bool(done) and (isinstance(done[-1], MirrorLetIn) or done[-1].proof is None)


def _shut_outs(context: Context, pair: Pair) -> list[MirrorShutOut]:
    """What has kept the mirror out of topics of a pair by rules or markers, at any time."""
    cluster_id = context.cluster(pair.cluster).cluster_id()
    return [
        change
        for change in context.state.shut_outs().changes
        if isinstance(change, MirrorShutOut)
        and (change.cluster_id, change.former) == (cluster_id, pair.former)
        and set(change.topics) & set(pair.topics or ())
        and (change.rules or change.markers)
    ]


def _shut_out(context: Context, pair: Pair, former: Sequence[MirrorShutOut], say: Say) -> str:
    with_markers = any(change.markers for change in former)
    return shut_out(context, pair, with_markers=with_markers, limit_s=_STOPPED_WITHIN_S, say=say).words


def _begun(copy: BoundedCopy, one: Extras, there: PartitionEnds, is_behind_others: bool) -> BegunCopy:
    start, end = one.ranges[0][0], one.ranges[-1][1]
    recorded = copy.progress.recorded(one.pair)
    if recorded is None:
        begin = Position(source_offset=start, target_offset=there.last_stable, next_sequence=0)
        state = PartitionState(one.pair, begin)
        return BegunCopy(
            state, end, tuple(without((start, end), one.ranges)), (state.started(SyncCause.EXTRAS),)
        )
    state, facts = PartitionState(one.pair, recorded.position), list[OffsetSync]()
    if not is_behind_others:
        # What is not decided there yet is read again behind the copies.
        facts.append(
            state.pass_target(max(there.last_stable, state.position.target_offset), SyncCause.EXTRAS)
        )
    if state.position.source_offset < one.log_start:
        facts.append(state.lose(one.log_start, SyncCause.RETENTION))
    begin_at = state.position.source_offset
    left_out = tuple(without((begin_at, end), one.ranges)) if begin_at < end else ()
    return BegunCopy(state, end, left_out, tuple(facts))
