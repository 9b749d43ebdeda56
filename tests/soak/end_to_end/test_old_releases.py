"""Clusters of older releases of Kafka at either side: topics, records and groups arrive as from and to the newest."""

import time
import uuid
from collections.abc import Iterator, Mapping

import pytest
from pyspark.sql import SparkSession

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.examination import examine
from ledger.recorders.observation import Subject
from ledger.sandbox import SandboxCluster
from ledger.sandbox.groups import GroupPlan, consume, resume
from ledger.sandbox.log_gaps import produce_transfers
from ledger.sandbox.reading import Partition, Readings, read_topics
from ledger.sandbox.resumption import compare
from ledger.sandbox.workload import RecordSource, Workload, create_topics, produce_events
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.following import admin_of
from tests.support.releases import OLD, WITH_ZOOKEEPER, old_clusters
from tests.support.runs import FLOW, run

RECORDS = 200
SETTINGS = {"retention.ms": "123456789", "message.timestamp.type": "CreateTime"}
_UNBOUNDED = str(2**63 - 1)

pytestmark = pytest.mark.xdist_group("old_releases")
Pair = Mapping[str, SandboxCluster]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """An old cluster for each side."""
    folder = tmp_path_factory.mktemp("old")
    with old_clusters(folder, {"east": WITH_ZOOKEEPER, "west": OLD}) as sandbox:
        yield sandbox.status()


@pytest.fixture(params=["source", "target"])
def pair(request: pytest.FixtureRequest, old: Pair, broker_pair: Pair) -> Pair:
    """An old cluster at this side, the newest at the other."""
    if request.param == "source":
        return {"east": old["east"], "west": broker_pair["west"]}
    return {"east": broker_pair["east"], "west": old["west"]}


def test_topics_records_and_groups_arrive(
    pair: Pair, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    servers, prefix = servers_of(pair), f"old-{uuid.uuid4().hex[:6]}-"
    workload = Workload(records_per_topic=RECORDS, started_ms=time.time_ns() // 1_000_000, prefix=prefix)
    source, settled = RecordSource(workload), f"{prefix}settled"
    produce_events(servers["east"], workload, source, lambda: None)
    produce_transfers(servers["east"], workload, source)
    create_topics(servers["east"], [settled], partitions=1, configuration=SETTINGS)
    written = read_topics(servers["east"], [*workload.event_topics, workload.stamped, workload.transfers])
    group, read = read_half(servers["east"], f"{prefix}group", written)
    lines = 'topic_naming = "identity"\nsync_groups = true\nsync_groups_seconds = 0.2'
    lines += f'\ntopics = ["{prefix}.*"]\ngroups = ["{prefix}.*"]'
    config = write_config(tmp_path_factory.mktemp("site"), servers, {FLOW: lines})
    init_ledger(config)
    assert_nothing_failed(config)

    run(config, spark, recorded=frozenset(Subject))

    assert without_stamps(read_topics(servers["west"], list({at[0] for at in written}))) == without_stamps(
        written
    )
    resumed = resume(servers["west"], group.group_id, list(group.stops))
    found = compare(group.group_id, written, read, resumed)
    assert [str(one) for one in found if not one.is_exact] == []
    with admin_of(config, "west") as admin:
        at_target = admin.configurations([settled])[settled]
    assert at_target["retention.ms"] == SETTINGS["retention.ms"]
    assert at_target["message.timestamp.before.max.ms"] == _UNBOUNDED
    assert_nothing_failed(config)


def read_half(servers: str, group_id: str, written: Readings) -> tuple[GroupPlan, Readings]:
    """A group that has read and committed about half of each partition."""
    stops: dict[Partition, int] = {
        at: records[len(records) // 2].offset for at, records in written.items() if records
    }
    plan = GroupPlan(group_id, stops)
    return plan, consume(servers, plan)


def without_stamps(found: Readings) -> dict[Partition, list[object]]:
    return {at: [placed.record for placed in records] for at, records in found.items()}


def assert_nothing_failed(config: MirrorConfig) -> None:
    found = examine(config, [], probe=True, retention_share=0.25)
    failed = [one for one in found if one.verdict in (Verdict.FAILED, Verdict.UNKNOWN)]
    assert failed == []
    assert Check.BROKER_VERSION in {one.check for one in found if one.verdict is Verdict.WARNING}
