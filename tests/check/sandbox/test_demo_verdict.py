"""The verdict of the demonstration and of its failover: whatever is not exact is found."""

from collections import Counter
from dataclasses import replace

import pytest

from ledger.sandbox.demo import Difference, Records, difference, problems
from ledger.sandbox.reading import PlacedRecord, Record
from ledger.sandbox.resumption import Resumption, compare

# -- The demonstration -----------------------------------------------------------------------------

EXACT = Difference(lost=2, surplus=0, missing=0)
REPORTED = 2
HOME = Difference(lost=0, surplus=0, missing=0)
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
    assert problems(REPORTED, [RESUMED], EXACT, HOME) == []


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (Difference(lost=3, surplus=0, missing=0), "3 records that were written on west did not come back"),
        (
            Difference(lost=0, surplus=1, missing=0),
            "1 records came back that applications had not written on west",
        ),
    ],
)
def test_what_does_not_come_back_once_is_a_problem(returned: Difference, words: str) -> None:
    assert problems(REPORTED, [RESUMED], EXACT, returned) == [words]


@pytest.mark.parametrize("reported", [None, 1, 3])
def test_a_loss_that_was_reported_otherwise_is_a_problem(reported: int | None) -> None:
    [words] = problems(reported, [RESUMED], EXACT, HOME)
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
    assert len(problems(REPORTED, [resumed], found, HOME)) == 1


# -- The failover ----------------------------------------------------------------------------------

AT = ("orders", 0)


def placed(*serials: int) -> list[PlacedRecord]:
    return [PlacedRecord(serial, Record(None, b"%d" % serial, (), serial), 1) for serial in serials]


@pytest.mark.parametrize(
    ("survivors", "read", "resumed", "skipped", "repeated", "in_order"),
    [
        ((0, 1, 2, 3), (0, 1), (2, 3), 0, 0, True),
        ((0, 1, 2, 3), (), (0, 1, 2, 3), 0, 0, True),
        ((0, 1, 2, 3), (0, 1, 2, 3), (), 0, 0, True),
        ((1, 3), (0, 1), (3,), 0, 0, True),  # compaction took 0 and 2 meanwhile
        ((0, 1, 2, 3), (0, 1), (3,), 1, 0, True),
        ((0, 1, 2, 3), (0, 1), (1, 2, 3), 0, 1, True),
        ((0, 1, 2, 3), (0, 1), (2, 2, 3), 0, 1, True),
        ((0, 1, 2, 3), (0, 1), (3, 2), 0, 0, False),
        ((0, 1, 2, 3), (0, 1), (2, 9), 1, 1, True),
        ((0, 1, 2, 3), (0, 1), (), 2, 0, True),
    ],
)
def test_differences_are_counted(
    survivors: tuple[int, ...],
    read: tuple[int, ...],
    resumed: tuple[int, ...],
    skipped: int,
    repeated: int,
    in_order: bool,
) -> None:
    (found,) = compare("g", {AT: placed(*survivors)}, {AT: placed(*read)}, {AT: placed(*resumed)})
    assert (found.skipped, found.repeated, found.is_in_order) == (skipped, repeated, in_order)
    assert found.is_exact == (skipped == 0 and repeated == 0 and in_order)


def test_a_partition_that_was_not_resumed_is_skipped() -> None:
    (found,) = compare("g", {AT: placed(0, 1)}, {AT: placed(0)}, {})
    assert (found.expected, found.read_on_target, found.skipped) == (1, 0, 1)


def test_the_message_has_the_numbers() -> None:
    (found,) = compare("g", {AT: placed(0, 1, 2)}, {AT: placed(0)}, {AT: placed(2, 1, 1)})
    assert str(found) == (
        "g on orders partition 0: 2 records were unread, 3 were read on the target, 0 skipped, 1 repeated, out of order"
    )
