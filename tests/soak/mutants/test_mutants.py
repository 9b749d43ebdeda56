"""Every mutant of the list is noticed by what the list says, which notices nothing in the code as it is."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.soak.mutants.mutant import Killer, Mutant, mutants
from tests.support.checkout import CHECKOUT

_TREE = ("ledger", "queries", "conf", "jobs", "tests", "pyproject.toml", "README.md")
_LONGEST_S = 120
_TESTS_FAILED = 1  # what pytest ends with; anything else is no verdict
_KILLERS = tuple(dict.fromkeys(killer for mutant in mutants() for killer in mutant.killers))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code and its tests, to be changed."""
    copy = tmp_path_factory.mktemp("tree")
    for name in _TREE:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    return copy


@contextmanager
def mutated(tree: Path, mutant: Mutant) -> Iterator[None]:
    path = tree / mutant.module
    source = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied_to(source), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(source, encoding="utf-8")


def notices(tree: Path, killer: Killer) -> str:
    """What the killer says when it fails on the tree; empty when it passes."""
    return _failed_test(tree, killer.test) if killer.test else _failed_life(tree, killer.first_seeds)


def _failed_test(tree: Path, node: str) -> str:
    done = _run(tree, "pytest", node, "-x", "-q", "-p", "no:cacheprovider")
    assert done.returncode in (0, _TESTS_FAILED), f"{node} came to no verdict:\n{done.stdout}{done.stderr}"
    return done.stdout if done.returncode else ""


def _failed_life(tree: Path, first_seeds: int) -> str:
    seeds = map(str, range(1, first_seeds + 1))
    done = _run(tree, "tests.simulation.seeds", "--json", "--seeds", *seeds)
    assert done.returncode == 0, f"the first {first_seeds} seeds came to no verdict:\n{done.stderr}"
    return "".join(json.loads(line)[2] for line in done.stdout.splitlines())


def _run(tree: Path, module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    for name in [name for name in environment if name.startswith("PYTEST_XDIST")]:
        del environment[name]
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
        check=False,
    )


@pytest.mark.timeout(2 * _LONGEST_S)
@pytest.mark.parametrize("killer", _KILLERS, ids=str)
def test_what_is_to_notice_mutants_notices_nothing_without_one(tree: Path, killer: Killer) -> None:
    assert notices(tree, killer) == ""


@pytest.mark.timeout(8 * _LONGEST_S)
@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_the_mutant_is_noticed(tree: Path, mutant: Mutant) -> None:
    with mutated(tree, mutant):
        unnoticed = [str(killer) for killer in mutant.killers if not notices(tree, killer)]
    assert unnoticed == [], f"{mutant.name} in {mutant.module} survives"
