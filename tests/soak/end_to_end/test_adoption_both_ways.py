"""Adoption while a driver is at work the other way."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.errors import PreconditionError
from ledger.sandbox import SandboxCluster
from tests.support.mesh import Mesh, adopt, mirrored_before, ran
from tests.support.waiting import eventually


@pytest.fixture
def mirrored(
    broker_pair: Mapping[str, SandboxCluster], spark: SparkSession, tmp_path: Path
) -> tuple[Mesh, Counter[bytes]]:
    return mirrored_before(broker_pair, spark, tmp_path)


def test_nothing_is_adopted_while_it_is_being_mirrored_back(
    mirrored: tuple[Mesh, Counter[bytes]],
) -> None:
    mesh, _ = mirrored
    way_out = "Stop it first: mirror-ledger stop west-to-east"
    with mesh.running("west-to-east"):
        eventually(lambda: "west-to-east" in ran(mesh), "the flow is claimed")
        with pytest.raises(PreconditionError, match=way_out):
            adopt(mesh)
    assert ran(mesh) == {"west-to-east"}, "nothing was claimed"
