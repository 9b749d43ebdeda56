"""Opening the way back after a failover: the cluster that was lost answers again, and gets what was written since.

Its extras lie in front of everything that returns: records that it had taken and that were never copied. What becomes
of them is decided before: a group to which they are unread would read all again that was written at the other cluster.
Applications stay at work there; what has to stand still is the cluster that is back, behind its fence.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ledger.changeover import recreating
from ledger.changeover.cut import cut_of_pair
from ledger.changeover.decisions import DEFICITS_OF_KEYS, EXTRAS_OF_KEYS, Decisions
from ledger.changeover.deficits import Deficit, decision, list_deficits, missing_keys, parted_at
from ledger.changeover.directions import change_direction
from ledger.changeover.extras import (
    Copied,
    Ends,
    Extras,
    Paired,
    compacted,
    copied_partitions,
    ends_of_extras,
    extras_of,
    extras_starts,
    measured_extras,
    read_extras,
    unpaired_records,
    without_lost,
)
from ledger.changeover.fencing import unfence_topics
from ledger.changeover.hand_over import hand_over
from ledger.changeover.pairs import Pair, require_opposites
from ledger.changeover.recreating import lacking_rights, lost_with_topics, recreate
from ledger.changeover.replicating import finish_replicating, replicate
from ledger.changeover.salvaging import salvage
from ledger.changeover.tail_pairing import first_own, record_tails
from ledger.changeover.waiting import Patience
from ledger.clock import MARGIN_MS
from ledger.config.values import FlowConfig
from ledger.context import Context, require_stopped
from ledger.errors import PreconditionError, UnsafeError
from ledger.facts.cut_offsets import Cut, CutSide
from ledger.facts.deficits import DeficitsDecided, DeficitsPolicy
from ledger.facts.direction import Demoted, WayBackOpened, WayBackTopic
from ledger.facts.extras import RECREATING, ExtrasDecided, ExtrasPolicy
from ledger.facts.fences import Fence, FenceHow
from ledger.facts.hand_overs import Purpose
from ledger.facts.syncs import PartitionPair
from ledger.kafka.cluster import ClusterAdmin, require_recorded
from ledger.mirror.starts import require_usable
from ledger.store.session import random_id
from ledger.words import counted, instant, some_of

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedMirrorBack:
    """`source`: the cluster where applications write, `target`: the one that is back; `topics` None: all that were
    promoted. `given_up`: topics with which more may be lost than their extras. `later`, `left_out`: as rows of a change
    of direction have them."""

    source: str
    target: str
    topics: tuple[str, ...] | None = None
    decisions: Decisions
    given_up: tuple[str, ...] = ()
    later: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def pair(self) -> Pair:
        """As it was promoted."""
        return Pair(self.source, self.target, self.topics)

    @property
    def home(self) -> Pair:
        """What of the cluster that is back may be promoted still, from when applications had come home before."""
        return Pair(self.target, self.source, self.topics, later=self.later, left_out=self.left_out)


@dataclass(frozen=True, slots=True)
class MirroredBack:
    """What came of it; `commands`: what starts the flows of the way back."""

    operation_id: str
    words: tuple[str, ...]
    commands: tuple[str, ...]


def mirror_back(context: Context, asked: AskedMirrorBack, say: Say) -> MirroredBack:
    """Decide about extras, record where both sides stand, and give the cluster that is back what copying needs.

    What is to be salvaged or replicated is copied before that is recorded. Twice is as once, but for the cut: what was
    decided stays so, and a new cut is taken. Raises `UsageError` where no flows of the configuration copy there and
    back; `PreconditionError` where a topic is not promoted, is another one than was
    copied, is not fenced, or where copies of either direction are not recorded, while a driver of one is at work, and
    where extras cannot be copied; `ClusterUnavailableError` where they are not for a minute; `UnsafeError` where
    extras or deficits are left without a decision, or more would be lost with a topic than was given up. Then nothing
    is decided, but for what an earlier process had begun to delete: that is made again first.
    """
    config, state, pair = context.config, context.state, asked.pair
    back, promoted = context.cluster(asked.target), context.cluster(asked.source)
    require_recorded(state, back, promoted)
    flows = pair.flows_of(config.flows.values(), config.copies)
    ways_back = [config.flow(name) for name in require_opposites(flows)]
    for flow in (*ways_back, *flows):
        require_stopped(flow, state)
    # What an earlier process has begun to delete is decided: the cut is to have what takes its place.
    before = recreating.begun(context, flows, asked.topics)
    copied = copied_partitions(context, pair, flows)
    copied = [one for one in copied if one.pair.source.topic_id not in before.values()]
    _require_fenced(context, asked.target, copied, before)
    for flow in ways_back:
        _require_recorded(context, flow, copied)
    made = recreate(context, asked.target, before, say)
    lacking, paired = list_deficits(context, flows, copied)
    for lack in lacking:
        say(f"deficits: {asked.target}: {lack.words}")
    names = {one.pair.source.topic for one in copied}
    asked.decisions.require_about({*names, *before}, asked.target, undone="nothing was decided")
    asked = replace(asked, decisions=asked.decisions.of_compacted(compacted((back, promoted), names)))
    recreated = _to_recreate(context, asked, copied, lacking, paired)
    _require_allowed(context, asked, recreated)
    others = [one for one in lacking if one.pair.source.topic not in recreated]
    _require_deficits_decided(asked, others)
    _wait_behind_losses(context, [one for one in copied if one.pair.source.topic not in recreated], say)
    tails = [(flow, [one.pair for one in copied if one.flow == flow]) for flow in flows]
    tails += [(flow, settled) for flow in ways_back if (settled := _settled(context, flow))]
    for flow, pairs in tails:
        record_tails(context, flow, pairs, say)
    starts = extras_starts(context, back, copied)
    ends = ends_of_extras(back, [one.pair.source for one in starts])
    found = read_extras(context, back, starts, ends)
    for one in found:
        say(f"extras at {asked.target}: {one.words}")
    _require_decided(asked, found)
    of_recreated = [one for one in starts if one.pair.source.topic in recreated]
    lost = lost_with_topics(context, back, promoted, of_recreated, found, {})
    for one in lost:
        say(f"lost with {one.partition.topic} of {asked.target}: {one.words}")
    _require_given_up(asked, lost)
    operation_id = context.why.operation_id or random_id()
    context = context.part_of(operation_id)
    named = replace(pair, topics=tuple(sorted({*(one.pair.target.topic for one in copied), *before})))
    kept = _decide_deficits(context, asked, lacking, recreated, say)  # the cut goes by it
    cut = cut_of_pair(context, named, operation_id=operation_id)
    for flow in ways_back:
        require_usable(flow, cut, undone="nothing was decided")
    _require_same_ends(cut, ends, asked.target)
    # Last: by now it is proved that nothing of it had been copied, and that nothing came behind it.
    copied_extras = [
        copy(context, flow, of_flow, say)
        for policy, copy in _COPIES.items()
        for flow in flows
        if (of_flow := [one for one in found if one.flow == flow and _policy(asked, one) is policy])
    ]
    copied_extras += [words for flow in flows for words in finish_replicating(context, flow, say)]
    if found or lost:
        context.record(*(_decision(asked, back.cluster_id(), one) for one in (*found, *lost)))
    former = {one.pair.source.topic: one.pair.source.topic_id for one in copied}
    made += recreate(context, asked.target, {name: former[name] for name in sorted(recreated)}, say)
    # Where a failback before had promoted it: applications are not there, and the mirror is let in again.
    demoted = change_direction(context, Demoted, asked.home, cut_operation=operation_id)
    words = [_decided_words(asked, found), *kept, *copied_extras, *made, cut.words]
    words += [demoted.words] if demoted.operation_id is not None else []
    words.append(hand_over(context, named, Purpose.MIRROR, say).words)
    context.record(_opened_way(asked, back, promoted, named.topics or ()))
    words += lift_shut(context, asked.target, {*names, *before}, say)
    commands = tuple(f"mirror-ledger run {flow.name}" for flow in ways_back)
    return MirroredBack(operation_id, tuple(words), commands)


def _require_fenced(
    context: Context, cluster: str, copied: Sequence[Copied], before: Mapping[str, str]
) -> None:
    """Who writes there meanwhile writes what nobody has decided about. `before`: by name the ids of topics of which an
    earlier process had begun to delete these."""
    recreations = context.state.recreations()
    topics = {(one.pair.source.topic, one.pair.source.topic_id) for one in copied}
    topics |= {(name, recreations.current(topic_id) or topic_id) for name, topic_id in before.items()}
    if open_ones := context.state.fences().open_topics(cluster, topics):
        raise PreconditionError(
            f"{some_of(open_ones, 'topic')} of {cluster} is not fenced, or that is not proved: applications that come "
            f"back with it would write there; nothing was recorded. First: mirror-ledger fence {cluster} --reason WHY"
        )


def _require_recorded(context: Context, flow: FlowConfig, copied: Sequence[Copied]) -> None:
    """What a driver of the way back has written and not recorded would be taken for extras, and copied again."""
    target = context.cluster(flow.target)
    producer = context.state.identities().producers(target.cluster_id()).get(flow.name)
    if producer is None:
        return
    read_to = {one.pair.source.key: one.copied_to for one in copied}
    positions = [one for one in context.state.positions(flow.name) if one.pair.target.key in read_to]
    ends = target.ends([one.pair.target.place for one in positions])
    for one in positions:
        at = one.pair.target
        if (end := ends.get(at.place)) is None:
            continue
        # Up to where it was copied away from there the flow that did so has read it.
        start = max(one.position.target_offset, read_to[at.key], end.log_start)
        if first_own(target, at, start, end.high_watermark, producer) is not None:
            raise PreconditionError(
                f"{flow.name} has written to {at.topic} partition {at.partition} of {flow.target} what it has not "
                f"recorded; nothing was recorded. Let it: mirror-ledger run {flow.name} --until-caught-up, then try "
                "again"
            )


def _settled(context: Context, flow: FlowConfig) -> list[PartitionPair]:
    """Partitions where a driver of the way back had died before applications left for where it copied from: what it had
    copied last was found without its source, which answers by now."""
    own = [Copied(flow, at.pair, at.position.source_offset) for at in context.state.positions(flow.name)]
    return [pair for (_, pair), records in unpaired_records(context, own).items() if records]


# Extras -------------------------------------------------------------------------------------------


def _to_recreate(
    context: Context,
    asked: AskedMirrorBack,
    copied: Sequence[Copied],
    lacking: Sequence[Deficit],
    paired: Paired,
) -> frozenset[str]:
    """Topics that are deleted now: what has taken the place of one since, and is copied to, is not."""
    state, back = context.state, context.cluster(asked.target)
    directions, recreations = state.directions(), state.recreations()
    names = set()
    for one in copied:
        at = one.pair.source
        way = directions.way_back(asked.source, asked.target, at.topic)
        if not (recreations.is_new(at.topic_id) and way is not None and way.holds(at.topic, at.topic_id)):
            names.add(at.topic)
    starts = without_lost(extras_starts(context, back, copied), parted_at(lacking))
    found = measured_extras(back, list(extras_of(context, back, starts, None, paired)), {})
    alone = {one.partition.topic for one in found if not one.are_markers}
    return asked.decisions.to_recreate(names, alone)


def _require_allowed(context: Context, asked: AskedMirrorBack, recreated: Collection[str]) -> None:
    if rights := lacking_rights(context, asked.target, recreated):
        raise PreconditionError(
            f"the administrator of {asked.target} has no right that is known: {some_of(rights, 'right')}; nothing was "
            "decided. Grant it, or keep the topic: --extras TOPIC=keep"
        )


def _require_given_up(asked: AskedMirrorBack, lost: Sequence[Extras]) -> None:
    if names := sorted({one.partition.topic for one in lost} - set(asked.given_up)):
        raise UnsafeError(
            f"{some_of(names, 'topic')} of {asked.target} cannot be made again without loss: {asked.source} has not, "
            "or not any more, all that it holds beside its extras; nothing was decided. Give that up by name: "
            f"--accept lost_with_topic={names[0]}; or keep the topic: --extras TOPIC=keep"
        )


def _wait_behind_losses(context: Context, copied: Sequence[Copied], say: Say) -> None:
    """Until what comes back is recorded so long after a driver found that its source had lost records that it counts as
    younger by any two clocks: else it would be in doubt for good whether it was lost with them.

    Raises `PreconditionError` where the clocks are further apart than is assumed.
    """
    asked: dict[str, set[str]] = {}
    for one in copied:
        asked.setdefault(one.flow.name, set()).add(one.pair.source.topic_id)
    found_ms = max((context.state.last_loss_at_ms(*of_flow) or 0 for of_flow in asked.items()), default=0)
    # The clock of who found it may be as much ahead as that of who brings it back is behind.
    end_ms = found_ms + 2 * MARGIN_MS

    def left() -> str | None:
        if context.clock.now_ms() >= end_ms:
            return None
        return (
            f"a driver has found at {instant(found_ms)} that copied records were lost: what comes back is to be "
            f"younger by any clock, from {instant(end_ms)} on"
        )

    patience = Patience(context.clock, time.sleep, 3 * MARGIN_MS / 1000)
    patience.until(left, say, advice="A clock is wrong: set it, then try again")


def _require_deficits_decided(asked: AskedMirrorBack, lacking: Sequence[Deficit]) -> None:
    left = [one for one in lacking if asked.decisions.of_deficits(one.pair.source.topic) is None]
    if names := sorted({one.pair.source.topic for one in left}):
        records = sum(one.offsets for one in left)
        raise UnsafeError(
            f"{asked.target} lacks {counted(records, 'record')} of {some_of(names, 'topic')} "
            f"that {asked.source} has copies of; nothing was decided. Say what becomes of them: --deficits return "
            "(they come back) or keep (they stay where the copies are), of one topic --deficits TOPIC=keep"
            + _of_keys(asked, names, DEFICITS_OF_KEYS)
        )


def _decide_deficits(
    context: Context,
    asked: AskedMirrorBack,
    lacking: Sequence[Deficit],
    recreated: Collection[str],
    say: Say,
) -> list[str]:
    """Record what becomes of each; returns what stays, in words. To a topic that is created again all comes back, in
    its order."""
    rows, kept = list[DeficitsDecided](), list[str]()
    for one in lacking:
        topic = one.pair.source.topic
        policy = DeficitsPolicy.RETURN if topic in recreated else asked.decisions.of_deficits(topic)
        assert policy is not None, "each has one"
        if policy is DeficitsPolicy.KEEP:
            kept.append(missing_keys(context, one))
            say(kept[-1])
        rows.append(decision(context, one, policy))
    if rows:
        context.record(*rows)
    return kept


def _of_keys(asked: AskedMirrorBack, names: Collection[str], why: str) -> str:
    """Why what was said of some of these topics, if anything was, is no decision."""
    found = sorted(asked.decisions.compacted & set(names))
    return f". {some_of(found, 'topic')}: {why}" if found else ""


def _require_decided(asked: AskedMirrorBack, found: Sequence[Extras]) -> None:
    if left := sorted({one.partition.topic for one in found if _policy(asked, one) is None}):
        offsets = sum(one.offsets for one in found if one.partition.topic in left)
        raise UnsafeError(
            f"{asked.target} has {counted(offsets, 'offset')} of {some_of(left, 'topic')} that were never copied: they "
            "would lie in front of all that comes back; nothing was decided. Say what becomes of them: --extras keep "
            "(they stay there, and groups pass them), salvage, replicate or recreate, of one topic --extras TOPIC=keep"
            + _of_keys(asked, left, EXTRAS_OF_KEYS)
        )


def _policy(asked: AskedMirrorBack, one: Extras) -> ExtrasPolicy | None:
    return ExtrasPolicy.KEEP_LOCAL if one.are_markers else asked.decisions.policy(one.partition.topic)


def _decision(asked: AskedMirrorBack, cluster_id: str, one: Extras) -> ExtrasDecided:
    policy = _policy(asked, one)
    assert policy is not None, "each has one"
    return one.decided(cluster_id, policy)


def _decided_words(asked: AskedMirrorBack, found: Sequence[Extras]) -> str:
    if not found:
        return f"{asked.target} has nothing that was never copied"
    copied = sum(one.offsets for one in found if _policy(asked, one) is ExtrasPolicy.REPLICATE)
    given_up = sum(one.offsets for one in found if _policy(asked, one) in RECREATING)
    words = (
        [f"{counted(given_up, 'offset')} of {asked.target} given up with their topics"] if given_up else []
    )
    if staying := sum(one.offsets for one in found) - copied - given_up:
        words.append(f"{counted(staying, 'offset')} stay at {asked.target}: no flow copies them")
    return "; ".join(words) or f"nothing stays at {asked.target} alone"


_COPIES: Mapping[ExtrasPolicy, Callable[[Context, FlowConfig, Sequence[Extras], Say], str]] = {
    ExtrasPolicy.SALVAGE: salvage,
    ExtrasPolicy.SALVAGE_RECREATE: salvage,
    ExtrasPolicy.REPLICATE: replicate,
}
"""By policy what copies extras of a flow; each returns what came of it, in words."""


# The way back -------------------------------------------------------------------------------------


def _require_same_ends(cut: Cut, ends: Ends, cluster: str) -> None:
    """Nothing came behind what was decided until the cut was taken."""
    late = [
        at.name
        for at in cut.offsets
        if at.side is CutSide.SOURCE and (end := ends.get((at.topic, at.partition))) is not None
        if at.high_watermark is not None and at.high_watermark > end.high_watermark
    ]
    if late:
        raise PreconditionError(
            f"somebody has written to {some_of(late, 'partition')} of {cluster} meanwhile: the fence does not hold; "
            "nothing was decided. Fence it again, then try again"
        )


def _opened_way(
    asked: AskedMirrorBack, back: ClusterAdmin, promoted: ClusterAdmin, names: Collection[str]
) -> WayBackOpened:
    topics = sorted((name, topic.topic_id) for name, topic in back.topics().items() if name in names)
    return WayBackOpened(
        cluster=asked.target,
        cluster_id=back.cluster_id(),
        promoted=asked.source,
        promoted_id=promoted.cluster_id(),
        topics=tuple(WayBackTopic(topic=topic, topic_id=topic_id) for topic, topic_id in topics),
    )


def lift_shut(context: Context, cluster: str, topics: Collection[str], say: Say) -> list[str]:
    """A topic that takes no batch takes none of the mirror's; what keeps producers out is that they are elsewhere."""
    fences: list[Fence] = [one.fence for one in context.state.fences().at(cluster)]
    shut = sorted(one.topic for one in fences if one.how == FenceHow.SHUT and one.topic in topics)
    return [unfence_topics(context, cluster, shut, say).words] if shut else []
