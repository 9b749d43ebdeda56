"""What a failover would lose as a whole: what is unknown of one partition is unknown of all."""

from typing import Any

import pytest

from ledger.operations.figures.failover_loss import LossForecast, forecast


def row(**given: Any) -> dict[str, Any]:
    usual = {"status": "lagging", "records_at_risk": 5, "extra_estimate": 2, "at_risk_ms": 300, "age_ms": 40}
    return {**usual, "ends_read_at_ms": 1_000, **given}


COMPLETE = row(status="complete", records_at_risk=0, extra_estimate=1, at_risk_ms=None, age_ms=900)


def test_records_are_added_and_the_longest_time_counts() -> None:
    found = forecast([row(), row(at_risk_ms=350, age_ms=30), COMPLETE])
    assert found == LossForecast(partitions=3, unknown=0, records=10, estimate=5, milliseconds=380)
    assert forecast([COMPLETE]).milliseconds == 0


@pytest.mark.parametrize(
    ("given", "records", "estimate", "milliseconds"),
    [
        ({"extra_estimate": None}, 5, None, 340),
        ({"at_risk_ms": None}, 5, 3, None),
        ({"age_ms": None}, 5, 3, None),
    ],
)
def test_what_one_partition_does_not_say_nobody_knows(
    given: dict[str, None], records: int, estimate: int | None, milliseconds: int | None
) -> None:
    found = forecast([row(**given), COMPLETE])
    assert (found.records, found.estimate, found.milliseconds) == (records, estimate, milliseconds)


@pytest.mark.parametrize("given", [{"status": "unknown", "records_at_risk": None}, {"ends_read_at_ms": 999}])
def test_a_partition_of_which_nothing_is_known_makes_all_unknown(given: dict[str, Any]) -> None:
    assert forecast([COMPLETE, row(**given)], fresh_since_ms=1_000) == LossForecast(2, 1, None, None, None)


def test_no_partition_at_all_is_not_nothing_lost() -> None:
    assert forecast([]) == LossForecast(0, 0, None, None, None)
