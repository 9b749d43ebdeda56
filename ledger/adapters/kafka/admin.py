"""Administration of one cluster: `ports.ClusterAdmin` on real brokers.

Nothing is opened before the first call. What the cluster does not know (a group that is gone, a topic
that was deleted meanwhile, a partition without a leader) is left out of an answer.
"""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.producer import InitProducerIdRequest

from ledger.adapters.kafka import (
    acl_requests,
    fetch_requests,
    group_requests,
    producer_requests,
    setting_requests,
    topic_requests,
)
from ledger.adapters.kafka.cluster_connection import ClusterConnection, require
from ledger.adapters.kafka.end_requests import Partition, known_epoch, offsets_at, partition_ends
from ledger.config.cluster import ClusterConfig
from ledger.domain.cluster_identity import RememberedProducer
from ledger.domain.facts import Checkpoint, TopicPartition
from ledger.domain.group_commits import CommitRefusal, NewCommit
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.errors import ClusterUnavailableError, PreconditionError, ProtocolError
from ledger.ports.clock import Clock
from ledger.ports.clusters import GroupListing, NewTopic, PartitionEnds, SettingsAnswer, TopicDescription
from ledger.wire.record_batch import BatchHeader

DEFAULT_TIMEOUT_S = 9.0
_LEADERS_PER_S = 50  # a small broker that is busy makes at least so many
_POLL_S = 0.05
_GROUPS_AT_ONCE = 500
_PARTITIONS_AT_ONCE = 5000
_SETTINGS_AT_ONCE = 1000
_FEATURES_SINCE = 3  # version of ApiVersions
_NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1


class KafkaAdmin:
    """`ports.ClusterAdmin` on a real cluster; safe to use from several threads."""

    def __init__(
        self,
        alias: str,
        cluster: ClusterConfig,
        clock: Clock,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.alias = alias
        self._clock = clock
        self._timeout_s = timeout_s
        self._connection = ClusterConnection(cluster, environ, timeout_s=timeout_s)

    def close(self) -> None:
        self._connection.close()

    def cluster_id(self) -> str:
        return str(
            self._connection.run("describe the cluster", topic_requests.metadata_without_topics).cluster_id
        )

    def metadata_offset(self) -> int | None:
        offset = self._connection.run("ask how far its metadata has come", _finalized_features_epoch)
        return offset if offset >= 0 else None

    def broker_count(self) -> int:
        return len(
            self._connection.run("describe the cluster", topic_requests.metadata_without_topics).brokers
        )

    def allocate_producer_id(self) -> int:
        return self._connection.run("allocate a producer id", _allocate_producer_id)

    def topics(self) -> dict[str, TopicDescription]:
        return {topic.name: topic for topic in self._described(None)}

    def configurations(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        answer = self.topic_settings(topics)
        if answer.refused:
            raise PreconditionError(
                f"cluster {self.alias} does not allow this principal to describe the configuration of "
                f"{_listed(sorted(answer.refused))}; not done"
            )
        return {name: dict(settings.own) for name, settings in answer.read.items()}

    def topic_settings(self, topics: Sequence[str]) -> SettingsAnswer:
        answer = SettingsAnswer({}, {})
        for start in range(0, len(topics), _SETTINGS_AT_ONCE):
            part = self._topic_settings(topics[start : start + _SETTINGS_AT_ONCE])
            answer.read.update(part.read)
            answer.refused.update(part.refused)
        return answer

    def _topic_settings(self, topics: Sequence[str]) -> SettingsAnswer:
        async def work(manager: KafkaConnectionManager) -> SettingsAnswer:
            return await setting_requests.described_settings(manager, topics)

        return self._connection.run(f"describe the configuration of {_listed(topics)}", work)

    def change_settings(self, name: str, *, to_set: Mapping[str, str], to_remove: Sequence[str]) -> None:
        async def work(manager: KafkaConnectionManager) -> None:
            await setting_requests.change_settings(manager, name, to_set=to_set, to_remove=to_remove)

        changed = ", ".join([*to_set, *to_remove])
        self._connection.run(f"change {changed} of topic {name}", work)

    def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, configuration: Mapping[str, str]
    ) -> None:
        async def work(manager: KafkaConnectionManager) -> None:
            await topic_requests.create_topic(
                manager,
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configuration=configuration,
                timeout_ms=int(self._timeout_s * 1000),
            )

        self._connection.run(f"create topic {name}", work)
        self._wait_for_partitions({name: partitions})

    def create_topics(self, wanted: Sequence[NewTopic]) -> dict[str, str]:
        timeout_ms = int(self._timeout_s * 1000)

        async def work(manager: KafkaConnectionManager) -> dict[str, str]:
            return await topic_requests.create_topics(manager, wanted, timeout_ms=timeout_ms)

        topic_ids = self._connection.run(f"create {_listed([topic.name for topic in wanted])}", work)
        self._wait_for_partitions(
            {topic.name: topic.partitions for topic in wanted if topic.name in topic_ids}
        )
        return topic_ids

    def add_partitions(self, name: str, *, total: int) -> None:
        timeout_ms = int(self._timeout_s * 1000)

        async def work(manager: KafkaConnectionManager) -> None:
            await topic_requests.add_partitions(manager, name, total=total, timeout_ms=timeout_ms)

        self._connection.run(f"bring topic {name} to {total} partitions", work)
        self._wait_for_partitions({name: total})

    def delete_topic(self, name: str, *, topic_id: str) -> None:
        timeout_ms = int(self._timeout_s * 1000)

        async def work(manager: KafkaConnectionManager) -> None:
            await topic_requests.delete_topic(manager, topic_id, timeout_ms=timeout_ms)

        self._connection.run(f"delete topic {name} with id {topic_id}", work)

    def is_gone(self, topic: str) -> bool:
        async def work(manager: KafkaConnectionManager) -> bool:
            return await topic_requests.is_gone(manager, topic)

        return self._connection.run(f"look for topic {topic}", work)

    def topic_acls(self) -> frozenset[TopicAcl]:
        return self._connection.run("describe access control lists of topics", acl_requests.described_acls)

    def create_acls(self, acls: Sequence[TopicAcl]) -> None:
        async def work(manager: KafkaConnectionManager) -> None:
            await acl_requests.create_acls(manager, acls)

        self._connection.run(f"create access control lists of {_listed(_names(acls))}", work)

    def delete_acls(self, acls: Sequence[TopicAcl]) -> None:
        async def work(manager: KafkaConnectionManager) -> None:
            await acl_requests.delete_acls(manager, acls)

        self._connection.run(f"delete access control lists of {_listed(_names(acls))}", work)

    def ends(self, partitions: Sequence[Partition]) -> dict[Partition, PartitionEnds]:
        ends: dict[Partition, PartitionEnds] = {}
        for start in range(0, len(partitions), _PARTITIONS_AT_ONCE):
            ends |= self._ends(partitions[start : start + _PARTITIONS_AT_ONCE])
        return ends

    def offsets_at(self, partitions: Sequence[Partition], timestamp_ms: int) -> dict[Partition, int]:
        async def work(manager: KafkaConnectionManager) -> dict[Partition, int]:
            return await offsets_at(manager, partitions, timestamp_ms)

        topics = sorted({topic for topic, _ in partitions})
        return self._connection.run(f"list offsets by time of {_listed(topics)}", work)

    def batch_at(self, partition: TopicPartition, offset: int) -> BatchHeader | None:
        async def work(manager: KafkaConnectionManager) -> BatchHeader | None:
            return await fetch_requests.batch_at(manager, partition, offset)

        return self._connection.run(f"read topic {partition.topic} partition {partition.partition}", work)

    def next_sequence(self, partition: TopicPartition, producer_id: int) -> int | None:
        async def work(manager: KafkaConnectionManager) -> int | None:
            return await producer_requests.expected_sequence(manager, partition, producer_id)

        return self._connection.run(
            f"describe the producers of topic {partition.topic} partition {partition.partition}", work
        )

    def remembered_producer(self, partition: TopicPartition, producer_id: int) -> RememberedProducer | None:
        async def work(manager: KafkaConnectionManager) -> RememberedProducer | None:
            return await producer_requests.remembered_producer(manager, partition, producer_id)

        return self._connection.run(
            f"describe the producers of topic {partition.topic} partition {partition.partition}", work
        )

    def groups(self) -> list[GroupListing]:
        listed = self._connection.run("list consumer groups", group_requests.listed_groups)
        return sorted(listed, key=lambda group: group.group_id)

    def commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> list[Checkpoint]:
        found: list[Checkpoint] = []
        for start in range(0, len(groups), _GROUPS_AT_ONCE):
            found += self._commits(groups[start : start + _GROUPS_AT_ONCE], topic_ids)
        return found

    def dead_groups(self, groups: Sequence[str]) -> frozenset[str]:
        dead: set[str] = set()
        for start in range(0, len(groups), _GROUPS_AT_ONCE):
            dead |= self._dead_groups(groups[start : start + _GROUPS_AT_ONCE])
        return frozenset(dead)

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[Partition, CommitRefusal]:
        async def work(manager: KafkaConnectionManager) -> dict[Partition, CommitRefusal]:
            return await group_requests.set_commits(manager, group, commits)

        return self._connection.run(f"set the committed offsets of group {group}", work)

    def _dead_groups(self, groups: Sequence[str]) -> frozenset[str]:
        async def work(manager: KafkaConnectionManager) -> frozenset[str]:
            return await group_requests.dead_groups(manager, groups)

        return self._connection.run(f"look for {_listed(groups, 'group')}", work)

    def _described(self, names: Sequence[str] | None) -> list[TopicDescription]:
        async def work(manager: KafkaConnectionManager) -> Any:
            return await topic_requests.metadata(manager, names)

        answer = self._connection.run(f"describe {_listed(names)}", work)
        described = filter(topic_requests.is_described, answer.topics)
        return [topic_requests.description(self.alias, topic) for topic in described]

    def _wait_for_partitions(self, topics: Mapping[str, int]) -> None:
        """Until all have leaders; `topics`: partitions by name."""
        partitions = [(name, partition) for name, count in topics.items() for partition in range(count)]
        patience_s = self._timeout_s + len(partitions) / _LEADERS_PER_S
        deadline = time.monotonic() + patience_s
        while partitions := sorted(set(partitions) - self.ends(partitions).keys()):
            if time.monotonic() > deadline:
                raise ClusterUnavailableError(
                    f"cluster {self.alias} accepted {_listed(list(topics))} but has no leaders for "
                    f"{len(partitions)} partitions after {patience_s:g} s; nothing was written to them"
                )
            time.sleep(_POLL_S)

    def _ends(self, partitions: Sequence[Partition]) -> dict[Partition, PartitionEnds]:
        async def work(manager: KafkaConnectionManager) -> dict[Partition, PartitionEnds]:
            return await partition_ends(manager, partitions)

        topics = sorted({topic for topic, _ in partitions})
        return self._connection.run(f"list offsets of {_listed(topics)}", work)

    def _commits(self, groups: Sequence[GroupListing], topic_ids: Mapping[str, str]) -> list[Checkpoint]:
        names = [group.group_id for group in groups]

        async def work(manager: KafkaConnectionManager) -> dict[str, list[group_requests.Commit]]:
            return await group_requests.committed_offsets(manager, names)

        found = self._connection.run(f"read the committed offsets of {_listed(names, 'group')}", work)
        read_at_ms = self._clock.now_ms()
        return [
            self._checkpoint(group, commit, topic_ids, read_at_ms)
            for group in groups
            for commit in found.get(group.group_id, [])
        ]

    def _checkpoint(
        self,
        group: GroupListing,
        commit: group_requests.Commit,
        topic_ids: Mapping[str, str],
        read_at_ms: int,
    ) -> Checkpoint:
        topic, committed = commit
        return Checkpoint(
            cluster=self.alias,
            group_id=group.group_id,
            group_type=group.group_type,
            group_state=group.group_state,
            topic=topic,
            topic_id=topic_ids.get(topic),
            partition=committed.partition_index,
            committed_offset=committed.committed_offset,
            leader_epoch=known_epoch(committed.committed_leader_epoch),
            metadata=committed.metadata,
            read_at_ms=read_at_ms,
        )


def _names(acls: Sequence[TopicAcl]) -> list[str]:
    return sorted({acl.name for acl in acls})


def _listed(names: Sequence[str] | None, kind: str = "topic") -> str:
    """`topic a, b, c and 4 more`, for messages."""
    if names is None:
        return f"all {kind}s"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{kind} {', '.join(names[:3])}{more}"


async def _finalized_features_epoch(manager: KafkaConnectionManager) -> int:
    """The offset of the metadata that the broker's features are of; -1 when the cluster has none (no KRaft)."""
    request = ApiVersionsRequest(
        client_software_name="mirror-ledger", client_software_version="1", min_version=_FEATURES_SINCE
    )
    answer = await manager.send(request)
    require(answer.error_code, None)
    return int(answer.finalized_features_epoch)


async def _allocate_producer_id(manager: KafkaConnectionManager) -> int:
    request = InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS,
        producer_id=-1,
        producer_epoch=-1,
    )
    answer = await manager.send(request)
    require(answer.error_code, None)
    if answer.producer_id < 0:
        raise ProtocolError(f"a producer id is not negative, got {answer.producer_id}; nothing was written")
    return int(answer.producer_id)
