"""Flows whose target topics follow, on real brokers: configuration, runs, and what the ledger says."""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from ledger import app
from ledger.adapters.delta.reading import open_ledger
from ledger.adapters.delta.state import DeltaLedgerState
from ledger.adapters.kafka.admin import KafkaAdmin
from ledger.adapters.system import SystemClock
from ledger.config import MirrorConfig, load_config
from ledger.mirror.run_summary import RunSummary
from ledger.sandbox import SandboxCluster
from ledger.sandbox.reading import read_topics

SEEN_WITHIN_S = 90.0  # an upper bound, for machines that are busy

Pair = Mapping[str, SandboxCluster]
RENAME = """topic_naming = "rename"\nrename = [{ match = '(.*)_REPLICA', to = '\\1' }]\n"""


def name_of(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex[:6]}"


def config_of(folder: Path, pair: Pair, flows: Mapping[str, str], west: str = "") -> MirrorConfig:
    """Flows by name; the text of each says where it goes from `east`, unless it has a source."""
    tables = "\n".join(
        f"[flows.{name}]\nround_seconds = 0.5\ntopic_refresh_seconds = 0.5\n{text}"
        for name, text in flows.items()
    )
    file = folder / "mirror-ledger.toml"
    file.write_text(
        f"""
        [ledger]
        path = "{folder / "ledger"}"
        [clusters.east]
        bootstrap_servers = "{pair["east"].bootstrap_servers}"
        [clusters.west]
        bootstrap_servers = "{pair["west"].bootstrap_servers}"
        {west}
        {tables}
        """
    )
    return load_config(file)


def east_to_west(topics: str, *more: str) -> str:
    return "\n".join(('source = "east"', 'target = "west"', f'topics = ["{topics}"]', *more))


def run(
    config: MirrorConfig, spark: SparkSession, flow: str = "f", *, allow_scope_reduction: bool = False
) -> RunSummary:
    return app.run_flow(
        config,
        flow,
        session=lambda: spark,
        until_caught_up=True,
        allow_scope_reduction=allow_scope_reduction,
        stop=threading.Event(),
        on_round=lambda _so_far: None,
    )


@contextmanager
def running(config: MirrorConfig, spark: SparkSession) -> Iterator[None]:
    """The flow `f`, which goes on until the block is left."""
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as pool:
        going = pool.submit(
            app.run_flow,
            config,
            "f",
            session=lambda: spark,
            until_caught_up=False,
            stop=stop,
            on_round=lambda _so_far: None,
        )
        try:
            yield
        finally:
            stop.set()
        going.result(60)


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + SEEN_WITHIN_S
    while not holds():
        if time.monotonic() > deadline_s:
            pytest.fail(f"not within {SEEN_WITHIN_S:.0f} s: {what}")
        time.sleep(0.2)


@contextmanager
def admin_of(config: MirrorConfig, alias: str) -> Iterator[KafkaAdmin]:
    admin = KafkaAdmin(alias, config.cluster(alias), SystemClock())
    try:
        yield admin
    finally:
        admin.close()


def produce(servers: str, topic: str, *values: str, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce(topic, value.encode(), partition=partition)
    assert producer.flush(30) == 0


def values(servers: str, topic: str) -> list[bytes | None]:
    return [placed.record.value for records in read_topics(servers, [topic]).values() for placed in records]


def consumed(servers: str, topic: str, group: str) -> list[bytes | None]:
    """What the group reads, to its end, and commits."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    try:
        while (message := consumer.poll(30)) is not None and message.error() is None:
            found.append(message.value())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def operations(config: MirrorConfig, kind: str) -> list[dict[str, object]]:
    table = DeltaTable(f"{config.ledger.path}/operations").to_pyarrow_table().to_pylist()
    rows = sorted(table, key=lambda row: row["recorded_at_ms"])
    return [json.loads(row["content"]) for row in rows if row["kind"] == kind]


def open_findings(config: MirrorConfig, flow: str = "f") -> set[tuple[str, str | None]]:
    found = DeltaLedgerState(open_ledger(config.ledger.path)).open_findings(flow)
    return {(name, topic) for name, topic, _ in found}
