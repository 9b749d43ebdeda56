"""Objectives and applications of a configuration: what is declared, what does not keep to it, what nobody knows."""

from pathlib import Path

import pytest

from ledger.config.mirror import ObjectivesConfig
from ledger.config.values import Figure, Objective, objections
from tests.support.config_files import BASE, FLOW_TEXT, load, problems

# -- Declared --------------------------------------------------------------------------------------


def test_objectives_are_what_is_allowed_and_only_what_is_given(tmp_path: Path) -> None:
    given = "[objectives]\nmax_lag_records = 0\nmax_loss_seconds = 2.5\nmax_downtime_seconds = 60\n"
    assert load(tmp_path, BASE + FLOW_TEXT + given).allowed == {
        "max_lag_records": 0,
        "max_loss_seconds": 2.5,
        "max_downtime_seconds": 60,
    }
    assert load(tmp_path, BASE + FLOW_TEXT).allowed == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("max_lag_records = -1", "objectives.max_lag_records: Input should be greater than or equal to 0"),
        ("max_lag_records = 1.5", "objectives.max_lag_records: Input should be a valid integer"),
        ("max_loss_seconds = inf", "objectives.max_loss_seconds: Input should be a finite number"),
        ('max_loss_seconds = "1"', "objectives.max_loss_seconds: Input should be a valid number"),
        ("max_losses = 1", "objectives.max_losses: unknown key"),
    ],
)
def test_an_objective_that_is_none_is_a_problem(tmp_path: Path, text: str, problem: str) -> None:
    assert problems(tmp_path, f"{BASE}{FLOW_TEXT}[objectives]\n{text}") == [problem]
    assert problems(tmp_path, f"objectives = 1\n{BASE}{FLOW_TEXT}") == ["objectives: is a table, got int"]


# -- Kept to ---------------------------------------------------------------------------------------

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


# -- Applications ----------------------------------------------------------------------------------

_APP = '[apps.billing]\ngroups = ["billing"]\noutputs = ["invoices", "ledger"]\n'


def test_groups_of_an_application_have_its_outputs(tmp_path: Path) -> None:
    shipping = '[apps.shipping]\ngroups = ["pack", "send"]\noutputs = ["parcels"]\n'
    assert load(tmp_path, BASE + FLOW_TEXT + _APP + shipping).outputs_of_groups == {
        "billing": ("invoices", "ledger"),
        "pack": ("parcels",),
        "send": ("parcels",),
    }
    assert load(tmp_path, BASE + FLOW_TEXT).outputs_of_groups == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[apps.a]\ngroups = ["g"]', "apps.a.outputs: is missing"),
        ('[apps.a]\ngroups = []\noutputs = ["t"]', "apps.a.groups: Tuple should have at least 1 item"),
        ('[apps.a]\ngroups = ["g"]\noutputs = ["t"]\nout = 1', "apps.a.out: unknown key"),
        ('[apps."a b"]\ngroups = ["g"]\noutputs = ["t"]', "apps.a b: a name has letters, digits"),
        ("[apps]\na = 1", "apps.a: is a table, got int"),
        (
            f'{_APP}[apps.other]\ngroups = ["billing"]\noutputs = ["t"]',
            "apps: group 'billing' is one of billing and of other: say all that it writes in one place",
        ),
    ],
)
def test_an_application_that_is_none_is_a_problem(tmp_path: Path, text: str, problem: str) -> None:
    [found] = problems(tmp_path, f"{BASE}{FLOW_TEXT}{text}")
    assert found.startswith(problem)
    assert problems(tmp_path, f"apps = 1\n{BASE}{FLOW_TEXT}") == ["apps: is a table [apps.NAME], got int"]
