"""Plans on real clusters: made until nothing stands against them, and carried out, with hooks."""

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

from ledger.config.mirror import MirrorConfig
from tests.support.commands import Done, command
from tests.support.drivers import environment
from tests.support.following import copying
from tests.support.recorded import Row, operations, query
from tests.support.runs import FLOW
from tests.support.shops import Desk, Shop
from tests.support.waiting import eventually

OFTEN = "checkpoint_seconds = 0.5\nhigh_watermark_seconds = 0.5\nheartbeat_seconds = 5\n"
WATCHED = ("--quiet-seconds", "0.2", "--most-quiet-seconds", "1")
"""How long ends have to stand still at a fence: nobody writes there in a test, and it need not wait to see that."""
SHUT = ("--fence", "shut", "--accept=producers_stopped", "--accept=mirror_not_shut_out", *WATCHED)
DEAD = ("--fence", "none", "--accept=unproven=east is dead", "--watch", "1")
UNFENCED = ("--fence", "none", "--accept=unproven=nobody writes")
BY_HOOK = ("--fence", "hook", "--hook", "fence=true", "--accept=unproven=producers ended", *WATCHED)


def planned(
    capsys: pytest.CaptureFixture[str],
    config: MirrorConfig,
    kind: str,
    *options: str,
    way: tuple[str, str] = ("east", "west"),
) -> str:
    """The id of a plan from one cluster to another, once nothing stands against it: all is recorded then."""
    tries: list[Done] = []
    asked = ("plan", kind, "--from", way[0], "--to", way[1], "--accept", "no_commit", "-o", "json")

    def is_free() -> bool:
        tries.append(command(capsys, config, *asked, *options))
        return tries[-1].code == 0

    try:
        eventually(is_free, "a plan without blockers")
    finally:
        print(*(one.err for one in tries[-1:]))
    return str(json.loads(tries[-1].out)[0]["plan_id"])


def both_ways(topic: str, *more: str) -> dict[str, str]:
    """Flows of the same names in both directions, of which one holds."""
    names = 'topic_naming = "identity"\n' + OFTEN
    return {
        FLOW: f'opposite = "west-to-east"\n{copying(topic, names, *more)}',
        "west-to-east": f'source = "west"\ntarget = "east"\nopposite = "{FLOW}"\n{copying(topic, names, *more)}',
    }


def shared(topic: str, source: str, target: str) -> str:
    """The lines of a flow of the same names, into topics that others write as well."""
    lines = copying(topic, OFTEN, 'topic_naming = "identity"', 'target_mode = "shared"')
    return f'source = "{source}"\ntarget = "{target}"\n{lines}'


def lost_now(config: MirrorConfig) -> dict[int, Row]:
    """By partition of east, what the ledger says would be lost if it failed."""
    rows = query(config, "failover_loss", from_cluster="east", to_cluster="west")
    return {row["source_partition"]: row for row in rows}


def receipts(config: MirrorConfig) -> dict[str, Row]:
    """What the newest apply did in each of its steps."""
    return {one["step"]: one for one in operations(config, "step_done")}


def verified(
    capsys: pytest.CaptureFixture[str], config: MirrorConfig, name: str
) -> tuple[int, dict[str, str]]:
    """Exit code, and by check its worst status."""
    done = command(capsys, config, "verify", name, "-o", "json")
    found: dict[str, str] = {}
    for row in json.loads(done.out):
        if found.get(row["check"]) != "not_ok":
            found[row["check"]] = row["status"] if row["status"] != "ok" else found.get(row["check"], "ok")
    return done.code, found


# -- Processes -------------------------------------------------------------------------------------

APPLIED = ("--reason", "a drill", "--yes")


@contextmanager
def applying(config: MirrorConfig, plan_id: str, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """`mirror-ledger apply` as a process of its own, which is not there any more behind the body."""
    words = [sys.executable, "-m", "ledger.cli.main", "--config", config.file]
    with log.open("ab") as said:
        process = subprocess.Popen(
            [*words, "apply", plan_id, *APPLIED],
            stdout=said,
            stderr=said,
            env=environment(),
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def has_recorded(config: MirrorConfig, kind: str) -> Callable[[], bool]:
    return lambda: operations(config, kind) != []


# -- Hooks -----------------------------------------------------------------------------------------

_EVERY_S = 0.05


@dataclass(frozen=True)
class HookedStep:
    """One step of people, done by whatever the test does between `wait` and `done`."""

    folder: Path
    step: str

    @property
    def option(self) -> tuple[str, str]:
        """What a plan is given."""
        asked, done = shlex.quote(str(self._asked)), shlex.quote(str(self._done))
        script = f"touch {asked}; while [ ! -e {done} ]; do sleep 0.05; done"
        return "--hook", f"{self.step}=sh -c {shlex.quote(script)}"

    def is_asked(self) -> bool:
        """Whether the apply has come to it."""
        return self._asked.exists()

    def wait(self, ended: Event) -> bool:
        """Until the apply asks for it, or the test has ended; whether it asks.

        Without a limit of its own: how long a plan and the steps before it take is for the test to limit.
        """
        while not self.is_asked():
            if ended.wait(_EVERY_S):
                return self.is_asked()
        return True

    def done(self) -> None:
        self._done.touch()

    @property
    def _asked(self) -> Path:
        return self.folder / f"{self.step}.asked"

    @property
    def _done(self) -> Path:
        return self.folder / f"{self.step}.done"


# -- Applications that hooks move ------------------------------------------------------------------

_STEPS = ("stop_producers", "stop_groups", "start_applications")


@dataclass
class TravellingApplications:
    """A producer and a group at `source` until hooks of an apply stop them; at `target` from when its hook starts them.

    `nowhere_to_write_s`: at least so long they could write to neither.
    """

    folder: Path
    shop: Shop
    desk: Desk
    source: str
    target: str
    written_at_source: int = 0
    nowhere_to_write_s: float = 0.0

    @property
    def hooks(self) -> list[str]:
        """Options of a plan."""
        return [word for step in _STEPS for word in HookedStep(self.folder, step).option]

    def work(self, ended: Event) -> None:
        """To be run beside the apply; returns when the group has processed all at `target`, or the test has ended."""
        stop_producers, stop_groups, start = (HookedStep(self.folder, step) for step in _STEPS)
        with self.desk.open(self.source, [self.shop.topic]):
            with self.shop.selling(self.source):
                if not stop_producers.wait(ended):
                    return
            stopped_s, self.written_at_source = time.monotonic(), len(self.shop.written)
            stop_producers.done()
            if not stop_groups.wait(ended):
                return
        stop_groups.done()
        if not start.wait(ended):
            return
        with self.desk.open(self.target, [self.shop.topic]):
            self.shop.sell(self.target, 100)
            self.nowhere_to_write_s = time.monotonic() - stopped_s
            start.done()
            eventually(lambda: set(self.desk.processed) >= set(self.shop.written), "all is processed")
