"""Keys that a compacted source deleted unseen are deleted at the target, and the flow goes on behind that."""

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from ledger.adopt.key_resync import PartitionKeys, resync_keys
from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.errors import PreconditionError, UsageError
from ledger.offsets import flow_answers
from ledger.sandbox import SandboxCluster
from ledger.sandbox.log_gaps import KEPT_AS_IT_IS
from ledger.sandbox.reading import PlacedRecord, read_topics
from ledger.sandbox.workload import create_topics
from ledger.store import answers, sql
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from tests.support.clusters import servers_of
from tests.support.config_files import write_flow
from tests.support.runs import FLOW, run, running
from tests.support.site import RealSite
from tests.support.waiting import eventually

DELETED = 1_200  # keys; more than two batches of tombstones
Pair = Mapping[str, SandboxCluster]
COMPACTED = {
    **KEPT_AS_IT_IS,
    "cleanup.policy": "compact,delete",  # with delete, a test may cut the log
    "retention.ms": "-1",
    "delete.retention.ms": "1000",
}
HOUR_MS = 3_600_000
KEPT, LATE, AFTERWARDS = b"kept", b"late", b"afterwards"
FINDING = "tombstones_may_be_missing"


def deleted_key(number: int) -> bytes:
    return b"deleted-%d" % number


def produce(
    servers: str, topic: str, records: Iterable[tuple[bytes, bytes | None]], *, age_ms: int = 0
) -> None:
    producer = Producer({"bootstrap.servers": servers})
    now_ms = time.time_ns() // 1_000_000
    for key, value in records:
        producer.produce(topic, key=key, value=value, partition=0, timestamp=now_ms - age_ms)
    assert producer.flush(30) == 0


def delete_before(servers: str, topic: str, offset: int) -> None:
    at = TopicPartition(topic, 0, offset)
    client = AdminClient({"bootstrap.servers": servers})  # its futures need it as long as they wait
    client.delete_records([at])[at].result(120)


def resync(
    config: MirrorConfig, topic: str, *, partition: int | None = None, dry_run: bool = False
) -> list[PartitionKeys]:
    return resync_keys(config, FLOW, topic=topic, partition=partition, dry_run=dry_run)


def token(config: MirrorConfig) -> str:
    return answers.snapshot(config, None).cut.token


def findings(config: MirrorConfig) -> set[tuple[str, str | None, int | None]]:
    found = DeltaLedgerState(open_ledger(config.ledger.path)).open_findings(FLOW)
    return {key for key in found if key[0] == FINDING}


def operations(config: MirrorConfig, kind: str) -> list[str]:
    with sql.connect(answers.snapshot(config, None), {}, ("operations",)) as connection:
        rows = connection.execute("select content from operations where kind = ?", [kind]).fetchall()
    return [content for (content,) in rows]


@dataclass(frozen=True)
class Resynced:
    """A topic whose keys were deleted unseen, at every step of putting that right."""

    config: MirrorConfig
    topic: str
    while_behind: str
    while_running: str
    findings_before: set[tuple[str, str | None, int | None]]
    preview: list[PartitionKeys]
    preview_cuts: tuple[str, str]
    done: list[PartitionKeys]
    findings_after: set[tuple[str, str | None, int | None]]
    again: list[PartitionKeys]
    records_afterwards: int
    target: list[PlacedRecord]


@pytest.fixture(scope="module")
def resynced(broker_pair: Pair, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Resynced:
    topic = f"keys-{uuid.uuid4().hex[:6]}"
    east = broker_pair["east"].bootstrap_servers
    create_topics(east, [topic], partitions=1, configuration=COMPACTED)
    folder = tmp_path_factory.mktemp("keys")
    config = write_flow(folder, servers_of(broker_pair), f'topics = ["{topic}"]', 'on_loss = "continue"')
    init_ledger(config)
    keys = [deleted_key(number) for number in range(DELETED)]
    produce(east, topic, [(key, b"1") for key in [*keys, KEPT]])
    assert not run(config, spark).stopped
    produce(east, topic, [(key, None) for key in keys])
    produce(east, topic, [(KEPT, b"2"), (LATE, b"1")], age_ms=HOUR_MS)
    delete_before(east, topic, 2 * DELETED + 1)
    while_behind = resync(config, topic)[0].refused or ""
    assert not run(config, spark).stopped
    findings_before = findings(config)
    while_running = refused_while_running(config, topic, spark)
    before = token(config)
    preview = resync(config, topic, dry_run=True)
    preview_cuts = before, token(config)
    done = resync(config, topic)
    findings_after = findings(config)
    again = resync(config, topic, partition=0)
    produce(east, topic, [(AFTERWARDS, b"1"), (deleted_key(0), b"back")])
    summary = run(config, spark)
    assert not summary.is_unfinished
    copy = f"east.{topic}"
    return Resynced(
        config,
        topic,
        while_behind,
        while_running,
        findings_before,
        preview,
        preview_cuts,
        done,
        findings_after,
        again,
        summary.records,
        read_topics(broker_pair["west"].bootstrap_servers, [copy])[(copy, 0)],
    )


def refused_while_running(config: MirrorConfig, topic: str, spark: SparkSession) -> str:
    """What the command says while a driver of the flow is at work."""
    state = DeltaLedgerState(open_ledger(config.ledger.path))

    def is_claimed() -> bool:
        claim = state.last_claim(f"flow:{FLOW}")
        return claim is not None and not claim.released

    with running(config, spark):
        eventually(is_claimed, "a driver has claimed the flow")
        with pytest.raises(PreconditionError) as refused:
            resync(config, topic, dry_run=True)
    return str(refused.value)


def last_by_key(records: list[PlacedRecord]) -> Mapping[bytes | None, bytes | None]:
    return {placed.record.key: placed.record.value for placed in records}


def test_a_flow_that_is_behind_is_refused(resynced: Resynced) -> None:
    assert "run the flow until it has caught up" in resynced.while_behind


def test_a_flow_that_is_at_work_is_refused(resynced: Resynced) -> None:
    assert "is being mirrored" in resynced.while_running
    assert f"mirror-ledger stop {FLOW}" in resynced.while_running


def test_a_dry_run_records_nothing_and_says_the_same(resynced: Resynced) -> None:
    before, after = resynced.preview_cuts
    assert before == after
    (preview,), (done,) = resynced.preview, resynced.done
    assert preview.compared == done.compared
    assert (preview.written, preview.target) == (0, None)


def test_keys_without_a_record_at_the_source_are_deleted(resynced: Resynced) -> None:
    (done,) = resynced.done
    assert done.compared is not None
    assert (done.compared.source_keys, done.compared.target_keys) == (2, DELETED + 2)
    written_at = DELETED + 3
    assert (done.written, done.target) == (DELETED, (written_at, written_at + DELETED))
    tombstones = [p for p in resynced.target if written_at <= p.offset < written_at + DELETED]
    assert [(p.record.key, p.record.value) for p in tombstones] == [
        (deleted_key(number), None) for number in range(DELETED)
    ]


def test_a_plain_consumer_finds_what_the_source_has(resynced: Resynced) -> None:
    alive = {key: value for key, value in last_by_key(resynced.target).items() if value is not None}
    assert alive == {KEPT: b"2", LATE: b"1", AFTERWARDS: b"1", deleted_key(0): b"back"}


def test_a_second_comparison_finds_nothing(resynced: Resynced) -> None:
    (again,) = resynced.again
    assert again.compared is not None
    assert (again.compared.left_over, again.compared.target_keys, again.written) == ((), 2, 0)


def test_the_finding_is_cleared_and_the_operation_recorded(resynced: Resynced) -> None:
    assert resynced.findings_before == {(FINDING, resynced.topic, 0)}
    assert resynced.findings_after == set()
    assert any(
        f'"tombstones": {DELETED}' in content for content in operations(resynced.config, "keys_resynced")
    )


def test_the_flow_goes_on_behind_the_tombstones(resynced: Resynced) -> None:
    assert resynced.records_afterwards == 2
    at = answers.snapshot(resynced.config, None)
    source_end = 2 * DELETED + 3
    row = flow_answers.translate_offset(
        at, FLOW, topic=resynced.topic, partition=0, offset=source_end
    ).to_pylist()[0]
    assert (row["status"], row["target_offset"]) == ("exact", 2 * DELETED + 3)


@pytest.mark.parametrize(
    "audit",
    ["audit_l1_tiling", "audit_l2_order", "audit_l3_once", "audit_l4_append_once", "audit_l6_no_silent_loss"],
)
def test_audits_find_nothing(resynced: Resynced, audit: str) -> None:
    assert answers.run_query(answers.snapshot(resynced.config, None), audit, {}).to_pylist() == []


def test_a_topic_that_is_not_compacted_is_refused(site: RealSite) -> None:
    topic = f"keys-{uuid.uuid4().hex[:6]}"
    east = site.pair["east"].bootstrap_servers
    create_topics(east, [topic], partitions=1)
    config = write_flow(site.folder, servers_of(site.pair), f'topics = ["{topic}"]')
    init_ledger(config)
    produce(east, topic, [(KEPT, b"1")])
    assert run(config, site.spark).records == 1
    before = token(config)
    with pytest.raises(PreconditionError, match=r"cleanup\.policy delete"):
        resync(config, topic)
    with pytest.raises(UsageError, match="nowhere: not a topic"):
        resync(config, "nowhere")
    assert token(config) == before
