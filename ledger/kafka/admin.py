"""Administration of one cluster: `ClusterAdmin` on real brokers.

Nothing is opened before the first call. What the cluster does not know (a group that was deleted, a topic
that was deleted meanwhile, a partition without a leader) is left out of an answer.
"""

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.producer import InitProducerIdRequest

from ledger.clock import Clock
from ledger.config.values import ClusterConfig
from ledger.errors import ClusterUnavailableError, PreconditionError, ProtocolError, Trouble
from ledger.facts.identity import DRAWN_IDS, RememberedProducer
from ledger.facts.permissions import Permission, Permissions
from ledger.facts.syncs import TopicPartition
from ledger.kafka.batches import BatchHeader, WholeBatch
from ledger.kafka.cluster import PartitionEnds, Place, SettingsAnswer, TopicDescription, TopicSettings
from ledger.kafka.connection import ClusterConnection
from ledger.kafka.groups import KafkaGroups
from ledger.kafka.permissions import (
    create_permissions,
    delete_permissions,
    described_acls,
    described_permissions,
    lacking_operations,
    writable_topics,
)
from ledger.kafka.topics import (
    aborted_at,
    add_partitions,
    change_settings_of,
    create_topic,
    create_topics,
    delete_topic,
    described_settings,
    description,
    expected_sequence,
    is_deleted,
    is_described,
    listed,
    metadata,
    offsets_at,
    partition_ends,
    parts,
    refused_settings,
    remembered_producer,
    require,
    transactional_producers,
    whole_batches_at,
)
from ledger.topics.following import NewTopic

DEFAULT_TIMEOUT_S = 9.0
_LEADERS_PER_S = 50  # a small broker that is busy makes at least so many
_POLL_S = 0.05
_PARTITIONS_AT_ONCE = 5000
_SETTINGS_AT_ONCE = 1000
_PERMISSIONS_AT_ONCE = 500
_FEATURES_SINCE = 3  # version of ApiVersions
_NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1


class KafkaAdmin(KafkaGroups):
    """`ClusterAdmin` on a real cluster; safe to use from several threads."""

    def __init__(
        self,
        alias: str,
        cluster: ClusterConfig,
        clock: Clock,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        connection = ClusterConnection(cluster, environ, timeout_s=timeout_s)
        super().__init__(alias, connection, clock, timeout_s=timeout_s)
        self._timeout_ms = int(timeout_s * 1000)
        self._gives_topic_ids = False

    def close(self) -> None:
        self.connection.close()

    def cluster_id(self) -> str:
        """The first time it is required of the topics, too, that they have ids: nothing is done with those that have
        none, and whoever begins something asks which cluster answers."""
        if self._gives_topic_ids:
            return str(self._described_cluster().cluster_id)
        answer = self.connection.run("describe the cluster", metadata, None)
        self._described(answer)
        self._gives_topic_ids = True
        return str(answer.cluster_id)

    def metadata_offset(self) -> int | None:
        offset = self.connection.run("ask how far its metadata has come", _finalized_features_epoch)
        return offset if offset >= 0 else None

    def brokers(self) -> Sequence[str]:
        return self.connection.brokers

    def broker_count(self) -> int:
        return len(self._described_cluster().brokers)

    def _described_cluster(self) -> Any:
        return self.connection.run("describe the cluster", metadata, [])

    def allocate_producer_id(self) -> int:
        return self.connection.run("allocate a producer id", _allocate_producer_id)

    def draw_producer_id(self) -> int:
        return secrets.choice(DRAWN_IDS)

    def topics(self) -> dict[str, TopicDescription]:
        return self._described(self.connection.run("describe all topics", metadata, None))

    def _described(self, answer: Any) -> dict[str, TopicDescription]:
        described = filter(is_described, answer.topics)
        return {topic.name: description(self.alias, topic) for topic in described}

    def configurations(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        return {name: dict(settings.own) for name, settings in self._required_settings(topics).items()}

    def effective_settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Per topic all settings, the cluster's defaults among them."""
        return {name: dict(settings.effective) for name, settings in self._required_settings(topics).items()}

    def _required_settings(self, topics: Sequence[str]) -> dict[str, TopicSettings]:
        answer = self._settings(topics)
        if answer.refused:
            raise PreconditionError(
                f"cluster {self.alias} does not allow this principal to describe the configuration of "
                f"{listed(sorted(answer.refused))}; not done",
                trouble=Trouble.NOT_ALLOWED,
            )
        return answer.read

    def topic_settings(self, topics: Sequence[str]) -> SettingsAnswer:
        try:
            return self._settings(topics)
        except PreconditionError as error:
            if error.trouble is not Trouble.NOT_SPOKEN:
                raise
            return SettingsAnswer({}, dict.fromkeys(topics, str(error)))

    def _settings(self, topics: Sequence[str]) -> SettingsAnswer:
        answer = SettingsAnswer({}, {})
        for some in parts(topics, _SETTINGS_AT_ONCE):
            operation = f"describe the configuration of {listed(some)}"
            part = self.connection.run(operation, described_settings, some)
            answer.read.update(part.read)
            answer.refused.update(part.refused)
        return answer

    def change_settings(self, name: str, *, to_set: Mapping[str, str], to_remove: Sequence[str]) -> None:
        operation = f"change {', '.join([*to_set, *to_remove])} of topic {name}"
        changes = {name: {**to_set, **dict.fromkeys(to_remove)}}
        self.connection.run(operation, change_settings_of, changes)

    def change_settings_of(self, changes: Mapping[str, Mapping[str, str | None]]) -> None:
        operation = f"change settings of {listed(list(changes))}"
        self.connection.run(operation, change_settings_of, changes)

    def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, configuration: Mapping[str, str]
    ) -> None:
        wanted = NewTopic(name, partitions, replication_factor, configuration)
        self.connection.run(f"create topic {name}", create_topic, wanted, timeout_ms=self._timeout_ms)
        self._wait_for_partitions({name: partitions})

    def create_topics(self, wanted: Sequence[NewTopic]) -> dict[str, str]:
        operation = f"create {listed([topic.name for topic in wanted])}"
        topic_ids = self.connection.run(operation, create_topics, wanted, timeout_ms=self._timeout_ms)
        if len(topic_ids) < len(wanted):
            self.connection.close()  # it may have been asked to wait, for a quota
        self._wait_for_partitions(
            {topic.name: topic.partitions for topic in wanted if topic.name in topic_ids}
        )
        return topic_ids

    def refused_settings(self, wanted: Sequence[NewTopic]) -> dict[str, str]:
        operation = f"ask whether {listed([topic.name for topic in wanted])} can be created"
        refused = self.connection.run(operation, refused_settings, wanted, timeout_ms=self._timeout_ms)
        self.connection.close()  # it may have been asked to wait, for a quota
        return refused

    def add_partitions(self, name: str, *, total: int) -> None:
        operation = f"bring topic {name} to {total} partitions"
        self.connection.run(operation, add_partitions, name, total=total, timeout_ms=self._timeout_ms)
        self._wait_for_partitions({name: total})

    def delete_topic(self, name: str, *, topic_id: str) -> None:
        operation = f"delete topic {name} with id {topic_id}"
        self.connection.run(operation, delete_topic, topic_id=topic_id, timeout_ms=self._timeout_ms)

    def is_deleted(self, topic: str) -> bool:
        return self.connection.run(f"find topic {topic}", is_deleted, topic)

    def topic_acls(self) -> frozenset[Permission]:
        return self.connection.run("describe access control lists of topics", described_acls)

    def create_acls(self, acls: Sequence[Permission]) -> None:
        operation = f"create access control lists of {listed(_names(acls))}"
        self.connection.run(operation, create_permissions, acls)

    def delete_acls(self, acls: Sequence[Permission]) -> None:
        operation = f"delete access control lists of {listed(_names(acls))}"
        self.connection.run(operation, delete_permissions, acls)

    def ends(self, partitions: Sequence[Place]) -> dict[Place, PartitionEnds]:
        ends: dict[Place, PartitionEnds] = {}
        for some in parts(partitions, _PARTITIONS_AT_ONCE):
            operation = f"list offsets of {listed(_topics(some))}"
            ends |= self.connection.run(operation, partition_ends, some)
        return ends

    def offsets_at(self, partitions: Sequence[Place], timestamp_ms: int) -> dict[Place, int]:
        operation = f"list offsets by time of {listed(_topics(partitions))}"
        return self.connection.run(operation, offsets_at, partitions, timestamp_ms)

    def batches_at(self, partition: TopicPartition, offset: int) -> Sequence[BatchHeader]:
        return [header for header, _ in self.whole_batches_at(partition, offset)]

    def whole_batches_at(self, partition: TopicPartition, offset: int) -> Sequence[WholeBatch]:
        operation = f"read topic {partition.words}"
        return self.connection.run(operation, whole_batches_at, partition, offset)

    def aborted_at(self, partition: TopicPartition, offset: int) -> Sequence[tuple[int, int]]:
        operation = f"read topic {partition.words}"
        return self.connection.run(operation, aborted_at, partition, offset)

    def next_sequence(self, partition: TopicPartition, producer_id: int) -> int | None:
        return self.connection.run(_of_producers(partition), expected_sequence, partition, producer_id)

    def remembered_producer(self, partition: TopicPartition, producer_id: int) -> RememberedProducer | None:
        return self.connection.run(_of_producers(partition), remembered_producer, partition, producer_id)

    def transactional_producers(self, partitions: Sequence[TopicPartition]) -> Mapping[str, frozenset[int]]:
        operation = f"describe the producers of {listed(_topics([at.place for at in partitions]))}"
        return self.connection.run(operation, transactional_producers, partitions)

    def writable_topics(self, topics: Sequence[str]) -> frozenset[str]:
        operation = f"find what this principal may write to of {listed(topics)}"
        return self.connection.run(operation, writable_topics, topics)

    def lacking_operations(self, topics: Sequence[str], operations: Sequence[str]) -> dict[str, list[str]]:
        """By topic those of these operations (`delete`) that this principal is not known to have; none: it has all."""
        operation = f"find what this principal may do to {listed(topics)}"
        return self.connection.run(operation, lacking_operations, topics, operations)

    def permissions(self) -> Permissions:
        operation = "describe access control lists, SCRAM users and client quotas"
        return self.connection.run(operation, described_permissions)

    def create_permissions(self, permissions: Sequence[Permission]) -> None:
        operation = f"create {_permission_names(permissions)}"
        for some in parts(permissions, _PERMISSIONS_AT_ONCE):
            self.connection.run(operation, create_permissions, some)

    def delete_permissions(self, permissions: Sequence[Permission]) -> None:
        operation = f"delete {_permission_names(permissions)}"
        for some in parts(permissions, _PERMISSIONS_AT_ONCE):
            self.connection.run(operation, delete_permissions, some)

    def _wait_for_partitions(self, topics: Mapping[str, int]) -> None:
        """Until all have leaders; `topics`: partitions by name."""
        partitions = [(name, partition) for name, count in topics.items() for partition in range(count)]
        patience_s = self._timeout_s + len(partitions) / _LEADERS_PER_S
        deadline = time.monotonic() + patience_s
        while partitions := sorted(set(partitions) - self.ends(partitions).keys()):
            if time.monotonic() > deadline:
                raise ClusterUnavailableError(
                    f"cluster {self.alias} accepted {listed(list(topics))} but has no leaders for "
                    f"{len(partitions)} partitions after {patience_s:g} s; nothing was written to them"
                )
            time.sleep(_POLL_S)


def _names(acls: Sequence[Permission]) -> list[str]:
    return sorted({acl.resource_name for acl in acls})


def _permission_names(permissions: Sequence[Permission]) -> str:
    return listed(sorted({one.entity for one in permissions}), "permissions of")


def _topics(partitions: Sequence[Place]) -> list[str]:
    return sorted({topic for topic, _ in partitions})


def _of_producers(partition: TopicPartition) -> str:
    return f"describe the producers of topic {partition.words}"


async def _finalized_features_epoch(manager: KafkaConnectionManager) -> int:
    """The offset of the metadata that the broker's features are of; -1 when the cluster has none (no KRaft)."""
    # Not by `describe_features`, which tells it beside finalized features and not without any.
    request = ApiVersionsRequest(
        client_software_name="mirror-ledger", client_software_version="1", min_version=_FEATURES_SINCE
    )
    try:
        answer = await manager.send(request)
    except errors.IncompatibleBrokerVersion:
        return -1
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
