"""A topic that clusters mirror to each other: made, recreated, and looked at when everything has come to rest."""

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from ledger.sandbox import SandboxCluster
from ledger.sandbox.workload import create_topics
from tests.support.mesh import PARTITIONS, Application, Mesh, make_mesh
from tests.support.recorded import broken_invariants
from tests.support.waiting import eventually

GOES_ON = 'on_source_recreated = "continue"\non_target_recreated = "continue"'


def mesh_of(
    clusters: Mapping[str, SandboxCluster],
    spark: SparkSession,
    folder: Path,
    directions: Sequence[tuple[str, str]],
    *,
    extra: str = "",
    configuration: Mapping[str, str] | None = None,
) -> Mesh:
    """A topic of the same name on all clusters, and a flow in each direction."""
    topic = f"mesh-{uuid.uuid4().hex[:6]}"
    for cluster in clusters.values():
        create_topics(cluster.bootstrap_servers, [topic], partitions=PARTITIONS, configuration=configuration)
    return make_mesh(clusters, spark, folder, topic, directions, extra=extra)


def write(*workers: Application) -> None:
    """A few records of each producer, one producer after the other."""
    for worker in workers:
        worker.write_once()


def recreate(mesh: Mesh, cluster: str) -> None:
    admin = AdminClient({"bootstrap.servers": mesh.servers[cluster], "log_level": 0})
    admin.delete_topics([mesh.topic])[mesh.topic].result(30)
    eventually(lambda: mesh.topic not in admin.list_topics(timeout=30).topics, "the topic is deleted")
    create_topics(mesh.servers[cluster], [mesh.topic], partitions=PARTITIONS)


def holds(mesh: Mesh, cluster: str, prefix: str) -> bool:
    return any(value.startswith(prefix.encode()) for value in mesh.values(cluster))


def differences(found: Counter[bytes], expected: Counter[bytes]) -> dict[str, list[tuple[bytes, int]]]:
    return {"too many": (found - expected).most_common(3), "missing": (expected - found).most_common(3)}


def assert_at_rest(mesh: Mesh, everything: Counter[bytes], *, further_runs: int = 1) -> None:
    """Each cluster holds everything once, and further runs of all flows neither copy nor change anything."""
    for _ in range(further_runs):
        assert mesh.run_all() == 0
    for cluster in mesh.servers:
        assert differences(mesh.values(cluster), everything) == {"too many": [], "missing": []}, cluster
    assert broken_invariants(mesh.config) == {}
