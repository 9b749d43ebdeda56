"""Brokers that do not know some requests, as managed and compatible ones: mirrored all the same, or refused before
anything is written."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.examination import examine
from ledger.errors import PreconditionError
from ledger.recorders.observation import Subject
from ledger.sandbox import SandboxCluster
from ledger.sandbox.workload import create_topics
from tests.support.config_files import write_config
from tests.support.following import name_of, produce, values
from tests.support.forwarder import Forwarder
from tests.support.recorded import broken_invariants, rows
from tests.support.runs import FLOW, run

BY_NAME = {0: 12, 1: 12}
NOT_NEEDED = {
    "DescribeProducers": 61,
    "OffsetForLeaderEpoch": 23,
    "DescribeAcls": 29,
    "DescribeUserScramCredentials": 50,
    "DescribeClientQuotas": 48,
    "ListTransactions": 66,
    "DescribeTransactions": 65,
    "DescribeLogDirs": 35,
    "DescribeCluster": 60,
    "CreatePartitions": 37,
    "IncrementalAlterConfigs": 44,
}
NEEDED = {"InitProducerId": 22, "Metadata": 3}
VALUES = [f"v{number}" for number in range(200)]


@pytest.fixture
def topic(broker_pair: dict[str, SandboxCluster]) -> str:
    """Filled at the source."""
    name, servers = name_of("lacking"), broker_pair["east"].bootstrap_servers
    create_topics(servers, [name], partitions=1, configuration={"retention.ms": "123456789"})
    produce(servers, name, *VALUES)
    return name


@pytest.fixture
def config(lines: dict[str, Forwarder], topic: str, tmp_path: Path) -> MirrorConfig:
    """A flow through the forwarders."""
    servers = {"east": lines["source"].address, "west": lines["target"].address}
    config = write_config(tmp_path, servers, {FLOW: f'topics = ["{topic}"]\nsync_groups = true'})
    init_ledger(config)
    return config


@pytest.mark.parametrize(
    "lacking", [*([one] for one in NOT_NEEDED), list(NOT_NEEDED)], ids=lambda some: some[-1]
)
def test_what_is_not_needed_costs_no_record(
    lines: dict[str, Forwarder],
    broker_pair: dict[str, SandboxCluster],
    topic: str,
    config: MirrorConfig,
    spark: SparkSession,
    lacking: list[str],
) -> None:
    for line in lines.values():
        line.unspoken = frozenset(NOT_NEEDED[one] for one in lacking)
        line.newest_versions = BY_NAME if len(lacking) > 1 else {}
    found = examine(config, [], probe=True, retention_share=0.25)
    assert [one for one in found if one.verdict in (Verdict.FAILED, Verdict.UNKNOWN)] == []

    run(config, spark, recorded=frozenset(Subject))

    at_west = broker_pair["west"].bootstrap_servers
    assert values(at_west, f"east.{topic}") == [one.encode() for one in VALUES]
    assert {row["cluster"] for row in rows(config, "high_watermarks")} == {"east", "west"}
    assert broken_invariants(config) == {}


@pytest.mark.parametrize("lacking", list(NEEDED))
def test_what_is_needed_is_refused_before_anything_is_written(
    lines: dict[str, Forwarder],
    broker_pair: dict[str, SandboxCluster],
    topic: str,
    config: MirrorConfig,
    spark: SparkSession,
    lacking: str,
) -> None:
    for line in lines.values():
        if lacking == "Metadata":
            line.newest_versions = {NEEDED[lacking]: 9}
        else:
            line.unspoken = frozenset([NEEDED[lacking]])
    with pytest.raises(PreconditionError, match=lacking if lacking != "Metadata" else "gives no topic ids"):
        run(config, spark)
    found = examine(config, [], probe=False, retention_share=0.25)
    assert Check.BROKER_VERSION in {one.check for one in found if one.verdict is Verdict.FAILED}
    assert rows(config, "writers") == []
    client = AdminClient({"bootstrap.servers": broker_pair["west"].bootstrap_servers})
    assert f"east.{topic}" not in client.list_topics(timeout=10).topics
