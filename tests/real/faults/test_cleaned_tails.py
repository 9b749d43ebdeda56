"""A driver dies by kill -9 with copies that it had not recorded, and cleaners run before the next one looks."""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.sandbox.log_gaps import (
    CLEANED_AGAIN,
    CLEANED_QUICKLY,
    KEPT_AS_IT_IS,
    configure,
    wait_until_cleaned,
)
from ledger.sandbox.reading import PlacedRecord, Record, ends, read_topics
from ledger.sandbox.workload import create_topics
from tests.support import recorded
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.drivers import Driver
from tests.support.runs import run
from tests.support.site import RealSite
from tests.support.waiting import eventually

NOTHING_RECORDED = "round_seconds = 120.0"  # a round whose end the first driver does not live to see
COPIED, MEANWHILE = 600, 150
_BATCH = 25
_APART_MS = 20  # by record times a batch is longer than a segment
_AN_HOUR_AGO_MS = int(time.time() * 1000) - 3_600_000


@dataclass(frozen=True)
class Cleaned:
    """A topic and which of its sides a cleaner is at work on while nobody looks."""

    source: str
    target: str
    sides: tuple[str, ...]


def write(servers: str, topic: str, start: int, count: int) -> None:
    """Every third record is the only one of its key, of the others' keys there are seven; some delete theirs."""
    producer = Producer({"bootstrap.servers": servers, "batch.num.messages": _BATCH, "linger.ms": 50})
    for number in range(start, start + count):
        key = f"{number}" if number % 3 == 0 else f"hot-{number % 7}"
        value = None if number % 10 == 9 else b"%d" % number
        producer.produce(topic, value, key.encode(), 0, timestamp=_AN_HOUR_AGO_MS + _APART_MS * number)
        if number % _BATCH == _BATCH - 1:
            assert producer.flush(30) == 0


def die_unrecorded(config: MirrorConfig, folder: Path, west: str, topics: list[Cleaned]) -> None:
    """A driver of all flows has copied everything and is killed, with all that it had started, before a round ends."""
    flow, *others = config.flows
    driver = Driver(config, folder / "driver.log", tuple(others), flow=flow)
    try:
        eventually(lambda: copied(west, topics) == COPIED * len(topics), "all records on the target")
        driver.process.kill()
    finally:
        driver.end()
    assert not any(row["records"] for row in recorded.rows(config, "offset_syncs"))


def copied(west: str, topics: list[Cleaned]) -> int:
    """0 before the last of them is there."""
    try:
        return sum(ends(west, [topic.target for topic in topics]).values())
    except Exception:  # noqa: BLE001  whatever a client says of topics that are not there yet
        return 0


def landings(config: MirrorConfig, topic: str) -> dict[int, int]:
    """Source offset to target offset, from the recorded rows."""
    found: dict[int, int] = {}
    for row in recorded.rows(config, "offset_syncs"):
        if row["source_topic"] == topic and row["kind"] == "copied":
            gone = {o for gap in row["gaps"] for o in range(gap["source_start"], gap["source_end"])}
            kept = [o for o in range(row["source_start"], row["source_end"]) if o not in gone]
            found |= {offset: row["target_start"] + n for n, offset in enumerate(kept)}
    return found


def last_values(placed: list[PlacedRecord]) -> dict[bytes | None, Record]:
    """What a reader ends with, by key; a tombstone leaves nothing."""
    last = {one.record.key: one.record for one in placed}
    return {key: record for key, record in last.items() if record.value is not None}


@pytest.mark.fault(85, 32)
def test_flows_go_on_by_themselves_after_cleaners_were_at_what_they_had_not_recorded(site: RealSite) -> None:
    """A flow of each naming, with a topic that is cleaned at the source, one at the target, and one at both."""
    servers = servers_of(site.pair)
    east, west = servers["east"], servers["west"]
    name = f"cleaned-{uuid.uuid4().hex[:6]}"
    topics = [
        Cleaned(source := f"{name}-{naming}-{number}", f"{prefix}{source}", sides)
        for naming, prefix in (("prefix", "east."), ("identity", ""))
        for number, sides in enumerate([("east",), ("west",), ("east", "west")])
    ]
    flows = {
        naming: f'topics = ["{name}-{naming}-.*"]\ntopic_naming = "{naming}"\n'
        f'configuration_follow = "create"\n{NOTHING_RECORDED}'
        for naming in ("prefix", "identity")
    }
    config = write_config(site.folder, servers, flows)
    init_ledger(config)
    sources = [topic.source for topic in topics]
    create_topics(east, sources, partitions=1, configuration={**CLEANED_QUICKLY, **KEPT_AS_IT_IS})
    for topic in topics:
        write(east, topic.source, 0, COPIED)
    die_unrecorded(config, site.folder, west, topics)
    for topic in topics:
        write(east, topic.source, COPIED, MEANWHILE)
    at_work = [
        (servers[side], topic.source if side == "east" else topic.target)
        for topic in topics
        for side in topic.sides
    ]
    for at, cleaned in at_work:
        configure(at, cleaned, CLEANED_AGAIN)
    for at, cleaned in at_work:
        wait_until_cleaned(at, cleaned)

    for flow in flows:
        assert not run(config, site.spark, flow=flow).is_unfinished
    at_source, at_target = read_topics(east, sources), read_topics(west, [topic.target for topic in topics])
    for topic in topics:
        left, found = at_source[topic.source, 0], at_target[topic.target, 0]
        assert_equal(left, found, landings(config, topic.source))
    recovered = sum(row["records"] for row in recorded.rows(config, "offset_syncs") if row["recovered"])
    assert recovered > COPIED * len(topics) / 2
    assert recorded.broken_invariants(config) == {}


def assert_equal(left: list[PlacedRecord], found: list[PlacedRecord], at: Mapping[int, int]) -> None:
    """The last values of both sides, and every pair as far as it is left; what was proved is not there twice."""
    assert last_values(left) == last_values(found)
    there = {placed.offset: placed.record for placed in found}
    pairs = [
        (placed.record, there[at[placed.offset]])
        for placed in left
        if placed.offset in at and at[placed.offset] in there
    ]
    assert all(record == copy for record, copy in pairs)
    assert len(pairs) > MEANWHILE
    assert found[-1].offset + 1 < COPIED + 2 * MEANWHILE
