"""Who leads which partition of one cluster, asked on a connection of its own.

`MetadataReader.read` blocks until a broker answers or all have failed, so a link calls it on another
thread; one call at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kafka.protocol.metadata import MetadataResponse

from ledger.adapters.kafka.connection.broker_connection import Address, BrokerConnection
from ledger.domain.topics.topic_ids import topic_id_text
from ledger.errors import ClusterUnavailableError
from ledger.wire.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class Leader:
    """The node that leads a partition; every new leader, the same node again included, has a new epoch."""

    node: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """One answer: brokers by node id, leaders by (topic id, partition), and the topic id of each name.

    A name whose topic does not exist has None; a name that the broker could not judge is left out.
    `denied` are names that this principal may not describe.
    """

    addresses: Mapping[int, Address]
    leaders: Mapping[tuple[str, int], Leader]
    topic_ids: Mapping[str, str | None]
    denied: frozenset[str]


class MetadataReader:
    """Keeps its connection between calls; `connect` opens one to an address."""

    def __init__(self, connect: Callable[[Address], BrokerConnection]) -> None:
        self._connect = connect
        self._connection: BrokerConnection | None = None

    def read(self, topics: Sequence[str], addresses: Sequence[Address]) -> ClusterMetadata:
        """The first answer; the broker that answered last is asked first.

        Raises `ClusterUnavailableError` with every broker's reason when none answers.
        """
        current = [] if self._connection is None else [self._connection.address]
        reasons = []
        for address in dict.fromkeys([*current, *addresses]):
            try:
                if self._connection is None:
                    self._connection = self._connect(address)
                return _read(self._connection.metadata(topics))
            except ClusterUnavailableError as error:
                self._connection = None
                reasons.append(str(error))
        raise ClusterUnavailableError("; ".join(reasons))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _read(answer: MetadataResponse) -> ClusterMetadata:
    addresses = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
    return ClusterMetadata(
        addresses=addresses,
        topic_ids={
            topic.name: topic_id_text(topic.topic_id.bytes) if topic.error_code == 0 else None
            for topic in answer.topics
            if topic.error_code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        },
        denied=frozenset(
            topic.name for topic in answer.topics if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        ),
        leaders={
            (topic_id_text(topic.topic_id.bytes), partition.partition_index): Leader(
                partition.leader_id, partition.leader_epoch
            )
            for topic in answer.topics
            if topic.error_code == 0
            for partition in topic.partitions
            if partition.leader_id in addresses
        },
    )
