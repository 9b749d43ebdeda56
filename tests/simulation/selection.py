"""Chooses the seeds that are lived in every run of the tests: `python -m tests.simulation.selection`.

Lives all seeds from 1 on to a last one, then writes `chosen_seeds.toml` beside this module: seeds that together
come to everything in `coverage.WANTED`, each of it several times, and others drawn at random. The same code
chooses the same seeds on every machine. Writes nothing and ends with 1 when a seed fails, or none comes to
something that is wanted.
"""

import argparse
import os
import random
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from tests.simulation.coverage import WANTED, missing
from tests.simulation.seeds import Life, command, live_all

COMMAND = "python -m tests.simulation.selection"
_FILE = Path(__file__).with_name("chosen_seeds.toml")
_LAST = 1000
_TIMES = 2
_SEEDS = 28
_LONGEST_S = 3600.0


def chosen_seeds() -> list[int]:
    """The seeds in the file, those first that cover what is wanted."""
    told = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return [*told["covering"], *told["drawn"]]


def covering(lives: Sequence[Life], names: Collection[str], *, times: int) -> list[int]:
    """Seeds that come to each name so many times, or as often as any do, in the order of their choice.

    The rarest name is covered first. Of the seeds that come to it, the one is taken that comes to most of what
    is still wanted for what it costs.
    """
    came_to = {life.seed: {name for name in names if life.tally[name]} for life in lives}
    how_many = Counter(name for reached in came_to.values() for name in reached)
    still_wanted = {name: min(times, count) for name, count in how_many.items()}
    left = {life.seed: life for life in lives}

    def worth(seed: int) -> float:
        return sum(still_wanted[name] > 0 for name in came_to[seed]) / _cost(left[seed])

    chosen = []
    for name in sorted(how_many, key=lambda name: (how_many[name], name)):
        while still_wanted[name] > 0:
            best = max((seed for seed in left if name in came_to[seed]), key=worth)
            chosen.append(best)
            del left[best]
            for reached in came_to[best]:
                still_wanted[reached] -= 1
    return chosen


def _cost(life: Life) -> int:
    """As the time that a life takes, and the same on every machine: how many stretches were copied in it."""
    return 1 + life.tally["copied"]


def _drawn(seeds: Sequence[int], count: int) -> list[int]:
    return sorted(random.Random(0).sample(seeds, k=max(0, count)))


def file_of(last: int, covering_seeds: Sequence[int], drawn_seeds: Sequence[int]) -> str:
    """The text of the file."""
    return f"""\
# Seeds that are lived in every run of the tests. Written by `{COMMAND}`,
# which lived the seeds from 1 to {last}. Choose anew when these come to less than `coverage.WANTED`.

# Come to each wanted name {_TIMES} times, or as often as any in the range do; the rarest first.
{_array("covering", covering_seeds)}

# Others of the range, drawn at random.
{_array("drawn", drawn_seeds)}
"""


def _array(name: str, seeds: Sequence[int]) -> str:
    numbers = textwrap.wrap(", ".join(map(str, seeds)), width=100)
    return "\n".join([f"{name} = [", *(f"    {line}" for line in numbers), "]"])


def main(arguments: Sequence[str]) -> int:
    """Choose and write; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--last", type=int, default=_LAST, help="the last seed to live")
    last = parser.parse_args(arguments).last
    lives = live_all(range(1, last + 1), processes=os.cpu_count() or 1, timeout_s=_LONGEST_S)
    tally = sum((life.tally for life in lives), Counter[str]())
    problems = [f"{life.failure}\n{command(life.seed)}" for life in lives if life.failure]
    problems += [f"no seed up to {last} comes to: {name}" for name in missing(WANTED, tally)]
    if problems:
        print(*problems, "nothing was written", sep="\n")
        return 1
    first = covering(lives, WANTED, times=_TIMES)
    others = [life.seed for life in lives if life.seed not in first]
    _FILE.write_text(file_of(last, first, _drawn(others, _SEEDS - len(first))), encoding="utf-8")
    print(f"{len(first)} seeds come to all {len(WANTED)} names; {_SEEDS} seeds of {last} are in {_FILE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
