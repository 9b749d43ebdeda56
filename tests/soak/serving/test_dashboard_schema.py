"""Grafana's own types take the dashboard, and none that has a mistake: it takes minutes to build them for the first
time."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkout import CHECKOUT

DASHBOARD = CHECKOUT / "conf" / "grafana" / "mirror-ledger.json"
PROGRAM = Path(__file__).with_name("dashboard_schema")

pytestmark = pytest.mark.skipif(shutil.which("go") is None, reason="Go is not on this machine")


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of `dashboard_schema`."""
    built = tmp_path_factory.mktemp("schema") / "dashboard-schema"
    subprocess.run(["go", "build", "-o", str(built), "."], cwd=PROGRAM, check=True)
    return built


def said(schema: Path, dashboard: Path) -> tuple[int, str]:
    done = subprocess.run([schema, dashboard], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_grafanas_types_take_the_dashboard(schema: Path) -> None:
    panels = len(json.loads(DASHBOARD.read_text())["panels"])
    assert said(schema, DASHBOARD) == (0, f"{panels} panels\n")


def stats(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (panel for panel in dashboard["panels"] if panel["type"] == "stat")


MISTAKES: dict[str, Callable[[dict[str, Any]], object]] = {
    "graphTooltip": lambda of: of.update(graphTooltip="shared"),
    "unexpected field 'colour'": lambda of: of.update(colour="blue"),
    "options.wideLayout: required": lambda of: next(stats(of))["options"].pop("wideLayout"),
    "options.reduceOptions.calcs": lambda of: next(stats(of))["options"]["reduceOptions"].update(calcs=1),
    "unexpected field 'expression'": lambda of: next(stats(of))["targets"][0].update(expression="up"),
    "gridPos.w": lambda of: next(stats(of))["gridPos"].update(w=-1),
}


@pytest.mark.parametrize("said_of_it", MISTAKES)
def test_mistakes_are_found(schema: Path, tmp_path: Path, said_of_it: str) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    MISTAKES[said_of_it](dashboard)
    file = tmp_path / "dashboard.json"
    file.write_text(json.dumps(dashboard))
    code, words = said(schema, file)
    assert (code, said_of_it in words) == (1, True), words
