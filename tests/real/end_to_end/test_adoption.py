"""What a real MirrorMaker 2 has mirrored is taken over, and the flow goes on without copying it again."""

import json
import re
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from pyspark.sql import SparkSession

from ledger.adopt import adopting
from ledger.adopt.adopting import Consent, PartitionAdoption, Verdict, adopt_flow
from ledger.answers.ledger import Ledger
from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.context import Context
from ledger.errors import PreconditionError
from ledger.sandbox import SandboxCluster
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
from tests.support.following import copying, name_of, produce, values
from tests.support.mirror_maker import mirror_maker
from tests.support.recorded import broken_invariants
from tests.support.runs import FLOW, run
from tests.support.shops import beside, send, small_source
from tests.support.site import RealSite
from tests.support.waiting import eventually

Pair = Mapping[str, SandboxCluster]
RECORDS_PER_TOPIC = 1_200
MORE = 90
NOTHING_MORE = Consent(missing=False, foreign=False)
PLAIN = tuple(f"events-{codec}" for codec in ("none", "gzip", "snappy", "lz4", "zstd"))
KINDS = (*PLAIN, "stamped", "transfers", "inventory", "churn")


def adopt(
    config: MirrorConfig, *topics: str, consent: Consent = NOTHING_MORE, dry_run: bool = False
) -> list[PartitionAdoption]:
    with Context(config) as context:
        return adopt_flow(context, FLOW, topics=topics, consent=consent, dry_run=dry_run)


def versions(config: MirrorConfig) -> str:
    return answers.snapshot(config, None).cut.token


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


def test_what_mirror_maker_has_copied_is_taken_over_once_and_the_flow_goes_on_behind(site: RealSite) -> None:
    prefix, servers = f"a{uuid.uuid4().hex[:6]}-", servers_of(site.pair)
    topics, records = produce_all(servers["east"], prefix)
    copies = [f"east.{topic}" for topic in topics]
    config = write_flow(site.folder, servers, f'topics = ["{prefix}.*"]', "tasks = 2")
    init_ledger(config)
    busy = f"{prefix}events-none"
    with mirror_maker(servers, f"{prefix}.*", site.folder):
        wait_until_copied(servers, topics)
        with produced_all_the_time(servers["east"], busy, records):
            while_running = adopt(config, busy)
        wait_until_copied(servers, topics)
    assert {one.verdict for one in while_running} == {Verdict.REFUSED}
    assert "stop MirrorMaker" in while_running[0].remarks[0]

    before = versions(config)
    with watched_briefly():
        preview = adopt(config, dry_run=True)
        assert versions(config) == before
        copied_by_maker = read_topics(servers["west"], copies)
        ends_before = ends(servers["west"], copies)
        adopted = adopt(config)
    assert [(one.pair, one.verdict, one.continues_at) for one in preview] == [
        (one.pair, one.verdict, one.continues_at) for one in adopted
    ]
    verdicts = {(one.pair.source.topic.removeprefix(prefix), str(one.verdict)) for one in adopted}
    assert verdicts == {(kind, "exact") for kind in KINDS}
    assert sum(one.findings.paired for one in adopted if one.findings) > 5 * RECORDS_PER_TOPIC

    assert run(config, site.spark).records == 0
    assert ends(servers["west"], copies) == ends_before, "nothing is copied again"
    delivery = Delivery(servers["east"], {})
    for topic, partition in ends(servers["east"], topics):
        for record in keyed(records, topic).take(topic, MORE):
            delivery.send(topic, partition, record)
    delivery.finish()
    assert not run(config, site.spark).stopped

    source, target = read_topics(servers["east"], topics), read_topics(servers["west"], copies)
    transfers = {at: placed for at, placed in source.items() if at[0] == f"{prefix}transfers"}
    assert min(missing_offsets(transfers).values()) > 100, (
        "MirrorMaker copied aborted records: offsets differ"
    )
    for (topic, partition), placed in transfers.items():
        assert len(copied_by_maker[(f"east.{topic}", partition)]) > len(placed)
    translations = translated(config, source)
    for (topic, partition), placed in source.items():
        kind = topic.removeprefix(prefix)
        copied = target[(f"east.{topic}", partition)]
        if kind in (*PLAIN, "stamped"):
            assert_same(placed, copied, stamped=kind == "stamped")
        found = {one.offset: translations[(topic, partition, one.offset)] for one in placed}
        assert_translated(placed, copied, found, kind)
    assert broken_invariants(config) == {}
    before = versions(config)
    with pytest.raises(PreconditionError, match="already"):
        adopt(config)
    assert versions(config) == before


def assert_same(source: list[PlacedRecord], target: list[PlacedRecord], *, stamped: bool) -> None:
    """The target holds the source exactly once."""
    assert len(source) > MORE
    assert [content_of(one, stamped=stamped) for one in source] == [
        content_of(one, stamped=stamped) for one in target
    ]


def translated(config: MirrorConfig, source: Readings) -> Mapping[tuple[str, int, int], tuple[int, str]]:
    """By source topic, partition and offset: target offset and status."""
    at = answers.snapshot(config, None)
    source_ends = {place: records[-1].offset + 1 for place, records in source.items()}
    checkpoints = {"checkpoints": every_offset(source_ends, topic_ids(at))}
    params: dict[str, catalog.Value] = {"from_cluster": "east", "to_cluster": "west", "flow": FLOW}
    found = sql.run_query(catalog.query("offset_translation"), params, at, checkpoints)
    return {
        (row["source_topic"], row["source_partition"], row["committed_offset"]): (
            row["target_offset"],
            row["status"],
        )
        for row in found.to_pylist()
    }


def assert_translated(
    source: list[PlacedRecord], target: list[PlacedRecord], found: Mapping[int, tuple[int, str]], kind: str
) -> None:
    """Each readable record lands at its copy; where cleaners were at work, each that the target still has."""
    stamped, is_cleaned = kind == "stamped", kind in ("inventory", "churn")
    copies, exact = {one.offset: one for one in target}, 0
    for placed in source:
        target_offset, status = found[placed.offset]
        copy = copies.get(target_offset) if status == "exact" else None
        if copy is not None:
            exact += 1
            assert content_of(copy, stamped=stamped) == content_of(placed, stamped=stamped)
        else:
            assert is_cleaned, (kind, placed.offset, target_offset, status)
    assert exact > MORE


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
    found = Ledger.open(by_hand.config).translate(flow=FLOW, topic=by_hand.topic, partition=0, offset=10)
    assert [(row.status, row.target_offset) for row in found] == [("exact", 15)]


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


def test_what_a_started_flow_has_stopped_at_is_taken_over_all_the_same(site: RealSite) -> None:
    topic = name_of("filled")
    config = site.configured({FLOW: copying(topic)})
    create_topics(site.servers[0], [topic], partitions=2)
    for partition in (0, 1):
        produce(site.servers[0], topic, *map(str, range(20)), partition=partition)
    create_topics(site.servers[1], [f"east.{topic}"], partitions=2)
    copied_by_hand(site, topic, partition=0)
    check = json.loads(site.command(config, "doctor", FLOW, "-o", "json").out)
    [found] = [row for row in check if row["check"] == "target_records"]
    assert (found["verdict"], f"east.{topic} (20 offsets)" in found["measured"]) == ("failed", True)
    assert f"mirror-ledger adopt {FLOW} takes them over" in found["advice"]

    first = run(config, site.spark)
    assert (first.records, [one.cause for one in first.stopped]) == (20, ["foreign_write"])
    [report] = json.loads(site.command(config, "status", "-o", "json").out)
    [stopped] = report["stopped"]
    assert stopped["commands"][0] == f"mirror-ledger adopt {FLOW} --topic {topic}"
    asked = site.done(config, "accept-foreign", FLOW, "--topic", topic, "--partition", "0", "--reason", "try")
    assert re.search(r"a batch of \d+ records?, not transactional", asked.err)
    assert "a record that it copies too is there twice" in asked.err
    with watched_briefly():
        adopted = site.command(config, *stopped["commands"][0].split()[1:], "-o", "json")
    verdicts = {row["partition"]: (row["verdict"], row["paired"]) for row in json.loads(adopted.out)}
    assert verdicts == {0: ("exact", 20), 1: ("refused", None)}, "the other one is the flow's"

    produce(site.servers[0], topic, "more")
    second = run(config, site.spark)
    assert (second.records, second.stopped) == (1, [])
    assert sorted(values(site.servers[1], f"east.{topic}")) == sorted(values(site.servers[0], topic))
    assert broken_invariants(config) == {}


def copied_by_hand(site: RealSite, topic: str, *, partition: int) -> None:
    """As MirrorMaker 2 copies: records with their times, by a producer that is not idempotent."""
    producer = Producer({"bootstrap.servers": site.servers[1]})
    for placed in read_topics(site.servers[0], [topic])[topic, partition]:
        record = placed.record
        producer.produce(
            f"east.{topic}", record.value, record.key, partition=partition, timestamp=record.timestamp_ms
        )
    assert producer.flush(30) == 0
