"""A real Prometheus scrapes a mirror whose direction changes: an apply is killed, and a fence is broken by somebody."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.drivers import Driver, Recorder
from tests.support.following import values
from tests.support.guarded import GuardedPair
from tests.support.guarded_journeys import GuardedJourney, journey
from tests.support.plans import HookedStep, applying, planned
from tests.support.recorded import operations
from tests.support.runs import FLOW
from tests.support.scraped import fires, free_port, is_firing, prometheus, serving
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is not on this machine"
)


@dataclass(frozen=True)
class Scraped:
    """A mirror at work between clusters that know who writes, scraped by `prometheus`."""

    of: GuardedJourney
    folder: Path
    prometheus: str

    def is_firing(self, alert: str) -> bool:
        return is_firing(self.prometheus, alert)


@pytest.fixture
def scraped(
    guarded_pair: GuardedPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Scraped]:
    of = journey(guarded_pair, tmp_path, capsys)
    own = f"127.0.0.1:{free_port()}"
    started = [
        Driver(of.config, tmp_path / "driver.log", ("--metrics", own)),
        Recorder(of.config, tmp_path / "recorder.log", "east"),
    ]
    try:
        with (
            serving(of.config, tmp_path / "serve.log") as url,
            prometheus(tmp_path, own, url.removeprefix("http://")) as at,
        ):
            yield Scraped(of, tmp_path, at)
    finally:
        for one in started:
            one.end()


def test_an_apply_that_is_killed_and_a_fence_that_somebody_takes_away(scraped: Scraped) -> None:
    of, east = scraped.of, scraped.of.pair["east"]
    of.sell("east", 200)
    of.is_under_way()
    eventually(lambda: of.holds_all("west"), "all is copied")
    hook = HookedStep(scraped.folder, "stop_groups")
    options = ("--abort-marker", "--group", of.desk.group, *hook.option)
    plan_id = planned(of.capture, of.config, "switchover", *options)
    with applying(of.config, plan_id, scraped.folder / "apply.log") as process:
        eventually(lambda: hook.is_asked() or process.poll() is not None, "its hook stops groups")
        time.sleep(10)
        assert not scraped.is_firing("ChangeoverHalfDone"), "somebody is at work on it"
        process.kill()
        process.wait()
        since_s = time.monotonic()
        fires(
            scraped.prometheus,
            "ChangeoverHalfDone",
            since_s,
            kind="switchover",
            source="east",
            target="west",
        )
        hook.done()
    of.applied(plan_id)
    eventually(lambda: not scraped.is_firing("ChangeoverHalfDone"), "it is done")
    eventually(lambda: not scraped.is_firing("FenceBroken"), "the fence is proved")

    held = values(east.open, of.topic)
    east.open_again(of.topic)
    written = len(of.shop.written)
    eventually(lambda: _is_taken(of), "brokers know that the rule is gone")
    since_s = time.monotonic()
    assert len(values(east.open, of.topic)) > len(held)
    fires(scraped.prometheus, "FenceBroken", since_s, flow=FLOW, cluster="east", state="late_write")
    assert len(of.shop.written) > written
    assert of.ask("fence", "east", "--topic", of.topic, "--reason", "it was opened").code == 0
    eventually(lambda: not scraped.is_firing("FenceBroken"), "it is closed again")
    assert operations(of.config, "fence")[-1]["proof"] == "proven"


def _is_taken(of: GuardedJourney) -> bool:
    """Whether the cluster that was left took one more record of the shop."""
    before = len(of.shop.written)
    of.sell("east", 1)
    return len(of.shop.written) > before
