"""What a recorder says of its cluster while that does not answer."""

import json

import pytest

from ledger.errors import ClusterUnavailableError, ShutOutError
from ledger.facts.operations import FindingKey
from ledger.kafka.cluster import TopicDescription
from ledger.store.session import RECORDER_TABLES
from tests.support.fakes import FakeClock, FakeCluster, FakeLedger, recorder_of
from tests.support.ledger_rows import claim_row

AWAY = ClusterUnavailableError("cluster east could not be reached: refused")


class AwayAtTimes(FakeCluster):
    is_away = False

    def topics(self) -> dict[str, TopicDescription]:
        if self.is_away:
            raise AWAY
        return super().topics()


@pytest.fixture
def at_times() -> AwayAtTimes:
    return AwayAtTimes()


def outage_events(ledger: FakeLedger) -> list[tuple[str, int, object, object]]:
    """Kind, round, flow and content of what was said about the cluster."""
    return [
        (row["kind"], row["round"], row["flow"], json.loads(row["content"]))
        for row in ledger.rows("operations")
    ]


def test_a_cluster_that_does_not_answer_is_recorded_until_it_does(
    at_times: AwayAtTimes, ledger: FakeLedger, clock: FakeClock
) -> None:
    recorder = recorder_of(at_times, ledger)
    recorder.take_role()
    at_times.is_away, began_ms = True, clock.now_ms()
    for expected in (0, 1, 1):
        with pytest.raises(ClusterUnavailableError):
            recorder.record_once()
        assert len(outage_events(ledger)) == expected
        clock.now_s += 1
    at_times.is_away = False
    recorder.record_once()
    recorder.record_once()
    raised, cleared = outage_events(ledger)
    assert raised[:3] == ("finding_raised", 1, None)
    content = raised[3]
    assert isinstance(content, dict)
    assert content["message"] == f"east does not answer: {AWAY}"
    assert (content["cluster"], content["since_ms"]) == ("east", began_ms)
    key = {"finding": "cluster_unreachable", "topic": None, "partition": None}
    assert cleared == ("finding_cleared", 2, None, key)
    assert recorder.holds_role


def test_a_later_epoch_clears_what_an_earlier_one_left(at_times: AwayAtTimes, clock: FakeClock) -> None:
    class Left(FakeLedger):
        def findings_of(self, writer: str) -> frozenset[FindingKey]:
            assert writer == "recorder:east"
            return frozenset({("cluster_unreachable", None, None)})

    ledger = Left(clock)
    recorder = recorder_of(at_times, ledger)
    recorder.take_role()
    assert outage_events(ledger) == []
    recorder.record_once()
    assert [event[0] for event in outage_events(ledger)] == ["finding_cleared"]


def test_a_recorder_that_was_shut_out_says_nothing_of_outages(
    at_times: AwayAtTimes, ledger: FakeLedger
) -> None:
    recorder = recorder_of(at_times, ledger)
    recorder.take_role()
    ledger.claim(recorder.writer, RECORDER_TABLES, claim_row("another-host:1:1"))
    at_times.is_away = True
    with pytest.raises(ClusterUnavailableError):
        recorder.record_once()
    with pytest.raises(ShutOutError):
        recorder.record_once()
    assert not recorder.holds_role
