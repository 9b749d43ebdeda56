"""Simulates seed after seed until a time is over: `python -m tests.simulation.seeds --seconds 600`.

Prints each seed that fails, with its story and the command that repeats it; ends with 1 if there was one.
"""

import argparse
import json
import logging
import os
import random
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ledger.mirror import appender
from tests.simulation.faults import Promise
from tests.simulation.processes import SimulatedExecutor
from tests.simulation.simulation import Plot, Simulation

_FORGETFUL_ONE_IN = 8
_LONGEST_SEED_S = 120
_RANDOM_SEEDS = 1 << 40


@dataclass(slots=True)
class Findings:
    """What some seeds came to; `first_failed` with the text that tells of it."""

    seeds: int = 0
    first_failed: int | None = None
    failure: str = ""
    tally: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Findings") -> None:
        self.seeds += other.seeds
        self.tally.update(other.tally)
        failed = [f for f in (self, other) if f.first_failed is not None]
        if failed:
            first = min(failed, key=lambda findings: findings.first_failed or 0)
            self.first_failed, self.failure = first.first_failed, first.failure

    def as_json(self) -> str:
        return json.dumps([self.seeds, self.first_failed, self.failure, self.tally])

    @classmethod
    def of_json(cls, text: str) -> "Findings":
        seeds, first_failed, failure, tally = json.loads(text)
        return cls(seeds, first_failed, failure, Counter(tally))


def plot_of(seed: int) -> Plot:
    """Most seeds promise every record once; one in a few lets brokers forget what is late."""
    return Plot(Promise.TOLD if seed % _FORGETFUL_ONE_IN == 0 else Promise.ONCE)


def simulate(seed: int, plot: Plot) -> Simulation:
    """Let one seed's life happen and be checked."""
    original = appender.ThreadPoolExecutor
    appender.ThreadPoolExecutor = SimulatedExecutor  # type: ignore[assignment, misc]
    try:
        simulation = Simulation(seed, plot)
        SimulatedExecutor.schedule = simulation.schedule
        print(f"seed {seed}: {simulation.story}", file=sys.stderr)
        simulation.run()
    finally:
        appender.ThreadPoolExecutor = original  # type: ignore[misc]
    return simulation


def command(seed: int) -> str:
    return f"pytest tests/simulation --simulation-seed {seed}"


def run_seeds(first: int, step: int, seconds: float) -> Findings:
    """One seed after another, at least one, until the time is over or one fails."""
    findings = Findings()
    give_up_at = time.monotonic() + seconds
    seed = first
    while findings.first_failed is None and (not findings.seeds or time.monotonic() < give_up_at):
        try:
            findings.tally.update(simulate(seed, plot_of(seed)).tally)
        except Exception:  # noqa: BLE001  whatever it is, it is told with its seed
            findings.first_failed, findings.failure = seed, traceback.format_exc()
        findings.seeds += 1
        seed += step
    return findings


def run_side_by_side(first: int, seconds: float, *, processes: int) -> Findings:
    """The same in several processes, each with its share of the seeds."""
    children = [_child(first + index, processes, seconds) for index in range(processes)]
    findings = Findings()
    try:
        for child in children:
            output, errors = child.communicate(timeout=seconds + _LONGEST_SEED_S)
            if child.returncode:
                raise RuntimeError(f"a simulating process ended with {child.returncode}:\n{errors[-4000:]}")
            findings.add(Findings.of_json(output))
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()
    return findings


def _child(first: int, step: int, seconds: float) -> "subprocess.Popen[str]":
    arguments = ["--first", str(first), "--step", str(step), "--seconds", str(seconds), "--json"]
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.simulation.seeds", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _soak(first: int, seconds: float) -> int:
    """Minute by minute until the time is over; a failing seed does not end it."""
    print(f"seeds from {first} on")
    failed = []
    for findings in _minutes(first, seconds):
        if findings.first_failed is not None:
            failed.append(findings.first_failed)
            print(findings.failure)
            print(command(findings.first_failed))
        print(f"{findings.seeds} seeds, {len(failed)} failed so far: {failed}", flush=True)
    return 1 if failed else 0


def _minutes(first: int, seconds: float) -> Iterator[Findings]:
    processes = os.cpu_count() or 1
    give_up_at = time.monotonic() + seconds
    while (left := give_up_at - time.monotonic()) > 0:
        findings = run_side_by_side(first, min(60.0, left), processes=processes)
        first += processes * findings.seeds
        yield findings


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, help="the first seed; random unless given")
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--json", action="store_true", help="one process, which tells what it found in JSON")
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    first = random.SystemRandom().randrange(_RANDOM_SEEDS) if given.first is None else given.first
    if not given.json:
        return _soak(first, given.seconds)
    print(run_seeds(first, given.step, given.seconds).as_json())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
