"""The copy's own connections on real brokers: SASL, and topics that go away under a task."""

import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka.admin import ACLOperation, ResourceType

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig
from ledger.facts.identity import FlowProducer
from ledger.facts.syncs import TopicPartition
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.connection import BrokerConnection
from ledger.kafka.copying import answer_to
from ledger.kafka.network import KafkaNetwork
from ledger.kafka.requests import ErrorCode, Produced, ProduceItem
from ledger.kafka.spoken import PRODUCE, PRODUCE_BY_ID, Versions
from ledger.mirror.assignment import Assignment, CopyLimits, PartitionResult, StopCause
from ledger.mirror.slow_partitions import SlowPartitions
from ledger.mirror.task import CopyTask
from ledger.sandbox import SandboxCluster
from tests.simulation.kafka.stored_batches import Producer as StoredProducer
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.support.copies import config_of
from tests.support.copy_tasks import BOTH_SEEN, copied_up_to, writers
from tests.support.guarded import Guarded
from tests.support.waiting import leading_node

RECORDS = 500


class Copying:
    """Two topics of one cluster, the source filled, and tasks that copy between them.

    `client` is how a test's own clients present themselves.
    """

    def __init__(self, config: ClusterConfig, client: Mapping[str, str]) -> None:
        self.config = config
        self.admin = KafkaAdmin(config.name, config, SystemClock())
        self.client: dict[str, str | int | float | bool] = {
            "bootstrap.servers": config.bootstrap_servers,
            **client,
        }
        self.names = [f"link-{side}-{uuid.uuid4().hex[:8]}" for side in ("source", "target")]
        for name in self.names:
            self.admin.create_topic(name, partitions=1, replication_factor=1, configuration={})
        topics = self.admin.topics()
        self.source, self.target = (TopicPartition(name, topics[name].topic_id, 0) for name in self.names)
        self.producer_id = self.admin.allocate_producer_id()
        producer = Producer(self.client)
        for number in range(RECORDS):
            producer.produce(self.names[0], b"%d" % number)
        assert producer.flush(30) == 0

    def run(
        self,
        *,
        position: int = 0,
        seconds: float = 30.0,
        end_offset: int | None = RECORDS,
        slow: SlowPartitions | None = None,
    ) -> PartitionResult:
        assignment = Assignment(
            source=self.source,
            target=self.target,
            position=copied_up_to(position),
            tail=BOTH_SEEN,
            producer=FlowProducer(self.producer_id),
            end_offset=end_offset,
            exclusive=True,
        )
        with closing(KafkaNetwork(self.config, self.config, request_timeout_s=10)) as network:
            (result,) = CopyTask([assignment], network, writers(), SystemClock(), CopyLimits(), slow).run(
                seconds=seconds
            )
        return result

    def delete(self, topic: str) -> None:
        client = AdminClient(self.client)  # held, or it is destroyed before it has answered
        client.delete_topics([topic])[topic].result(30)


@pytest.fixture
def copying(broker_pair: Mapping[str, SandboxCluster]) -> Iterator[Copying]:
    made = Copying(config_of("east", broker_pair["east"].bootstrap_servers), {})
    yield made
    made.admin.close()


def test_records_are_copied_over_sasl(guarded: Guarded) -> None:
    for kind, name in ((ResourceType.TOPIC, "link-"), (ResourceType.CLUSTER, "kafka-cluster")):
        guarded.allow("mirror", name, ACLOperation.ALL, kind=kind, is_prefix=kind is ResourceType.TOPIC)
    client = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "mirror"}
    config = config_of("solo", guarded.without_tls, guarded.plain_login("mirror"))
    copying = Copying(config, {**client, "sasl.password": guarded.password})
    result = copying.run()
    copying.admin.close()
    assert (result.stop, result.position.source_offset, result.position.target_offset) == (
        None,
        RECORDS,
        RECORDS,
    )


class AllOfThem(SlowPartitions):
    """Every partition is slow."""

    def __len__(self) -> int:
        return 1

    def holds(self, _partition: TopicPartition) -> bool:
        return True


def test_a_slow_partition_is_written_to_by_a_connection_of_its_own(copying: Copying) -> None:
    result = copying.run(slow=AllOfThem())
    assert (result.stop, result.position.target_offset) == (None, RECORDS)
    (sync,) = copying.run().syncs
    assert (sync.recovered, sync.records) == (True, RECORDS)


def test_a_second_attempt_recognises_what_the_first_wrote(copying: Copying) -> None:
    assert copying.run().position.target_offset == RECORDS
    (sync,) = copying.run().syncs
    assert (sync.recovered, sync.records) == (True, RECORDS)


@pytest.mark.fault(7)
def test_a_line_that_is_cut_before_its_first_request_is_opened_again(
    copying: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, cut = BrokerConnection.api_versions, list[object]()

    def ask_and_cut(connection: BrokerConnection) -> Mapping[int, tuple[int, int]]:
        versions = ask(connection)
        if len(cut) < 3:
            connection.socket.shutdown(socket.SHUT_RDWR)
            cut.append(connection)
        return versions

    monkeypatch.setattr(BrokerConnection, "api_versions", ask_and_cut)
    result = copying.run()
    assert (result.stop, result.position.target_offset, len(cut)) == (None, RECORDS, 3)


@pytest.mark.fault(14, 16)
@pytest.mark.parametrize(
    ("side", "cause"), [(0, StopCause.SOURCE_TOPIC_GONE), (1, StopCause.TARGET_TOPIC_GONE)]
)
@pytest.mark.parametrize("recreated", ["deleted", "recreated"])
def test_a_topic_that_is_gone_stops_its_partition(
    copying: Copying, side: int, cause: StopCause, recreated: str
) -> None:
    assert copying.run().position.source_offset == RECORDS
    name = copying.names[side]
    copying.delete(name)
    if recreated == "recreated":
        copying.admin.create_topic(name, partitions=1, replication_factor=1, configuration={})
    result = copying.run(position=RECORDS, end_offset=None)
    assert result.stop is not None
    assert result.stop.cause is cause
    assert (result.position.source_offset, result.syncs) == (RECORDS, ())


# -- Brokers that are written to by name -----------------------------------------------------------


@pytest.fixture
def by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers as before 4.1: what they say of Produce."""
    ask = BrokerConnection.api_versions

    def without_ids(connection: BrokerConnection) -> Versions:
        versions = ask(connection)
        return {**versions, PRODUCE.key: (versions[PRODUCE.key][0], PRODUCE_BY_ID.oldest - 1)}

    monkeypatch.setattr(BrokerConnection, "api_versions", without_ids)


def test_topics_are_written_to_by_name(copying: Copying, by_name: None) -> None:
    assert copying.run().position.target_offset == RECORDS


@pytest.mark.fault(14, 15)
@pytest.mark.parametrize("is_in_between", [False, True])
def test_a_topic_that_is_created_again_behind_its_name_is_not_taken_for_the_one_before(
    copying: Copying, by_name: None, monkeypatch: pytest.MonkeyPatch, is_in_between: bool
) -> None:
    """Before a batch of the other is sent to it, and, where that was too late, before it is recorded as copied."""
    if is_in_between:
        monkeypatch.setattr("ledger.kafka.network._NAMES_LAST_S", 600.0)
    batch = application_batch(
        [content(b"k", b"v")], [SystemClock().now_ms()], producer=StoredProducer(copying.producer_id, 0, 0)
    )
    with closing(KafkaNetwork(copying.config, copying.config, request_timeout_s=10)) as network:
        leader = leading_node(network.target, copying.target)

        def produced() -> Produced:
            ticket = network.target.produce(
                leader, [ProduceItem(copying.target, memoryview(batch.encoded()))], timeout_ms=5_000
            )
            answer = answer_to(ticket, network)
            [part] = answer.produced
            assert part is not None, answer.failure
            return part

        assert (produced().error, produced().base_offset) == (0, 0)
        copying.delete(copying.target.topic)
        time.sleep(0.3)
        copying.admin.create_topic(copying.target.topic, partitions=1, replication_factor=1, configuration={})
        assert produced().error == ErrorCode.UNKNOWN_TOPIC_ID
    ends = copying.admin.ends([copying.target.place])[copying.target.place]
    assert ends.high_watermark == (1 if is_in_between else 0)
