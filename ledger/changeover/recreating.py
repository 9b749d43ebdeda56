"""Recreating: a topic of the cluster that is back is deleted with what it alone has, and made again, empty.

All that the other cluster has of it comes back then, in the order in which it lies there: so both sides are alike,
whatever was written to which key where. What the other cluster has not, or not any more, is lost with the topic: its
extras, and what else is listed here. Rules stay, they are by name, and so does what the topic was given or fenced by.
A row says before that it is deleted, and one behind which topic has its place: flows continue with that by it.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ledger.changeover.brought import paired
from ledger.changeover.deficits import copies_of
from ledger.changeover.extras import Copied, Extras, Paired, measured_extras
from ledger.changeover.waiting import Patience
from ledger.config.values import FlowConfig
from ledger.context import Context
from ledger.errors import PreconditionError
from ledger.facts.recreated import TopicRecreated
from ledger.facts.state import LedgerState
from ledger.facts.syncs import GapCause, OffsetRange, PartitionPair, holding, joined, without
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import ClusterAdmin
from ledger.words import some_of

Say = Callable[[str], None]

_MADE_WITHIN_S = 60.0
_NEEDED = ("delete", "create", "describe_configs")
_OF_NO_RECORD = frozenset({GapCause.CONTROL, GapCause.ABORTED, GapCause.COMPACTED})


def lacking_rights(context: Context, cluster: str, topics: Collection[str]) -> list[str]:
    """What the administrator of a cluster is not known to have of what it takes to create these topics again."""
    if not topics:
        return []
    lacking = context.administered(cluster).lacking_operations(sorted(topics), _NEEDED)
    return [f"{', '.join(found).upper()} on {topic}" for topic, found in sorted(lacking.items())]


# What is lost with a topic ------------------------------------------------------------------------


def lost_with_topics(
    context: Context,
    back: ClusterAdmin,
    promoted: ClusterAdmin,
    starts: Sequence[Copied],
    extras: Sequence[Extras],
    paired: Paired,
) -> list[Extras]:
    """By partition what the cluster that is back holds and the promoted one does not, beside `extras`; measured.

    Where no record is left (a cleaner was there, or a transaction ended) nothing is lost.
    """
    log_starts = promoted.ends([one.pair.target.place for one in starts])
    ends = (
        context.cluster(starts[0].flow.source).ends([one.pair.source.place for one in starts])
        if starts
        else {}
    )
    known = {one.partition: one.ranges for one in extras}
    found = []
    for one in starts:
        end, there = ends[one.pair.source.place], log_starts.get(one.pair.target.place)
        held = [] if there is None else list(_held(context.state, one.flow, one.pair, there.log_start))
        decided = joined(sorted((*held, *known.get(one.pair.source, ()), *paired.get(one.pair, ()))))
        if ranges := tuple(without((end.log_start, end.high_watermark), decided)):
            found.append(Extras(one.flow, one.pair, ranges, end.log_start))
    return [one for one in measured_extras(back, found, {}) if one.measured and one.measured.records]


def _held(state: LedgerState, flow: FlowConfig, pair: PartitionPair, log_start: int) -> Iterator[OffsetRange]:
    """Offsets of the source whose records the target holds, or held until a newer one of their key replaced them:
    what was copied there, and what was brought from there. And those that hold no record for anybody who reads."""
    source, target = pair.source, pair.target
    for sync in holding(state.recorded_syncs(flow.name, source.topic, source.partition)):
        if (sync.source, sync.target) == (source, target):
            for (start, end), (at, _) in copies_of(sync):
                yield min(start + max(log_start - at, 0), end), end
            yield from ((gap.source_start, gap.source_end) for gap in sync.gaps if gap.cause in _OF_NO_RECORD)
    if flow.opposite is None:
        return
    for sync in holding(state.recorded_syncs(flow.opposite, target.topic, target.partition)):
        if (sync.source, sync.target) == (target, source):
            for (at, _), (start, end) in copies_of(sync):
                yield min(start + max(log_start - at, 0), end), end


# Deleted and made again ---------------------------------------------------------------------------


def begun(context: Context, flows: Sequence[FlowConfig], topics: Collection[str] | None) -> dict[str, str]:
    """By name the ids of topics of the flows' source that were deleted so, or are about to be, and that no flow has
    copied from since; `topics` None: all."""
    rows, found = context.state.recreations().rows, dict[str, str]()
    for flow in flows:
        positions = paired(context.state, flow)
        copied = {at.source_topic_id for at in positions}
        for at in positions:
            one = rows.get(at.source_topic_id)
            if one is not None and one.topic_id not in copied and (topics is None or one.topic in topics):
                found[one.topic] = one.former_id
    return found


def recreate(context: Context, cluster: str, former_ids: Mapping[str, str], say: Say) -> list[str]:
    """Delete topics of a cluster, by name their ids, and make them again as they were; returns what was done, in words.

    Twice is as once. Raises `PreconditionError` where one cannot be deleted or made: the ledger says then what it was,
    and the next time it is made.
    """
    admin, known = context.administered(cluster), context.state.recreations().rows
    intents = [
        known.get(former_id) or _intent(admin, name, former_id) for name, former_id in former_ids.items()
    ]
    left = [one for one in intents if one.topic_id is None]
    if new := [one for one in left if one.former_id not in known]:
        context.record(*new)
    for one in left:
        topic_id = _made(context, admin, one, say)
        context.record(replace(one, topic_id=topic_id))
    names = sorted(one.topic for one in left)
    return [f"{some_of(names, 'topic')} of {cluster} deleted and created again"] if names else []


def _intent(admin: KafkaAdmin, name: str, former_id: str) -> TopicRecreated:
    there, settings = admin.topics().get(name), admin.topic_settings([name])
    if there is None or there.topic_id != former_id or name not in settings.read:
        raise PreconditionError(
            f"{name} of {admin.alias} is another topic by now, or its settings may not be read "
            f"({settings.refused.get(name, 'it is not shown')}); it was not deleted"
        )
    if there.replication_factor > (brokers := admin.broker_count()):
        raise PreconditionError(
            f"{name} of {admin.alias} has {there.replication_factor} replicas, and {brokers} brokers are there: it "
            "could not be made again; it was not deleted. Wait until all brokers are back"
        )
    return TopicRecreated(
        cluster=admin.alias,
        cluster_id=admin.cluster_id(),
        topic=name,
        former_id=former_id,
        topic_id=None,
        partitions=there.partitions,
        replication_factor=there.replication_factor,
        settings=settings.read[name].own,
    )


def _made(context: Context, admin: KafkaAdmin, one: TopicRecreated, say: Say) -> str:
    """The id of the new one, which a process may have made that ended before it could say so."""

    def left() -> str | None:
        there = admin.topics().get(one.topic)
        if there is not None and there.topic_id != one.former_id:
            return None
        if there is not None:
            admin.delete_topic(one.topic, topic_id=one.former_id)
            return f"{one.topic} of {admin.alias} is being deleted"
        try:
            admin.create_topic(
                one.topic,
                partitions=one.partitions,
                replication_factor=one.replication_factor,
                configuration=one.settings,
            )
        except PreconditionError as error:
            return f"{one.topic} of {admin.alias} cannot be made again: {error}"
        return None

    advice = "What it was is recorded: it is made when this is asked for again"
    Patience(context.clock, time.sleep, _MADE_WITHIN_S).until(left, say, advice=advice)
    made = admin.topics()[one.topic]
    ends = admin.ends([(one.topic, partition) for partition in range(made.partitions)])
    if made.partitions != one.partitions or any(end.high_watermark for end in ends.values()):
        raise PreconditionError(
            f"somebody else has made {one.topic} of {admin.alias} (id {made.topic_id}) and written to it, or given it "
            f"{made.partitions} partitions instead of {one.partitions}; nothing was recorded. Delete it, then ask again"
        )
    return made.topic_id
