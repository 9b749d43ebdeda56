"""What a real MirrorMaker 2 has mirrored is taken over, and the flow goes on without copying it again."""

import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from ledger.adopt import adopting
from ledger.adopt.adopting import Consent, PartitionAdoption, Verdict, adopt_flow
from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.errors import PreconditionError
from ledger.jvm import check_java
from ledger.offsets import flow_answers
from ledger.sandbox import SandboxCluster
from ledger.sandbox.brokers import QUICK_JVM, kafka_jars
from ledger.sandbox.log_gaps import (
    CLEANED_QUICKLY,
    KEPT_AS_IT_IS,
    configure,
    missing_offsets,
    produce_compacted,
    produce_inventory,
    produce_transfers,
    wait_until_cleaned,
)
from ledger.sandbox.reading import (
    Partition,
    PlacedRecord,
    Readings,
    Record,
    ends,
    read_partitions,
    read_topics,
)
from ledger.sandbox.workload import Delivery, RecordSource, Workload, create_topics, produce_events
from ledger.store import answers, catalog, sql
from tests.support.clusters import servers_of
from tests.support.config_files import write_flow
from tests.support.every_offset import every_offset, topic_ids
from tests.support.runs import FLOW, run
from tests.support.shops import beside, send, small_source
from tests.support.site import RealSite
from tests.support.waiting import eventually

# -- MirrorMaker 2 ---------------------------------------------------------------------------------

_OWN_TOPICS = (
    *("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic"),
    *("offset.storage", "status.storage", "config.storage"),
)
_STOPPED_WITHIN_S = 60


@contextmanager
def mirror_maker(servers: Mapping[str, str], topics: str, folder: Path) -> Iterator[None]:
    """Mirrors `topics` (a pattern) from east to west as `east.TOPIC` while the block runs, then stops."""
    properties = {
        "clusters": "east,west",
        "east.bootstrap.servers": servers["east"],
        "west.bootstrap.servers": servers["west"],
        "east->west.enabled": "true",
        "east->west.topics": topics,
        "west->east.enabled": "false",
        "tasks.max": "2",
        "refresh.topics.interval.seconds": "2",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "dedicated.mode.enable.internal.rest": "false",
        "replication.factor": "1",
        **{f"{name}.replication.factor": "1" for name in _OWN_TOPICS},
    }
    file = folder / "maker.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()), encoding="utf-8")
    classpath = os.pathsep.join(str(jar) for jar in kafka_jars())
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    command = [str(check_java()), *QUICK_JVM, "-Xmx512m", "-cp", classpath, main, str(file)]
    with (folder / "maker.log").open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(_STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


# -- Adoption --------------------------------------------------------------------------------------

Pair = Mapping[str, SandboxCluster]
RECORDS_PER_TOPIC = 1_200
MORE = 90
NOTHING_MORE = Consent(missing=False, foreign=False)
PLAIN = tuple(f"events-{codec}" for codec in ("none", "gzip", "snappy", "lz4", "zstd"))
KINDS = (*PLAIN, "stamped", "transfers", "inventory", "churn")


def adopt(
    config: MirrorConfig, *topics: str, consent: Consent = NOTHING_MORE, dry_run: bool = False
) -> list[PartitionAdoption]:
    return adopt_flow(config, FLOW, topics=topics, consent=consent, dry_run=dry_run)


def versions(config: MirrorConfig) -> str:
    return answers.snapshot(config, None).cut.token


@dataclass(frozen=True)
class TakenOver:
    """Both sides and the ledger's answers at every step of a move from MirrorMaker 2."""

    prefix: str
    servers: Mapping[str, str]
    config: MirrorConfig
    while_running: list[PartitionAdoption]
    preview: list[PartitionAdoption]
    preview_versions: tuple[str, str]
    adopted: list[PartitionAdoption]
    copied_by_maker: Readings
    first_run_records: int
    ends_before: dict[Partition, int]
    ends_after_first_run: dict[Partition, int]
    source: Readings
    target: Readings

    def partitions(self, kind: str) -> list[Partition]:
        return [partition for partition in self.source if partition[0] == self.prefix + kind]


@pytest.fixture(scope="module")
def taken_over(broker_pair: Pair, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TakenOver:
    prefix = f"a{uuid.uuid4().hex[:6]}-"
    folder = tmp_path_factory.mktemp("taken-over")
    servers = servers_of(broker_pair)
    topics, source = produce_all(servers["east"], prefix)
    copies = [f"east.{topic}" for topic in topics]
    config = write_flow(folder, servers_of(broker_pair), f'topics = ["{prefix}.*"]', "tasks = 2")
    init_ledger(config)
    busy = f"{prefix}events-none"
    with mirror_maker(servers, f"{prefix}.*", folder):
        wait_until_copied(servers, topics)
        with produced_all_the_time(servers["east"], busy, source):
            while_running = adopt(config, busy)
        wait_until_copied(servers, topics)
    before = versions(config)
    with watched_briefly():
        preview = adopt(config, dry_run=True)
        preview_versions = (before, versions(config))
        copied_by_maker = read_topics(servers["west"], copies)
        ends_before = ends(servers["west"], copies)
        adopted = adopt(config)
    first_run = run(config, spark)
    ends_after_first_run = ends(servers["west"], copies)
    delivery = Delivery(servers["east"], {})
    for topic, partition in ends(servers["east"], topics):
        for record in keyed(source, topic).take(topic, MORE):
            delivery.send(topic, partition, record)
    delivery.finish()
    assert not run(config, spark).stopped
    return TakenOver(
        prefix=prefix,
        servers=servers,
        config=config,
        while_running=while_running,
        preview=preview,
        preview_versions=preview_versions,
        adopted=adopted,
        copied_by_maker=copied_by_maker,
        first_run_records=first_run.records,
        ends_before=ends_before,
        ends_after_first_run=ends_after_first_run,
        source=read_topics(servers["east"], topics),
        target=read_topics(servers["west"], copies),
    )


@contextmanager
def watched_briefly() -> Iterator[None]:
    """Nothing writes to the target any more: it need not be watched for as long as a user wants it to be."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(adopting, "_WATCHED_S", 0.2)
        yield


class _Keyed:
    """Records that any topic takes: compacted ones want a key."""

    def __init__(self, source: RecordSource) -> None:
        self._source = source

    def take(self, topic: str, wanted: int) -> Iterator[Record]:
        for record in self._source.take(topic, wanted):
            yield record._replace(key=record.key or b"no-key")


def keyed(source: RecordSource, topic: str) -> RecordSource:
    return _Keyed(source)  # type: ignore[return-value]


def produce_all(servers: str, prefix: str) -> tuple[list[str], RecordSource]:
    """The workload, one topic that is cleaned before it is mirrored, and one that is cleaned afterwards."""
    workload = Workload(
        records_per_topic=RECORDS_PER_TOPIC, started_ms=time.time_ns() // 1_000_000 - 60_000, prefix=prefix
    )
    source = RecordSource(workload)
    produce_inventory(servers, workload, source)
    churn = f"{prefix}churn"
    overwriting = source.overwrite(churn, RECORDS_PER_TOPIC, keys=50)
    produce_compacted(servers, churn, overwriting, {**CLEANED_QUICKLY, **KEPT_AS_IT_IS})
    produce_events(servers, workload, source, lambda: None)
    produce_transfers(servers, workload, source)
    wait_until_cleaned(servers, workload.inventory)
    configure(servers, workload.inventory, KEPT_AS_IT_IS)
    return [*workload.topics, churn], source


def wait_until_copied(servers: Mapping[str, str], topics: list[str]) -> None:
    """MirrorMaker reads uncommitted records too: until the last record of each partition is the same."""
    copies = [f"east.{topic}" for topic in topics]

    def is_copied() -> bool:
        wanted = last_records(read_all(servers["east"], topics), prefix="")
        found = last_records(read_all(servers["west"], copies, missing_ok=True), prefix="east.")
        return found == wanted

    eventually(is_copied, "MirrorMaker has copied everything")


def last_records(readings: Readings, *, prefix: str) -> dict[Partition, Record]:
    """The last record of every partition that has one, without its time, by the source's names."""
    return {
        (topic.removeprefix(prefix), partition): records[-1].record._replace(timestamp_ms=0)
        for (topic, partition), records in readings.items()
        if records
    }


def read_all(servers: str, topics: list[str], *, missing_ok: bool = False) -> Readings:
    """Uncommitted records too; nothing while a topic is still being made, if that is in order."""
    try:
        starts = dict.fromkeys(ends(servers, topics, isolation="read_uncommitted"), 0)
    except (KeyError, KafkaException):
        if missing_ok:
            return {}
        raise
    return read_partitions(servers, starts, isolation="read_uncommitted")


@contextmanager
def produced_all_the_time(servers: str, topic: str, source: RecordSource) -> Iterator[None]:
    def produce(stop: threading.Event) -> None:
        while not stop.wait(0.05):
            delivery = Delivery(servers, {})
            for record in source.take(topic, 3):
                delivery.send(topic, source.partition(), record)
            delivery.finish()

    with beside(produce):
        yield


def content_of(placed: PlacedRecord, *, stamped: bool) -> object:
    return placed.record._replace(timestamp_ms=0) if stamped else placed.record


def test_the_histories_are_what_makes_this_hard(taken_over: TakenOver) -> None:
    """MirrorMaker copied aborted records, and offsets differ between the sides."""
    transfers = taken_over.partitions("transfers")
    assert min(missing_offsets({at: taken_over.source[at] for at in transfers}).values()) > 100
    for topic, partition in transfers:
        copied = taken_over.copied_by_maker[(f"east.{topic}", partition)]
        assert len(copied) > len(taken_over.source[(topic, partition)])


def test_a_target_that_is_written_to_is_refused(taken_over: TakenOver) -> None:
    verdicts = {adoption.verdict for adoption in taken_over.while_running}
    assert verdicts == {Verdict.REFUSED}
    assert "stop MirrorMaker" in taken_over.while_running[0].remarks[0]


def test_a_dry_run_records_nothing_and_says_the_same(taken_over: TakenOver) -> None:
    before, after = taken_over.preview_versions
    assert before == after
    assert [(a.pair, a.verdict, a.continues_at) for a in taken_over.preview] == [
        (a.pair, a.verdict, a.continues_at) for a in taken_over.adopted
    ]


def test_everything_is_taken_over(taken_over: TakenOver) -> None:
    verdicts = {
        (a.pair.source.topic.removeprefix(taken_over.prefix), str(a.verdict)) for a in taken_over.adopted
    }
    assert verdicts == {(kind, "exact") for kind in KINDS}
    assert sum(a.findings.paired for a in taken_over.adopted if a.findings) > 5 * RECORDS_PER_TOPIC


def test_nothing_is_copied_again(taken_over: TakenOver) -> None:
    assert taken_over.first_run_records == 0
    assert taken_over.ends_after_first_run == taken_over.ends_before


@pytest.mark.parametrize("kind", [*PLAIN, "stamped"])
def test_the_target_holds_the_source_exactly_once(taken_over: TakenOver, kind: str) -> None:
    for topic, partition in taken_over.partitions(kind):
        source, target = (
            taken_over.source[(topic, partition)],
            taken_over.target[(f"east.{topic}", partition)],
        )
        stamped = kind == "stamped"
        assert len(source) > MORE
        assert [content_of(p, stamped=stamped) for p in source] == [
            content_of(p, stamped=stamped) for p in target
        ]


@pytest.fixture(scope="module")
def translations(taken_over: TakenOver) -> Mapping[tuple[str, int, int], tuple[int, str]]:
    """By source topic, partition and offset: target offset and status."""
    at = answers.snapshot(taken_over.config, None)
    source_ends = {at: records[-1].offset + 1 for at, records in taken_over.source.items()}
    checkpoints = {"checkpoints": every_offset(source_ends, topic_ids(at))}
    params: dict[str, catalog.Value] = {"flow": FLOW, "driver_lives": False}
    found = sql.run_query(catalog.query("offset_translation"), params, at, checkpoints)
    return {
        (row["source_topic"], row["source_partition"], row["committed_offset"]): (
            row["target_offset"],
            row["status"],
        )
        for row in found.to_pylist()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_translates_to_its_copy(
    taken_over: TakenOver, translations: Mapping[tuple[str, int, int], tuple[int, str]], kind: str
) -> None:
    """Each readable source record; where cleaners were at work, each that the target still has."""
    stamped, is_cleaned = kind == "stamped", kind in ("inventory", "churn")
    for topic, partition in taken_over.partitions(kind):
        copies = {p.offset: p for p in taken_over.target[(f"east.{topic}", partition)]}
        wrong, exact = [], 0
        for placed in taken_over.source[(topic, partition)]:
            target_offset, status = translations[(topic, partition, placed.offset)]
            copy = copies.get(target_offset) if status == "exact" else None
            if copy is not None:
                exact += 1
                assert content_of(copy, stamped=stamped) == content_of(placed, stamped=stamped)
            elif not is_cleaned:
                wrong.append((placed.offset, target_offset, status))
        assert wrong == []
        assert exact > MORE


@pytest.mark.parametrize(
    "audit",
    ["audit_l1_tiling", "audit_l2_order", "audit_l3_once", "audit_l4_append_once", "audit_l6_no_silent_loss"],
)
def test_audits_find_nothing(taken_over: TakenOver, audit: str) -> None:
    assert answers.run_query(answers.snapshot(taken_over.config, None), audit, {}).to_pylist() == []


def test_what_is_known_is_not_taken_over_again(taken_over: TakenOver) -> None:
    before = versions(taken_over.config)
    with pytest.raises(PreconditionError, match="already"):
        adopt(taken_over.config)
    assert versions(taken_over.config) == before


# By hand ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ByHand:
    """A topic of one partition, of which somebody has copied records by hand."""

    config: MirrorConfig
    topic: str
    servers: Mapping[str, str]
    records: list[Record]

    def copy(self, *numbers: int) -> None:
        delivery = Delivery(self.servers["west"], {})
        for number in numbers:
            delivery.send(f"east.{self.topic}", 0, self.records[number])
        delivery.finish()


@pytest.fixture
def by_hand(broker_pair: Pair, tmp_path: Path) -> Iterator[ByHand]:
    topic = f"hand-{uuid.uuid4().hex[:6]}"
    servers = servers_of(broker_pair)
    create_topics(servers["east"], [topic], partitions=1)
    create_topics(servers["west"], [f"east.{topic}"], partitions=1)
    records = list(small_source(topic).take(topic, 100))
    delivery = Delivery(servers["east"], {})
    for record in records:
        delivery.send(topic, 0, record)
    delivery.finish()
    config = write_flow(tmp_path, servers_of(broker_pair), f'topics = ["{topic}"]')
    init_ledger(config)
    with watched_briefly():
        yield ByHand(config, topic, servers, records)


def rows_of(config: MirrorConfig) -> list[tuple[object, ...]]:
    with sql.connect(answers.snapshot(config, None), {}, ("offset_syncs",)) as connection:
        return connection.sql(
            "select kind, cause, source_start, source_end, target_start, target_end, records from offset_syncs "
            "order by source_start, source_end, target_end"
        ).fetchall()


def test_a_topic_filled_by_hand_with_repeats(by_hand: ByHand, spark: SparkSession) -> None:
    """Begun late, repeated after a break: the first copies count, and only what is new is copied."""
    by_hand.copy(*range(20, 60), *range(40, 80))
    (adoption,) = adopt(by_hand.config)
    assert (adoption.verdict, adoption.continues_at) == (Verdict.EXACT, (80, 80))
    assert rows_of(by_hand.config) == [
        ("started", "earliest", 20, 20, 0, 0, 0),
        ("adopted", None, 20, 60, 0, 40, 40),
        ("adopted", None, 60, 80, 60, 80, 20),
    ]
    assert run(by_hand.config, spark).records == 20
    target = read_topics(by_hand.servers["west"], [f"east.{by_hand.topic}"])[(f"east.{by_hand.topic}", 0)]
    assert [p.record for p in target[80:]] == by_hand.records[80:]


def test_missing_records_need_consent(by_hand: ByHand, spark: SparkSession) -> None:
    by_hand.copy(*range(10), *range(15, 40))
    (refused,) = adopt(by_hand.config)
    assert refused.verdict is Verdict.REFUSED
    assert "10-14" in refused.remarks[0]
    assert rows_of(by_hand.config) == []
    (adoption,) = adopt(by_hand.config, consent=Consent(missing=True, foreign=False))
    assert adoption.verdict is Verdict.BOUNDED
    assert rows_of(by_hand.config)[1:] == [
        ("adopted", None, 0, 10, 0, 10, 10),
        ("lost", "skipped", 10, 15, 10, 10, 0),
        ("adopted", None, 15, 40, 10, 35, 25),
    ]
    assert run(by_hand.config, spark).records == 60


def test_foreign_records_at_the_end_need_consent(by_hand: ByHand, spark: SparkSession) -> None:
    by_hand.copy(*range(10))
    send(by_hand.servers["west"], f"east.{by_hand.topic}", 0, small_source("other"), 5)
    (refused,) = adopt(by_hand.config)
    assert refused.verdict is Verdict.REFUSED
    assert "10-14" in refused.remarks[0]
    (adoption,) = adopt(by_hand.config, consent=Consent(missing=False, foreign=True))
    assert adoption.continues_at == (10, 15)
    assert run(by_hand.config, spark).records == 90
    at = answers.snapshot(by_hand.config, None)
    row = flow_answers.translate_offset(at, FLOW, topic=by_hand.topic, partition=0, offset=10).to_pylist()[0]
    assert (row["status"], row["target_offset"]) == ("exact", 15)


def test_what_the_flow_has_written_is_refused(site: RealSite, by_hand: ByHand) -> None:
    """A second ledger's flow has copied it; to this one it looks like anybody's, to its own it does not."""
    assert run(by_hand.config, site.spark).records == 100
    with pytest.raises(PreconditionError, match="already"):
        adopt(by_hand.config)
    other = site.folder / "other"
    other.mkdir()
    config = write_flow(other, servers_of(site.pair), f'topics = ["{by_hand.topic}"]')
    init_ledger(config)
    (adoption,) = adopt(config)
    assert (adoption.verdict, adoption.continues_at) == (Verdict.EXACT, (100, 100))


def test_a_mirror_maker_that_has_nothing_to_copy_is_noticed(by_hand: ByHand, tmp_path: Path) -> None:
    """Its worker is a member of a group at the target, as long as it runs."""
    by_hand.copy(*range(100))
    with mirror_maker(by_hand.servers, "nothing-at-all", tmp_path):
        eventually(
            lambda: "Kafka Connect is at work at west (group east-mm2)" in noticed(by_hand), "it is noticed"
        )
    eventually(lambda: noticed(by_hand) == "", "it has gone")


def noticed(by_hand: ByHand) -> str:
    (adoption,) = adopt(by_hand.config, dry_run=True)
    assert adoption.verdict is Verdict.EXACT
    return "; ".join(adoption.remarks)
