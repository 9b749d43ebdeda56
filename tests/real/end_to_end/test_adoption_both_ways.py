"""A topic that something else mirrored under its own name is taken over, and a flow brings back only what is new."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.adopt.adopting import Verdict
from ledger.sandbox import SandboxCluster
from tests.support.mesh import Mesh, adopt, applications, mirrored_before, written
from tests.support.recorded import broken_invariants


@pytest.fixture
def mirrored(
    broker_pair: Mapping[str, SandboxCluster], spark: SparkSession, tmp_path: Path
) -> tuple[Mesh, Counter[bytes]]:
    return mirrored_before(broker_pair, spark, tmp_path)


@pytest.mark.fault(73)
def test_what_was_adopted_is_not_copied_back(mirrored: tuple[Mesh, Counter[bytes]]) -> None:
    mesh, first = mirrored
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
