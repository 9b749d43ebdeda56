"""What deltalake appends is a table like any other to delta-spark: read, read as of a version, optimized, copied."""

from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from ledger.answers.elsewhere import for_duckdb, for_spark, spark_table
from ledger.clock import SystemClock
from ledger.facts.tables import TABLE_BY_NAME
from ledger.store import copying
from ledger.store.copying import copy_ledger
from ledger.store.delta_tables import create_tables, table_uri
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import TableUpkeep, maintain
from ledger.store.places import Place, send
from ledger.store.snapshots import open_ledger
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


class Killed(BaseException):
    """The process dies here."""


def test_other_engines_read_the_version_that_a_copy_names(
    spark: SparkSession, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind it lies what a copying that died has left: the newest version in the folder lacks files."""
    log, to, fresh = DeltaFactLog(path, SystemClock()), str(tmp_path / "copy"), str(tmp_path / "fresh copy")
    claimed = claim(log)

    def append(first: int, last: int) -> None:
        for number in range(first, last + 1):
            log.append(claimed, TABLE, number, [watermark(number)])

    def copied(place: str) -> None:
        copy_ledger(path, place, keep_hours=1, clock=SystemClock(), progress=lambda _line: None)

    def require_rows(place: str, last: int) -> None:
        at = open_ledger(place).now()
        own = spark.newSession()
        own.sql(spark_table(at, TABLE_BY_NAME[TABLE]).rstrip().removesuffix(";"))
        assert sorted(row.high_watermark for row in own.table(TABLE).collect()) == list(range(1, last + 1))
        assert "It names versions of a copy" in for_spark(at)
        with duckdb.connect() as plain:
            for statement in for_duckdb(at).split(";\n")[: len(TABLE_BY_NAME)]:
                plain.execute(statement)
            found = plain.execute(f"select high_watermark from {TABLE} order by all").fetchall()
        assert found == [(number,) for number in range(1, last + 1)]

    append(1, 20)
    copied(to)
    append(21, 35)
    assert maintain(TableUpkeep(path, TABLE, SystemClock(), keep_hours=0)).merged
    merge = DeltaTable(table_uri(path, TABLE)).version()

    def dying(source: Place, name: str, target: Place) -> str:
        if name.endswith(f"{merge:020d}.json"):
            raise Killed
        return send(source, name, target)

    with monkeypatch.context() as patched:
        patched.setattr(copying, "send", dying)
        with pytest.raises(Killed):
            copied(to)
    assert DeltaTable(table_uri(to, TABLE)).version() > 30, "entries were sent"
    require_rows(to, 20)
    copied(to)
    require_rows(to, 35)
    append(36, 36)
    opened = DeltaTable(table_uri(path, TABLE))
    opened.create_checkpoint()
    for entry in (Path(table_uri(path, TABLE)) / "_delta_log").glob("*.json"):
        if int(entry.stem) < opened.version():
            entry.unlink()
    copied(fresh)
    require_rows(fresh, 36)
    append(37, 37)
    copied(fresh)
    require_rows(fresh, 37)
