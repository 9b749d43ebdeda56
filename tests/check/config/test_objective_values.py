"""What does not keep to an objective, and what nobody knows."""

import pytest

from ledger.config.mirror import ObjectivesConfig
from ledger.config.values import Figure, Objective, objections

RECORDS, SECONDS = Objective.MAX_LAG_RECORDS, Objective.MAX_LAG_SECONDS


@pytest.mark.parametrize(
    ("value", "is_at_least", "codes"),
    [
        (99, False, []),
        (100, False, []),
        (101, False, ["max_lag_records_exceeded"]),
        (101, True, ["max_lag_records_exceeded"]),
        (100, True, ["max_lag_records_unknown"]),
        (None, False, ["max_lag_records_unknown"]),
        (None, True, ["max_lag_records_unknown"]),
    ],
)
def test_what_is_more_or_may_be_more_is_not_met(
    value: float | None, is_at_least: bool, codes: list[str]
) -> None:
    found = objections({RECORDS: 100}, [Figure(RECORDS, value, "f", is_at_least)])
    assert [code for code, _ in found] == codes


def test_what_is_not_allowed_by_any_key_is_not_judged() -> None:
    figures = [Figure(RECORDS, None, "f"), Figure(SECONDS, 9, "f"), Figure(SECONDS, 7, "g")]
    assert [words[:2] for _, words in objections({SECONDS: 7}, figures)] == ["f:"]
    assert objections({}, figures) == []
    assert objections({RECORDS: 0}, []) == []


@pytest.mark.parametrize(
    ("figure", "allowed", "words"),
    [
        (Figure(RECORDS, 1200, "f"), 1000, "f: lag is 1,200 records, max_lag_records allows 1,000 records"),
        (
            Figure(SECONDS, 130.4, "f", is_at_least=True),
            1,
            "f: lag is at least 2 min 10 s, max_lag_seconds allows 1 s",
        ),
        (
            Figure(Objective.MAX_LOSS_RECORDS, None, "f"),
            1,
            "f: what a failover would lose is unknown, max_loss_records allows 1 record: it counts as not met",
        ),
        (
            Figure(Objective.MAX_LOSS_SECONDS, 5, "f", is_at_least=True),
            60,
            "f: since when a failover would lose records is unknown beyond 5 s, max_loss_seconds allows 1 min: "
            "it counts as not met",
        ),
        (
            Figure(Objective.MAX_DOWNTIME_SECONDS, 61, "plan"),
            60,
            "plan: downtime is 1 min 1 s, max_downtime_seconds allows 1 min",
        ),
        (
            Figure(Objective.MAX_REPEATS_PER_GROUP, 3, "group billing"),
            2,
            "group billing: what is repeated is 3 records, max_repeats_per_group allows 2 records",
        ),
    ],
)
def test_words_say_of_what_how_much_and_what_is_allowed(figure: Figure, allowed: float, words: str) -> None:
    [(_, found)] = objections({figure.objective: allowed}, [figure])
    assert found == words


def test_every_key_of_the_configuration_is_an_objective() -> None:
    assert set(ObjectivesConfig.model_fields) == set(Objective)
