"""Measurements of one cluster for `doctor`: `measurements.ClusterProbe` on real brokers. Nothing is written."""

import os
import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import (
    ACLOperation,
    DescribeAclsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataResponse,
)

from ledger.adapters.kafka.admin import KafkaAdmin
from ledger.adapters.kafka.certificates import broker_validity, file_validity
from ledger.adapters.kafka.client_properties import resolved_properties
from ledger.adapters.kafka.cluster_connection import ClusterConnection, require
from ledger.adapters.kafka.connection import Address, BrokerConnection, parse_addresses
from ledger.adapters.kafka.network import KafkaNetwork
from ledger.config.cluster import ClusterConfig
from ledger.doctor.measurements import (
    Broker,
    Operation,
    Operations,
    Partition,
    Permissions,
    Reach,
    Settings,
    Validity,
)
from ledger.domain.facts import TopicPartition
from ledger.errors import ClusterUnavailableError
from ledger.ports.clock import Clock
from ledger.ports.clusters import GroupListing, PartitionEnds, TopicDescription
from ledger.ports.network import FetchItem
from ledger.wire.record_batch import HEADER_BYTES, read_header

CONNECT_TIMEOUT_S = 4.0
TIMEOUT_S = 9.0
_TOPIC, _BROKER = 2, 4
_GROUP_COORDINATOR = 0
_ANY = 1
_FETCH_BYTES = 4096
_FETCHED_AT_ONCE = 200
_OPERATIONS = {
    ACLOperation.READ: Operation.READ,
    ACLOperation.WRITE: Operation.WRITE,
    ACLOperation.CREATE: Operation.CREATE,
    ACLOperation.DELETE: Operation.DELETE,
    ACLOperation.ALTER: Operation.ALTER,
    ACLOperation.DESCRIBE: Operation.DESCRIBE,
    ACLOperation.DESCRIBE_CONFIGS: Operation.DESCRIBE_CONFIGS,
    ACLOperation.ALTER_CONFIGS: Operation.ALTER_CONFIGS,
    ACLOperation.IDEMPOTENT_WRITE: Operation.IDEMPOTENT_WRITE,
}


class KafkaClusterProbe:
    """Implements `measurements.ClusterProbe`. Constructing it opens nothing; `close` ends its connections."""

    def __init__(self, cluster: ClusterConfig, clock: Clock, environ: Mapping[str, str] = os.environ) -> None:
        self.alias = cluster.name
        self.servers = cluster.bootstrap_servers
        self._cluster = cluster
        self._environ = environ
        self._admin = KafkaAdmin(cluster.name, cluster, clock, timeout_s=TIMEOUT_S, environ=environ)
        self._connection = ClusterConnection(cluster, environ, timeout_s=TIMEOUT_S)

    def close(self) -> None:
        self._admin.close()
        self._connection.close()

    @property
    def principal(self) -> str | None:
        """As brokers call a SASL user by default; None for certificates and for a name that is a secret."""
        user = self._cluster.properties.get("sasl.username")
        return f"User:{user}" if isinstance(user, str) else None

    @property
    def uses_tls(self) -> bool:
        protocol = self._cluster.properties.get("security.protocol", "plaintext")
        return isinstance(protocol, str) and protocol.upper().endswith("SSL")

    # -- brokers ---------------------------------------------------------------------------------

    def addresses(self) -> Sequence[str]:
        return [str(address) for address in parse_addresses(self.servers)]

    def reach(self, address: str) -> Reach:
        properties = resolved_properties(self._cluster, self._environ)
        started = time.monotonic()
        with closing(
            BrokerConnection(_address(address), properties, timeout_s=CONNECT_TIMEOUT_S)
        ) as connection:
            connect_ms = (time.monotonic() - started) * 1000
            answer = connection.call(ApiVersionsRequest[0](), ApiVersionsResponse)
            # Versions are told to anybody; what comes next needs a login where there is one.
            connection.call(MetadataRequest[1](topics=[]), MetadataResponse)
        spoken = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
        return Reach(connect_ms, spoken)

    def certificate(self, address: str) -> Validity:
        properties = resolved_properties(self._cluster, self._environ)
        return broker_validity(_address(address), properties, timeout_s=CONNECT_TIMEOUT_S)

    def client_certificate(self) -> Validity | None:
        location = resolved_properties(self._cluster, self._environ).get("ssl.certificate.location")
        return None if location is None else file_validity(Path(location))

    def brokers(self) -> Sequence[Broker]:
        answer = self._connection.run("list the brokers", lambda manager: _metadata(manager, []))
        return [Broker(b.node_id, str(Address(b.host, b.port))) for b in answer.brokers]

    def cluster_id(self) -> str:
        return self._admin.cluster_id()

    # -- topics and groups -----------------------------------------------------------------------

    def topics(self) -> Mapping[str, TopicDescription]:
        return self._admin.topics()

    def groups(self) -> Sequence[GroupListing]:
        return self._admin.groups()

    def own_settings(self, topics: Sequence[str]) -> Mapping[str, Settings]:
        return self._admin.configurations(topics)

    def ends(self, partitions: Sequence[Partition]) -> Mapping[Partition, PartitionEnds]:
        return self._admin.ends(partitions)

    def settings(self, topics: Sequence[str]) -> Mapping[str, Settings]:
        async def work(manager: KafkaConnectionManager) -> dict[str, Settings]:
            return await _settings(manager, _TOPIC, topics, node_id=None)

        return self._connection.run("describe the configuration of topics", work) if topics else {}

    def broker_settings(self, node_ids: Sequence[int]) -> Mapping[int, Settings]:
        async def work(manager: KafkaConnectionManager) -> dict[int, Settings]:
            await _metadata(manager, [])
            found: dict[int, Settings] = {}
            for node_id in node_ids:
                found[node_id] = (await _settings(manager, _BROKER, [str(node_id)], node_id=node_id))[
                    str(node_id)
                ]
            return found

        return self._connection.run(
            "describe the configuration of brokers (DescribeConfigs on the cluster)", work
        )

    def sizes(self, topics: Mapping[str, int]) -> Mapping[Partition, int]:
        async def work(manager: KafkaConnectionManager) -> dict[Partition, int]:
            return await _sizes(manager, topics)

        return self._connection.run("describe log directories (Describe on the cluster)", work)

    def timestamps(self, positions: Mapping[Partition, int]) -> Mapping[Partition, int]:
        if not positions:
            return {}
        topics = self.topics()
        wanted = {
            TopicPartition(name, topics[name].topic_id, partition): offset
            for (name, partition), offset in positions.items()
            if name in topics
        }
        network = KafkaNetwork(self._cluster, self._cluster, request_timeout_s=TIMEOUT_S)
        with closing(network):
            network.source.refresh(sorted({partition.topic for partition in wanted}))
            return dict(_timestamps(network, wanted))

    # -- permissions -----------------------------------------------------------------------------

    def permissions(self, topics: Collection[str], groups: Collection[str]) -> Permissions:
        async def work(manager: KafkaConnectionManager) -> Permissions:
            nobody = f"mirror-ledger-doctor-{uuid.uuid4().hex}"
            hidden = await _hidden_groups(manager, [*groups, nobody])
            return Permissions(
                enforced=await _is_enforced(manager),
                cluster=await _on_cluster(manager),
                topics=await _on_topics(manager, topics),
                groups_seen=nobody not in hidden,
                hidden_groups=tuple(group for group in groups if group in hidden),
            )

        return self._connection.run("ask which operations are authorized", work)


def _address(text: str) -> Address:
    (address,) = parse_addresses(text)
    return address


async def _metadata(
    manager: KafkaConnectionManager, topics: Iterable[str], *, operations: bool = False
) -> Any:
    """Topics and brokers as some broker sees them; the manager learns the brokers' addresses."""
    topic = MetadataRequest.MetadataRequestTopic
    answer = await manager.send(
        MetadataRequest(
            topics=[topic(name=name) for name in topics],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=operations,
        )
    )
    manager.cluster.update_metadata(answer)
    return answer


# Settings and sizes ----------------------------------------------------------------------------


async def _settings(
    manager: KafkaConnectionManager, kind: int, names: Sequence[str], *, node_id: int | None
) -> dict[str, Settings]:
    """Every setting of the resources that are there, by name of the resource."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            resource(resource_type=kind, resource_name=name, configuration_keys=None) for name in names
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    answer = await (manager.send(request) if node_id is None else manager.send(request, node_id=node_id))
    found: dict[str, Settings] = {}
    for result in answer.results:
        if result.error_code != errors.UnknownTopicOrPartitionError.errno:
            require(result.error_code, f"{result.resource_name}: {result.error_message}")
            found[result.resource_name] = {c.name: c.value for c in result.configs if c.value is not None}
    return found


async def _sizes(manager: KafkaConnectionManager, topics: Mapping[str, int]) -> dict[Partition, int]:
    """The largest replica of each partition; brokers tell only what they hold themselves."""
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    request = DescribeLogDirsRequest(
        topics=[topic(topic=name, partitions=list(range(count))) for name, count in topics.items()]
    )
    found: dict[Partition, int] = {}
    for broker in (await _metadata(manager, [])).brokers:
        answer = await manager.send(request, node_id=broker.node_id)
        require(getattr(answer, "error_code", 0) or 0, None)
        for told in (t for result in answer.results for t in result.topics):
            for entry in told.partitions:
                key = (told.name, entry.partition_index)
                found[key] = max(found.get(key, 0), entry.partition_size)
    return found


# Timestamps ------------------------------------------------------------------------------------


def _timestamps(network: KafkaNetwork, wanted: Mapping[TopicPartition, int]) -> dict[Partition, int]:
    """One look at each partition, over the connections that copying uses."""
    by_leader: dict[int, list[FetchItem]] = defaultdict(list)
    for partition, offset in wanted.items():
        if (leader := network.source.leader(partition)) is not None:
            by_leader[leader].append(FetchItem(partition, offset, _FETCH_BYTES))
    found: dict[Partition, int] = {}
    for leader, items in by_leader.items():
        for start in range(0, len(items), _FETCHED_AT_ONCE):
            found |= _fetched(network, leader, items[start : start + _FETCHED_AT_ONCE])
    return found


def _fetched(network: KafkaNetwork, leader: int, items: Sequence[FetchItem]) -> dict[Partition, int]:
    """Only headers are read, so batches that the answer cuts off are enough."""
    network.source.fetch(
        leader, items, committed=True, max_wait_ms=0, max_bytes=_FETCH_BYTES * (len(items) + 1)
    )
    deadline = time.monotonic() + TIMEOUT_S
    completions = network.poll(TIMEOUT_S)
    while not completions and time.monotonic() < deadline:
        completions = network.poll(TIMEOUT_S)
    if not completions or completions[0].failure:
        reason = completions[0].failure if completions else "no answer in time"
        raise ClusterUnavailableError(f"the records at the flow's positions cannot be read: {reason}")
    return {
        (item.partition.topic, item.partition.partition): read_header(answer.records).max_timestamp
        for item, answer in zip(items, completions[0].fetched, strict=True)
        if answer is not None and answer.error == 0 and len(answer.records) >= HEADER_BYTES
    }


# Permissions -----------------------------------------------------------------------------------


async def _is_enforced(manager: KafkaConnectionManager) -> bool:
    """A cluster without an authorizer says so to whoever asks for its ACLs."""
    request = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=f"User:{uuid.uuid4().hex}",
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    answer = await manager.send(request)
    return bool(answer.error_code != errors.SecurityDisabledError.errno)


async def _on_cluster(manager: KafkaConnectionManager) -> Operations | None:
    """None: without Describe on the cluster an empty set is answered, whatever else is allowed."""
    answer = await manager.send(DescribeClusterRequest(include_cluster_authorized_operations=True))
    return _operations(answer.authorized_operations) or None


async def _on_topics(
    manager: KafkaConnectionManager, topics: Collection[str]
) -> dict[str, Operations | None]:
    answer = await _metadata(manager, topics, operations=True)
    hidden = errors.TopicAuthorizationFailedError.errno
    return {
        topic.name: None if topic.error_code == hidden else _operations(topic.authorized_operations)
        for topic in answer.topics
    }


def _operations(codes: Iterable[int]) -> Operations:
    """Those of a response that mean something here; it lists codes of `ACLOperation`."""
    return frozenset(_OPERATIONS[code] for code in map(ACLOperation, codes) if code in _OPERATIONS)


async def _hidden_groups(manager: KafkaConnectionManager, groups: Sequence[str]) -> set[str]:
    """Groups that may not be described, whether they exist or not."""
    await _metadata(manager, [])
    request = FindCoordinatorRequest(
        key_type=_GROUP_COORDINATOR, coordinator_keys=list(groups), min_version=4
    )
    coordinators = (await manager.send(request)).coordinators
    denied = errors.GroupAuthorizationFailedError.errno
    hidden = {found.key for found in coordinators if found.error_code == denied}
    by_node: dict[int, list[str]] = defaultdict(list)
    for found in coordinators:
        if found.key not in hidden:
            require(found.error_code, found.error_message)
            by_node[found.node_id].append(found.key)
    for node_id, names in by_node.items():
        described = await manager.send(DescribeGroupsRequest(groups=names), node_id=node_id)
        hidden |= {group.group_id for group in described.groups if group.error_code == denied}
    return hidden
