"""The verdict of the demonstration: whatever is not exact is found."""

from collections import Counter
from dataclasses import replace

import pytest

from ledger.sandbox.demo import Difference, Failover, Records, difference, problems
from ledger.sandbox.reading import Record
from ledger.sandbox.resumption import Resumption

EXACT = Difference(lost=2, surplus=0, missing=0)
REPORTED = Failover(records_lost=2, audits=(), figures={})
RESUMED = Resumption(
    group_id="billing",
    partition=("orders", 0),
    read_at_source=3,
    expected=2,
    read_on_target=2,
    skipped=0,
    repeated=0,
    is_in_order=True,
)


def records(serials: str) -> Records:
    return Counter(("orders", Record(None, serial.encode(), (), 0)) for serial in serials)


@pytest.mark.parametrize(
    ("at_source", "at_target", "new", "found"),
    [
        ("abcd", "abxy", "xy", EXACT),
        ("ab", "ab", "", Difference(lost=0, surplus=0, missing=0)),
        ("ab", "abb", "", Difference(lost=0, surplus=1, missing=0)),
        ("ab", "abz", "", Difference(lost=0, surplus=1, missing=0)),
        ("ab", "abx", "xy", Difference(lost=0, surplus=0, missing=1)),
        ("ab", "abxx", "x", Difference(lost=0, surplus=1, missing=0)),
    ],
)
def test_both_logs_are_compared_record_for_record(
    at_source: str, at_target: str, new: str, found: Difference
) -> None:
    assert difference(records(at_source), records(at_target), records(new)) == found


def test_nothing_is_said_of_what_is_exact() -> None:
    assert problems(REPORTED, [RESUMED], EXACT) == []


@pytest.mark.parametrize("reported", [None, 1, 3])
def test_a_loss_that_was_reported_otherwise_is_a_problem(reported: int | None) -> None:
    [words] = problems(replace(REPORTED, records_lost=reported), [RESUMED], EXACT)
    assert words == f"{reported} records were reported lost, 2 are"


@pytest.mark.parametrize(
    ("resumed", "found"),
    [
        (replace(RESUMED, skipped=1), EXACT),
        (replace(RESUMED, repeated=1), EXACT),
        (replace(RESUMED, is_in_order=False), EXACT),
        (RESUMED, replace(EXACT, surplus=1)),
        (RESUMED, replace(EXACT, missing=1)),
    ],
)
def test_whatever_else_is_not_exact_is_a_problem(resumed: Resumption, found: Difference) -> None:
    assert len(problems(REPORTED, [resumed], found)) == 1
