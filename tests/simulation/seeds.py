"""Simulates seed after seed until a time is over: `python -m tests.simulation.seeds --seconds 600`.

Prints each seed that fails, with its story and the command that repeats it; ends with 1 if there was one, or if
they did not come to what so many seeds are to come to (`coverage`).
"""

import argparse
import json
import logging
import math
import os
import random
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

from tests.simulation.coverage import missing, seldom_answered, wanted_of
from tests.simulation.faults import Promise
from tests.simulation.simulation import Plot, Simulation
from tests.support.checkout import CHECKOUT

_FORGETFUL_ONE_IN = 8
_LONGEST_SEED_S = 120
_RANDOM_SEEDS = 1 << 40


WARNINGS = (
    *("-W", "error", "-W", "ignore::DeprecationWarning:kafka.protocol.schemas.load_json"),
    *("-W", "ignore::DeprecationWarning:importlib.resources._legacy"),
)
"""kafka-python reads its schemas by a deprecated call."""


@dataclass(frozen=True, slots=True)
class Life:
    """What the life of one seed came to; `failure` tells what went wrong in it, empty when nothing did."""

    seed: int
    tally: Counter[str]
    failure: str = ""

    def as_json(self) -> str:
        return json.dumps([self.seed, self.tally, self.failure])

    @classmethod
    def of_json(cls, text: str) -> "Life":
        """The life that a line of `as_json` tells of."""
        seed, tally, failure = json.loads(text)
        return cls(seed, Counter(tally), failure)


def plot_of(seed: int) -> Plot:
    """Most seeds promise every record once; one in a few lets brokers forget what is late."""
    return Plot(Promise.TOLD if seed % _FORGETFUL_ONE_IN == 0 else Promise.ONCE)


def simulate(seed: int, plot: Plot) -> Simulation:
    """Let one seed's life happen and be checked; returns it, for whoever looks further. Errors carry its story."""
    simulation = Simulation(seed, plot)
    print(f"seed {seed}: {simulation.story}", file=sys.stderr)
    try:
        simulation.run()
    except Exception as error:
        error.add_note(f"seed {seed}: {simulation.story}")
        raise
    return simulation


def command(seed: int) -> str:
    """What repeats a seed in the tests."""
    return f"pytest tests/check/simulation -k every_record_arrives --simulation-seed {seed}"


def live(seed: int) -> Life:
    """One life, whether it fails or not."""
    try:
        return Life(seed, simulate(seed, plot_of(seed)).tally)
    except Exception:  # noqa: BLE001  whatever it is, it is told with its seed
        return Life(seed, Counter(), traceback.format_exc())


def live_all(seeds: Sequence[int], *, processes: int, timeout_s: float) -> list[Life]:
    """The lives of these seeds, shared by several processes, each of which ends with the first that fails."""
    shares = [seeds[index::processes] for index in range(processes)]
    return _side_by_side([["--seeds", *map(str, share)] for share in shares if share], timeout_s)


def live_on(first: int, seconds: float, *, processes: int) -> list[Life]:
    """The same with one seed after another from `first` on, at least one for each process, for a time."""
    shares = [
        ["--first", str(first + index), "--step", str(processes), "--seconds", str(seconds)]
        for index in range(processes)
    ]
    return _side_by_side(shares, seconds + _LONGEST_SEED_S)


def _side_by_side(shares: Sequence[Sequence[str]], timeout_s: float) -> list[Life]:
    with ThreadPoolExecutor(len(shares)) as pool:
        lived = pool.map(lambda share: _lived_elsewhere(share, timeout_s), shares)
        return [life for lives in lived for life in lives]


def _lived_elsewhere(share: Sequence[str], timeout_s: float) -> list[Life]:
    """What a process of its own tells of its share; it starts anew, with another order of sets."""
    arguments = [sys.executable, *WARNINGS, "-m", "tests.simulation.seeds", "--json", *share]
    child = subprocess.Popen(
        arguments, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        output, errors = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        child.kill()
        _, errors = child.communicate()
        raise RuntimeError(f"not done after {timeout_s:g} s; the last of these:\n{errors[-4000:]}") from None
    if child.returncode:
        raise RuntimeError(f"a simulating process ended with {child.returncode}:\n{errors[-4000:]}")
    return [Life.of_json(line) for line in output.splitlines()]


def _lives(seeds: Iterable[int], seconds: float) -> Iterator[Life]:
    """At least one, until the time is over or one fails."""
    give_up_at = time.monotonic() + seconds
    for seed in seeds:
        life = live(seed)
        yield life
        if life.failure or time.monotonic() >= give_up_at:
            return


def _soak(first: int, seconds: float) -> int:
    """Minute by minute until the time is over; a failing seed does not end it. Returns the exit code."""
    print(f"seeds from {first} on")
    failed: list[int] = []
    tally: Counter[str] = Counter()
    lived = 0
    for lives in _minutes(first, seconds):
        for life in lives:
            tally.update(life.tally)
            if life.failure:
                failed.append(life.seed)
                print(f"{life.failure}\n{command(life.seed)}")
        lived += len(lives)
        print(f"{lived} seeds, {len(failed)} failed so far: {failed}", flush=True)
    lacking = [*missing(wanted_of(lived), tally), *seldom_answered(tally)]
    if lacking:
        print(f"{lived} seeds never came to: {', '.join(lacking)}")
    return 1 if failed or lacking else 0


def _minutes(first: int, seconds: float) -> Iterator[list[Life]]:
    processes = os.cpu_count() or 1
    give_up_at = time.monotonic() + seconds
    while (left := give_up_at - time.monotonic()) > 0:
        lives = live_on(first, min(60.0, left), processes=processes)
        first = max(life.seed for life in lives) + 1
        yield lives


def main(arguments: Sequence[str]) -> int:
    """Soak, or live a share of seeds for another process; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, help="the first seed; random unless given")
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seeds", type=int, nargs="+", help="with --json: these, however long it takes")
    parser.add_argument("--json", action="store_true", help="one process, which tells of each life in JSON")
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    first = random.SystemRandom().randrange(_RANDOM_SEEDS) if given.first is None else given.first
    if not given.json:
        return _soak(first, given.seconds)
    lives = _lives(given.seeds, math.inf) if given.seeds else _lives(count(first, given.step), given.seconds)
    for life in lives:
        print(life.as_json(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
