"""A topic that something else mirrored under its own name is taken over, and a flow brings back only what is new."""

import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger import app
from ledger.errors import PreconditionError
from ledger.operations.adoption.verdicts import Consent, Verdict
from ledger.sandbox import SandboxCluster
from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import Delivery, create_topics
from tests.support.mesh import PARTITIONS, Mesh, applications, make_mesh, wait_until, written

Pair = Mapping[str, SandboxCluster]
BOTH_WAYS = [("east", "west"), ("west", "east")]


def copy_as_mirror_maker_does(mesh: Mesh) -> None:
    """Under the same name (IdentityReplicationPolicy), by a producer that no ledger knows."""
    delivery = Delivery(mesh.servers["west"], {})
    for (topic, partition), placed in read_topics(mesh.servers["east"], [mesh.topic]).items():
        for found in placed:
            delivery.send(topic, partition, found.record)
    delivery.finish()


def adopt(mesh: Mesh) -> set[Verdict]:
    adoptions = app.adopt_flow(
        mesh.config,
        "east-to-west",
        topics=(),
        consent=Consent(missing=False, foreign=False),
        session=lambda: mesh.spark,
    )
    return {adoption.verdict for adoption in adoptions}


def ran(mesh: Mesh) -> frozenset[str]:
    return app.flows_that_ran(app.snapshot(mesh.config, None))


@pytest.fixture
def mirrored_before(broker_pair: Pair, spark: SparkSession, tmp_path: Path) -> tuple[Mesh, Counter[bytes]]:
    topic = f"both-{uuid.uuid4().hex[:6]}"
    for cluster in broker_pair.values():
        create_topics(cluster.bootstrap_servers, [topic], partitions=PARTITIONS)
    mesh = make_mesh(broker_pair, spark, tmp_path, topic, BOTH_WAYS)
    east = applications(mesh, "east")
    for worker in east:
        worker.write_once()
    copy_as_mirror_maker_does(mesh)
    return mesh, written(east)


@pytest.mark.fault(73)
def test_what_was_adopted_is_not_copied_back(mirrored_before: tuple[Mesh, Counter[bytes]]) -> None:
    mesh, first = mirrored_before
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
    assert mesh.broken_invariants() == {}


@pytest.mark.soak  # a driver beside the command; tests/operations has the rule itself
def test_nothing_is_adopted_while_it_is_being_mirrored_back(
    mirrored_before: tuple[Mesh, Counter[bytes]],
) -> None:
    mesh, _ = mirrored_before
    way_out = "Stop it first: mirror-ledger stop west-to-east"
    with mesh.running("west-to-east"):
        wait_until(lambda: "west-to-east" in ran(mesh), "the flow is claimed")
        with pytest.raises(PreconditionError, match=way_out):
            adopt(mesh)
    assert ran(mesh) == {"west-to-east"}, "nothing was claimed"
