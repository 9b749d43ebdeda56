"""What a failover is said to lose, beside what it really loses: ten failovers on real brokers.

    python -m tests.benchmarks.failover_loss [--seed 1] [--only NAME ...]

A producer writes at rates that change and with pauses, a driver copies, a recorder of its own records both clusters,
all of them processes. They are disturbed, the source is killed, and a failover is planned at once. What is lost is what
the source has acknowledged and the target does not have: it is compared with the range of the plan, and the range with
the larger of its lower end and what one interval of the recorder brings at the highest rate that was acknowledged in
five minutes. Where nobody was left who could see the source go, its last sign is the last reading, and the range can
only be as wide as that was long ago. Exits with 1 where a loss lies outside its range; that a range is wider is said.
"""

import argparse
import bisect
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from ledger.answers.maintenance import init_ledger
from ledger.changeover.losses import loss_words
from ledger.changeover.plans import ChangeoverKind, Choices, FenceChoice
from ledger.changeover.seeing import make_plan
from ledger.config.mirror import MirrorConfig
from ledger.context import Context
from ledger.facts.ways import Direction
from ledger.sandbox import Sandbox, SandboxCluster
from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import create_topics
from ledger.store.answers import run_query, snapshot
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.drivers import descendants

TOPIC, PARTITIONS, FLOW = "orders", 3, "east-to-west"
INTERVAL_S, TICK_S = 5.0, 0.5
"""Of the recorder: the default of `high_watermark_seconds`, and how often it asks whether that is over."""
WINDOW_S = 300.0
DEADLINE_S = 120.0
RATES = (0, 20, 80, 200, 400)
CHOICES = Choices(fence=FenceChoice.NONE, unproven="the source is dead", accepted=("ahead", "no_commit"))


@dataclass
class Load:
    """Writes records one after the other, at a rate that anybody may change; `acknowledged`: by number, when."""

    servers: str
    rate: float = 0.0
    acknowledged: dict[int, float] = field(default_factory=dict)
    _number: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(30)

    def _work(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": 1_500,  # what waits for a dead source is given up, not sent when it is back
                "reconnect.backoff.max.ms": 500,
            }
        )
        due = time.monotonic()
        while not self._ended.is_set():
            producer.poll(0.002)
            now = time.monotonic()
            if not self.rate:
                due = now
            while self.rate and due <= now:
                due = max(due, now - 0.5) + 1 / self.rate
                producer.produce(
                    TOPIC, str(self._number), partition=self._number % PARTITIONS, on_delivery=self._delivered
                )
                self._number += 1
        producer.flush(10)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged[int(message.value() or b"")] = time.monotonic()

    def most_within(self, seconds: float) -> int:
        """The most records that were acknowledged within so many seconds, of the last minutes."""
        found = sorted(at for at in [*self.acknowledged.values()] if at >= time.monotonic() - WINDOW_S)
        return max(
            (bisect.bisect_right(found, at + seconds) - number for number, at in enumerate(found)), default=0
        )


@dataclass
class Process:
    """A command of the program in a process group of its own; started again where it has ended."""

    name: str
    arguments: tuple[str, ...]
    file: Path
    _process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        command = [sys.executable, "-m", "ledger.cli.main", "--config", str(self.file), *self.arguments]
        with self.file.with_suffix(f".{self.name}.log").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)

    def signal(self, number: signal.Signals) -> None:
        """To it and to all that it has started."""
        assert self._process is not None
        for pid in [*descendants(self._process.pid), self._process.pid]:
            os.kill(pid, number)

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.signal(signal.SIGKILL)
            self._process.wait(30)


@dataclass(frozen=True)
class World:
    """All that a failover is about."""

    sandbox: Sandbox
    pair: Mapping[str, SandboxCluster]
    config: MirrorConfig
    load: Load
    driver: Process
    recorder: Process
    choices: random.Random

    def at_west(self) -> set[int]:
        found = read_topics(self.pair["west"].bootstrap_servers, [TOPIC])
        return {int(one.record.value or b"") for placed in found.values() for one in placed}

    def vary(self, seconds: float, *rates: int) -> None:
        """Load at rates that change every few seconds."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.load.rate = self.choices.choice(rates or RATES)
            time.sleep(min(left, self.choices.uniform(2.0, 6.0)))


Spell = tuple[float, float, tuple[int, ...]]
"""Between so many seconds, at these rates in turn."""


@dataclass(frozen=True)
class Story:
    """What happens until the source is lost: load, something done to processes, load again."""

    before: Spell
    act: Callable[[World], None] = lambda _world: None
    after: Spell | None = None

    def happen(self, world: World) -> None:
        world.vary(world.choices.uniform(*self.before[:2]), *self.before[2])
        self.act(world)
        if self.after is not None:
            world.vary(world.choices.uniform(*self.after[:2]), *self.after[2])


def kill_both(world: World) -> None:
    world.driver.kill()
    world.recorder.kill()


FAILOVERS: Mapping[str, Story] = {
    "steady": Story((12.0, 18.0, (100,))),
    "varying": Story((15.0, 25.0, (20, 80, 200, 400))),
    "with_pauses": Story((15.0, 25.0, (0, 0, 80, 300))),
    "within_a_pause": Story((8.0, 8.0, (200,)), after=(6.0, 12.0, (0,))),
    "behind_a_pause": Story((8.0, 8.0, (0,)), after=(1.0, 6.0, (200,))),
    "recorder_frozen": Story(
        (10.0, 10.0, (100, 150)),
        lambda world: world.recorder.signal(signal.SIGSTOP),
        (10.0, 15.0, (100, 150)),
    ),
    "driver_frozen": Story(
        (10.0, 10.0, (80, 200)), lambda world: world.driver.signal(signal.SIGSTOP), (4.0, 12.0, (80, 200))
    ),
    "driver_killed_with_it": Story((10.0, 16.0, (80, 200)), lambda world: world.driver.kill()),
    "recorder_killed_before": Story(
        (10.0, 10.0, (100,)), lambda world: world.recorder.kill(), (4.0, 8.0, (100,))
    ),
    "all_killed": Story((10.0, 16.0, (80, 120)), kill_both),
}
SEEN_BY_NOBODY = frozenset({"all_killed"})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=FAILOVERS, default=[*FAILOVERS])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox(Path(folder) / "sandbox")
        try:
            failed = measured(sandbox, Path(folder), options.seed, options.only)
        finally:
            sandbox.down()
    sys.exit(1 if failed else 0)


def measured(sandbox: Sandbox, folder: Path, seed: int, names: list[str]) -> list[str]:
    """The failovers whose loss was outside of the range."""
    pair = sandbox.up(["east", "west"], 1)
    create_topics(pair["east"].bootstrap_servers, [TOPIC], partitions=PARTITIONS)
    lines = f'topics = ["{TOPIC}"]\ntopic_naming = "identity"'
    config = write_config(folder, servers_of(pair), {FLOW: lines})
    file = Path(config.file)
    init_ledger(config)
    driver = Process("driver", ("run", FLOW), file)
    recorder = Process("recorder", ("record",), file)
    load = Load(pair["east"].bootstrap_servers)
    failed = []
    try:
        with load.at_work():
            for number, name in enumerate(names):
                chosen = random.Random(f"{seed} {name}")
                world = World(sandbox, pair, config, load, driver, recorder, chosen)
                print(f"{number + 1:2} {name}, seed {seed}", flush=True)
                if not failover(world, name):
                    failed.append(name)
    finally:
        driver.kill()
        recorder.kill()
    print(
        f"{len(names) - len(failed)} of {len(names)} losses within their range",
        *failed,
    )
    return failed


def failover(world: World, name: str) -> bool:
    """One of them, from a mirror that has caught up to the plan; then the source is back."""
    world.recorder.start()
    world.driver.start()
    caught_up(world)
    FAILOVERS[name].happen(world)
    age_s = lag_age(world.config)
    world.sandbox.kill("east")
    world.load.rate = 0
    with Context(world.config) as context:
        made = make_plan(context, ChangeoverKind.FAILOVER, Direction("east", "west"), CHOICES, {})
    forecast = dict(made.forecast)
    for process in (world.driver, world.recorder):
        process.kill()  # what a driver had fetched and not written it writes no more
    allowed = world.load.most_within(INTERVAL_S + TICK_S)
    lost = len(world.load.acknowledged.keys() - world.at_west())
    is_kept = reported(name, forecast, lost, allowed)
    print(f"     lag measured {age_s} s before; {loss_words(forecast)}", flush=True)
    world.sandbox.start("east")
    return is_kept


def reported(name: str, forecast: Mapping[str, Any], lost: int, allowed: int) -> bool:
    least: int | None = forecast["records_at_least"]
    most: int | None = forecast["records_at_most"]
    if least is None or most is None:
        print(f"   MISSED: {lost} lost, no basis", flush=True)
        return False
    width = most - least
    if name in SEEN_BY_NOBODY:
        allowed = round(allowed * max(1.0, forecast["unseen_seconds"] / INTERVAL_S))
    is_within, is_narrow = least <= lost <= most, width <= max(least, allowed)
    verdict = "MISSED" if not is_within else "ok" if is_narrow else "wide"
    print(
        f"   {verdict}: {lost} lost, reported {least} to {most} (known: {forecast['records_lost']}); width {width}, "
        f"an interval brings {allowed}",
        flush=True,
    )
    return is_within


def caught_up(world: World) -> None:
    """All that was acknowledged is at the target, and driver and recorder have recorded that."""
    world.load.rate = 20
    began_ms = time.time() * 1000
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        rows = run_query(
            snapshot(world.config, None), "failover_loss", {"from_cluster": "east", "to_cluster": "west"}
        ).to_pylist()
        fresh = [row for row in rows if (row["ends_read_at_ms"] or 0) > began_ms and row["map_end"]]
        if len(fresh) == PARTITIONS and sum(row["records_at_risk"] for row in fresh) < 200:
            return
        time.sleep(0.5)
    raise SystemExit(f"the mirror did not catch up within {DEADLINE_S:.0f} s: {world.config.file}")


def lag_age(config: MirrorConfig) -> float | None:
    """How long ago the lag of all partitions was measured, by the oldest of them."""
    rows = run_query(snapshot(config, None), "replication_lag", {"flow": FLOW}).to_pylist()
    measured_at = [row["measured_at_ms"] for row in rows]
    return None if None in measured_at else round(time.time() - min(measured_at) / 1000, 1)


if __name__ == "__main__":
    main()
