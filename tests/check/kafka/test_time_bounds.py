"""The bounds of record times of brokers before 3.6, as everybody else sees them."""

import pytest

from ledger.kafka.time_bounds import in_one_bound, in_two_bounds, is_of_one_bound

BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
BOTH_WAYS = "message.timestamp.difference.max.ms"


@pytest.mark.parametrize(
    ("settings", "among", "read"),
    [
        ({BOTH_WAYS: "5", "a": "1"}, [BOTH_WAYS, "a"], {BEFORE: "5", AFTER: "5", "a": "1"}),
        ({"a": "1"}, [BOTH_WAYS, "a"], {"a": "1"}),
        ({BOTH_WAYS: "5"}, [BOTH_WAYS, BEFORE, AFTER], {BOTH_WAYS: "5"}),
        ({BEFORE: "5"}, [BEFORE, AFTER], {BEFORE: "5"}),
    ],
    ids=["set", "not_set", "all_three_known", "two_known"],
)
def test_one_bound_is_read_as_both(settings: dict[str, str], among: list[str], read: dict[str, str]) -> None:
    assert in_two_bounds(settings, among=among) == read


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        ({BEFORE: "5", AFTER: "5", "a": "1"}, {BOTH_WAYS: "5", "a": "1"}),
        ({BEFORE: "9", AFTER: "10"}, {BOTH_WAYS: "9"}),
        ({BEFORE: "9"}, {BOTH_WAYS: "9"}),
        ({BEFORE: None, AFTER: None}, {BOTH_WAYS: None}),
        ({BEFORE: None, AFTER: "10"}, {BOTH_WAYS: "10"}),
        ({"a": None}, {"a": None}),
    ],
    ids=["equal", "narrower", "one", "removed", "one_removed", "none"],
)
def test_both_bounds_are_written_as_one(
    settings: dict[str, str | None], written: dict[str, str | None]
) -> None:
    assert in_one_bound(settings) == written


@pytest.mark.parametrize(
    ("names", "one"),
    [([BOTH_WAYS, "a"], True), ([BOTH_WAYS, BEFORE, AFTER], False), ([BEFORE], False), ([], False)],
    ids=["before_3.6", "before_4.0", "now", "nothing_shown"],
)
def test_a_broker_of_one_bound_is_known_by_what_it_shows(names: list[str], one: bool) -> None:
    assert is_of_one_bound(names) is one
