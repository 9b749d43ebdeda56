"""Fetch what JVMs need, and make what they start faster with: `python -m ledger.sandbox.class_archives`, once on a
machine. Nothing needs it: what is missing is fetched when it is used, and without an archive JVMs start as they always
did.

A broker and a Spark session are started and used a little; the classes that they loaded are archived.
"""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ledger import jvm
from ledger.errors import MirrorLedgerError
from ledger.jvm import archive_file, written
from ledger.mirror.spark import SPARK_CLASSES, local_session, spark_jars
from ledger.sandbox import Sandbox
from ledger.sandbox.brokers import KAFKA, KAFKA_CLASSES, kafka_jars

_END_TIMEOUT_S = 60


def main() -> int:
    """Fetch both sets of jars, and make both archives where they are missing, each time side by side."""
    if sys.argv[1:] == ["--spark"]:
        archive_spark()
        return 0
    sets = KAFKA, jvm.delta()
    if not all(map(jvm.is_fetched, sets)):
        sys.stderr.write("fetching the jars of Kafka and Delta Lake\n")
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(jvm.fetched, sets))
    except MirrorLedgerError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    broker, spark = archive_file(KAFKA_CLASSES, kafka_jars()), archive_file(SPARK_CLASSES, spark_jars())
    if not (broker.is_file() and spark.is_file()):
        sys.stderr.write("starting a broker and Spark once, so that they start faster from now on\n")
    beside, command = None, [sys.executable, "-m", "ledger.sandbox.class_archives", "--spark"]
    if not spark.is_file():
        beside = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if not broker.is_file():
            archive_kafka()
    except (MirrorLedgerError, OSError) as error:
        sys.stderr.write(f"JVMs start without an archive of classes: {error}\n")
    finally:
        if beside is not None and (beside.wait() or not spark.is_file()):
            sys.stderr.write(f"drivers start without an archive of classes: {' '.join(command)} makes none\n")
    return 0


def archive_kafka() -> None:
    """The classes of a broker that starts, is asked, and ends."""
    with tempfile.TemporaryDirectory() as folder, written(KAFKA_CLASSES, kafka_jars()):
        sandbox = Sandbox(Path(folder) / "sandbox")
        try:
            sandbox.up(["archived"], brokers=1)
            sandbox.stop("archived")
        finally:
            sandbox.down()


def archive_spark() -> None:
    """The classes of a session that runs a job in Python and plans a query over a Delta table."""
    os.environ.pop("SPARK_HOME", None)
    with tempfile.TemporaryDirectory() as folder, written(SPARK_CLASSES, spark_jars()):
        session = local_session(tasks=1)
        context = session.sparkContext
        context.parallelize([1, 2], 2).mapPartitions(lambda found: found).collect()
        session.range(10).write.format("delta").save(f"{folder}/table")
        session.read.format("delta").load(f"{folder}/table").createOrReplaceTempView("archived")
        session.sql("select id % 2 as half, count(*) as n from archived group by 1 order by 2").collect()
        gateway = context._gateway
        assert gateway is not None, "it is there as long as the session"
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=_END_TIMEOUT_S)


if __name__ == "__main__":
    sys.exit(main())
