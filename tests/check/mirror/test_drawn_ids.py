"""Producer ids that no cluster gives: applications that write with the numbers that clusters give are no mirror's."""

from collections.abc import Callable

import pytest

from ledger.config.values import FlowConfig, TargetMode
from ledger.facts.identity import DRAWN_IDS
from ledger.kafka.batches import read_header
from tests.simulation.drivers import FlowDrivers
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.partition_log import Appended, PartitionLog
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import Producer, application_batch, content
from tests.support.calm_flows import BACK, FORWARD, CalmFlow, CalmPair, values

UNKNOWN_PRODUCER_ID = 59


def write_as(log: PartitionLog, producer_id: int, schedule: Schedule, *written: str, sequence: int) -> None:
    """An application goes on where its sequences ended at the other cluster."""
    for number, value in enumerate(written):
        now_ms = schedule.now_ms()
        producer = Producer(producer_id, 0, sequence + number)
        log.append(
            application_batch([content(b"k", value.encode())], [now_ms], producer=producer), now_ms=now_ms
        )


def with_given_ids(cluster: MemoryCluster, run: Callable[[], object]) -> None:
    """The run of a flow that writes to the cluster with an id that it gives, as flows did once."""
    cluster.draw_producer_id = cluster.allocate_producer_id  # type: ignore[method-assign]
    run()
    del cluster.draw_producer_id


def ids(pair: CalmPair) -> list[tuple[int, int | None]]:
    """Of each claim of the flow to west its producer id, and the one before."""
    claims = [
        row for row in pair.ledger.rows("writers") if row["event"] == "claimed" and row["flow"] == FORWARD
    ]
    return [(row["producer_id"], row["former_producer_id"]) for row in claims]


def test_who_goes_on_at_the_promoted_cluster_with_the_number_that_a_flow_had_is_copied_home() -> None:
    pair = CalmPair()
    pair.write("east", "e0", "e1")
    with_given_ids(pair.clusters["west"], lambda: pair.run(FORWARD))
    [(old, _)] = ids(pair)
    cut = pair.promote()
    write_as(pair.log("west"), old, pair.schedule, "w2", "w3", sequence=2)
    assert pair.run(BACK, from_cut=cut) is None
    assert pair.values("east") == ["e0", "e1", "w2", "w3"]
    assert pair.broken_invariants() == {}


def test_the_number_that_the_target_gave_at_a_claim_is_an_applications() -> None:
    pair = CalmPair()
    pair.write("east", "e0", "e1")
    assert pair.run(FORWARD) is None
    [given] = [
        row["allocated_producer_id"] for row in pair.ledger.rows("writers") if row["event"] == "claimed"
    ]
    cut = pair.promote()
    write_as(pair.log("west"), given, pair.schedule, "w2", sequence=2)
    assert pair.run(BACK, from_cut=cut) is None
    assert pair.values("east") == ["e0", "e1", "w2"]


def test_between_two_clusters_that_are_both_written_to_the_former_number_of_a_flow_is_an_applications() -> (
    None
):
    flow = CalmFlow(mode=TargetMode.SHARED)
    forth, log = flow._drivers, flow.target
    back = FlowDrivers(forth._world, replaced(forth.flow))
    flow.write("e0", "e1")
    with_given_ids(flow.west, flow.catch_up)
    [old] = {row["producer_id"] for row in flow.ledger.rows("writers")}
    flow.write("e2")
    flow.catch_up()
    write_as(log(), old, flow.schedule, "w3", "w4", sequence=2)
    for drivers in (back, forth, back):
        driver = drivers.start(until_caught_up=True)
        flow.schedule.wait(60.0, lambda driver=driver: driver.actor.done)  # type: ignore[misc]
        drivers.bury_the_dead()
        assert driver.actor.error is None
    assert values(flow.source()) == values(log()) == ["e0", "e1", "e2", "w3", "w4"]
    assert flow.broken_invariants() == {}


def replaced(flow: FlowConfig) -> FlowConfig:
    """The same from west to east."""
    return flow.model_copy(update={"name": "g", "source": "west", "target": "east"})


def test_a_target_that_takes_no_drawn_id_is_written_to_with_one_that_it_gave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    takes = PartitionLog.produce

    def refusing(log: PartitionLog, batch: bytes, *, now_ms: int) -> Appended:
        is_drawn = read_header(memoryview(batch)).producer_id in DRAWN_IDS
        return Appended(UNKNOWN_PRODUCER_ID, -1) if is_drawn else takes(log, batch, now_ms=now_ms)

    monkeypatch.setattr(PartitionLog, "produce", refusing)
    pair = CalmPair()
    pair.write("east", "e0", "e1")
    assert pair.run(FORWARD) is None
    pair.write("east", "e2")
    assert pair.run(FORWARD) is None
    assert pair.values("west") == ["e0", "e1", "e2"]
    (drawn, _), (given, former), again = ids(pair)
    assert (former, given < 2**52 <= drawn, again) == (drawn, True, (given, None))
    assert {header.producer_id for header in pair.log("west").headers()} == {given}
    assert pair.stop(FORWARD) is None
    assert pair.broken_invariants() == {}
