"""Another cluster behind an alias, or one that was formatted again: refused until somebody says that it is meant."""

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.adopt.adopting import Consent, adopt_flow
from ledger.adopt.key_resync import resync_keys
from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.context import Context
from ledger.errors import PreconditionError
from ledger.recorders.run import record_clusters
from ledger.sandbox import SandboxCluster
from ledger.sandbox.workload import create_topics
from tests.support.clusters import servers_of
from tests.support.config_files import write_flow
from tests.support.following import admin_of, name_of, produce, values
from tests.support.ledger_rows import append, row
from tests.support.recorded import operations, rows
from tests.support.runs import FLOW, run
from tests.support.site import RealSite

Pair = Mapping[str, SandboxCluster]


def mirrored(pair: Pair, spark: SparkSession, folder: Path) -> tuple[MirrorConfig, str]:
    """A flow that has copied a topic of one record, and that topic."""
    topic = name_of("orders")
    config = write_flow(folder, servers_of(pair), f'topics = ["{topic}"]')
    init_ledger(config)
    create_topics(pair["east"].bootstrap_servers, [topic], partitions=1)
    produce(pair["east"].bootstrap_servers, topic, "a")
    assert run(config, spark).records == 1
    return config, topic


def test_another_cluster_is_refused_everywhere_until_it_is_accepted(site: RealSite) -> None:
    _, topic = mirrored(site.pair, site.spark, site.folder)
    west = site.pair["west"]
    elsewhere = {"east": west.bootstrap_servers, "west": west.bootstrap_servers}
    config = write_flow(site.folder, elsewhere, f'topics = ["{topic}"]')
    refused = "another cluster answers behind east"
    with pytest.raises(PreconditionError, match=refused):
        run(config, site.spark)
    nothing = Consent(missing=False, foreign=False)
    with Context(config) as context, pytest.raises(PreconditionError, match=refused):
        adopt_flow(context, FLOW, topics=[], consent=nothing, dry_run=True)
    with Context(config) as context, pytest.raises(PreconditionError, match=refused):
        resync_keys(context, FLOW, topic=topic, partition=None, dry_run=True)
    recorded = site.command(config, "doctor", FLOW, "-o", "json")
    assert "mirror-ledger accept-cluster" in recorded.out

    accept = ("accept-cluster", "east", "--reason", "moved", "--cluster-id")
    wrong = site.command(config, *accept, "some-other-cluster")
    assert (wrong.code, wrong.out) == (5, "")
    assert west.cluster_id in wrong.err
    done = site.done(config, *accept, west.cluster_id, "--ticket", "OPS-1")
    [row_of] = [row for row in rows(config, "operations") if row["kind"] == "cluster_accepted"]
    assert (row_of["operation_id"], row_of["reason"], row_of["ticket"]) == (
        done.out.strip(),
        "moved",
        "OPS-1",
    )
    [accepted] = operations(config, "cluster_accepted")
    assert accepted == {
        "cluster": "east",
        "cluster_id": west.cluster_id,
        "former_id": site.pair["east"].cluster_id,
        "rebuilt": False,
        "retired_epochs": {},
    }
    again = site.command(config, *accept, west.cluster_id)
    assert (again.code, again.out) == (0, "")
    create_topics(west.bootstrap_servers, [topic], partitions=1)
    produce(west.bootstrap_servers, topic, "b")
    [stopped] = run(config, site.spark).stopped
    assert "was recreated at the source" in stopped.message
    assert values(west.bootstrap_servers, f"east.{topic}") == [b"a"]


def test_a_recorder_records_nothing_of_another_cluster(site: RealSite) -> None:
    config, topic = mirrored(site.pair, site.spark, site.folder)
    swapped = {"east": site.pair["west"].bootstrap_servers, "west": site.pair["west"].bootstrap_servers}
    elsewhere = write_flow(site.folder, swapped, f'topics = ["{topic}"]')
    with pytest.raises(PreconditionError, match="another cluster answers behind east"):
        record_clusters(elsewhere, ["east"], stop=threading.Event(), once=True)
    assert rows(config, "checkpoints") == rows(config, "topics") == []


def test_a_cluster_that_was_formatted_again_gives_the_flow_another_id(site: RealSite) -> None:
    config, topic = mirrored(site.pair, site.spark, site.folder)
    west = site.pair["west"].cluster_id
    with admin_of(config, "west") as admin:
        reached = admin.metadata_offset()
        assert reached is not None
        admin.create_topic(name_of("grows"), partitions=1, replication_factor=1, configuration={})
        grown = admin.metadata_offset()
        assert grown is not None
        assert grown > reached
    claimed = [found for found in rows(config, "writers") if found["event"] == "claimed"][-1]
    assert claimed["target_metadata_offset"] is not None
    long_ago = {**row("writers"), **claimed, "writer": "recorder:west", "target_metadata_offset": 10_000_000}
    append(config.ledger.path, "writers", [long_ago])  # as if it had lived for months before
    with pytest.raises(PreconditionError, match="its metadata went back from offset 10000000"):
        run(config, site.spark)
    accept = ("accept-cluster", "west", "--cluster-id", west, "--rebuilt", "--reason", "disk lost")
    site.done(config, *accept)
    produce(site.pair["east"].bootstrap_servers, topic, "b")
    summary = run(config, site.spark)
    ids = {found["producer_id"] for found in rows(config, "writers") if found["event"] == "claimed"}
    assert len(ids) == 2
    # Nothing was formatted in truth: the flow goes on behind what it had written with the id that it gave up.
    assert (summary.is_unfinished, summary.records) == (False, 1)
    assert values(site.pair["west"].bootstrap_servers, f"east.{topic}") == [b"a", b"b"]
