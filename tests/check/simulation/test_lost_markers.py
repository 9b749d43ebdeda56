"""A source that loses markers of transactions with its end: what ends otherwise afterwards, and what that comes to."""

import pytest

from ledger.config.values import Policy
from ledger.facts.requests import RequestKind
from ledger.kafka.batches import TRANSACTIONAL
from tests.simulation.kafka.stored_batches import Producer, application_batch, content
from tests.support.calm_flows import CalmFlow, values

FIRST, SECOND = 501, 502


class Transactional(CalmFlow):
    """Whoever writes in transactions."""

    def in_transaction(self, producer_id: int, *values: str) -> None:
        log, now_ms = self.source(), self.schedule.now_ms()
        contents = [content(b"k", value.encode()) for value in values]
        batch = application_batch(
            contents,
            [now_ms] * len(values),
            attributes=TRANSACTIONAL,
            producer=Producer(producer_id, 0, log.expected_sequence(producer_id) or 0),
        )
        log.append(batch, now_ms=now_ms)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        self.source().end_transaction(producer_id, 0, commit=commit, now_ms=self.schedule.now_ms())


def lost(*, commit: bool, on_source_truncated: Policy = Policy.CONTINUE) -> Transactional:
    """Copied or left out: a, b and c of a transaction, d of another one, e, the end of that, f, the end of the first.

    The source then loses the last marker, at offset 7.
    """
    flow = Transactional(on_source_truncated=on_source_truncated)
    flow.write("a")
    flow.in_transaction(FIRST, "b", "c")
    flow.in_transaction(SECOND, "d")
    flow.write("e")
    flow.end_transaction(SECOND, commit=True)
    flow.write("f")
    flow.end_transaction(FIRST, commit=commit)
    flow.run()
    flow.source().lose_end(7)
    return flow


ALL = ["a", "b", "c", "d", "e", "f"]
OTHERS = ["a", "d", "e", "f"]


@pytest.mark.fault(10)
@pytest.mark.parametrize("commit", [True, False])
def test_what_ends_as_it_was_copied_is_copied_no_second_time(commit: bool) -> None:
    flow = lost(commit=commit)
    flow.run()
    assert flow.findings() == {"transactions_open_again"}
    flow.end_transaction(FIRST, commit=commit)
    flow.write("g")
    flow.run()
    assert values(flow.target()) == [*(ALL if commit else OTHERS), "g"]
    assert "marker_lost" not in [cause for _, cause, *_ in flow.syncs()]
    assert flow.findings() == set()
    assert flow.broken_invariants() == {}


@pytest.mark.fault(10)
@pytest.mark.parametrize("is_seen_open", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_what_ends_otherwise_is_copied_again_from_its_first_record_on(
    commit: bool, is_seen_open: bool
) -> None:
    flow = lost(commit=commit)
    if is_seen_open:
        flow.run()
    flow.write("g")
    flow.end_transaction(FIRST, commit=not commit)
    flow.run()
    copied, again = (ALL, OTHERS) if commit else (OTHERS, ALL)
    assert values(flow.target()) == [*copied, *again[1:], "g"]
    assert ("superseded", "marker_lost", 1) in [row[:3] for row in flow.syncs()]
    assert flow.findings() == set()
    assert flow.stops() == {}
    assert flow.broken_invariants() == {}


@pytest.mark.fault(10)
def test_nothing_behind_is_copied_while_the_outcome_is_open() -> None:
    flow = lost(commit=True)
    flow.write("g")
    flow.run()
    assert values(flow.target()) == ALL
    assert flow.findings() == {"transactions_open_again"}
    assert flow.stops() == {}


@pytest.mark.fault(10)
def test_a_flow_that_stops_for_a_truncation_stops_for_what_ended_otherwise_too() -> None:
    flow = lost(commit=True, on_source_truncated=Policy.STOP)
    flow.run()
    assert flow.stops() == {"orders": "source_truncated"}
    flow.end_transaction(FIRST, commit=False)
    flow.write("g")
    for copied in (ALL, [*ALL, *OTHERS[1:], "g"]):
        flow.ask(RequestKind.RESUME, offset=None)
        flow.run()
        assert values(flow.target()) == copied
    assert flow.stops() == {}
    assert flow.broken_invariants() == {}


@pytest.mark.fault(10)
def test_an_end_without_markers_leaves_no_outcome_open() -> None:
    flow = Transactional(on_source_truncated=Policy.CONTINUE)
    flow.write("a", "b", "c")
    flow.run()
    flow.in_transaction(FIRST, "open")
    flow.source().lose_end(2)
    flow.in_transaction(SECOND, "open")
    flow.run()
    assert flow.findings() == set()
    flow.end_transaction(SECOND, commit=True)
    flow.run()
    assert values(flow.target()) == ["a", "b", "c", "open"]


@pytest.mark.fault(10)
def test_a_source_that_loses_more_while_an_outcome_is_open_is_asked_from_there_on() -> None:
    flow = lost(commit=True)
    driver = flow.start()
    flow.schedule.wait(5.0)
    flow.source().lose_end(3)
    flow.schedule.wait(5.0, lambda: flow.syncs()[-1][2] == 3)
    flow.end(driver)
    assert [row[:3] for row in flow.syncs() if row[0] == "superseded"] == [
        ("superseded", "source_truncated", 7),
        ("superseded", "source_truncated", 3),
    ]
    flow.end_transaction(FIRST, commit=False)
    flow.write("g")
    flow.run()
    assert values(flow.target()) == [*ALL, "g"]
    assert ("superseded", "marker_lost", 1) in [row[:3] for row in flow.syncs()]
    assert flow.findings() == set()
    assert flow.broken_invariants() == {}
