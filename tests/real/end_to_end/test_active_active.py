"""The same topic names mirrored in all directions: each side ends up with everything once, and nothing loops."""

import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from ledger.sandbox import Sandbox, SandboxCluster
from ledger.sandbox.log_gaps import (
    CLEANED_AGAIN,
    CLEANED_QUICKLY,
    KEPT_AS_IT_IS,
    configure,
    wait_until_cleaned,
)
from ledger.sandbox.workload import Delivery, RecordSource, Workload, create_topics
from tests.support.mesh import (
    PARTITIONS,
    Application,
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


GOES_ON = 'on_source_recreated = "continue"\non_target_recreated = "continue"'


def mesh_of(
    clusters: Pair,
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
    wait_until(lambda: mesh.topic not in admin.list_topics(timeout=30).topics, "the topic is deleted")
    create_topics(mesh.servers[cluster], [mesh.topic], partitions=PARTITIONS)


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


@pytest.mark.fault(73)
def test_both_sides_are_written_while_mirrors_start_die_and_stop(
    broker_pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    mesh = mesh_of(broker_pair, spark, tmp_path, BOTH_WAYS)
    east, west = (applications(mesh, cluster) for cluster in ("east", "west"))
    with at_work([*east, *west]):
        with mesh.killed_afterwards("east-to-west"):
            wait_until(lambda: holds(mesh, "west", "east-transactional"), "east's records reach west")
            with mesh.running("west-to-east"):  # for the first time, while the other one runs
                wait_until(lambda: holds(mesh, "east", "west-transactional"), "west's records reach east")
        with mesh.running("east-to-west"), mesh.running("west-to-east"):
            after_the_kill = written(west).total()
            wait_until(lambda: written(west).total() > after_the_kill + 100, "applications go on")
    assert mesh.run_all() > 0
    assert_at_rest(mesh, written([*east, *west]))
    assert mesh.gaps("east-to-west")["mirror_write"] == written(west).total()
    assert mesh.gaps("west-to-east")["mirror_write"] == written(east).total()
    assert min(mesh.gaps(flow)["aborted"] for flow in mesh.config.flows) > 0


def test_a_recreated_topic_gets_its_history_back(
    broker_pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    mesh = mesh_of(broker_pair, spark, tmp_path, BOTH_WAYS, extra=GOES_ON)
    first = [*applications(mesh, "east"), *applications(mesh, "west")]
    write(*first)
    mesh.run_all()
    assert_at_rest(mesh, written(first))
    recreate(mesh, "east")
    second = [*applications(mesh, "east", "-again"), *applications(mesh, "west", "-again")]
    write(*second)
    assert mesh.run_all() == written([*first, *second]).total(), "west gives east its first records back"
    assert_at_rest(mesh, written([*first, *second]))


@pytest.mark.soak  # thirty runs of drivers; the simulation has the same shape in every run of the tests
def test_three_clusters_mirror_to_each_other_and_give_history_back_once(
    broker_pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    third = Sandbox(tmp_path / "third")
    try:
        clusters = {**broker_pair, **third.up(["south"], brokers=1)}
        directions = list(permutations(clusters, 2))
        mesh = mesh_of(clusters, spark, tmp_path, directions, extra=GOES_ON)
        workers = [worker for cluster in clusters for worker in applications(mesh, cluster)]
        with at_work(workers):
            mesh.run_all()
        mesh.run_all()
        assert_at_rest(mesh, written(workers))
        recreate(mesh, "east")
        assert mesh.run_all() == written(workers).total(), (
            "west and south hold all, one of them gives it back"
        )
        assert_at_rest(mesh, written(workers))
    finally:
        third.down()


def test_what_a_mirror_wrote_is_known_after_the_cleaner_came(
    broker_pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    mesh = mesh_of(
        broker_pair, spark, tmp_path, BOTH_WAYS, configuration={**CLEANED_QUICKLY, **KEPT_AS_IT_IS}
    )
    workload = Workload(records_per_topic=0, started_ms=time.time_ns() // 1_000_000 - 60_000)
    delivery = Delivery(mesh.servers["east"], {"batch.num.messages": "50"})
    for number, record in enumerate(RecordSource(workload).overwrite(mesh.topic, 2_000, keys=20)):
        delivery.send(mesh.topic, number % PARTITIONS, record)
    delivery.finish()
    assert mesh.run("east-to-west").records == 2_000
    configure(mesh.servers["west"], mesh.topic, CLEANED_AGAIN)
    holes = sum(wait_until_cleaned(mesh.servers["west"], mesh.topic).values())
    assert holes > 500
    assert mesh.run("west-to-east").records == 0
    gaps = mesh.gaps("west-to-east")
    assert gaps["mirror_write"] > 0
    assert set(gaps) <= {"mirror_write", "compacted"}
    assert sum(gaps.values()) == 2_000
    assert mesh.broken_invariants() == {}
