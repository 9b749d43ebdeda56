"""Fixtures that all suites share: the artifacts' home, a pair of real one-broker clusters, a Spark session."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.adapters import jvm
from ledger.adapters.spark.session import local_session
from ledger.sandbox import Sandbox, SandboxCluster

CHECKOUT = Path(__file__).parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--simulation-seed", type=int, help="repeat the simulation of this seed")
    parser.addoption("--simulation-seconds", type=float, default=240.0, help="how long seeds are simulated")


@pytest.fixture(scope="session", autouse=True)
def home() -> Path:
    """Where fetched artifacts are; in the checkout unless MIRROR_LEDGER_HOME says otherwise."""
    os.environ.setdefault("MIRROR_LEDGER_HOME", str(CHECKOUT / ".mirror-ledger"))
    return jvm.home()


@pytest.fixture
def own_home(home: Path, tmp_path: Path) -> Path:
    """A home folder with the artifacts that are there already, and nothing else."""
    own = tmp_path / "home"
    own.mkdir()
    jvm.kafka_jars()
    jvm.delta_jars()
    (own / "jars").symlink_to(home / "jars")
    return own


@pytest.fixture(scope="session")
def broker_pair_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """The sandbox behind `broker_pair`, for tests that disturb its brokers and put them right again."""
    sandbox = Sandbox(tmp_path_factory.mktemp("broker-pair"))
    try:
        sandbox.up(["east", "west"], brokers=1, far=["east", "west"])
        yield sandbox
    finally:
        sandbox.down()


@pytest.fixture(scope="session")
def broker_pair(broker_pair_sandbox: Sandbox) -> Mapping[str, SandboxCluster]:
    """Clusters `east` and `west`, one broker each, shared by the whole run: use topics of your own."""
    return broker_pair_sandbox.status()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session of the run, with room for two copy tasks: Spark has one per process anyway."""
    session = local_session(tasks=2)
    try:
        yield session
    finally:
        session.stop()
