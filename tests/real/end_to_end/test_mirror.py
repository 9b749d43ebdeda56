"""The mirror on real brokers and real Spark: what clients see on both sides, and what the ledger says."""

import time
import uuid
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.mirror.progress import RunSummary
from ledger.sandbox import SandboxCluster
from ledger.sandbox.log_gaps import (
    CLEANED_AGAIN,
    CLEANED_QUICKLY,
    KEPT_AS_IT_IS,
    configure,
    missing_offsets,
    produce_compacted,
    produce_inventory,
    produce_transfers,
    wait_until_cleaned,
)
from ledger.sandbox.reading import Partition, PlacedRecord, Readings, ends, read_topics
from ledger.sandbox.workload import RecordSource, Workload, create_topics, produce_events
from ledger.store import answers, catalog, sql
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.every_offset import BEYOND, every_offset, topic_ids
from tests.support.recorded import broken_invariants
from tests.support.runs import FLOW, run, running
from tests.support.shops import send, small_source
from tests.support.site import RealSite
from tests.support.waiting import eventually

RECORDS_PER_TOPIC = 2_500
TRIMMED_TO = 123
SHOWN_DIFFERENCES = 3
KINDS = (
    *("events-none", "events-gzip", "events-snappy", "events-lz4", "events-zstd"),
    *("stamped", "transfers", "inventory", "churn", "trimmed"),
)

Pair = Mapping[str, SandboxCluster]


@dataclass(frozen=True)
class Mirrored:
    """A workload that was mirrored with prefixes, as an independent client reads it on both sides."""

    prefix: str
    servers: Mapping[str, str]
    config: MirrorConfig
    summary: RunSummary
    source: Readings
    source_ends: Mapping[Partition, int]
    target: Readings

    def partitions(self, kind: str) -> list[Partition]:
        return [partition for partition in self.source if partition[0] == self.prefix + kind]

    def copy_of(self, partition: Partition) -> list[PlacedRecord]:
        return self.target[(f"east.{partition[0]}", partition[1])]


@pytest.fixture(scope="module")
def mirrored(broker_pair: Pair, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mirrored:
    prefix = f"m{uuid.uuid4().hex[:6]}-"
    servers = servers_of(broker_pair)
    topics = produce_all(servers["east"], prefix)
    config = write_config(
        tmp_path_factory.mktemp("mirrored"),
        servers,
        {FLOW: f"""round_seconds = 1.0\ntopics = ["{prefix}.*"]\ntasks = 2"""},
    )
    init_ledger(config)
    summary = run(config, spark)
    return Mirrored(
        prefix=prefix,
        servers=servers,
        config=config,
        summary=summary,
        source=read_topics(servers["east"], topics),
        source_ends=ends(servers["east"], topics),
        target=read_topics(servers["west"], [f"east.{topic}" for topic in topics]),
    )


def produce_all(servers: str, prefix: str) -> list[str]:
    """The workload, a compacted topic that was not cleaned yet, and one whose log does not start at 0."""
    workload = Workload(
        records_per_topic=RECORDS_PER_TOPIC, started_ms=time.time_ns() // 1_000_000 - 60_000, prefix=prefix
    )
    source = RecordSource(workload)
    produce_inventory(servers, workload, source)
    churn, trimmed = f"{prefix}churn", f"{prefix}trimmed"
    overwriting = source.overwrite(churn, RECORDS_PER_TOPIC, keys=50)
    produce_compacted(servers, churn, overwriting, {**CLEANED_QUICKLY, **KEPT_AS_IT_IS})
    produce_events(servers, workload, source, lambda: None)
    produce_transfers(servers, workload, source)
    create_topics(servers, [trimmed], partitions=1)
    send(servers, trimmed, 0, source, 500)
    admin = AdminClient({"bootstrap.servers": servers})
    for trimming in admin.delete_records([TopicPartition(trimmed, 0, TRIMMED_TO)]).values():
        trimming.result(30)
    wait_until_cleaned(servers, workload.inventory)
    configure(servers, workload.inventory, KEPT_AS_IT_IS)
    return [*workload.topics, churn, trimmed]


def differences(source: Sequence[PlacedRecord], copy: Sequence[PlacedRecord]) -> list[object]:
    """The first places where the sides hold other records, or other numbers of them."""
    found: list[object] = [
        (left.offset, left.record, right.offset, right.record)
        for left, right in zip(source, copy, strict=False)
        if left.record != right.record
    ]
    if len(source) != len(copy):
        found.append(f"{len(source)} records at the source, {len(copy)} on the target")
    return found[:SHOWN_DIFFERENCES]


def last_values(records: Sequence[PlacedRecord]) -> dict[bytes | None, object]:
    return {placed.record.key: placed.record for placed in records}


# Fidelity --------------------------------------------------------------------------------------


def test_the_workload_has_what_makes_copying_hard(mirrored: Mirrored) -> None:
    records = [placed.record for records in mirrored.source.values() for placed in records]
    names = [[name for name, _ in record.headers] for record in records]
    assert len(set(records)) == len(records), "no two records are equal, so order can be seen"
    assert any(record.key is None for record in records)
    assert any(record.value is None for record in records)
    assert any(len(set(of_one)) < len(of_one) for of_one in names)
    assert any(value is None for record in records for _, value in record.headers)
    assert any(value == b"" for record in records for _, value in record.headers)
    for kind in ("transfers", "inventory"):
        gaps = missing_offsets({at: mirrored.source[at] for at in mirrored.partitions(kind)})
        assert min(gaps.values()) > RECORDS_PER_TOPIC / 20, kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_reads_the_same_on_both_sides(mirrored: Mirrored, kind: str) -> None:
    """Keys, values, headers with their order and repeats, times; in the order of the source."""
    for partition in mirrored.partitions(kind):
        assert mirrored.source[partition], partition
        assert differences(mirrored.source[partition], mirrored.copy_of(partition)) == []


def test_every_topic_is_looked_at(mirrored: Mirrored) -> None:
    assert {topic for topic, _ in mirrored.source} == {mirrored.prefix + kind for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_times_are_those_that_readers_of_the_source_saw(mirrored: Mirrored, kind: str) -> None:
    """Also when the source's log had stamped them: the target keeps them as the producer's."""
    stamped = TIMESTAMP_LOG_APPEND_TIME if kind == "stamped" else TIMESTAMP_CREATE_TIME
    for partition in mirrored.partitions(kind):
        assert {placed.timestamp_type for placed in mirrored.source[partition]} == {stamped}
        assert {placed.timestamp_type for placed in mirrored.copy_of(partition)} == {TIMESTAMP_CREATE_TIME}


def test_after_cleaning_both_sides_hold_the_last_value_of_each_key(mirrored: Mirrored) -> None:
    """The sides are cleaned apart from each other, long after the copy: what is gone differs, what counts not."""
    churn = f"{mirrored.prefix}churn"
    sides = {"east": churn, "west": f"east.{churn}"}
    for alias, topic in sides.items():
        configure(mirrored.servers[alias], topic, CLEANED_AGAIN)
    for alias, topic in sides.items():
        gaps = wait_until_cleaned(mirrored.servers[alias], topic)
        assert min(gaps.values()) > 0
    east, west = (read_topics(mirrored.servers[alias], [topic]) for alias, topic in sides.items())
    for partition in mirrored.partitions("churn"):
        expected = last_values(mirrored.source[partition])
        assert last_values(east[partition]) == expected
        assert last_values(west[(sides["west"], partition[1])]) == expected


# The ledger ------------------------------------------------------------------------------------


def test_every_offset_translates_to_the_next_record(mirrored: Mirrored) -> None:
    """All offsets of all partitions, from 0 to beyond the end, against the pairs that the reader saw."""
    at = answers.snapshot(mirrored.config, None)
    commits = every_offset(mirrored.source_ends, topic_ids(at))
    found = sql.run_query(
        catalog.query("offset_translation"),
        {"from_cluster": "east", "to_cluster": "west", "flow": FLOW},
        at,
        {"checkpoints": commits},
    ).to_pylist()
    found = [row for row in found if row["committed_offset"] is not None]
    translated = {
        (row["source_topic"], row["source_partition"], row["committed_offset"]): (
            *(row["target_topic"], row["target_partition"]),
            *(row["target_offset"], row["status"]),
        )
        for row in found
    }
    expected = dict(brute_force(mirrored))
    assert len(found) == len(expected) == commits.num_rows
    wrong = [
        (key, translated.get(key), want) for key, want in expected.items() if translated.get(key) != want
    ]
    assert wrong[:SHOWN_DIFFERENCES] == []
    assert {status for *_, status in expected.values()} == {"before_first", "exact", "at_end", "ahead"}


def brute_force(mirrored: Mirrored) -> Iterator[tuple[tuple[str, int, int], tuple[str, int, int, str]]]:
    """The copy of the first record at or after each offset; behind the last one, the target's end."""
    for (topic, partition), end in mirrored.source_ends.items():
        offsets = [placed.offset for placed in mirrored.source[(topic, partition)]]
        copies = [placed.offset for placed in mirrored.copy_of((topic, partition))]
        landings = [*copies, copies[-1] + 1]
        start = TRIMMED_TO if topic == f"{mirrored.prefix}trimmed" else 0
        for offset in range(end + BEYOND):
            index = bisect_left(offsets, offset)
            status = status_of(offset, start=start, end=end, is_followed=index < len(offsets))
            yield (topic, partition, offset), (f"east.{topic}", partition, landings[index], status)


def status_of(offset: int, *, start: int, end: int, is_followed: bool) -> str:
    if offset < start:
        return "before_first"
    if offset > end:
        return "ahead"
    return "exact" if is_followed else "at_end"


def test_status_counts_batches_by_the_path_they_took(mirrored: Mirrored) -> None:
    rows = answers.run_query(
        answers.snapshot(mirrored.config, None), "flow_status", {"flow": FLOW}
    ).to_pylist()
    paths = {
        row["source_topic"].removeprefix(mirrored.prefix): (row["raw_batches"], row["record_path_batches"])
        for row in rows
        if row["source_partition"] == 0
    }
    raw_only = {kind for kind, (raw, record_path) in paths.items() if raw > 0 and record_path == 0}
    assert {*KINDS} - raw_only == {"stamped", "inventory", "trimmed"}
    assert all(paths[kind][1] > 0 for kind in ("stamped", "inventory"))
    assert sum(row["raw_batches"] for row in rows) == mirrored.summary.raw_batches
    assert sum(row["record_path_batches"] for row in rows) == mirrored.summary.record_path_batches
    assert sum(row["records"] for row in rows) == sum(map(len, mirrored.source.values()))


def test_audits_find_nothing(mirrored: Mirrored) -> None:
    assert broken_invariants(mirrored.config) == {}


def test_a_second_run_copies_and_records_nothing(mirrored: Mirrored, spark: SparkSession) -> None:
    topics = sorted({topic for topic, _ in mirrored.target})
    before, ends_before = offset_syncs(mirrored.config), ends(mirrored.servers["west"], topics)
    again = run(mirrored.config, spark)
    assert (again.records, again.raw_batches, again.record_path_batches) == (0, 0, 0)
    assert offset_syncs(mirrored.config) == before
    assert ends(mirrored.servers["west"], topics) == ends_before


def offset_syncs(config: MirrorConfig) -> list[tuple[object, ...]]:
    with sql.connect(answers.snapshot(config, None), {}, ("offset_syncs",)) as connection:
        return connection.sql("select * exclude (gaps) from offset_syncs order by all").fetchall()


# Topics ----------------------------------------------------------------------------------------


@pytest.mark.fault(17)
def test_partitions_added_while_running_are_mirrored(site: RealSite) -> None:
    east, west = site.servers
    topic = f"grows-{uuid.uuid4().hex[:6]}"
    source = small_source(topic)
    create_topics(east, [topic], partitions=1)
    send(east, topic, 0, source, 50)
    config = write_config(
        site.folder,
        servers_of(site.pair),
        {FLOW: f"""round_seconds = 1.0\ntopics = ["{topic}"]\ntopic_refresh_seconds = 1.0"""},
    )
    init_ledger(config)
    with running(config, site.spark) as driver:
        wait_for_copy(east, west, topic, partitions=1)
        add_partitions(east, topic, total=3)
        for partition in range(3):
            send(east, topic, partition, source, 50)
        wait_for_copy(east, west, topic, partitions=3)
    assert driver.result().records == 200
    assert not driver.result().stopped


def add_partitions(servers: str, topic: str, *, total: int) -> None:
    admin = AdminClient(
        {"bootstrap.servers": servers}
    )  # a client that is not held is closed before it answers
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)


def wait_for_copy(east: str, west: str, topic: str, *, partitions: int) -> None:
    """Until an independent reader sees the same on both sides."""

    def is_same() -> bool:
        source, copy = read_topics(east, [topic]), read_existing(west, f"east.{topic}")
        found = [
            differences(records, copy.get((f"east.{topic}", at[1]), [])) for at, records in source.items()
        ]
        return len(found) == partitions and not any(found)

    eventually(is_same, f"all {partitions} partitions are mirrored")


def read_existing(servers: str, topic: str) -> Readings:
    exists = topic in AdminClient({"bootstrap.servers": servers}).list_topics(timeout=10).topics
    return read_topics(servers, [topic]) if exists else {}


def test_identity_naming_keeps_names(site: RealSite) -> None:
    east, west = site.servers
    topic = f"same-{uuid.uuid4().hex[:6]}"
    create_topics(east, [topic], partitions=2)
    source = small_source(topic)
    for partition in range(2):
        send(east, topic, partition, source, 100)
    config = write_config(
        site.folder,
        servers_of(site.pair),
        {FLOW: f"""round_seconds = 1.0\ntopics = ["{topic}"]\ntopic_naming = "identity" """},
    )
    init_ledger(config)
    assert run(config, site.spark).records == 200
    left, right = read_topics(east, [topic]), read_topics(west, [topic])
    assert sorted(left) == sorted(right) == [(topic, 0), (topic, 1)]
    assert {at: differences(left[at], right[at]) for at in left} == {at: [] for at in left}
