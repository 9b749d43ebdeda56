"""A second engine: Spark reads what deltalake maintained, and maintains what deltalake appends to."""

import json
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.answers.maintenance import init_ledger
from ledger.answers.spark import merge_on_spark
from ledger.config.mirror import MirrorConfig
from ledger.store.delta_tables import table_uri
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import Upkeep, maintain
from ledger.store.merging import FANOUT
from ledger.store.snapshots import open_ledger
from tests.support.config_files import write_config
from tests.support.drivers import loaded
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import TABLE, append, claim, row
from tests.support.ledgers import Maintained


@pytest.fixture
def config(tmp_path: Path) -> MirrorConfig:
    nobody = {"east": "127.0.0.1:9", "west": "127.0.0.1:9"}
    return write_config(tmp_path, nobody, {"f": 'topics = [".*"]'})


@pytest.fixture
def ledger(config: MirrorConfig) -> Maintained:
    init_ledger(config)
    clock = FakeClock(time.time())
    log = DeltaFactLog(config.ledger.path, clock)
    return Maintained(config.ledger.path, clock, log, claim(log))


def upto(last: int) -> list[int]:
    return list(range(1, last + 1))


def by_spark(spark: SparkSession, ledger: Maintained) -> list[int]:
    rows = spark.read.format("delta").load(table_uri(ledger.path, TABLE)).select("high_watermark").collect()
    return sorted(row.high_watermark for row in rows)


def test_spark_reads_what_was_merged_and_cleaned(spark: SparkSession, ledger: Maintained) -> None:
    ledger.append(FANOUT)
    assert by_spark(spark, ledger) == upto(FANOUT)
    assert maintain(ledger.upkeep()).merged == FANOUT
    assert maintain(ledger.upkeep("writers")).merged == 0
    ledger.later(1.5)
    assert maintain(ledger.upkeep()).removed == FANOUT
    ledger.append()
    assert by_spark(spark, ledger) == upto(FANOUT + 1)
    gaps = [{"source_start": 2, "source_end": number, "cause": "control"} for number in range(3, 3 + FANOUT)]
    for number, gap in enumerate(gaps):
        syncs = row("offset_syncs", writer="flow:f", round=number, recorded_at_ms=1, gaps=[gap])
        append(ledger.path, "offset_syncs", [syncs])
    assert maintain(ledger.upkeep("offset_syncs")).merged == FANOUT
    syncs_read = (
        spark.read.format("delta").load(table_uri(ledger.path, "offset_syncs")).select("gaps", "cause")
    )
    assert [found.asDict() for one in syncs_read.collect() for found in one.gaps] == gaps
    writers = spark.read.format("delta").load(table_uri(ledger.path, "writers")).select("shut_out").collect()
    assert len(writers) == 1


def test_spark_maintains_while_deltalake_appends(spark: SparkSession, ledger: Maintained) -> None:
    ledger.append(FANOUT)
    cut = open_ledger(ledger.path).now().cut
    merged = list[int]()

    def look_after() -> None:
        done = maintain(ledger.upkeep(), merging=partial(merge_on_spark, spark.sparkContext))
        merged.append(done.merged)

    maintainer = threading.Thread(target=look_after)
    maintainer.start()
    while maintainer.is_alive():
        ledger.append()
    maintainer.join()
    look_after()
    assert sum(merged) >= FANOUT
    assert ledger.offsets() == upto(ledger.appended)
    assert by_spark(spark, ledger) == upto(ledger.appended)
    before = open_ledger(ledger.path).at(cut).rows(TABLE, [])
    assert [row["high_watermark"] for row in before] == upto(FANOUT)


def test_an_optimize_of_spark_makes_a_merge_give_up(spark: SparkSession, ledger: Maintained) -> None:
    ledger.append(FANOUT)
    upkeep = ledger.upkeep()
    _, (merge,) = upkeep.due()
    written = upkeep.written(merge)
    spark.sql(f"optimize delta.`{table_uri(ledger.path, TABLE)}`").collect()
    assert upkeep.committed(Upkeep(TABLE, FANOUT), merge, written).given_up == 1
    assert by_spark(spark, ledger) == ledger.offsets() == upto(FANOUT)


def test_the_job_does_what_the_command_does(
    spark: SparkSession, config: MirrorConfig, ledger: Maintained, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.append(FANOUT)
    job = loaded("maintain_ledger")
    assert job.main(["--config", config.file, "--dry-run"]) == 0
    planned = {row["table"]: row for row in json.loads(capsys.readouterr().out)["tables"]}
    assert (planned[TABLE]["merged"], len(ledger.named())) == (FANOUT, FANOUT)
    assert job.main(["--config", config.file]) == 0
    done = {row["table"]: row for row in json.loads(capsys.readouterr().out)["tables"]}
    assert (done[TABLE]["merged"], done[TABLE]["written"], len(ledger.named())) == (FANOUT, 1, 1)
    assert ledger.offsets() == upto(FANOUT)
    assert job.main(["--config", f"{config.file}.away"]) == 2
