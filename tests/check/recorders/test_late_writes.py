"""What a recorder says of records that are written behind a fence."""

import json
from dataclasses import dataclass, field

import pytest

from ledger.errors import PreconditionError
from ledger.facts.fences import Evidence, Fence, FencedPartition, FenceHow, Proof, Unfenced
from ledger.facts.syncs import TopicPartition
from ledger.kafka.batches import BatchHeader
from ledger.kafka.cluster import PartitionEnds
from ledger.store.session import OperatorOperations
from tests.support.fakes import FakeClock, FakeCluster, FakeLedger, recorder_of
from tests.support.fenced_clusters import batch
from tests.support.ledgers import claim_of


@dataclass
class FencedTopic(FakeCluster):
    """Partition 1 of `orders` is fenced at offset 5."""

    log: dict[int, BatchHeader] = field(default_factory=dict)
    read_from: list[int] = field(default_factory=list)
    is_denied: bool = False

    def batches_at(self, partition: TopicPartition, offset: int) -> list[BatchHeader]:
        assert partition == TopicPartition("orders", "id-1", 1)
        self.read_from.append(offset)
        if self.is_denied:
            raise PreconditionError("no READ on orders")
        return [header for at, header in sorted(self.log.items()) if at >= offset][:2]

    def write(self, *, is_control: bool = False, producer_id: int = 7) -> None:
        end = self.ends_now["orders", 1].high_watermark
        self.log[end] = batch(end, is_control=is_control, producer_id=producer_id)
        self.ends_now["orders", 1] = PartitionEnds(0, end + 1, end + 1, 0)


@pytest.fixture
def cluster() -> FencedTopic:
    cluster = FencedTopic()
    cluster.add_topic("orders", "id-1", partitions=2)
    cluster.ends_now = {("orders", partition): PartitionEnds(0, 5, 5, 0) for partition in (0, 1)}
    return cluster


def fence(ledger: FakeLedger, end: int = 5, topic_id: str = "id-1", cluster: str = "east") -> None:
    at = FencedPartition(
        partition=1,
        end=end,
        last_stable=end,
        quiet_ms=10,
        is_telling=True,
        proof=Proof.PROVEN,
        evidence=Evidence.RULES,
        leader_epoch=0,
    )
    content = Fence(
        cluster=cluster,
        cluster_id="cluster-id",
        topic="orders",
        topic_id=topic_id,
        how=FenceHow.CLOSED,
        proof=Proof.PROVEN,
        partitions=(at,),
    )
    OperatorOperations(ledger, operator="anna").record(content, flow=None, reason="a fire")


def lift(ledger: FakeLedger) -> None:
    content = Unfenced(
        cluster="east", cluster_id="cluster-id", topic="orders", topic_id="id-1", how=FenceHow.CLOSED
    )
    OperatorOperations(ledger, operator="anna").record(content, flow=None, reason="over")


def events(ledger: FakeLedger) -> list[tuple[str, str]]:
    """Kinds of what recorders said, and where."""
    said = [row for row in ledger.rows("operations") if row["writer"] == "recorder:east"]
    contents = [json.loads(row["content"]) for row in said]
    places = [f"{one['finding']} {one['topic']} {one['partition']}" for one in contents]
    return [(row["kind"], place) for row, place in zip(said, places, strict=True)]


RAISED, CLEARED = ("finding_raised", "late_write orders 1"), ("finding_cleared", "late_write orders 1")


def test_a_record_is_raised_once_markers_never_and_it_is_over_with_the_fence(
    cluster: FencedTopic, ledger: FakeLedger
) -> None:
    fence(ledger)
    recorder = recorder_of(cluster, ledger)
    recorder.take_role()
    cluster.write(is_control=True)
    for _ in range(2):
        recorder.record_once()
    assert (events(ledger), cluster.read_from) == ([], [5]), "what was read is not read again"
    cluster.write()
    for _ in range(2):
        recorder.record_once()
    assert events(ledger) == [RAISED]
    said = json.loads(ledger.rows("operations")[-1]["content"])
    assert said["message"] == (
        "orders partition 1 of east: a record was written by producer 7 at offset 6, behind its fence at 5"
    )
    assert said["cluster"] == "east"
    lift(ledger)
    recorder.record_once()
    assert events(ledger) == [RAISED, CLEARED]


def test_the_next_recorder_does_not_repeat_it_and_a_new_proof_ends_it(
    cluster: FencedTopic, ledger: FakeLedger
) -> None:
    fence(ledger)
    first, second = recorder_of(cluster, ledger), recorder_of(cluster, ledger)
    first.take_role()
    cluster.write()
    first.record_once()
    first.release()
    second.take_role()
    second.record_once()
    assert events(ledger) == [RAISED]
    fence(ledger, end=6)
    second.record_once()
    assert events(ledger) == [RAISED, CLEARED]
    cluster.write()
    second.record_once()
    assert events(ledger) == [RAISED, CLEARED, RAISED]


def test_what_retention_removed_or_cannot_be_read_now_stays_raised(
    cluster: FencedTopic, ledger: FakeLedger
) -> None:
    fence(ledger)
    recorder = recorder_of(cluster, ledger)
    recorder.take_role()
    cluster.write()
    recorder.record_once()
    cluster.ends_now["orders", 1] = PartitionEnds(6, 6, 6, 0)
    recorder.record_once()
    del cluster.ends_now["orders", 1]
    recorder.record_once()
    assert events(ledger) == [RAISED]


def test_what_cannot_be_read_is_not_taken_for_markers(cluster: FencedTopic, ledger: FakeLedger) -> None:
    fence(ledger)
    recorder = recorder_of(cluster, ledger)
    recorder.take_role()
    cluster.write(is_control=True)
    cluster.is_denied = True
    recorder.record_once()
    assert events(ledger) == [RAISED]
    assert "cannot be read: no READ on orders" in ledger.rows("operations")[-1]["content"]
    cluster.is_denied = False
    recorder.record_once()
    assert events(ledger) == [RAISED, CLEARED]


@pytest.mark.parametrize("other", [{"topic_id": "id-0"}, {"cluster": "west"}])
def test_another_topic_or_cluster_is_not_fenced(
    cluster: FencedTopic, ledger: FakeLedger, other: dict[str, str]
) -> None:
    fence(ledger, **other)  # type: ignore[arg-type]
    recorder = recorder_of(cluster, ledger)
    recorder.take_role()
    cluster.write()
    recorder.record_once()
    assert (events(ledger), cluster.read_from) == ([], [])


def test_what_a_mirror_writes_is_not_late(cluster: FencedTopic, ledger: FakeLedger, clock: FakeClock) -> None:
    assert clock.now_s
    fence(ledger)
    sides = {"source_cluster": "west", "target_cluster": "east", "target_cluster_id": "cluster-id"}
    claim = {**claim_of("west-to-east"), **sides, "source_cluster_id": "W", "producer_id": 42}
    ledger.claim("flow:west-to-east", ["offset_syncs"], claim)
    recorder = recorder_of(cluster, ledger)
    recorder.take_role()
    cluster.write(producer_id=42)
    recorder.record_once()
    assert events(ledger) == []
