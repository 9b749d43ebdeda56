"""What deltalake appends is a table like any other to delta-spark: read, read as of a version, optimized."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.tables import create_tables, table_uri
from ledger.adapters.system import SystemClock
from ledger.ports import Row

TABLE = "high_watermarks"
ROW: Row = {
    "cluster": "east",
    "topic": "t",
    "topic_id": "T",
    "partition": 0,
    "leader_epoch": None,
    "log_start": 0,
    "read_at_ms": 1,
}
CLAIM: Row = {
    "event": "claimed",
    "host": "host:1:1",
    "flow": None,
    "source_cluster": "east",
    "source_cluster_id": "id",
    "target_cluster": None,
    "target_cluster_id": None,
    "producer_id": None,
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    create_tables(str(tmp_path / "ledger"), now_ms=1)
    return str(tmp_path / "ledger")


def test_delta_spark_reads_travels_and_optimizes(spark: SparkSession, path: str) -> None:
    log, uri = DeltaFactLog(path, SystemClock()), table_uri(path, TABLE)
    claim = log.claim("recorder:east", [TABLE], CLAIM)

    def append(number: int) -> None:
        log.append(claim, TABLE, number, [{**ROW, "last_stable": number, "high_watermark": number}])

    def by_spark(version: int | None = None) -> list[int]:
        reader = spark.read.format("delta")
        read = reader if version is None else reader.option("versionAsOf", version)
        return sorted(row.high_watermark for row in read.load(uri).select("high_watermark").collect())

    for number in range(1, 6):
        append(number)
    assert by_spark() == [1, 2, 3, 4, 5]
    assert by_spark(3) == [1, 2], "created, claimed, two appends"
    spark.sql(f"optimize delta.`{uri}`").collect()
    append(6)
    assert by_spark() == [1, 2, 3, 4, 5, 6]
    assert by_spark(3) == [1, 2]
