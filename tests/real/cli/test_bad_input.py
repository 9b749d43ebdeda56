"""What a driver process says, and how it ends, when it may not copy what it was told to."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ledger.sandbox import SandboxCluster
from tests.support.flows import PARTITIONS, FlowUnderTest, flow_under_test, produce


@pytest.fixture
def foreign_flow(broker_pair: Mapping[str, SandboxCluster], tmp_path: Path) -> Iterator[FlowUnderTest]:
    """A flow with records to copy, whose target topic somebody else has written to."""
    with flow_under_test(broker_pair, tmp_path, "foreign") as flow:
        produce(flow, 300)
        flow.admin("west").create_topic(
            flow.target_topic, partitions=PARTITIONS, replication_factor=1, configuration={}
        )
        producer = Producer({"bootstrap.servers": broker_pair["west"].bootstrap_servers})
        for partition in range(PARTITIONS):
            producer.produce(flow.target_topic, b"not the mirror's", partition=partition)
        assert producer.flush(30) == 0
        yield flow


@pytest.mark.fault(27)
def test_a_foreign_writer_on_an_exclusive_target_stops_the_partitions(foreign_flow: FlowUnderTest) -> None:
    assert foreign_flow.start("--until-caught-up").wait() == 4
    assert "was written by producer id" in foreign_flow.told()
    assert foreign_flow.target_records() == 3, "nothing was written after the foreign records"
    assert foreign_flow.rows("offset_syncs") == 3, "where each partition began, and nothing else"
    stopped = foreign_flow.query("flow_status")
    assert {row["status"] for row in stopped} == {"stopped"}
    assert {row["stop_cause"] for row in stopped} == {"foreign_write"}
