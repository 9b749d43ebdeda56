"""Jobs, and SQL that `views` prints, in Spark over a ledger in an object store: its workers read and write there."""

import json
import os
import subprocess
import sys
from pathlib import Path

from deltalake import DeltaTable

from ledger.answers.elsewhere import for_spark
from ledger.answers.spark import store_settings
from ledger.clock import SystemClock
from ledger.jvm import delta_jars
from ledger.mirror.spark import store_environment
from ledger.store import catalog, sql
from ledger.store.copying import copy_ledger
from ledger.store.delta_tables import create_tables, table_uri
from ledger.store.log import DeltaFactLog
from ledger.store.snapshots import open_ledger
from tests.support.config_files import write_config
from tests.support.drivers import submit, submit_environment
from tests.support.ledger_rows import TABLE, claim, watermark
from tests.support.runs import FLOW
from tests.support.stores import Store, cloud_jars

CLUSTERS = {"east": "127.0.0.1:1", "west": "127.0.0.1:2"}
APPENDS, ROWS = 40, 300
"""Together more rows than the program reads itself and hands to Spark."""
COPY = "s3://ledgers/copy"
ASKED = "topic_coverage"
"""It reads `high_watermarks`, of which the ledger has many rows."""

BY_VIEWS = f"""
import sys
from pathlib import Path
from pyspark.sql import SparkSession

views, settings = map(Path, sys.argv[1:])
builder = SparkSession.builder
for line in settings.read_text().splitlines():
    builder = builder.config(*line.split("=", 1))
spark = builder.getOrCreate()
for statement in views.read_text().split(";\\n"):
    if statement.strip() and "view {TABLE} as" in statement:
        spark.sql(statement)
found = spark.sql("select count(*), sum(high_watermark) from {TABLE}").collect()
print("FOUND", *found[0])
"""


def test_spark_maintains_answers_and_reads_views_of_a_ledger_in_a_store(s3: Store, tmp_path: Path) -> None:
    config = write_config(tmp_path, CLUSTERS, {FLOW: 'topics = ["t"]'}, store=s3)
    create_tables(s3.path, now_ms=SystemClock().now_ms())
    log = DeltaFactLog(s3.path, SystemClock())
    claimed = claim(log)
    for number in range(1, APPENDS + 1):
        log.append(claimed, TABLE, number, [watermark(number * ROWS + one) for one in range(ROWS)])
    copy_ledger(s3.path, COPY, keep_hours=1, clock=SystemClock(), progress=lambda _line: None)
    at = open_ledger(s3.path).now()
    params = {"cluster": "east"}
    expected = sql.run_query(catalog.query(ASKED), params, at).to_pylist()
    assert expected

    kept = submit("maintain_ledger", "--config", config.file, jars=cloud_jars())
    assert kept.returncode == 0, kept.stdout + kept.stderr
    assert len(DeltaTable(table_uri(s3.path, TABLE)).file_uris()) < APPENDS, "workers wrote merged files"
    to = tmp_path / "answer.json"
    asked = (ASKED, "--param", "cluster=east", "-o", "json", "--to", str(to))
    done = submit("answer", "--config", config.file, *asked, jars=cloud_jars())
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(to.read_text(encoding="utf-8")) == expected
    for place in (s3.path, COPY):
        read_by_views(place, tmp_path)


def read_by_views(place: str, folder: Path) -> None:
    """In a session of somebody else, which knows the store by settings of Hadoop."""
    views, settings, script = folder / "views.sql", folder / "settings", folder / "read.py"
    views.write_text(for_spark(open_ledger(place).now()), encoding="utf-8")
    chosen = {
        "spark.jars": ",".join(map(str, [*delta_jars(), *cloud_jars()])),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.ansi.enabled": "true",
        "spark.driver.host": "127.0.0.1",
        **{f"spark.hadoop.{key}": value for key, value in store_settings(store_environment()).items()},
    }
    settings.write_text("\n".join(f"{key}={value}" for key, value in chosen.items()), encoding="utf-8")
    settings.chmod(0o600)
    script.write_text(BY_VIEWS, encoding="utf-8")
    command = [sys.executable, str(script), str(views), str(settings)]
    environment = {key: value for key, value in submit_environment().items() if not key.startswith("AWS_")}
    read = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    numbers = [number * ROWS + one for number in range(1, APPENDS + 1) for one in range(ROWS)]
    assert f"FOUND {len(numbers)} {sum(numbers)}" in read.stdout, read.stderr[-3000:]
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in read.stdout + read.stderr
