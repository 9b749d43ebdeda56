"""The in-memory clusters and their network: topics that change, permissions, nodes that hang."""

from ledger.facts.syncs import TopicPartition
from ledger.kafka.copying import Completion
from ledger.kafka.requests import FetchItem, ProduceItem
from tests.simulation.kafka.cluster import Access, MemoryCluster
from tests.simulation.kafka.network import CalmWeather, MemoryNetwork
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import Producer, application_batch, content

DENIED, UNKNOWN_TOPIC_ID, TOO_LARGE = 29, 100, 10


class Harness:
    """One topic `t` with one partition, led by node 1 of cluster `west`, and a client of it."""

    def __init__(self, **configuration: str) -> None:
        self.schedule = Schedule()
        self.cluster = MemoryCluster("west", self.schedule)
        self.cluster.create_topic("t", partitions=1, replication_factor=1, configuration=configuration)
        self.network = MemoryNetwork(
            MemoryCluster("east", self.schedule),
            self.cluster,
            self.schedule,
            CalmWeather(),
            request_timeout_s=2.0,
        )

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition("t", self.cluster.topic_by_name["t"].topic_id, 0)

    def produce(self, sequence: int, partition: TopicPartition | None = None) -> int:
        now_ms = self.schedule.now_ms()
        batch = application_batch(
            [content(b"k", b"%d" % sequence)], [now_ms], producer=Producer(40, 0, sequence)
        )
        item = ProduceItem(partition or self.partition, memoryview(batch.encoded()))
        return self.network.target.produce(1, [item], timeout_ms=1000)

    def fetch(self, offset: int, last_epoch: int | None = None) -> int:
        item = FetchItem(self.partition, offset, 1000, last_epoch)
        return self.network.target.fetch(1, [item], committed=True, max_wait_ms=0, max_bytes=1000)

    def answer(self, ticket: int, *, within_s: float = 1.0) -> Completion:
        completions = self.network.poll(within_s)
        assert [completion.ticket for completion in completions] == [ticket]
        return completions[0]

    def produced_error(self, sequence: int, partition: TopicPartition | None = None) -> int:
        part = self.answer(self.produce(sequence, partition)).produced[0]
        assert part is not None
        return part.error


def test_a_recreated_topic_is_another_topic() -> None:
    harness = Harness()
    old = harness.partition
    assert harness.produced_error(0) == 0
    harness.cluster.recreate_topic("t")
    assert harness.produced_error(1, old) == UNKNOWN_TOPIC_ID
    assert harness.cluster.log("t", 0).end == 0
    assert harness.partition.topic_id != old.topic_id
    assert harness.produced_error(1) == 0, "without state any sequence is taken"


def test_permissions_are_a_topics_own() -> None:
    harness = Harness()
    harness.cluster.denied = {("t", Access.WRITE), ("u", Access.READ)}
    assert harness.produced_error(0) == DENIED
    fetched = harness.answer(harness.fetch(0)).fetched[0]
    assert fetched is not None
    assert fetched.error == 0
    harness.cluster.denied = {("t", Access.READ)}
    assert harness.produced_error(0) == 0
    fetched = harness.answer(harness.fetch(0)).fetched[0]
    assert fetched is not None
    assert fetched.error == DENIED


def test_settings_reach_the_logs() -> None:
    harness = Harness(**{"compression.type": "gzip"})
    log = harness.cluster.log("t", 0)
    assert harness.produced_error(0) == 0
    assert log.headers()[0].codec == 1
    harness.cluster.alter_topic("t", {"max.message.bytes": "64"})
    assert harness.produced_error(1) == TOO_LARGE
    harness.cluster.alter_topic("t", {"max.message.bytes": "640"})
    assert harness.produced_error(1) == 0


def test_divergence_is_answered_with_epoch_and_end() -> None:
    harness = Harness()
    for sequence in range(3):
        assert harness.produced_error(sequence) == 0
    harness.cluster.log("t", 0).lose_end(1)
    fetched = harness.answer(harness.fetch(3, last_epoch=0)).fetched[0]
    assert fetched is not None
    assert (fetched.error, fetched.diverging_epoch, fetched.diverging_end) == (0, 0, 1)
    assert bytes(fetched.records) == b""


def test_a_node_that_hangs_answers_when_it_wakes() -> None:
    harness = Harness()
    harness.cluster.hang(1)
    ticket = harness.produce(0)
    assert harness.network.poll(1.0) == []
    harness.cluster.wake(1)
    part = harness.answer(ticket).produced[0]
    assert part is not None
    assert (part.error, part.base_offset) == (0, 0)


def test_a_request_that_the_client_gave_up_is_executed_when_the_node_wakes() -> None:
    harness = Harness()
    harness.cluster.hang(1)
    given_up = harness.produce(0)
    assert harness.answer(given_up, within_s=3.0).failure == "west: no answer in time"
    again = harness.produce(0)
    assert harness.cluster.log("t", 0).end == 0
    harness.cluster.wake(1)
    part = harness.answer(again).produced[0]
    assert part is not None
    assert (part.error, part.base_offset) == (0, 0), "the second one is told where the first one went"
    harness.schedule.wait(1.0)
    assert harness.cluster.log("t", 0).end == 1


def test_a_restart_ends_what_a_hanging_node_had_not_read() -> None:
    harness = Harness()
    harness.cluster.hang(1)
    ticket = harness.produce(0)
    harness.schedule.wait(0.1)
    harness.cluster.restart(1)
    assert harness.answer(ticket).failure is not None
    harness.schedule.wait(5.0)
    assert harness.cluster.log("t", 0).end == 0
    assert harness.produced_error(0) == 0


def test_old_batches_are_forgotten_by_the_periodic_check() -> None:
    harness = Harness()
    assert harness.produced_error(0) == 0
    harness.cluster.expire_producers()
    assert harness.produced_error(5) == 45
    harness.schedule.jump(2 * 86_400)
    harness.cluster.expire_producers()
    assert harness.produced_error(5) == 0
