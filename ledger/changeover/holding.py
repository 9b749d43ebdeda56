"""Holding the retention of a cluster that comes back: what it alone has is not deleted before it is decided about.

Brokers that were away for longer than their retention delete within minutes of their start. What is changed is recorded
as a hand-over (`Purpose.RETENTION`), so what topics had of their own comes back exactly, unless somebody has changed it
since.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from ledger.changeover.brought import paired
from ledger.changeover.fencing import fence_topics, refused_fence, topics_to_fence
from ledger.changeover.hand_over import cluster_changes
from ledger.changeover.measures import AskedFence, FenceResult
from ledger.context import Context
from ledger.errors import PreconditionError, UnsafeError
from ledger.facts.hand_overs import RETENTION, HandedOver, Purpose, TopicHandOver
from ledger.facts.syncs import TopicPartition
from ledger.kafka.cluster import ClusterAdmin, require_recorded, topic_ids
from ledger.topics.following import SettingsChange
from ledger.words import duration, some_of

Say = Callable[[str], None]

_CLEANUP = "cleanup.policy"
_UNLIMITED = "-1"


def fence_and_hold(context: Context, asked: AskedFence, say: Say) -> FenceResult:
    """Hold the retention of these topics first, for time runs, then fence them.

    Where the fence would be refused, nothing is held. Where retention could not be held they are fenced all the same,
    and `UnsafeError` is raised behind it. Raises as `fence_topics`, too.
    """
    asked = topics_to_fence(context, asked)
    if (why := refused_fence(context, asked)) is not None:
        raise PreconditionError(why)
    try:
        say(hold_retention(context, asked.cluster, asked.topics, say))
    except (PreconditionError, UnsafeError) as error:
        say(f"retention of {asked.cluster} is not held: {error}")
        done = fence_topics(context, asked, say)
        raise UnsafeError(
            f"{done.words}; but what lies at {asked.cluster} may be deleted: {error}"
        ) from error
    return fence_topics(context, asked, say)


def hold_retention(context: Context, cluster: str, topics: Collection[str], say: Say) -> str:
    """Keep brokers from deleting by age or size what these topics have; returns what was done, in words.

    Twice is as once. Raises `PreconditionError` where settings of a topic cannot be read: then nothing is changed; and
    as `ClusterChanges.hand_over`.
    """
    admin = context.administered(cluster)
    require_recorded(context.state, admin)
    plan = planned(admin, topics)
    for line in plan.manual:
        say(line)
    done = cluster_changes(context, cluster, say).hand_over(plan, context.state.hand_overs(), context.why)
    held = held_topics(context, cluster)
    if done.operation_id is None and not held:
        return f"{cluster} deletes nothing of these topics by age or size"
    return f"retention of {some_of(held, 'topic')} of {cluster} is held: nothing is deleted by age or size"


def planned(admin: ClusterAdmin, topics: Collection[str]) -> HandedOver:
    """What is changed so that nothing of these topics is deleted; a topic that is compacted alone is left as it is."""
    described = admin.topics()
    names = sorted(name for name in topics if name in described)
    answer = admin.topic_settings(names)
    if unread := sorted({*topics} - answer.read.keys()):
        why = next((answer.refused[name] for name in unread if name in answer.refused), "it is not shown")
        raise PreconditionError(
            f"settings of {some_of(unread, 'topic')} of {admin.alias} cannot be read ({why}), so nobody knows what is "
            "deleted there; nothing was changed"
        )
    changes, remarks = [], []
    for name in names:
        own, effective = answer.read[name].own, answer.read[name].effective
        policy = effective.get(_CLEANUP, "delete")
        if "delete" not in policy:
            remarks.append(f"{name}: {_CLEANUP} is {policy}: it is left so, compaction continues")
            continue
        if "compact" in policy:
            remarks.append(f"{name}: {_CLEANUP} is {policy}: deleting is held, compaction continues")
        wanted = {key: _UNLIMITED for key in RETENTION if effective.get(key) != _UNLIMITED}
        if wanted:
            topic_id = described[name].topic_id
            changes.append(TopicHandOver.of(name, topic_id, SettingsChange(wanted), own))
    return HandedOver(
        cluster=admin.alias,
        cluster_id=admin.cluster_id(),
        former=admin.alias,
        purpose=Purpose.RETENTION,
        topics=tuple(changes),
        permissions=(),
        unknown=(),
        manual=tuple(remarks),
    )


def release_retention(
    context: Context, cluster: str, topics: Collection[str] | None, say: Say
) -> tuple[str, ...]:
    """Let these topics (None: all) of a cluster have the retention again that they had before it was held.

    Returns what was done, in words, per operation that held it; nothing where none is held, and then no cluster is
    asked. What somebody has changed since stays. Raises as `ClusterChanges.undo`.
    """
    recorded = context.state.hand_overs()
    chosen = {
        operation_id: {one.topic for one in held if topics is None or one.topic in topics}
        for operation_id, held in recorded.held(cluster).items()
    }
    if not any(chosen.values()):
        return ()
    require_recorded(context.state, context.administered(cluster))
    changes = cluster_changes(context, cluster, say)
    return tuple(
        changes.undo(operation_id, recorded, context.why, names).words
        for operation_id, names in chosen.items()
        if names
    )


def held_topics(context: Context, cluster: str) -> list[str]:
    """Names of topics whose retention is held, as the ledger has it by now."""
    found = context.state.hand_overs().held(cluster).values()
    return sorted({one.topic for held in found for one in held})


# What is left of the time -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLeft:
    """When the oldest of some records of a topic may be deleted at the earliest.

    `seconds`: until then, negative: the time is over, and a broker deletes when it closes the segment; None: never by
    age, or there is no such record. `by_size`: it may be deleted for room at any time (`retention.bytes`).
    """

    topic: str
    seconds: float | None
    by_size: bool

    @property
    def words(self) -> str:
        """As people read it."""
        if self.seconds is None:
            by_age = "is not deleted by age"
        elif self.seconds <= 0:
            by_age = "may be deleted at any moment"
        else:
            by_age = f"may be deleted in {duration(self.seconds)}"
        for_room = "; for room it may be deleted at any moment" if self.by_size else ""
        return f"{self.topic}: the oldest record behind the map {by_age}{for_room}"


def retention_left(
    admin: ClusterAdmin, starts: Mapping[TopicPartition, int], now_ms: int
) -> list[RetentionLeft]:
    """By topic, for what lies at or behind these offsets; read from the logs, nothing is changed.

    A topic whose settings cannot be read, and one that is only compacted, is left out. A broker deletes whole segments,
    so it may well take longer. Raises `ClusterUnavailableError`.
    """
    names = sorted({at.topic for at in starts})
    answer = admin.topic_settings(names)
    found = []
    for name, settings in sorted(answer.read.items()):
        effective = settings.effective
        if "delete" not in effective.get(_CLEANUP, "delete"):
            continue
        age_ms = int(effective.get("retention.ms", _UNLIMITED))
        oldest_ms = min(_oldest(admin, name, starts), default=None)
        found.append(
            RetentionLeft(
                topic=name,
                seconds=None if age_ms < 0 or oldest_ms is None else (oldest_ms + age_ms - now_ms) / 1000,
                by_size=oldest_ms is not None and int(effective.get("retention.bytes", _UNLIMITED)) >= 0,
            )
        )
    return found


def _oldest(admin: ClusterAdmin, topic: str, starts: Mapping[TopicPartition, int]) -> Iterator[int]:
    """Of each partition the time of the first batch there, ms; of one without any, nothing."""
    partitions = [at for at in starts if at.topic == topic]
    ends = admin.ends([at.place for at in partitions])
    for at in partitions:
        if (end := ends.get(at.place)) is None or max(starts[at], end.log_start) >= end.high_watermark:
            continue
        for batch in admin.batches_at(at, max(starts[at], end.log_start))[:1]:
            yield batch.max_timestamp


def behind_the_maps(context: Context, cluster: str, topics: Collection[str]) -> dict[TopicPartition, int]:
    """By partition of these topics of a cluster where no flow has copied any further, as the ledger has it."""
    starts: dict[TopicPartition, int] = {}
    for flow in context.config.flows.values():
        if flow.source != cluster:
            continue
        for one in paired(context.state, flow):
            at = one.pair.source
            if at.topic in topics:
                starts[at] = min(starts.get(at, one.position.source_offset), one.position.source_offset)
    return starts


def left_words(context: Context, cluster: str, topics: Collection[str]) -> Iterator[str]:
    """Of topics that applications have left a cluster with, when what nobody has copied from there may be deleted."""
    directions = context.state.directions()
    others = {*context.config.clusters} - {cluster}
    left = {one for one in topics if any(directions.promotion(cluster, other, one) for other in others)}
    if not left:
        return
    starts = behind_the_maps(context, cluster, left)
    admin = context.cluster(cluster)
    there = topic_ids(admin)
    same = {at: offset for at, offset in starts.items() if there.get(at.topic) == at.topic_id}
    for one in retention_left(admin, same, context.clock.now_ms()):
        if one.seconds is not None or one.by_size:
            yield one.words
