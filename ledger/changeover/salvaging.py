"""Salvaging: extras are copied to a topic of their own at the other cluster, and stay where they are.

An internal flow does that, beside the one that has copied the topic: it has the name of that with `.salvaged` behind
it, and its target topics have, too. It is a flow as any: a claim, a producer id and a map of its own, tasks that read
the end of the target before they write. So what was killed in the middle is continued, and each record is there once.
It copies the ranges that it is given, whoever wrote there meanwhile, and ends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ledger.changeover.bounded_copy import BegunCopy, BoundedCopy, Say, bounded_copy, require_committed
from ledger.changeover.extras import Extras, ends_of_extras
from ledger.changeover.tail_pairing import first_own
from ledger.config.values import FilterConfig, FlowConfig, RenameConfig, TargetMode
from ledger.context import Context
from ledger.errors import PreconditionError
from ledger.facts.hand_overs import LIMIT
from ledger.facts.syncs import (
    GapCause,
    OffsetSync,
    PartitionPair,
    Position,
    SyncCause,
    TopicPartition,
    without,
)
from ledger.kafka.cluster import ClusterAdmin, PartitionEnds, TopicDescription
from ledger.mirror.states import PartitionState
from ledger.topics.following import REQUIRED_AT_TARGET, is_fence
from ledger.topics.naming import SALVAGED, NamingKind, name_conflicts
from ledger.words import counted, some_of

_KEPT_FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Records keep their times, and would expire at once; of each key all are wanted."""


def salvaging_flow(flow: FlowConfig) -> FlowConfig:
    """The internal flow beside one that is configured: it copies every record, to topics that others may write to."""
    return flow.model_copy(
        update={
            "name": f"{flow.name}{SALVAGED}",
            "topic_naming": NamingKind.RENAME,
            "prefix": None,
            "rename": (RenameConfig(match="(.*)", to=rf"\1{SALVAGED}"),),
            "target_mode": TargetMode.SHARED,
            "opposite": None,
            "sync_groups": False,
            "emit_checkpoints": False,
            "emit_heartbeats": False,
            "filter": FilterConfig(),
        }
    )


def salvage(context: Context, flow: FlowConfig, found: Sequence[Extras], say: Say) -> str:
    """Copy all of these extras of a flow; returns when each is at the target and recorded, in words. Twice is as once.

    Raises `PreconditionError` while somebody else salvages, where a transaction is open, the target topic cannot be
    made, or a partition cannot be copied; `ClusterUnavailableError` where nothing could be copied for a minute. What
    was copied until then is recorded, and found when it is begun again.
    """
    own = salvaging_flow(flow)
    source, target = context.cluster(flow.source), context.cluster(flow.target)
    require_committed(found, ends_of_extras(source, [one.partition for one in found]), flow.source)
    pairs = _target_pairs(own, source, target, [one.partition for one in found])
    with bounded_copy(context, own) as copy:
        copy.run(_begun(copy, target, found, pairs), say)
    topics = sorted({pair.target.topic for pair in pairs.values()})
    records = sum(map(copy.records_of, found))
    words = f"{own.name}: {counted(records, 'record')} in {some_of(topics, 'topic')}"
    say(words)
    return words


# Topics -------------------------------------------------------------------------------------------


def _target_pairs(
    own: FlowConfig, source: ClusterAdmin, target: ClusterAdmin, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, PartitionPair]:
    """By source partition; the target topics have as many partitions as their sources."""
    names = sorted({at.topic for at in partitions})
    for reason in name_conflicts(own.naming, names, same_cluster=False).values():
        raise PreconditionError(f"{reason}; nothing was decided. Keep its extras: --extras TOPIC=keep")
    at_source, there = source.topics(), target.topics()
    for name in names:
        _make_room(own, at_source[name], there, target)
    now = target.topics()
    found = {}
    for at in partitions:
        to = now.get(own.naming.target_name(at.topic))
        if to is None or to.partitions <= at.partition:
            raise PreconditionError(
                f"{own.naming.target_name(at.topic)} of {own.target} was deleted meanwhile; nothing was decided"
            )
        found[at] = PartitionPair(at, TopicPartition(to.name, to.topic_id, at.partition))
    return found


def _make_room(
    own: FlowConfig, source: TopicDescription, there: Mapping[str, TopicDescription], target: ClusterAdmin
) -> None:
    """Raises what the cluster says where the topic cannot be made, or given partitions."""
    name = own.naming.target_name(source.name)
    if name in there:
        if there[name].partitions < source.partitions:
            target.add_partitions(name, total=source.partitions)
        return
    replicas = own.replication_factor or min(source.replication_factor, target.broker_count())
    copied_to = [source.name] if source.name in there else []
    limit = target.configurations(copied_to).get(source.name, {}).get(LIMIT)
    limits = {} if limit is None or is_fence(LIMIT, limit) else {LIMIT: limit}
    target.create_topic(
        name,
        partitions=source.partitions,
        replication_factor=replicas,
        configuration={**REQUIRED_AT_TARGET, **_KEPT_FOR_EVER, **limits},
    )


# Positions ----------------------------------------------------------------------------------------


def _begun(
    copy: BoundedCopy,
    target: ClusterAdmin,
    found: Sequence[Extras],
    pairs: Mapping[TopicPartition, PartitionPair],
) -> list[BegunCopy]:
    """Where each partition begins or continues, and what is to be recorded of that."""
    ends, begun = target.ends([pair.target.place for pair in pairs.values()]), []
    for one in found:
        pair = pairs[one.partition]
        if pair.target.place not in ends:
            raise PreconditionError(
                f"{pair.target.words} of {copy.flow.target} has no leader; nothing "
                "was decided. Try again when it has one"
            )
        start, end = one.ranges[0][0], one.ranges[-1][1]
        left_out = tuple(without((start, end), one.ranges))
        state, facts = _state(copy, target, ends[pair.target.place], pair, start)
        begun.append(BegunCopy(state, end, left_out, tuple(facts)))
    return begun


def _state(
    copy: BoundedCopy, target: ClusterAdmin, there: PartitionEnds, pair: PartitionPair, start: int
) -> tuple[PartitionState, list[OffsetSync]]:
    recorded = copy.progress.recorded(pair)
    if recorded is None:
        before = copy.progress.recorded_at_target(pair)
        state = PartitionState(
            pair,
            Position(source_offset=start, target_offset=there.high_watermark, next_sequence=0)
            if before is None
            else replace(before.position, source_offset=start, leader_epoch=None),
        )
        return state, [state.started(SyncCause.EXTRAS)]
    if recorded.target_topic_id != pair.target.topic_id:
        return _begun_again(pair, there, recorded.position.source_offset, start)
    state = PartitionState(pair, recorded.position)
    if state.position.source_offset >= start:
        return state, []
    first = first_own(
        target,
        pair.target,
        max(state.position.target_offset, there.log_start),
        there.high_watermark,
        copy.producer,
    )
    if first is not None:
        # An earlier attempt was killed, and the source has deleted since what it had come to.
        return state, [state.lose(start, SyncCause.RETENTION)]
    return state, [state.leave_out(start, GapCause.FILTERED)]


def _begun_again(
    pair: PartitionPair, there: PartitionEnds, position: int, start: int
) -> tuple[PartitionState, list[OffsetSync]]:
    """In a topic that was created again: what its former incarnation had of these extras is copied once more."""
    restart = Position(source_offset=min(position, start), target_offset=there.log_start, next_sequence=0)
    state = PartitionState(pair, replace(restart, source_offset=position))
    facts = [state.supersede(restart, SyncCause.TARGET_RECREATED)]
    return state, [*facts, state.leave_out(start, GapCause.FILTERED)] if start > position else facts
