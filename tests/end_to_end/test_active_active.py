"""The same topic names mirrored in all directions: each side ends up with everything once, and nothing loops."""

import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.sandbox import SandboxCluster
from ledger.sandbox.workload import create_topics
from tests.end_to_end.mesh import (
    PARTITIONS,
    Mesh,
    applications,
    at_work,
    make_mesh,
    wait_until,
    written,
)

Pair = Mapping[str, SandboxCluster]
BOTH_WAYS = [("east", "west"), ("west", "east")]
FURTHER_RUNS = 2


@pytest.fixture
def pair_mesh(broker_pair: Pair, spark: SparkSession, tmp_path: Path) -> Mesh:
    """A topic of the same name on both clusters, and a flow in each direction."""
    topic = f"both-{uuid.uuid4().hex[:6]}"
    for cluster in broker_pair.values():
        create_topics(cluster.bootstrap_servers, [topic], partitions=PARTITIONS)
    return make_mesh(broker_pair, spark, tmp_path, topic, BOTH_WAYS)


def holds(mesh: Mesh, cluster: str, prefix: str) -> bool:
    return any(value.startswith(prefix.encode()) for value in mesh.values(cluster))


def differences(found: Counter[bytes], expected: Counter[bytes]) -> dict[str, list[tuple[bytes, int]]]:
    return {"too many": (found - expected).most_common(3), "missing": (expected - found).most_common(3)}


def assert_at_rest(mesh: Mesh, everything: Counter[bytes]) -> None:
    """Each cluster holds everything once, and further runs neither copy nor change anything."""
    for _ in range(FURTHER_RUNS):
        assert mesh.run_all() == 0
    for cluster in mesh.servers:
        assert differences(mesh.values(cluster), everything) == {"too many": [], "missing": []}, cluster
    assert mesh.broken_invariants() == {}


def test_both_sides_are_written_while_mirrors_start_die_and_stop(pair_mesh: Mesh) -> None:
    mesh = pair_mesh
    east, west = (applications(mesh, cluster) for cluster in ("east", "west"))
    with at_work([*east, *west]):
        with mesh.killed_afterwards("east-to-west"):
            wait_until(lambda: holds(mesh, "west", "east-transactional"), "east's records reach west")
            with mesh.running("west-to-east"):  # for the first time, while the other one runs
                wait_until(lambda: holds(mesh, "east", "west-transactional"), "west's records reach east")
        with mesh.running("east-to-west"), mesh.running("west-to-east"):
            after_the_kill = written(west).total()
            wait_until(lambda: written(west).total() > after_the_kill + 300, "applications go on")
    assert mesh.run_all() > 0
    assert_at_rest(mesh, written([*east, *west]))
    assert mesh.gaps("east-to-west")["mirror_write"] == written(west).total()
    assert mesh.gaps("west-to-east")["mirror_write"] == written(east).total()
    assert min(mesh.gaps(flow)["aborted"] for flow in mesh.config.flows) > 0
