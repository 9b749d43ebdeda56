"""What drivers and commands read of the latest ledger: rows by filters, requests, claims, configurations."""

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from ledger.answers.status import receipts_of
from ledger.config.values import FlowConfig
from ledger.errors import ShutOutError
from ledger.facts.operations import PartitionResumed, PartitionStopped, RecordedStop
from ledger.facts.requests import Acceptance, Receipt, RequestKind
from ledger.mirror.assignment import StopCause
from ledger.mirror.progress import config_hash, configuration_of, record_change
from ledger.store import state as state_module
from ledger.store.delta_tables import table_uri
from ledger.store.log import DeltaFactLog
from ledger.store.snapshots import open_ledger
from ledger.store.sql import run_query
from ledger.store.state import DeltaLedgerState
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import copied_to
from tests.support.ledgers import claimed
from tests.support.operated import FLOW, LaterClock, WrittenLedger


@pytest.fixture
def flow(tmp_path: Path, empty_ledger: Path) -> WrittenLedger:
    return WrittenLedger(copied_to(tmp_path, empty_ledger), LaterClock())


def state(flow: WrittenLedger) -> DeltaLedgerState:
    return DeltaLedgerState(open_ledger(flow.path))


def test_requests_and_receipts_of_one_flow(flow: WrittenLedger) -> None:
    first = flow.operation("pause", {"topic": "orders"})
    flow.operation("pause", {"topic": "orders"}, flow="another")
    flow.operation("stop")
    flow.receipt(first, "pause", "done", "paused")
    last = flow.operation("skip_to", {"topic": "orders", "partition": 1, "offset": 9})
    found = state(flow).requests(FLOW)
    assert [(request.operation_id, request.kind) for request in found.asked] == [
        (first, RequestKind.PAUSE),
        (last, RequestKind.SKIP_TO),
    ]
    assert [request.operation_id for request in found.waiting] == [last]


def receipt(acceptance: Acceptance) -> Receipt:
    return Receipt(
        request="r",
        request_kind="accept_foreign",
        result="done",
        message="as told",
        accepted=(acceptance,),
    )


def test_the_last_acceptance_of_a_partition_counts(flow: WrittenLedger) -> None:
    for below in (50, 40):
        flow.operation("receipt", receipt(Acceptance("s", 1, "t", 30, below)).content())
    flow.operation("receipt", receipt(Acceptance("s", 1, "t", 9, 9)).content(), flow="another")
    flow.receipt("later", "resume", "done", "goes on")
    assert state(flow).acceptances(FLOW) == {("s", 1): Acceptance("s", 1, "t", 30, 40)}


def test_all_rows_of_a_partition_come_back_whatever_topic_id_it_had(flow: WrittenLedger) -> None:
    flow.copied({("orders", 0): 10, ("orders", 1): 20, ("others", 0): 30})
    _started, found = state(flow).recorded_syncs(FLOW, "orders", 0)
    assert found.sync.source_end == 10
    assert state(flow).recorded_syncs("another", "orders", 0) == []


def test_a_stop_is_meant_for_drivers_that_did_not_know_of_it_when_they_began(flow: WrittenLedger) -> None:
    began = state(flow).requests(FLOW).last_stop
    flow.operation("stop")
    found = state(flow).requests(FLOW)
    assert found.asks_to_stop(since=began)
    assert not found.asks_to_stop(since=found.last_stop)
    assert found.waiting == ()
    assert not state(flow).requests("another").asks_to_stop(since=began)
    flow.operation("stop")
    assert state(flow).requests(FLOW).asks_to_stop(since=found.last_stop)


def test_a_driver_and_who_stops_it_have_places_in_one_order(flow: WrittenLedger) -> None:
    assert state(flow).driver_began_at(FLOW, "a:1:1") is None
    flow.operation("driver_starting", {"host": "a:1:1", "until_caught_up": False})
    flow.operation("stop")
    flow.operation("driver_starting", {"host": "b:2:2", "until_caught_up": False})
    flow.operation("driver_starting", {"host": "a:1:1", "until_caught_up": False}, flow="another")
    requests, began_at = state(flow).requests(FLOW), state(flow).driver_began_at
    former, later = began_at(FLOW, "a:1:1"), began_at(FLOW, "b:2:2")
    assert former is not None
    assert later is not None
    assert requests.asks_to_stop(since=former)
    assert not requests.asks_to_stop(since=later)


def test_the_last_claim_of_a_writer(flow: WrittenLedger) -> None:
    assert state(flow).last_claim(f"flow:{FLOW}") is None
    flow.writer("claimed", "a:1:1", at_ms=1_000)
    flow.writer("released", "a:1:1", round_number=5, at_ms=2_000)
    flow.writer("claimed", "b:2:2", epoch=2, at_ms=3_000)
    flow.writer("alive", "b:2:2", epoch=2, round_number=1, at_ms=4_000)
    flow.copied({("orders", 0): 10}, at_ms=5_000)
    found = state(flow).last_claim(f"flow:{FLOW}")
    assert found is not None
    assert (found.epoch, found.host, found.released) == (2, "b:2:2", False)
    assert (found.claimed_at_ms, found.last_recorded_at_ms) == (3_000, 5_000)


def test_a_configuration_is_found_by_its_hash(flow: WrittenLedger) -> None:
    config = FlowConfig(name=FLOW, source="east", target="west", topics=(".*",))
    log = claimed(DeltaFactLog(flow.path, FakeClock()), FLOW)
    record_change(config, log, last_hash=None, last_configuration=None)
    assert state(flow).configuration(FLOW, config_hash(config)) == configuration_of(config)
    assert state(flow).configuration(FLOW, "another") is None
    assert state(flow).configuration("another", config_hash(config)) is None


STOPPED = PartitionStopped(topic="orders", topic_id="T", partition=0, cause="lost", message="m")
RESUMED = PartitionResumed(topic="orders", topic_id="T", partition=0)


def test_events_are_ordered_by_their_stamps_whatever_the_clocks_say(flow: WrittenLedger) -> None:
    """Drivers on hosts whose clocks are a minute apart, one after the other, and a later one of an earlier time."""
    ahead, behind = FakeClock(), FakeClock()
    ahead.now_s += 60
    claimed(DeltaFactLog(flow.path, ahead), FLOW).record(RESUMED, flow=FLOW, reason=None)
    later = claimed(DeltaFactLog(flow.path, behind), FLOW)
    later.record(STOPPED, flow=FLOW, reason=None)
    assert state(flow).stopped_partitions(FLOW) == {("T", 0): RecordedStop("lost", "m")}
    behind.now_s -= 3600
    later.record(RESUMED, flow=FLOW, reason=None)
    assert state(flow).stopped_partitions(FLOW) == {}


def test_what_a_driver_does_after_another_has_claimed_is_refused(flow: WrittenLedger) -> None:
    earlier = claimed(DeltaFactLog(flow.path, FakeClock()), FLOW)
    claimed(DeltaFactLog(flow.path, FakeClock()), FLOW)
    with pytest.raises(ShutOutError):
        earlier.record(receipt(Acceptance("s", 1, "t", 1, 1)), flow=FLOW, reason=None)
    assert flow.operations() == []


def test_what_only_a_later_program_knows_is_passed_over(flow: WrittenLedger) -> None:
    asked = flow.operation("pause", {"topic": "orders"})
    flow.operation("kind_of_tomorrow", {"topic": ["not", "a", "name"]})
    flow.receipt("r", "request_of_tomorrow", "done", "m")
    flow.operation(
        "finding_raised",
        {"finding": "of_tomorrow", "topic": None, "partition": None, "message": "m", "next": None},
    )
    flow.stopped("orders", 0, "cause_of_tomorrow", topic_id="T")
    known = state(flow)
    assert [request.operation_id for request in known.requests(FLOW).waiting] == [asked]
    assert known.acceptances(FLOW) == {}
    assert known.open_findings(FLOW) == {("of_tomorrow", None, None)}
    [stop] = known.stopped_partitions(FLOW).values()
    assert StopCause.of(stop.cause) is StopCause.UNKNOWN
    rows = open_ledger(flow.path).now().rows("operations", [])
    assert [receipt.request_kind for receipt in receipts_of(rows)] == ["request_of_tomorrow"]


def test_a_state_that_has_looked_before_sees_what_was_appended_and_merged_since(flow: WrittenLedger) -> None:
    kept = state(flow)
    assert kept.requests(FLOW).asked == ()
    asked = []
    for number in range(4):
        asked.append(flow.operation("pause", {"topic": f"t{number}"}))
        assert [request.operation_id for request in kept.requests(FLOW).asked] == asked
        if number == 1:
            DeltaTable(table_uri(flow.path, "operations")).optimize.compact()
            assert [request.operation_id for request in kept.requests(FLOW).asked] == asked
    assert kept.requests("another").asked == ()
    assert kept.requests(FLOW) == state(flow).requests(FLOW)


def test_where_a_flow_is_at_is_computed_once_for_each_version(
    flow: WrittenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def answering(*given: Any) -> Any:
        asked.append(given)
        return run_query(*given)

    monkeypatch.setattr(state_module, "run_query", answering)
    flow.copied({("orders", 0): 5})
    newest = state(flow)
    for _ in range(2):
        assert [one.position.source_offset for one in newest.positions(FLOW)] == [5]
    assert len(asked) == 1
    flow.copied({("orders", 1): 7})
    for _ in range(2):
        assert sorted(one.position.source_offset for one in newest.positions(FLOW)) == [5, 7]
    assert len(asked) == 2
