"""Alerts about changes of direction, by a real Prometheus that scrapes what is served of a ledger.

Rows are those that the program appends. No broker is needed, for `serve` asks none.
"""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger.store.delta_tables import create_tables
from tests.support.asked_pages import value
from tests.support.operated import NOBODY, Operated, mark_of_a_gone_process, operated
from tests.support.scraped import firing, is_firing, prometheus, samples_at, serving
from tests.support.served_changes import carried_out, planned, row
from tests.support.waiting import eventually

WITHIN_S = 30.0

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is not on this machine"
)


@dataclass(frozen=True)
class Scraped:
    """A ledger that is served, and a Prometheus in which nothing is wrong but that nobody drives the flow."""

    ledger: Operated
    served: str
    prometheus: str

    def fires(self, alert: str, since_s: float, **labels: str) -> None:
        eventually(
            lambda: is_firing(self.prometheus, alert, **labels),
            f"{alert} fires; others are {firing(self.prometheus)}",
            within_s=max(1.0, WITHIN_S - (time.monotonic() - since_s)),
        )
        print(f"{alert}: {time.monotonic() - since_s:.1f} s")


@pytest.fixture
def scraped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Scraped]:
    create_tables(str(tmp_path / "empty"), now_ms=1)
    ledger = operated(tmp_path, tmp_path / "empty", capsys)
    with (
        serving(ledger.config, tmp_path / "serve.log") as url,
        prometheus(tmp_path, NOBODY, url.removeprefix("http://")) as at,
    ):
        eventually(lambda: value(samples_at(url), "ledger_readable") == 1, "it is read")
        eventually(lambda: is_firing(at, "DriverDead"), "Prometheus scrapes and evaluates", within_s=120)
        yield Scraped(ledger, url, at)


def test_a_record_behind_a_fence(scraped: Scraped) -> None:
    assert not is_firing(scraped.prometheus, "FenceBroken")
    late = {"finding": "late_write", "topic": "orders", "partition": 1, "cluster": "east"}
    raised = row("finding_raised", {**late, "message": "a record was written", "next": "stop it"}, "late")
    scraped.ledger.append("operations", {**raised, "writer": "recorder:east"})
    since_s = time.monotonic()
    scraped.fires("FenceBroken", since_s, cluster="east", state="late_write")


def test_a_change_of_direction_whose_process_died(scraped: Scraped) -> None:
    assert not is_firing(scraped.prometheus, "ChangeoverHalfDone")
    carried_out(scraped.ledger, planned(scraped.ledger), by=mark_of_a_gone_process())
    since_s = time.monotonic()
    scraped.fires("ChangeoverHalfDone", since_s, kind="switchover", source="east", target="west")
