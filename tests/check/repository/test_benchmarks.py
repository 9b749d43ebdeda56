"""Benchmarks print no figure of what was too short to be measured, take no number that leads to none, and lose no
figure that was kept before."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks import kept, mirror_speed
from tests.benchmarks.mirror_speed import CASES, SHORTEST_S, Figures

LONG_ENOUGH = Figures(
    records=4_000, copying_s=2.0, second_s=1.0, first_s=5.0, whole_s=9.0, cpu_s=1.0, peak_mb=300.0
)
CASE = CASES[0]


@pytest.mark.parametrize("copying_s", [0.0, SHORTEST_S / 2])
def test_what_came_between_two_looks_has_no_rate(
    copying_s: float, capsys: pytest.CaptureFixture[str]
) -> None:
    short = replace(LONG_ENOUGH, copying_s=copying_s)
    assert mirror_speed.report(CASE, "a mirror", 4_000, [LONG_ENOUGH, short]) is None
    printed = capsys.readouterr().out
    assert "not measured" in printed
    assert "records/s" not in printed
    mirror_speed.report(CASE, "a mirror", 4_000, [LONG_ENOUGH])
    assert "2,000 records/s" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--megabytes", "--repeat"])
def test_nothing_is_measured_of_no_records_and_of_no_run(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mirror_speed", option, "0"])
    with pytest.raises(SystemExit, match="2"):
        mirror_speed.main()
    assert "at least 1 is needed, got 0" in capsys.readouterr().err


def test_kept_figures_of_other_cases_and_kinds_stay_with_their_day(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    kept.keep(file, [{"case": "a", "p50": 1}, {"case": "b", "p50": 2}], "case", {})
    kept.keep(file, [{"case": "a", "longest": 7}], "case", {}, kind="first_seconds")
    file.write_text(file.read_text().replace(json.loads(file.read_text())["measured_on"], "2020-02-29"))
    kept.keep(file, [{"case": "a", "p50": 3}], "case", {})
    new, old = kept.kept(file)
    assert old == {"case": "b", "p50": 2, "measured_on": "2020-02-29"}
    assert (new["case"], new["p50"]) == ("a", 3)
    assert new["measured_on"] > old["measured_on"]
    assert kept.kept(file, "first_seconds") == [{"case": "a", "longest": 7, "measured_on": "2020-02-29"}]
    assert f"Measured from 2020-02-29 to {new['measured_on']}: " in kept.measured(file)
