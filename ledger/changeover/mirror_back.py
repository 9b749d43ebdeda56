"""Opening the way back after a failover: the cluster that was lost answers again, and gets what was written since.

Its extras lie in front of everything that returns: records that it had taken and that were never copied. What becomes
of them is decided before: a group to which they are unread would read all again that was written at the other cluster.
Applications stay at work there; what has to stand still is the cluster that is back, behind its fence.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ledger.changeover.cut import cut_of_pair
from ledger.changeover.fencing import unfence_topics
from ledger.changeover.hand_over import hand_over
from ledger.changeover.pairs import Pair, require_opposites
from ledger.changeover.tail_pairing import pair_tails
from ledger.config.values import FlowConfig
from ledger.context import Context, require_stopped
from ledger.errors import PreconditionError, UnsafeError, UsageError
from ledger.facts.cut_offsets import Cut, CutSide
from ledger.facts.extras import ExtraRange, ExtrasDecided, ExtrasPolicy
from ledger.facts.fences import Fence, FenceHow
from ledger.facts.hand_overs import Purpose
from ledger.facts.roles import writer_of
from ledger.facts.syncs import (
    FlowPosition,
    OffsetRange,
    PartitionPair,
    SyncCause,
    SyncKind,
    TopicPartition,
    holding,
    joined,
    without,
)
from ledger.kafka.cluster import ClusterAdmin, PartitionEnds, require_recorded
from ledger.mirror.starts import require_usable
from ledger.roles import is_at_work
from ledger.store.session import random_id
from ledger.words import counted, some_of

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedMirrorBack:
    """`source`: the cluster where applications write now, `target`: the one that is back; `topics` None: all that were
    promoted. `policies`: by topic what becomes of its extras; `policy`: of all others, None: nobody has decided."""

    source: str
    target: str
    topics: tuple[str, ...] | None = None
    policies: Mapping[str, ExtrasPolicy]
    policy: ExtrasPolicy | None = None

    @property
    def pair(self) -> Pair:
        """As it was promoted."""
        return Pair(self.source, self.target, self.topics)


@dataclass(frozen=True, slots=True)
class Extras:
    """Offsets of a partition that no flow has brought to another cluster, and about which nothing is decided.

    `readers`: groups with a commit behind the first of them, as recorded last.
    """

    partition: TopicPartition
    ranges: tuple[OffsetRange, ...]
    readers: tuple[str, ...]

    @property
    def offsets(self) -> int:
        return sum(end - start for start, end in self.ranges)

    @property
    def words(self) -> str:
        where = f"{self.partition.topic} partition {self.partition.partition}"
        listed = ", ".join(f"{start} to {end - 1}" for start, end in self.ranges)
        read = f"; read by {some_of([repr(one) for one in self.readers], 'group')}" if self.readers else ""
        return f"{where}: {counted(self.offsets, 'offset')} ({listed}){read}"


@dataclass(frozen=True, slots=True)
class MirroredBack:
    """What came of it; `commands`: what starts the flows of the way back."""

    operation_id: str
    words: tuple[str, ...]
    commands: tuple[str, ...]


def mirror_back(context: Context, asked: AskedMirrorBack, say: Say) -> MirroredBack:
    """Decide about extras, record where both sides stand, and give the cluster that is back what copying needs.

    Twice is as once, but for the cut: what was decided stays so, and a new cut is taken. Raises `UsageError` where no
    flows of the configuration copy there and back, `PreconditionError` where a topic is not promoted, is another one
    than was copied, is not fenced, or holds copies that nobody has recorded, and while a driver of the way back is at
    work; `UnsafeError` where extras are left without a decision. Then nothing is recorded.
    """
    config, state, pair = context.config, context.state, asked.pair
    back, promoted = context.cluster(asked.target), context.cluster(asked.source)
    require_recorded(state, back, promoted)
    flows = pair.flows_of(config.flows.values(), config.copies)
    ways_back = require_opposites(flows)
    for name in ways_back:
        require_stopped(config.flow(name), state)
    copied = _copied(context, asked, flows)
    _require_fenced(context, asked.target, copied)
    for flow in flows:
        if not is_at_work(flow, state.last_claim(writer_of(flow.name))):
            pair_tails(context, flow, [_pair(one) for of, one in copied if of == flow], say)
    copied = _copied(context, asked, flows)
    ends = _ends(back, copied)
    found = list(_extras(context, back.alias, copied, ends))
    for one in found:
        say(f"extras at {asked.target}: {one.words}")
    _require_decided(asked, found)
    operation_id = context.why.operation_id or random_id()
    context = context.part_of(operation_id)
    decisions = [_decision(asked, back.cluster_id(), one) for one in found]
    if decisions:
        context.record(*decisions)
    named = replace(pair, topics=tuple(sorted({one.target_topic for _, one in copied})))
    cut = cut_of_pair(context, named, operation_id=operation_id)
    for name in ways_back:
        require_usable(config.flow(name), cut, undone="nothing of the way back was opened")
    _require_same_ends(cut, ends, asked.target)
    words = [_decided_words(found, asked.target), cut.words]
    words.append(hand_over(context, named, Purpose.MIRROR, say).words)
    words += _opened(context, asked.target, copied, say)
    commands = tuple(f"mirror-ledger run {name} --from-cut {operation_id}" for name in ways_back)
    return MirroredBack(operation_id, tuple(filter(None, words)), commands)


def _copied(
    context: Context, asked: AskedMirrorBack, flows: Sequence[FlowConfig]
) -> list[tuple[FlowConfig, FlowPosition]]:
    """Where the flows to the promoted cluster stand, of topics that are there as they were copied.

    Raises `PreconditionError` for topics that are not promoted, or are other ones by now.
    """
    directions, found = context.state.directions(), []
    here = {alias: context.cluster(alias).topics() for alias in (asked.source, asked.target)}
    for flow in flows:
        selection = context.config.topic_selection(flow.name)
        for one in context.state.positions(flow.name):
            if not selection.selects(one.source_topic) or (
                asked.topics is not None and one.target_topic not in asked.topics
            ):
                continue
            ids = {asked.target: (one.source_topic, one.source_topic_id)}
            ids[asked.source] = one.target_topic, one.target_topic_id
            live = {alias: here[alias].get(name) for alias, (name, _) in ids.items()}
            if all(topic is None for topic in live.values()):
                continue
            for alias, (name, topic_id) in ids.items():
                topic = live[alias]
                if topic is None or topic.topic_id != topic_id:
                    raise PreconditionError(
                        f"{name} of {alias} is not the topic any more that {flow.name} copied ({topic_id}); nothing "
                        "was recorded. Leave it out (--topic)"
                    )
            if directions.promotion(asked.target, asked.source, one.target_topic) is None:
                raise PreconditionError(
                    f"{one.target_topic} of {asked.source} is not promoted over {asked.target}: {flow.name} copies it, "
                    "and nothing goes the other way; nothing was recorded"
                )
            found.append((flow, one))
    if not found:
        raise UsageError(
            f"no flow has copied such a topic from {asked.target} to {asked.source}; nothing was recorded"
        )
    return found


def _require_fenced(
    context: Context, cluster: str, copied: Sequence[tuple[FlowConfig, FlowPosition]]
) -> None:
    """Who writes there meanwhile writes what nobody has decided about."""
    closed = {
        one.fence.topic
        for one in context.state.fences().at(cluster)
        if not one.fence.is_open or (one.fence.override is not None and one.fence.is_made)
    }
    if open_ones := sorted({one.source_topic for _, one in copied} - closed):
        raise PreconditionError(
            f"{some_of(open_ones, 'topic')} of {cluster} is not fenced, or that is not proved: applications that come "
            f"back with it would write there; nothing was recorded. First: mirror-ledger fence {cluster} --reason WHY"
        )


def _pair(one: FlowPosition) -> PartitionPair:
    return PartitionPair(
        TopicPartition(one.source_topic, one.source_topic_id, one.partition),
        TopicPartition(one.target_topic, one.target_topic_id, one.partition),
    )


# Extras -------------------------------------------------------------------------------------------


Ends = Mapping[tuple[str, int], PartitionEnds]
"""By topic and partition of the cluster that is back."""


def _ends(admin: ClusterAdmin, copied: Sequence[tuple[FlowConfig, FlowPosition]]) -> Ends:
    places = sorted({(one.source_topic, one.partition) for _, one in copied})
    ends = admin.ends(places)
    if leaderless := [
        f"{topic} partition {partition}" for topic, partition in places if (topic, partition) not in ends
    ]:
        raise PreconditionError(
            f"{some_of(leaderless, 'partition')} of {admin.alias} has no leader; nothing was recorded. Try again when "
            "it has one"
        )
    return ends


def _extras(
    context: Context, cluster: str, copied: Sequence[tuple[FlowConfig, FlowPosition]], ends: Ends
) -> Iterator[Extras]:
    """Of each partition what lies behind the map and no flow has written there, less what is decided."""
    state, names = context.state, sorted({one.source_topic for _, one in copied})
    decided, claims = state.extras().decided, state.written_by_flows(cluster, names)
    readers: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for commit in state.last_checkpoints(cluster):
        if commit.committed_offset is not None:
            place = commit.topic, commit.partition
            readers.setdefault(place, []).append((commit.committed_offset, commit.group_id))
    for flow, one in copied:
        end = ends[one.source_topic, one.partition]
        at = TopicPartition(one.source_topic, one.source_topic_id, one.partition)
        _require_recorded_tail(context, flow, one)
        whole = max(one.position.source_offset, end.log_start), end.high_watermark
        known = (*claims.get((at.topic_id, at.partition), ()), *decided.get((at.topic_id, at.partition), ()))
        ranges = tuple(without(whole, joined(sorted(known)))) if whole[0] < whole[1] else ()
        if ranges:
            groups = {name for offset, name in readers.get((at.topic, at.partition), ()) if offset > whole[0]}
            yield Extras(at, ranges, tuple(sorted(groups)))


def _require_recorded_tail(context: Context, flow: FlowConfig, one: FlowPosition) -> None:
    """What a dead driver had copied, and was found at the target without its source, is no extra."""
    rows = context.state.recorded_syncs(flow.name, one.source_topic, one.partition)
    records = sum(
        sync.records or 0
        for sync in holding(rows)
        if (sync.kind, sync.cause) == (SyncKind.UNPAIRED, SyncCause.LOST_SOURCE)
        and sync.source.topic_id == one.source_topic_id
        and sync.source_start >= one.position.source_offset
    )
    if records:
        raise PreconditionError(
            f"{flow.name} had copied {counted(records, 'record')} of {one.source_topic} partition {one.partition} that "
            f"nobody has paired with {flow.source}: they cannot be distinguished from extras; nothing was recorded. "
            f"Stop its driver, then try again: mirror-ledger stop {flow.name} --wait 60"
        )


def _require_decided(asked: AskedMirrorBack, found: Sequence[Extras]) -> None:
    left = sorted({one.partition.topic for one in found if _policy(asked, one) is None})
    if strange := sorted(set(asked.policies) - {one.partition.topic for one in found}):
        raise UsageError(
            f"--extras {', '.join(strange)}: {asked.target} has none of it; nothing was recorded"
        )
    if left:
        offsets = sum(one.offsets for one in found if one.partition.topic in left)
        raise UnsafeError(
            f"{asked.target} has {counted(offsets, 'offset')} of {some_of(left, 'topic')} that were never copied: they "
            "would lie in front of all that comes back; nothing was recorded. Decide: --extras keep, or --extras "
            "TOPIC=keep: they stay there, are copied nowhere, and groups pass them"
        )


def _policy(asked: AskedMirrorBack, one: Extras) -> ExtrasPolicy | None:
    return asked.policies.get(one.partition.topic, asked.policy)


def _decision(asked: AskedMirrorBack, cluster_id: str, one: Extras) -> ExtrasDecided:
    policy, at = _policy(asked, one), one.partition
    assert policy is not None, "each has one"
    return ExtrasDecided(
        cluster=asked.target,
        cluster_id=cluster_id,
        topic=at.topic,
        topic_id=at.topic_id,
        policy=policy,
        ranges=tuple(
            ExtraRange(partition=at.partition, extra_start=start, extra_end=end) for start, end in one.ranges
        ),
    )


def _decided_words(found: Sequence[Extras], cluster: str) -> str:
    if not found:
        return f"{cluster} has nothing that was never copied"
    return f"{counted(sum(one.offsets for one in found), 'offset')} stay at {cluster}, and are copied nowhere"


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
            f"somebody has written to {some_of(late, 'partition')} of {cluster} meanwhile: the fence does not hold. "
            "Fence it again, then try again"
        )


def _opened(
    context: Context, cluster: str, copied: Sequence[tuple[FlowConfig, FlowPosition]], say: Say
) -> list[str]:
    """A topic that takes no batch takes none of the mirror's; what keeps producers out is that they are elsewhere."""
    names = {one.source_topic for _, one in copied}
    fences: list[Fence] = [one.fence for one in context.state.fences().at(cluster)]
    shut = sorted(one.topic for one in fences if one.how == FenceHow.SHUT and one.topic in names)
    return [unfence_topics(context, cluster, shut, say).words] if shut else []
