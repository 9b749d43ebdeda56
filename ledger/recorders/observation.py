"""One read of a cluster: offsets of groups, ends and topics, each with the topic id it belongs to; permissions.

Ids of topics are read before and after offsets. A topic that was created, recreated or deleted in
between is `unsettled` and left out, so offsets never carry the id of another incarnation.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from ledger.clock import Clock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.errors import PreconditionError
from ledger.facts.drills import is_of_drill
from ledger.facts.groups import SHARE, ShareOffset, UnreadGroup, has_members
from ledger.facts.permissions import Permissions
from ledger.facts.state import LedgerState
from ledger.facts.syncs import Checkpoint, HighWatermark, TopicState
from ledger.kafka.cluster import ClusterAdmin, CommitsAnswer, GroupListing, PartitionEnds, TopicDescription
from ledger.topics.naming import NamePatterns

# Group reading ------------------------------------------------------------------------------------
# One read of a cluster's groups: which are listed, what they have committed, where share groups stand.


@dataclass(frozen=True, slots=True)
class GroupsRead:
    """What was read. `unread`: listed groups whose offsets could not be read. `all_listed`: there are no others."""

    listed: Mapping[str, GroupListing]
    all_listed: bool
    checkpoints: tuple[Checkpoint, ...]
    share_offsets: tuple[ShareOffset, ...]
    unread: Mapping[str, UnreadGroup]

    def without(self, topics: frozenset[str]) -> "GroupsRead":
        """Less what is about these topics."""
        return GroupsRead(
            self.listed,
            self.all_listed,
            tuple(row for row in self.checkpoints if row.topic not in topics),
            tuple(row for row in self.share_offsets if row.topic not in topics),
            self.unread,
        )


def read_groups(
    admin: ClusterAdmin, wanted: Callable[[str], bool], topics: Mapping[str, TopicDescription]
) -> GroupsRead:
    """Those whose name is `wanted`, of every type, but for those of a drill; `topics` exist."""
    # Before the listing: who was shown all groups before it may have lost the right since, and not the other way round.
    all_listed = admin.lists_all_groups()
    listed = [group for group in admin.groups() if wanted(group.group_id)]
    topic_ids = {name: topic.topic_id for name, topic in topics.items()}
    commits = admin.group_commits(_committing(listed), topic_ids=topic_ids)
    drilled = _of_drills(listed, commits)
    listed = [group for group in listed if group.group_id not in drilled]
    sharing = [group.group_id for group in listed if group.group_type == SHARE]
    shares = admin.share_offsets(sharing) if sharing else None
    return GroupsRead(
        {group.group_id: group for group in listed},
        all_listed,
        tuple(one for one in commits.read if one.group_id not in drilled),
        () if shares is None else tuple(shares.read),
        commits.refused if shares is None else {**commits.refused, **shares.refused},
    )


def _of_drills(listed: Sequence[GroupListing], commits: CommitsAnswer) -> frozenset[str]:
    """Groups that a drill has made, and removes again: no application has them."""
    metadata: dict[str, list[str | None]] = defaultdict(list)
    for one in commits.read:
        if one.committed_offset is not None:
            metadata[one.group_id].append(one.metadata)
    return frozenset(
        one.group_id
        for one in _committing(listed)
        if one.group_id not in commits.refused
        and is_of_drill(one.group_id, metadata[one.group_id], has_members=has_members(one.group_state))
    )


def _committing(groups: Sequence[GroupListing]) -> list[GroupListing]:
    """Share groups commit nothing: what they have is never taken for commits."""
    return [group for group in groups if group.group_type != SHARE]


# Observation --------------------------------------------------------------------------------------


Partitions = Callable[[], Sequence[tuple[str, int]]]
"""The partitions whose ends are recorded, asked for at each read."""


class Subject(StrEnum):
    """What a recorder reads, each at its own pace."""

    CHECKPOINTS = "checkpoints"
    HIGH_WATERMARKS = "high_watermarks"
    TOPICS = "topics"
    PERMISSIONS = "permissions"
    SWEEP = "sweep"  # with this one due, unchanged checkpoints and high watermarks are appended too


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderSettings:
    """Which groups, how often, and which subjects: a job may record some of them only."""

    groups: tuple[NamePatterns, ...]
    checkpoint_seconds: float
    high_watermark_seconds: float
    topic_refresh_seconds: float
    full_sweep_seconds: float
    heartbeat_seconds: float = 60.0
    subjects: frozenset[Subject] = frozenset(Subject)

    @classmethod
    def of_flows(cls, flows: Sequence[FlowConfig]) -> Self:
        """The union of what flows that share a cluster ask for, at the quickest pace of each."""
        return cls(
            groups=tuple(dict.fromkeys(flow.group_patterns for flow in flows)),
            checkpoint_seconds=min(flow.checkpoint_seconds for flow in flows),
            high_watermark_seconds=min(flow.high_watermark_seconds for flow in flows),
            topic_refresh_seconds=min(flow.topic_refresh_seconds for flow in flows),
            full_sweep_seconds=min(flow.full_sweep_seconds for flow in flows),
            heartbeat_seconds=min(flow.heartbeat_seconds for flow in flows),
        )

    def records_group(self, group_id: str) -> bool:
        return any(patterns.matches(group_id) for patterns in self.groups)

    def seconds_between(self, subject: Subject) -> float:
        return {
            Subject.CHECKPOINTS: self.checkpoint_seconds,
            Subject.HIGH_WATERMARKS: self.high_watermark_seconds,
            Subject.TOPICS: self.topic_refresh_seconds,
            Subject.PERMISSIONS: self.full_sweep_seconds,
            Subject.SWEEP: self.full_sweep_seconds,
        }[subject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was read. None: not read this time.

    `topic_names` were listed. `unread`: topics that may not be described, with the reason.
    `ends_are_complete`: the ends of every partition that was asked for are among `high_watermarks`.
    `ends_read_at_ms`: when that read began. `permissions`: by kind; none when they were not read.
    """

    groups: GroupsRead | None
    topic_names: frozenset[str]
    high_watermarks: tuple[HighWatermark, ...] | None
    ends_are_complete: bool
    ends_read_at_ms: int
    topics: Mapping[str, TopicState] | None
    unread: Mapping[str, str]
    unsettled: frozenset[str]
    permissions: Permissions
    read_at_ms: int


@dataclass(frozen=True, slots=True)
class Observer:
    """Reads one cluster."""

    admin: ClusterAdmin
    clock: Clock
    settings: RecorderSettings
    partitions: Partitions

    def observe(self, subjects: frozenset[Subject]) -> Observation:
        before = self.admin.topics()
        groups = self._groups(before) if Subject.CHECKPOINTS in subjects else None
        asked = self.partitions() if Subject.HIGH_WATERMARKS in subjects else None
        # Ends are dated before they are read: what was copied until then lies below them.
        ends_read_at_ms = self.clock.now_ms()
        ends = None if asked is None else self.admin.ends(asked)
        states, unread = self._topic_states(before) if Subject.TOPICS in subjects else (None, {})
        permissions = self.admin.permissions() if Subject.PERMISSIONS in subjects else {}
        unsettled = _unsettled(before, self.admin.topics())
        read_at_ms = self.clock.now_ms()
        high_watermarks = (
            None if ends is None else self._high_watermarks(ends, before, unsettled, ends_read_at_ms)
        )
        return Observation(
            groups=None if groups is None else groups.without(unsettled),
            topic_names=frozenset(before),
            high_watermarks=high_watermarks,
            ends_are_complete=high_watermarks is not None and len(high_watermarks) == len(set(asked or ())),
            ends_read_at_ms=ends_read_at_ms,
            topics=states if not unsettled else None,
            unread=unread,
            unsettled=unsettled,
            permissions=permissions,
            read_at_ms=read_at_ms,
        )

    def _groups(self, topics: Mapping[str, TopicDescription]) -> GroupsRead:
        return read_groups(self.admin, self.settings.records_group, topics)

    def _topic_states(
        self, topics: Mapping[str, TopicDescription]
    ) -> tuple[dict[str, TopicState], Mapping[str, str]]:
        """What could be read, and why some could not: one topic that is denied hides no other."""
        own = {name: topic for name, topic in topics.items() if not topic.internal}
        answer = self.admin.topic_settings(sorted(own))
        states = {
            name: self._topic_state(topic, answer.read[name].own)
            for name, topic in own.items()
            if name in answer.read
        }
        return states, answer.refused

    def hidden(self, names: Iterable[str]) -> dict[str, str]:
        """Which of these topics are not known to be deleted though they are not listed, and why."""
        found: dict[str, str] = {}
        for name in names:
            try:
                if not self.admin.is_deleted(name):
                    found[name] = "it was not described with the others"
            except PreconditionError as error:
                found[name] = str(error)
        return found

    def _topic_state(self, topic: TopicDescription, configuration: Mapping[str, str]) -> TopicState:
        return TopicState(
            cluster=self.admin.alias,
            topic=topic.name,
            topic_id=topic.topic_id,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configuration=tuple(sorted(configuration.items())),
        )

    def _high_watermarks(
        self,
        ends: Mapping[tuple[str, int], PartitionEnds],
        topics: Mapping[str, TopicDescription],
        unsettled: frozenset[str],
        read_at_ms: int,
    ) -> tuple[HighWatermark, ...]:
        return tuple(
            HighWatermark(
                cluster=self.admin.alias,
                topic=topic,
                topic_id=topics[topic].topic_id,
                partition=partition,
                leader_epoch=end.leader_epoch,
                log_start=end.log_start,
                last_stable=end.last_stable,
                high_watermark=end.high_watermark,
                read_at_ms=read_at_ms,
            )
            for (topic, partition), end in ends.items()
            if topic in topics and topic not in unsettled
        )


def _unsettled(
    before: Mapping[str, TopicDescription], after: Mapping[str, TopicDescription]
) -> frozenset[str]:
    ids_before = {name: topic.topic_id for name, topic in before.items()}
    ids_after = {name: topic.topic_id for name, topic in after.items()}
    names = ids_before.keys() | ids_after.keys()
    return frozenset(name for name in names if ids_before.get(name) != ids_after.get(name))


# Mirrored partitions ------------------------------------------------------------------------------
# Which partitions of a cluster a recorder reads.


def mirrored_partitions(
    config: MirrorConfig, admin: ClusterAdmin, flows: Sequence[FlowConfig]
) -> list[tuple[str, int]]:
    """Topics and partitions of a cluster that flows read or write, as its topics are now."""
    return [
        (topic.name, partition)
        for topic in admin.topics().values()
        if any(_is_mirrored(config, admin.alias, flow, topic) for flow in flows)
        for partition in range(topic.partitions)
    ]


def _is_mirrored(config: MirrorConfig, cluster: str, flow: FlowConfig, topic: TopicDescription) -> bool:
    selection = config.topic_selection(flow.name)
    if flow.source == cluster and selection.selects(topic.name, internal=topic.internal):
        return True
    origin = flow.naming.source_name(topic.name) if flow.target == cluster else None
    return origin is not None and selection.selects(origin, internal=topic.internal)


def with_former(
    mirrored: Sequence[tuple[str, int]], admin: ClusterAdmin, copied: frozenset[str]
) -> list[tuple[str, int]]:
    """The partitions of `mirrored`, and those of topics that some flow has `copied`, as far as these are there still.

    What lies behind the map of a topic that no flow copies any more would stay behind in a change of direction: it is
    known of a cluster that is lost only if it was read before.
    """
    former = copied - {topic for topic, _ in mirrored}
    there = admin.topics() if former else {}
    return [
        *mirrored,
        *(
            (name, partition)
            for name in sorted(former & there.keys())
            for partition in range(there[name].partitions)
        ),
    ]


def copied_topics(state: LedgerState, cluster: str) -> frozenset[str]:
    """Topics of a cluster that flows of the ledger have copied, or copied to, whatever the configuration says now."""
    found: set[str] = set()
    for flow, (source, target) in state.identities().ways().items():
        if cluster in (source, target):
            found |= {
                at.source_topic if cluster == source else at.target_topic for at in state.positions(flow)
            }
    return frozenset(found)
