"""Three clusters that mirror one name to each other."""

from itertools import permutations

from ledger.sandbox import Sandbox
from tests.support.mesh import GOES_ON, applications, assert_at_rest, at_work, mesh_of, recreate, written
from tests.support.site import RealSite


def test_three_clusters_mirror_to_each_other_and_give_history_back_once(site: RealSite) -> None:
    third = Sandbox(site.folder / "third")
    try:
        clusters = {**site.pair, **third.up(["south"], brokers=1)}
        directions = list(permutations(clusters, 2))
        mesh = mesh_of(clusters, site.spark, site.folder, directions, extra=GOES_ON)
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
