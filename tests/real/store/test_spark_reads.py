"""What deltalake appends is a table like any other to delta-spark: read, read as of a version, optimized."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.clock import SystemClock
from ledger.store.delta_tables import create_tables, table_uri
from ledger.store.log import DeltaFactLog
from tests.support.ledger_rows import TABLE, claim, watermark


@pytest.fixture
def path(tmp_path: Path) -> str:
    create_tables(str(tmp_path / "ledger"), now_ms=1)
    return str(tmp_path / "ledger")


def test_delta_spark_reads_travels_and_optimizes(spark: SparkSession, path: str) -> None:
    log, uri = DeltaFactLog(path, SystemClock()), table_uri(path, TABLE)
    claimed = claim(log)

    def append(number: int) -> None:
        log.append(claimed, TABLE, number, [watermark(number)])

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
