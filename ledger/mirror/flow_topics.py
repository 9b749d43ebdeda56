"""The topics of a running flow: what the source has, what the target must have, which partitions pair up."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ledger.domain.facts import TopicPartition
from ledger.domain.topics import (
    AddPartitions,
    CreateTopic,
    FollowingAction,
    SourceTopic,
    TargetTopic,
    TopicFollowing,
    TopicSelection,
)
from ledger.ports import ClusterAdmin, TopicDescription

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionPair:
    """A source partition and the target partition that it is copied to."""

    source: TopicPartition
    target: TopicPartition


class FlowTopics:
    """Lists the selected topics and makes the target follow. Holds what was said, so that it is said once."""

    def __init__(
        self, selection: TopicSelection, following: TopicFollowing, source: ClusterAdmin, target: ClusterAdmin
    ) -> None:
        self._selection = selection
        self._following = following
        self._source = source
        self._target = target
        self._warned: set[str] = set()
        self._paired: list[PartitionPair] = []

    def source_partitions(self) -> list[tuple[str, int]]:
        """Source partitions as of the last look, for recorders."""
        return [(pair.source.topic, pair.source.partition) for pair in self._paired]

    def target_partitions(self) -> list[tuple[str, int]]:
        """Target partitions as of the last look, for recorders."""
        return [(pair.target.topic, pair.target.partition) for pair in self._paired]

    def follow(self, *, written_topic_ids: frozenset[str]) -> list[PartitionPair]:
        """Create what is missing at the target, then pair every selected source partition."""
        sources = self._selected()
        targets = self._target.topics()
        plan = self._following.plan(
            self._with_configurations(sources), _target_topics(targets), written_topic_ids=written_topic_ids
        )
        for warning in plan.warnings:
            self._warn_once(warning.message)
        for action in plan.actions:
            self._carry_out(action)
        if plan.actions:
            targets = self._target.topics()
        self._paired = list(self._pairs(sources, targets))
        return self._paired

    def existing(self) -> list[PartitionPair]:
        """Pair what exists on both sides; nothing is created."""
        return list(self._pairs(self._selected(), self._target.topics()))

    def _selected(self) -> dict[str, TopicDescription]:
        return {
            name: topic
            for name, topic in sorted(self._source.topics().items())
            if self._selection.selects(name, internal=topic.internal)
        }

    def _with_configurations(self, sources: Mapping[str, TopicDescription]) -> list[SourceTopic]:
        configurations = self._source.configurations(list(sources)) if sources else {}
        return [
            SourceTopic(
                name, topic.topic_id, topic.partitions, topic.replication_factor, configurations.get(name, {})
            )
            for name, topic in sources.items()
        ]

    def _carry_out(self, action: FollowingAction) -> None:
        match action:
            case CreateTopic():
                log.info("creating topic %s with %d partitions", action.name, action.partitions)
                self._target.create_topic(
                    action.name,
                    partitions=action.partitions,
                    replication_factor=action.replication_factor,
                    configuration=action.configuration,
                )
            case AddPartitions():
                log.info("bringing topic %s to %d partitions", action.name, action.total)
                self._target.add_partitions(action.name, total=action.total)

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            log.warning("%s", message)

    def _pairs(
        self, sources: Mapping[str, TopicDescription], targets: Mapping[str, TopicDescription]
    ) -> Iterator[PartitionPair]:
        for name, topic in sources.items():
            target = targets.get(self._following.naming.target_name(name))
            if target is None:
                self._warn_once(f"{name}: its target topic is not described yet; it is copied when it is")
                continue
            for partition in range(min(topic.partitions, target.partitions)):
                yield PartitionPair(
                    TopicPartition(name, topic.topic_id, partition),
                    TopicPartition(target.name, target.topic_id, partition),
                )


def _target_topics(targets: Mapping[str, TopicDescription]) -> dict[str, TargetTopic]:
    return {
        name: TargetTopic(name, topic.topic_id, topic.partitions, topic.replication_factor)
        for name, topic in targets.items()
    }
