"""`compare` on real brokers: a byte that somebody changed in a log is found, and nothing else is said to differ.

The byte is changed in the file of the target's log, with the checksum of its batch, as its broker would serve it.
"""

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import crc32c
from confluent_kafka import Producer

from ledger.config.mirror import MirrorConfig
from ledger.sandbox.workload import create_topics
from tests.support.drivers import loaded
from tests.support.following import name_of
from tests.support.runs import FLOW, run
from tests.support.site import RealSite

RECORDS = 4_000


def fill(servers: str, topic: str, *, keys: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "batch.num.messages": 100})
    for number in range(RECORDS):
        producer.produce(topic, b"value-%06d" % number, key=b"key-%d" % (number % keys), partition=0)
        producer.poll(0)
    assert producer.flush(30) == 0


@contextmanager
def changed(site: RealSite, topic: str, offset: int, before: bytes, after: bytes) -> Iterator[None]:
    """West holds other bytes in the batch that has an offset, and says so by its checksum."""
    [segment] = sorted((site.sandbox.data("west") / f"{topic}-0").glob("*.log"))
    position, batch = batch_of(segment, offset)
    assert batch.count(before) == 1
    made = bytearray(batch.replace(before, after))
    struct.pack_into(">I", made, 17, crc32c.crc32c(memoryview(made)[21:]))
    write(segment, position, bytes(made))
    try:
        yield
    finally:
        write(segment, position, batch)


def batch_of(segment: Path, offset: int) -> tuple[int, bytes]:
    data, position = segment.read_bytes(), 0
    while position < len(data):
        base, length = struct.unpack_from(">qi", data, position)
        [last] = struct.unpack_from(">i", data, position + 23)
        if base <= offset <= base + last:
            return position, data[position : position + length + 12]
        position += length + 12
    raise AssertionError(f"{segment} has no offset {offset}")


def write(segment: Path, position: int, batch: bytes) -> None:
    with segment.open("r+b") as file:
        file.seek(position)
        file.write(batch)


def compared(
    site: RealSite, config: MirrorConfig, *options: str
) -> tuple[int, dict[str, dict[str, Any]], str]:
    done = site.command(config, "compare", FLOW, *options, "-o", "json")
    return done.code, {row["source_topic"]: row for row in json.loads(done.out)}, done.err


def test_a_changed_byte_is_found_where_it_lies(site: RealSite, tmp_path: Path) -> None:
    east, _ = site.servers
    plain, compacted = name_of("plain"), name_of("compacted")
    create_topics(east, [plain], partitions=1)
    create_topics(east, [compacted], partitions=1, configuration={"cleanup.policy": "compact"})
    fill(east, plain, keys=RECORDS)
    fill(east, compacted, keys=100)
    config = site.configured({FLOW: f'topics = ["{plain}", "{compacted}"]\ntopic_naming = "identity"'})
    run(config, site.spark)

    code, rows, err = compared(site, config)
    assert (code, {row["verdict"] for row in rows.values()}) == (4, {"unknown"}), "what was sent is no proof"
    assert rows[plain]["same"] is None
    assert (rows[plain]["mapped"], rows[plain]["checksummed"]) == (RECORDS, RECORDS)
    assert "give --read" in err

    code, rows, err = compared(site, config, "--read")
    assert (code, {row["verdict"] for row in rows.values()}) == (0, {"equal"}), err
    assert {row["same"] for row in rows.values()} == {RECORDS}
    assert (rows[compacted]["keys"], rows[compacted]["keys_left_out"]) == (100, 0)

    with changed(site, plain, 2_345, b"value-002345", b"value-002344"):
        code, rows, err = compared(site, config, "--read")
        assert code == 1
        found = rows[plain]
        assert (found["verdict"], found["same"], found["differing"]) == ("differs", RECORDS - 1, 1)
        assert (found["first_source_offset"], found["first_target_offset"]) == (2_345, 2_345)
        assert rows[compacted]["verdict"] == "equal"
        assert f"{plain} partition 0 at source offset 2345" in err
        on_spark = tmp_path / "rows.json"
        words = ("--config", config.file, "--file", str(on_spark), FLOW, "--read", "-o", "json")
        assert loaded("compare").main(words) == 1
        assert {row["source_topic"]: row for row in json.loads(on_spark.read_text())} == rows

    with changed(site, compacted, RECORDS - 7, b"value-003993", b"value-003994"):
        code, rows, _ = compared(site, config, "--read", "--topic", compacted)
        assert (code, rows[compacted]["first_source_offset"]) == (1, RECORDS - 7)
        assert rows[compacted]["differing"] == 2, "as a record, and as the last of its key"

    code, rows, _ = compared(site, config, "--read", "--topic", plain, "--sample", "2")
    assert (code, rows[plain]["verdict"], rows[plain]["same"]) == (4, "unknown", 2_000)

    file = tmp_path / "progress.json"
    code, before, _ = compared(site, config, "--read", "--progress", str(file))
    fill(east, plain, keys=RECORDS)
    run(config, site.spark)
    again = compared(site, config, "--read", "--progress", str(file))
    assert (again[0], again[1]) == (0, before), "the file has the cut at which it was begun"
    assert compared(site, config, "--read")[1][plain]["same"] == 2 * RECORDS
