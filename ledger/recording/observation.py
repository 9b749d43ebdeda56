"""One read of a cluster: offsets of groups, ends and topics, each with the topic id it belongs to; permissions.

Ids of topics are read before and after offsets. A topic that was created, recreated or deleted in
between is `unsettled` and left out, so offsets never carry the id of another incarnation.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from ledger.config.flow import FlowConfig
from ledger.domain.facts import HighWatermark, TopicState
from ledger.domain.permissions import Permissions
from ledger.domain.topics.naming import NamePatterns
from ledger.errors import PreconditionError
from ledger.ports.clock import Clock
from ledger.ports.clusters import ClusterAdmin, PartitionEnds, TopicDescription
from ledger.recording.group_reading import GroupsRead, read_groups

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
                if not self.admin.is_gone(name):
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
