"""Records left out by key, header and time, on real brokers: what arrives, and what the ledger says."""

import time
import uuid
from datetime import UTC, datetime, timedelta, timezone

from ledger.answers.maintenance import init_ledger
from ledger.sandbox.reading import PlacedRecord, Record, read_topics
from ledger.sandbox.workload import Delivery, create_topics
from ledger.store import answers, sql
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.recorded import broken_invariants
from tests.support.runs import FLOW, run
from tests.support.site import RealSite

NOT_TEXT = b"\xfforder-1"
STARTED = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)  # recent: retention goes by it
ENDED = STARTED + timedelta(hours=1)
STARTED_MS = round(STARTED.timestamp() * 1000)
KINDS: tuple[tuple[bytes | None, tuple[tuple[str, bytes | None], ...], int], ...] = (
    (b"order-1", (), 0),
    (b"order-1", (("origin", b"probe"),), 0),  # left out by its header
    (b"order-1", (("origin", None), ("origin", b"shop")), 0),
    (b"test-1", (), 0),  # left out by its key
    (NOT_TEXT, (), 0),
    (None, (), 0),
    (b"order-2", (), -1),  # left out: before the time
    (b"order-2", (), 3_600_000),  # left out: not before the end
)
KEPT = (0, 2, 4, 5)


def records() -> list[list[Record]]:
    """Batches: all kinds mixed, some wholly kept, some wholly left out."""
    sequences = [list(range(len(KINDS))) * 3, [0, 2, 0], [1, 3, 6, 7], [5, 4, 3], [7, 7]]
    serial = 0
    produced = []
    for sequence in sequences * 2:
        batch = []
        for kind in sequence:
            key, headers, at_ms = KINDS[kind]
            serial += 1
            batch.append(Record(key, b"%d-%d" % (kind, serial), headers, STARTED_MS + at_ms))
        produced.append(batch)
    return produced


def is_kept(record: Record) -> bool:
    return int((record.value or b"").split(b"-")[0]) in KEPT


def test_a_filter_leaves_out_what_it_says_and_every_gap_is_told(site: RealSite) -> None:
    east, west = site.servers
    topic = f"filtered-{uuid.uuid4().hex[:6]}"
    config = write_config(
        site.folder,
        servers_of(site.pair),
        {
            FLOW: f"""
topics = ["{topic}"]
round_seconds = 1.0
[flows.{FLOW}.filter]
exclude_keys = ["test-.*", ".*order-1x"]
exclude_headers = {{ origin = "probe|load" }}
from_time = {STARTED.isoformat()}
until_time = {ENDED.astimezone(timezone(timedelta(hours=2))).isoformat()}
"""
        },
    )
    init_ledger(config)
    create_topics(east, [topic], partitions=1)
    produced = records()
    delivery = Delivery(east, {"compression.type": "lz4", "linger.ms": "50"})
    for batch in produced:
        for record in batch:
            delivery.send(topic, 0, record)
        delivery.finish()
        time.sleep(0.01)
    summary = run(config, site.spark)
    source = read_topics(east, [topic])[(topic, 0)]
    copy = read_topics(west, [f"east.{topic}"])[(f"east.{topic}", 0)]
    kept = [placed for placed in source if is_kept(placed.record)]
    assert len(kept) == summary.records > 0
    assert [placed.record for placed in copy] == [placed.record for placed in kept]
    assert summary.raw_batches >= 2, "what is wholly kept is copied as it is"
    assert summary.record_path_batches >= 4
    at = answers.snapshot(config, None)
    with sql.connect(at, {}, ("gaps", "segments")) as connection:
        gaps = connection.execute("select source_start, source_end, cause from gaps").fetchall()
        segments = connection.execute(
            "select source_start, source_end, target_start from segments"
        ).fetchall()
    left_out = {offset for start, end, _ in gaps for offset in range(start, end)}
    assert {cause for *_, cause in gaps} == {"filtered"}
    assert left_out == {placed.offset for placed in source if not is_kept(placed.record)}
    assert pairs(segments) == dict(zip(offsets(kept), offsets(copy), strict=True))
    assert broken_invariants(config) == {}


def offsets(records: list[PlacedRecord]) -> list[int]:
    return [placed.offset for placed in records]


def pairs(segments: list[tuple[int, int, int]]) -> dict[int, int]:
    return {
        offset: target + offset - start for start, end, target in segments for offset in range(start, end)
    }
