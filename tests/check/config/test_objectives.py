"""The objectives of a configuration."""

from pathlib import Path

import pytest

from tests.support.config_texts import BASE, FLOW_TEXT, load, problems


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
