"""Fixtures over real clusters and a real Spark session, one of each for a whole run.

Libraries that need a JVM or a broker are imported by the fixture that starts them: suites that ask for
none of these do not wait for the import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from ledger.sandbox import Sandbox, SandboxCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def servers_of(clusters: Mapping[str, SandboxCluster]) -> dict[str, str]:
    """Bootstrap servers by alias."""
    return {alias: cluster.bootstrap_servers for alias, cluster in clusters.items()}


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
def north(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, SandboxCluster]]:
    """Cluster `north`, one broker, beside `broker_pair`: for tests that need three clusters."""
    sandbox = Sandbox(tmp_path_factory.mktemp("north"))
    try:
        yield sandbox.up(["north"], brokers=1)
    finally:
        sandbox.down()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session of the run, with room for two copy tasks: Spark has one per process anyway."""
    from ledger.mirror.spark import local_session

    session = local_session(tasks=2)
    try:
        yield session
    finally:
        session.stop()
