"""Three clusters that mirror one name to each other."""

from collections.abc import Mapping
from itertools import permutations
from pathlib import Path

from pyspark.sql import SparkSession

from ledger.sandbox import Sandbox, SandboxCluster
from tests.support.mesh import GOES_ON, applications, assert_at_rest, at_work, mesh_of, recreate, written


def test_three_clusters_mirror_to_each_other_and_give_history_back_once(
    broker_pair: Mapping[str, SandboxCluster], spark: SparkSession, tmp_path: Path
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
        assert_at_rest(mesh, written(workers), further_runs=2)
        recreate(mesh, "east")
        assert mesh.run_all() == written(workers).total(), (
            "west and south hold all, one of them gives it back"
        )
        assert_at_rest(mesh, written(workers), further_runs=2)
    finally:
        third.down()
