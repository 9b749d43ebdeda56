"""A topic that something else has mirrored under its own name, and that flows in both directions are to take over."""

import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from ledger.adopt.adopting import Consent, Verdict, adopt_flow
from ledger.sandbox import SandboxCluster
from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import Delivery, create_topics
from ledger.store import answers
from tests.support.mesh import PARTITIONS, Mesh, applications, make_mesh, written

BOTH_WAYS = [("east", "west"), ("west", "east")]


def copy_as_mirror_maker_does(mesh: Mesh) -> None:
    """Under the same name (IdentityReplicationPolicy), by a producer that no ledger knows."""
    delivery = Delivery(mesh.servers["west"], {})
    for (topic, partition), placed in read_topics(mesh.servers["east"], [mesh.topic]).items():
        for found in placed:
            delivery.send(topic, partition, found.record)
    delivery.finish()


def adopt(mesh: Mesh) -> set[Verdict]:
    adoptions = adopt_flow(
        mesh.config,
        "east-to-west",
        topics=(),
        consent=Consent(missing=False, foreign=False),
    )
    return {adoption.verdict for adoption in adoptions}


def ran(mesh: Mesh) -> frozenset[str]:
    return answers.flows_that_ran(answers.snapshot(mesh.config, None))


def mirrored_before(
    pair: Mapping[str, SandboxCluster], spark: SparkSession, folder: Path
) -> tuple[Mesh, Counter[bytes]]:
    """Flows that have not run, and what `east` holds and somebody else has copied."""
    topic = f"both-{uuid.uuid4().hex[:6]}"
    for cluster in pair.values():
        create_topics(cluster.bootstrap_servers, [topic], partitions=PARTITIONS)
    mesh = make_mesh(pair, spark, folder, topic, BOTH_WAYS)
    east = applications(mesh, "east")
    for worker in east:
        worker.write_once()
    copy_as_mirror_maker_does(mesh)
    return mesh, written(east)
