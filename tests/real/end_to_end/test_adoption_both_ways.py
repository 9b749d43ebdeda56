"""A topic that something else mirrored under its own name is taken over, and a flow brings back only what is new."""

import pytest

from ledger.adopt.adopting import Verdict
from tests.support.mesh import adopt, applications, mirrored_before, written
from tests.support.recorded import broken_invariants
from tests.support.site import RealSite


@pytest.mark.fault(73)
def test_what_was_adopted_is_not_copied_back(site: RealSite) -> None:
    mesh, first = mirrored_before(site.pair, site.spark, site.folder)
    assert adopt(mesh) == {Verdict.EXACT}
    west = applications(mesh, "west")
    for worker in west:
        worker.write_once()
    everything = first + written(west)
    assert mesh.run_all() == written(west).total()
    assert mesh.run_all() == 0
    for cluster in mesh.servers:
        assert mesh.values(cluster) == everything, cluster
    assert mesh.gaps("west-to-east")["mirror_write"] == first.total()
    assert broken_invariants(mesh.config) == {}
