"""Keys that a compacted source deleted unseen are deleted at the target, and the flow goes on behind that."""

import time
import uuid
from collections.abc import Iterable

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from ledger.adopt.key_resync import PartitionKeys, resync_keys
from ledger.answers.ledger import Ledger
from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.context import Context
from ledger.errors import PreconditionError, UsageError
from ledger.sandbox.log_gaps import KEPT_AS_IT_IS
from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import create_topics
from ledger.store import answers
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from tests.support.clusters import servers_of
from tests.support.config_files import write_flow
from tests.support.recorded import broken_invariants, operations
from tests.support.runs import FLOW, run, running
from tests.support.site import RealSite
from tests.support.waiting import eventually

DELETED = 1_200  # keys; more than two batches of tombstones
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
    with Context(config) as context:
        return resync_keys(context, FLOW, topic=topic, partition=partition, dry_run=dry_run)


def token(config: MirrorConfig) -> str:
    return answers.snapshot(config, None).cut.token


def findings(config: MirrorConfig) -> set[tuple[str, str | None, int | None]]:
    found = DeltaLedgerState(open_ledger(config.ledger.path)).open_findings(FLOW)
    return {key for key in found if key[0] == FINDING}


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


def test_keys_that_were_deleted_unseen_are_deleted_at_the_target_and_the_flow_goes_on_behind(
    site: RealSite,
) -> None:
    topic, (east, west) = f"keys-{uuid.uuid4().hex[:6]}", site.servers
    create_topics(east, [topic], partitions=1, configuration=COMPACTED)
    lines = (f'topics = ["{topic}"]', 'on_loss = "continue"')
    config = write_flow(site.folder, servers_of(site.pair), *lines)
    init_ledger(config)
    keys = [deleted_key(number) for number in range(DELETED)]
    produce(east, topic, [(key, b"1") for key in [*keys, KEPT]])
    assert not run(config, site.spark).stopped
    produce(east, topic, [(key, None) for key in keys])
    produce(east, topic, [(KEPT, b"2"), (LATE, b"1")], age_ms=HOUR_MS)
    delete_before(east, topic, 2 * DELETED + 1)
    assert "run the flow until it has caught up" in (resync(config, topic)[0].refused or "")
    assert not run(config, site.spark).stopped
    assert findings(config) == {(FINDING, topic, 0)}
    while_running = refused_while_running(config, topic, site.spark)
    assert "is being mirrored" in while_running
    assert f"mirror-ledger stop {FLOW}" in while_running

    before = token(config)
    [preview] = resync(config, topic, dry_run=True)
    assert (token(config), preview.written, preview.target) == (before, 0, None)
    [done] = resync(config, topic)
    assert done.compared is not None
    assert done.compared == preview.compared
    assert (done.compared.source_keys, done.compared.target_keys) == (2, DELETED + 2)
    written_at = DELETED + 3
    assert (done.written, done.target) == (DELETED, (written_at, written_at + DELETED))
    assert findings(config) == set()
    [resynced] = operations(config, "keys_resynced")
    assert resynced["tombstones"] == DELETED
    [again] = resync(config, topic, partition=0)
    assert again.compared is not None
    assert (again.compared.left_over, again.compared.target_keys, again.written) == ((), 2, 0)

    produce(east, topic, [(AFTERWARDS, b"1"), (deleted_key(0), b"back")])
    summary = run(config, site.spark)
    assert (summary.is_unfinished, summary.records) == (False, 2)
    target = read_topics(west, [f"east.{topic}"])[(f"east.{topic}", 0)]
    tombstones = [p.record for p in target if written_at <= p.offset < written_at + DELETED]
    assert [(one.key, one.value) for one in tombstones] == [(key, None) for key in keys]
    last = {p.record.key: p.record.value for p in target}
    alive = {key: value for key, value in last.items() if value is not None}
    assert alive == {KEPT: b"2", LATE: b"1", AFTERWARDS: b"1", deleted_key(0): b"back"}
    found = Ledger.open(config).translate(flow=FLOW, topic=topic, partition=0, offset=2 * DELETED + 3)
    assert [(row.status, row.target_offset) for row in found] == [("exact", 2 * DELETED + 3)]
    assert broken_invariants(config) == {}


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
