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
        servers = {"bootstrap.servers": broker_pair["west"].bootstrap_servers}
        named = Producer({**servers, "transactional.id": f"loader-of-{flow.topic}"})
        named.init_transactions()
        named.begin_transaction()
        named.produce(flow.target_topic, b"not the mirror's", partition=0)
        named.commit_transaction()
        nameless = Producer(servers)
        for partition in range(1, PARTITIONS):
            nameless.produce(flow.target_topic, b"not the mirror's", partition=partition)
        assert nameless.flush(30) == 0
        yield flow


@pytest.mark.fault(27)
def test_a_foreign_writer_on_an_exclusive_target_stops_the_partitions(foreign_flow: FlowUnderTest) -> None:
    assert foreign_flow.start("--until-caught-up").wait() == 4
    told = foreign_flow.told()
    assert told.count("without a producer id (its producer is not idempotent)") >= PARTITIONS - 1
    assert "a batch of 1 record, of a transaction, of 2" in told
    assert "no flow of this ledger; the target remembers it: transactional id loader-of-foreign-" in told
    assert (
        f"stopped   {foreign_flow.topic} partitions 0-2: foreign_write: at partition 0: target offset 0 "
        in told
    )
    command = f"mirror-ledger accept-foreign flow --topic {foreign_flow.topic}"
    assert [line.strip() for line in told.splitlines() if "mirror-ledger accept-foreign" in line] == [command]
    assert foreign_flow.target_records() == 4, "three records and a marker: nothing was written after them"
    assert foreign_flow.rows("offset_syncs") == 3, "where each partition began, and nothing else"
    stopped = foreign_flow.query("flow_status")
    assert {row["status"] for row in stopped} == {"stopped"}
    assert {row["stop_cause"] for row in stopped} == {"foreign_write"}
