"""Measurements of one cluster for `doctor`: `measurements.ClusterProbe` on real brokers. Nothing is written."""

import os
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from kafka.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
)

from ledger.adapters.kafka.admin.cluster_admin import KafkaAdmin
from ledger.adapters.kafka.admin.log_dir_requests import partition_sizes
from ledger.adapters.kafka.admin.setting_requests import broker_settings
from ledger.adapters.kafka.admin.topic_requests import metadata
from ledger.adapters.kafka.connection.broker_connection import Address, BrokerConnection, parse_addresses
from ledger.adapters.kafka.connection.client_properties import resolved_properties
from ledger.adapters.kafka.network.kafka_network import KafkaNetwork
from ledger.adapters.kafka.probes.certificates import broker_validity, file_validity
from ledger.adapters.kafka.probes.permissions import asked_permissions
from ledger.config.cluster import ClusterConfig
from ledger.doctor.measurements import (
    Broker,
    Partition,
    Permissions,
    Reach,
    Settings,
    Validity,
)
from ledger.domain.facts import TopicPartition
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.errors import ClusterUnavailableError
from ledger.ports.clock import Clock
from ledger.ports.clusters import GroupListing, PartitionEnds, TopicDescription
from ledger.ports.network import FetchItem, answer_to
from ledger.wire.record_batch import HEADER_BYTES, read_header

CONNECT_TIMEOUT_S = 4.0
TIMEOUT_S = 9.0
_FETCH_BYTES = 4096
_FETCHED_AT_ONCE = 200


class KafkaClusterProbe:
    """Implements `measurements.ClusterProbe`. Constructing it opens nothing; `close` ends its connections."""

    def __init__(self, cluster: ClusterConfig, clock: Clock, environ: Mapping[str, str] = os.environ) -> None:
        self.alias = cluster.name
        self.servers = cluster.bootstrap_servers
        self._cluster = cluster
        self._environ = environ
        self._admin = KafkaAdmin(cluster.name, cluster, clock, timeout_s=TIMEOUT_S, environ=environ)

    def close(self) -> None:
        self._admin.close()

    @property
    def principal(self) -> str | None:
        """As it is configured; else as brokers call a SASL user; None for certificates and a name that is a secret."""
        if self._cluster.mirror_principal is not None:
            return self._cluster.mirror_principal
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
            spoken = connection.api_versions()
            # Versions are given to anybody; what comes next needs a login where there is one.
            connection.call(MetadataRequest[1](topics=[]), MetadataResponse)
        return Reach(connect_ms, spoken)

    def certificate(self, address: str) -> Validity:
        properties = resolved_properties(self._cluster, self._environ)
        return broker_validity(_address(address), properties, timeout_s=CONNECT_TIMEOUT_S)

    def client_certificate(self) -> Validity | None:
        location = resolved_properties(self._cluster, self._environ).get("ssl.certificate.location")
        return None if location is None else file_validity(Path(location))

    def brokers(self) -> Sequence[Broker]:
        answer = self._admin.connection.run("list the brokers", metadata, [])
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
        return self._admin.effective_settings(topics)

    def broker_settings(self, node_ids: Sequence[int]) -> Mapping[int, Settings]:
        operation = "describe the configuration of brokers (DescribeConfigs on the cluster)"
        return self._admin.connection.run(operation, broker_settings, node_ids)

    def sizes(self, topics: Mapping[str, int]) -> Mapping[Partition, int]:
        operation = "describe log directories (Describe on the cluster)"
        return self._admin.connection.run(operation, partition_sizes, topics)

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
        return self._admin.connection.run(
            "ask which operations are authorized", asked_permissions, topics, groups
        )

    def topic_acls(self) -> frozenset[TopicAcl]:
        return self._admin.topic_acls()


def _address(text: str) -> Address:
    (address,) = parse_addresses(text)
    return address


def _timestamps(network: KafkaNetwork, wanted: Mapping[TopicPartition, int]) -> dict[Partition, int]:
    """One request for each partition, over the connections that copying uses."""
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
    ticket = network.source.fetch(
        leader, items, committed=True, max_wait_ms=0, max_bytes=_FETCH_BYTES * (len(items) + 1)
    )
    completion = answer_to(ticket, network)
    if completion.failure:
        raise ClusterUnavailableError(
            f"the records at the flow's positions cannot be read: {completion.failure}"
        )
    return {
        (item.partition.topic, item.partition.partition): read_header(answer.records).max_timestamp
        for item, answer in zip(items, completion.fetched, strict=True)
        if answer is not None and answer.error == 0 and len(answer.records) >= HEADER_BYTES
    }
