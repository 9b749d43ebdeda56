"""Messages that brokers before 0.11 left in a log: they arrive record by record, with a map of every offset."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger import Ledger
from ledger.recorders.observation import Subject
from ledger.sandbox import Sandbox
from ledger.sandbox.reading import Partition, Readings, Record, read_topics
from ledger.sandbox.workload import create_topics
from tests.support.following import produce
from tests.support.messages import message, wrapped
from tests.support.recorded import broken_invariants
from tests.support.runs import FLOW, run
from tests.support.site import RealSite

STARTED_MS = 1_400_000_000_000
KEPT = (5, 8, 9, 20)
LOGS = {
    "old-1": b"".join(
        message(1, at, b"k%d" % at, b"v%d" % at, timestamp_ms=STARTED_MS + at) for at in range(50)
    ),
    "old-0": b"".join(message(0, at, b"k%d" % at, b"v%d" % at) for at in range(50)),
    "wrapped-1": wrapped(1, range(40), timestamp_ms=STARTED_MS)
    + wrapped(1, range(40, 90), stamped_ms=STARTED_MS),
    "wrapped-0": wrapped(0, range(40)),
    "cleaned": wrapped(1, KEPT, timestamp_ms=STARTED_MS),
}
NEW = [f"n{number}" for number in range(20)]
_OF_A_RUN = (".kafka_cleanshutdown", "*-checkpoint")
_INDEXES = ("*.index", "*.timeindex", "*.snapshot", "*.txnindex", "leader-epoch*")


@pytest.fixture
def site(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[RealSite]:
    """The logs of topics of east begin with messages of old."""
    sandbox = Sandbox(tmp_path / "sandbox")
    try:
        east = sandbox.up(["east", "west"], brokers=1)["east"].bootstrap_servers
        create_topics(east, list(LOGS), partitions=1, configuration={"retention.ms": "-1"})
        sandbox.stop("east")
        data = sandbox.log("east").parent / "data"
        for topic, stored in LOGS.items():
            folder = data / f"{topic}-0"
            remove(folder, _INDEXES)
            (folder / "00000000000000000000.log").write_bytes(stored)
        remove(data, _OF_A_RUN)
        sandbox.start("east")
        for topic in LOGS:
            produce(east, topic, *NEW)
        yield RealSite(sandbox.status(), sandbox, spark, tmp_path, capsys)
    finally:
        sandbox.down()


def remove(folder: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for file in folder.glob(pattern):
            file.unlink()


def test_messages_of_versions_0_and_1_arrive_as_records(site: RealSite) -> None:
    east, west = site.servers
    config = site.configured({FLOW: 'topics = [".*"]\ntopic_naming = "identity"'})
    summary = run(config, site.spark, recorded=frozenset(Subject))
    assert summary.lost_offsets == 0
    written, copied = (read_topics(servers, list(LOGS)) for servers in (east, west))
    assert contents(copied) == contents(written)
    ledger = Ledger.open(config)
    for at, found in written.items():
        assert len(found) == len(NEW) + {"wrapped-1": 90, "wrapped-0": 40, "cleaned": len(KEPT)}.get(
            at[0], 50
        )
        for place in (0, len(found) // 3, len(found) - 1):
            [translated] = ledger.translate(
                flow=FLOW, topic=at[0], partition=at[1], offset=found[place].offset
            )
            assert translated.target_offset == copied[at][place].offset
    assert broken_invariants(config) == {}
    run(config, site.spark)
    assert read_topics(west, list(LOGS)) == copied, "nothing is copied a second time"


def contents(found: Readings) -> dict[Partition, list[Record]]:
    """Records of version 0 have no time: the client library calls that 0, and -1 where the batch says so."""
    return {
        at: [one.record._replace(timestamp_ms=max(one.record.timestamp_ms, 0)) for one in placed]
        for at, placed in found.items()
    }
