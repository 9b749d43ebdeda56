"""What every suite has: the artifacts' home, and options of the simulation."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ledger import jvm
from tests.support.checkout import CHECKOUT
from tests.support.homes import home_with_jars

# Contracts are no test modules, and their assertions tell as much as those of tests.
_ASSERTING = ("contracts", "journeys", "copies", "guarded", "site", "trio")
pytest.register_assert_rewrite(*(f"tests.support.{name}" for name in _ASSERTING))

# The same examples on every machine until a test changes; `make soak` draws others.
# How fast examples are made and tried says something of the machine, and nothing of the code.
_BUSY = [HealthCheck.too_slow]
settings.register_profile("fixed", derandomize=True, deadline=None, suppress_health_check=_BUSY)
settings.register_profile("random", derandomize=False, deadline=None, suppress_health_check=_BUSY)
settings.load_profile("fixed")

pytest_plugins = ["tests.support.worker_groups", "tests.support.costs"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--simulation-seed", type=int, help="repeat the simulation of this seed")


@pytest.fixture(scope="session", autouse=True)
def home() -> Path:
    """Where fetched artifacts are; in the checkout unless MIRROR_LEDGER_HOME says otherwise."""
    os.environ.setdefault("MIRROR_LEDGER_HOME", str(CHECKOUT / ".mirror-ledger"))
    return jvm.home()


@pytest.fixture
def own_home(home: Path, tmp_path: Path) -> Path:
    """A home folder with the artifacts that are there already, and nothing else."""
    return home_with_jars(tmp_path, home)
