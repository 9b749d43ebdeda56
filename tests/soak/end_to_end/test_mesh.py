"""Clusters that mirror one name to each other: three of them, and two of which one is adopted meanwhile."""

from itertools import permutations

import pytest

from ledger.errors import PreconditionError
from ledger.sandbox import Sandbox
from tests.support.mesh import (
    GOES_ON,
    adopt,
    applications,
    assert_at_rest,
    at_work,
    mesh_of,
    mirrored_before,
    ran,
    recreate,
    written,
)
from tests.support.site import RealSite
from tests.support.waiting import eventually


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


def test_nothing_is_adopted_while_it_is_being_mirrored_back(site: RealSite) -> None:
    mesh, _ = mirrored_before(site.pair, site.spark, site.folder)
    way_out = "Stop it first: mirror-ledger stop west-to-east"
    with mesh.running("west-to-east"):
        eventually(lambda: "west-to-east" in ran(mesh), "the flow is claimed")
        with pytest.raises(PreconditionError, match=way_out):
            adopt(mesh)
    assert ran(mesh) == {"west-to-east"}, "nothing was claimed"
