"""Examinations of real clusters and a real ledger."""

import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

from ledger.clock import SystemClock
from ledger.config.file import load_config
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.results import is_safe
from ledger.kafka.admin import KafkaAdmin
from ledger.sandbox import Sandbox, SandboxCluster
from tests.support.mirrors import Mirror, verdicts

HOUR_MS = 3_600_000


@pytest.fixture
def admins(broker_pair: Mapping[str, SandboxCluster], mirror: Mirror) -> Iterator[dict[str, KafkaAdmin]]:
    made = {alias: KafkaAdmin(alias, mirror.config.cluster(alias), SystemClock()) for alias in broker_pair}
    yield made
    for admin in made.values():
        admin.close()


@pytest.fixture
def topic() -> str:
    return f"doctor-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def mirror(broker_pair: Mapping[str, SandboxCluster], topic: str, tmp_path: Path) -> Mirror:
    servers = {alias: cluster.bootstrap_servers for alias, cluster in broker_pair.items()}
    return Mirror.of(tmp_path, servers, topic)


def fill(cluster: SandboxCluster, topic: str, records: int, *, timestamp_ms: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5})
    for number in range(records):
        producer.produce(topic, b"%d" % number + b"." * 1000, partition=0, timestamp=timestamp_ms)
    assert producer.flush(30) == 0


def create(admin: KafkaAdmin, topic: str, **settings: object) -> str:
    """Create a topic with settings (dots written as underscores); returns its topic id."""
    configuration = {name.replace("_", "."): str(value) for name, value in settings.items()}
    admin.create_topic(topic, partitions=1, replication_factor=1, configuration=configuration)
    return admin.topics()[topic].topic_id


# In order --------------------------------------------------------------------------------------


def test_two_fresh_clusters_are_fine(
    mirror: Mirror, topic: str, admins: dict[str, KafkaAdmin], broker_pair: Mapping[str, SandboxCluster]
) -> None:
    create(admins["east"], topic)
    findings = mirror.examined()
    assert is_safe(findings, strict=False)
    assert verdicts(findings, "broker east/1") == {
        Check.ADVERTISED_BROKER: Verdict.OK,
        Check.BROKER_VERSION: Verdict.OK,
    }
    assert verdicts(findings, "broker west/1")[Check.PRODUCER_STATE] is Verdict.OK
    assert verdicts(findings, "cluster west")[Check.COMPARE_AND_APPEND] is Verdict.SKIPPED
    assert verdicts(findings, "cluster east")[Check.BROKER_CLOCK] is Verdict.SKIPPED
    on_flow = verdicts(findings, "flow flow")
    assert on_flow[Check.TARGET_REPLICATION] is Verdict.WARNING, "one broker, one replica"
    assert on_flow[Check.SOURCE_EXCESS] is Verdict.WARNING, "no authorizer"
    assert {check for check, verdict in on_flow.items() if verdict is not Verdict.OK} == {
        Check.TARGET_REPLICATION,
        Check.SOURCE_EXCESS,
        Check.TARGET_WRITERS,
    }
    found = {finding.check: finding.measured for finding in findings}
    assert found[Check.SELECTED_TOPICS] == f"1 topic: {topic}"
    assert broker_pair["west"].bootstrap_servers in found[Check.BOOTSTRAP_ADDRESS]


def test_a_flow_that_selects_nothing_is_told(mirror: Mirror) -> None:
    assert mirror.one(Check.SELECTED_TOPICS).verdict is Verdict.WARNING


def test_a_flow_within_one_cluster_does_not_take_its_own_copies(
    mirror: Mirror, topic: str, admins: dict[str, KafkaAdmin]
) -> None:
    for name in (topic, f"copy.{topic}"):
        create(admins["east"], name)
    renamed = f"topic_naming = \"rename\"\nrename = [{{ match = '(.*{topic})', to = 'copy.\\1' }}]"
    text = mirror.file.read_text(encoding="utf-8").replace('target = "west"', f'target = "east"\n{renamed}')
    mirror.file.write_text(text.replace(f"['{topic}']", f"['.*{topic}']"), encoding="utf-8")
    within = Mirror(mirror.file, load_config(mirror.file))
    assert within.one(Check.SELECTED_TOPICS).measured == f"1 topic: {topic}"


# Identity --------------------------------------------------------------------------------------


def test_another_cluster_under_a_known_alias_fails(
    mirror: Mirror, broker_pair: Mapping[str, SandboxCluster]
) -> None:
    east, west = (broker_pair[alias].cluster_id for alias in ("east", "west"))
    mirror.record_claim(east, west, at_ms=2)
    assert verdicts(mirror.examined(), "cluster east")[Check.CLUSTER_IDENTITY] is Verdict.OK
    mirror.record_claim("another-cluster", west, at_ms=3)
    findings = mirror.examined()
    assert verdicts(findings, "cluster west")[Check.CLUSTER_IDENTITY] is Verdict.OK
    (identity,) = [f for f in findings if f.check is Check.CLUSTER_IDENTITY and f.subject == "cluster east"]
    assert identity.verdict is Verdict.FAILED
    both = " and ".join(sorted((east, "another-cluster")))
    assert identity.measured == f"{east}, the ledger recorded {both}"


# Retention -------------------------------------------------------------------------------------


def test_headroom_is_measured_at_the_position_of_the_flow(
    mirror: Mirror, topic: str, admins: dict[str, KafkaAdmin], broker_pair: Mapping[str, SandboxCluster]
) -> None:
    topic_id = create(admins["east"], topic, retention_ms=4 * HOUR_MS, retention_bytes=10_000_000)
    now_ms = SystemClock().now_ms()
    fill(broker_pair["east"], topic, 50, timestamp_ms=now_ms - int(3.5 * HOUR_MS))
    fill(broker_pair["east"], topic, 50, timestamp_ms=now_ms - HOUR_MS)
    mirror.record_position(topic, topic_id, 0, 60)
    fine = mirror.examined()
    time_left = next(finding for finding in fine if finding.check is Check.RETENTION_TIME)
    assert (time_left.verdict, time_left.measured.split(",")[1]) == (Verdict.OK, " 40 records behind")
    assert "2 h 59 min of 4 h left" in time_left.measured
    bytes_left = next(finding for finding in fine if finding.check is Check.RETENTION_BYTES)
    assert bytes_left.verdict is Verdict.OK
    assert "9.5 MiB of 9.5 MiB left" in bytes_left.measured


def test_too_little_headroom_is_a_warning(
    mirror: Mirror, topic: str, admins: dict[str, KafkaAdmin], broker_pair: Mapping[str, SandboxCluster]
) -> None:
    topic_id = create(
        admins["east"],
        topic,
        retention_ms=4 * HOUR_MS,
        retention_bytes=60_000,
        cleanup_policy="compact,delete",
        delete_retention_ms=2 * HOUR_MS,
        min_cleanable_dirty_ratio=1,
        min_compaction_lag_ms=HOUR_MS * 100,
    )
    old_ms = SystemClock().now_ms() - int(3.5 * HOUR_MS)
    producer = Producer({"bootstrap.servers": broker_pair["east"].bootstrap_servers})
    for number in range(60):
        producer.produce(topic, b"." * 1000, key=b"%d" % number, timestamp=old_ms)
    assert producer.flush(30) == 0
    mirror.record_position(topic, topic_id, 0, 5)
    found = verdicts(mirror.examined(), "flow flow")
    assert {
        check: found[check] for check in (Check.RETENTION_TIME, Check.RETENTION_BYTES, Check.TOMBSTONES)
    } == {
        Check.RETENTION_TIME: Verdict.WARNING,
        Check.RETENTION_BYTES: Verdict.WARNING,
        Check.TOMBSTONES: Verdict.WARNING,
    }


def test_a_position_that_the_source_has_deleted_fails(
    mirror: Mirror, topic: str, admins: dict[str, KafkaAdmin], broker_pair: Mapping[str, SandboxCluster]
) -> None:
    topic_id = create(admins["east"], topic)
    fill(broker_pair["east"], topic, 20, timestamp_ms=SystemClock().now_ms())
    mirror.record_position(topic, topic_id, 0, 8)
    assert mirror.one(Check.RETENTION_TIME).verdict is Verdict.OK
    client = AdminClient({"bootstrap.servers": broker_pair["east"].bootstrap_servers})
    for deleted in client.delete_records([TopicPartition(topic, 0, 12)]).values():
        deleted.result(30)
    finding = mirror.one(Check.RETENTION_TIME)
    assert finding.verdict is Verdict.FAILED
    assert "the log starts at 12: 4 offsets were deleted" in finding.measured


def test_a_position_of_another_incarnation_has_nothing_to_lose(
    mirror: Mirror, topic: str, admins: dict[str, KafkaAdmin]
) -> None:
    create(admins["east"], topic)
    mirror.record_position(topic, "another-topic-id-22-ch", 0, 8)
    assert mirror.one(Check.RETENTION_TIME).measured == "the flow has no position yet"


# Topics ----------------------------------------------------------------------------------------


def test_a_target_topic_that_takes_smaller_batches_is_warned_about(
    mirror: Mirror, topic: str, admins: dict[str, KafkaAdmin]
) -> None:
    create(admins["east"], topic, max_message_bytes=2_000_000)
    assert mirror.one(Check.BATCH_SIZE).verdict is Verdict.OK, "the target topic gets the same limit"
    create(admins["west"], f"east.{topic}", compression_type="zstd", message_timestamp_type="LogAppendTime")
    finding = mirror.one(Check.BATCH_SIZE)
    assert finding.verdict is Verdict.WARNING
    assert f"{topic} takes batches of up to 2,000,000 B" in finding.measured
    assert "1,048,588 B" in finding.measured
    told = [f.measured for f in mirror.examined() if f.check is Check.TARGET_SETTINGS]
    assert [line.split(": ")[1].split()[0] for line in told] == [
        "compression.type",
        "message.timestamp.type",
        "message.timestamp.after.max.ms",
    ]


def test_replicas_that_the_target_does_not_have_fail(
    broker_pair: Mapping[str, SandboxCluster], topic: str, tmp_path: Path, admins: dict[str, KafkaAdmin]
) -> None:
    servers = {alias: cluster.bootstrap_servers for alias, cluster in broker_pair.items()}
    mirror = Mirror.of(tmp_path, servers, topic, flow="replication_factor = 3")
    create(admins["east"], topic)
    finding = next(finding for finding in mirror.examined() if finding.check is Check.TARGET_REPLICATION)
    assert finding.verdict is Verdict.FAILED
    assert "asks for more replicas than the 1 broker of the target" in finding.measured


# Not answering ---------------------------------------------------------------------------------


def dead_address() -> str:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{closed.getsockname()[1]}"


def test_a_cluster_that_does_not_answer_is_unknown_in_all_but_that(
    broker_pair: Mapping[str, SandboxCluster], tmp_path: Path
) -> None:
    address = dead_address()
    servers = {"east": address, "west": broker_pair["west"].bootstrap_servers}
    mirror = Mirror.of(tmp_path, servers, ".*")
    started = time.monotonic()
    findings = mirror.examined(probe=True)
    assert time.monotonic() - started < 15
    east = [finding for finding in findings if finding.subject == "cluster east"]
    (failed,) = [finding for finding in east if finding.verdict is Verdict.FAILED]
    assert (failed.check, address in failed.measured) == (Check.BOOTSTRAP_ADDRESS, True)
    assert verdicts(east, "cluster east") == {
        Check.BOOTSTRAP_ADDRESS: Verdict.FAILED,
        Check.CLUSTER_IDENTITY: Verdict.UNKNOWN,
        Check.ADVERTISED_BROKER: Verdict.UNKNOWN,
        Check.BROKER_VERSION: Verdict.UNKNOWN,
        Check.BROKER_CLOCK: Verdict.SKIPPED,
    }
    assert set(verdicts(findings, "flow flow").values()) == {Verdict.UNKNOWN}
    assert set(verdicts(findings, "cluster west").values()) == {Verdict.OK}


def test_one_dead_address_beside_a_living_one_is_told(
    broker_pair: Mapping[str, SandboxCluster], tmp_path: Path
) -> None:
    east = broker_pair["east"].bootstrap_servers
    servers = {"east": f"{dead_address()},{east}", "west": broker_pair["west"].bootstrap_servers}
    mirror = Mirror.of(tmp_path, servers, ".*")
    found = [
        f.verdict
        for f in mirror.examined()
        if (f.subject, f.check) == ("cluster east", Check.BOOTSTRAP_ADDRESS)
    ]
    assert found == [Verdict.WARNING, Verdict.OK]


def test_a_paused_cluster_ends_in_time(
    broker_pair_sandbox: Sandbox, mirror: Mirror, broker_pair: Mapping[str, SandboxCluster]
) -> None:
    broker_pair_sandbox.pause("west")
    started = time.monotonic()
    try:
        findings = mirror.examined(probe=True)
    finally:
        broker_pair_sandbox.resume("west")
    assert time.monotonic() - started < 30
    assert verdicts(findings, "cluster west")[Check.BOOTSTRAP_ADDRESS] is Verdict.FAILED
    assert verdicts(findings, "cluster west")[Check.COMPARE_AND_APPEND] is Verdict.UNKNOWN


# The probe -------------------------------------------------------------------------------------


def test_the_probe_sees_compare_and_append_and_leaves_nothing(
    mirror: Mirror, broker_pair: Mapping[str, SandboxCluster]
) -> None:
    with closing(KafkaAdmin("west", mirror.config.cluster("west"), SystemClock())) as admin:
        before = set(admin.topics())
        findings = mirror.examined(probe=True)
        assert set(admin.topics()) == before
    (probe,) = [finding for finding in findings if finding.check is Check.COMPARE_AND_APPEND]
    assert probe.verdict is Verdict.OK, probe.measured
    assert "12 of 12 answers as expected in topic mirror-ledger-probe-" in probe.measured
    assert verdicts(findings, "broker west/1")[Check.BROKER_CLOCK] is Verdict.OK
    assert verdicts(findings, "cluster east")[Check.BROKER_CLOCK] is Verdict.SKIPPED


# The ledger ------------------------------------------------------------------------------------


def test_what_was_done_to_the_ledger_is_seen(mirror: Mirror, tmp_path: Path) -> None:
    findings = verdicts(mirror.examined(), "ledger")
    assert {check for check, verdict in findings.items() if verdict is not Verdict.OK} == {Check.LEDGER_PLACE}
    mirror.record_claim("a", "b", at_ms=1)
    writers = DeltaTable(tmp_path / "ledger" / "writers")
    writers.restore(0)
    writers.alter.set_table_properties({"delta.appendOnly": "false", "delta.checkpointInterval": "10"})
    found = {finding.check: finding for finding in mirror.examined() if finding.subject == "ledger"}
    assert found[Check.LEDGER_HISTORY].verdict is Verdict.FAILED
    assert found[Check.LEDGER_HISTORY].measured == "writers version 2: RESTORE"
    assert found[Check.LEDGER_APPEND_ONLY].verdict is Verdict.FAILED
    assert found[Check.LEDGER_CHECKPOINTS].verdict is Verdict.WARNING
    assert list((tmp_path / "ledger").glob(".mirror-ledger-doctor-*")) == []
