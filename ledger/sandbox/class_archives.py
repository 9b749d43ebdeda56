"""Make what JVMs start faster with: `python -m ledger.sandbox.class_archives`, once on a machine. Nothing needs it.

A broker and a Spark session are started and used a little; the classes that they loaded are archived.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ledger import jvm
from ledger.errors import MirrorLedgerError
from ledger.jvm import archive_file, written
from ledger.mirror.spark import SPARK_CLASSES, local_session, spark_jars
from ledger.sandbox import Sandbox
from ledger.sandbox.brokers import KAFKA_CLASSES

_END_TIMEOUT_S = 60


def main() -> int:
    """Make both archives where they are missing, side by side; without one JVMs start as they always did."""
    if sys.argv[1:] == ["--spark"]:
        archive_spark()
        return 0
    beside = None
    if not archive_file(SPARK_CLASSES, spark_jars()).is_file():
        command = [sys.executable, "-m", "ledger.sandbox.class_archives", "--spark"]
        beside = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if not archive_file(KAFKA_CLASSES, jvm.kafka_jars()).is_file():
            archive_kafka()
    except (MirrorLedgerError, OSError) as error:
        sys.stderr.write(f"JVMs start without an archive of classes: {error}\n")
    finally:
        if beside is not None:
            beside.wait()
    return 0


def archive_kafka() -> None:
    """The classes of a broker that starts, is asked, and ends."""
    with tempfile.TemporaryDirectory() as folder, written(KAFKA_CLASSES, jvm.kafka_jars()):
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
