"""The Spark session of a mirror driver, tuned for small appends and short jobs."""

import os
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from ledger.adapters import class_archive
from ledger.adapters.jvm import check_java, delta_jars

SessionFactory = Callable[[], SparkSession]
LOCAL_TASK_ATTEMPTS = 4
SPARK_CLASSES = "spark"
_LEAN_APPENDS = {
    # Each of these was measured on appends of a few rows; together they take 3 s down to 0.1-0.4 s.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.stats.collect": "false",
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    "spark.databricks.delta.history.metricsEnabled": "false",
}
_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",  # connections to brokers are kept in the worker
    "spark.speculation": "false",  # nothing may write to a partition after its task has returned
    "spark.ui.enabled": "false",
    "spark.sql.maxPlanStringLength": "10000",  # each query tells listeners its plan: hundreds of MB for a large one
    "spark.ui.showConsoleProgress": "false",
    **_LEAN_APPENDS,
}
_FOLDER = Path(str(files(__package__)))
_LOGGING = _FOLDER / "log4j2.properties"
_JVM_OPTIONS = (
    "-Duser.timezone=UTC -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m "
    f"-Dlog4j2.configurationFile=file:{_LOGGING}"
)
"""With one tier alone the JVM has room for 48 MB of code: plans of large queries fill it, then nothing is compiled."""


def local_session(*, tasks: int) -> SparkSession:
    """A session inside this process with room for `tasks` copy tasks and one append beside them.

    SIGTERM to all processes at once, as service managers send it, ends none of them but this one: JVM and workers end
    after it. Where `SPARK_CONF_DIR` is set, its `spark-env.sh` has to say so.
    """
    check_java()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_CONF_DIR", str(_FOLDER))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{tasks + 1},{LOCAL_TASK_ATTEMPTS}]")
    builder = builder.config("spark.jars", ",".join(str(jar) for jar in delta_jars()))
    builder = builder.config("spark.python.daemon.module", f"{__package__}.worker_daemon")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config(
        "spark.driver.memory", "2g"
    )  # a limit: 1 GB does not plan the largest query at all times
    classes = (f'"{option}"' for option in class_archive.options(SPARK_CLASSES, spark_jars()))
    options = " ".join([_JVM_OPTIONS, *classes])
    return _started(builder.config("spark.driver.extraJavaOptions", options))


def spark_jars() -> list[Path]:
    """The jars that PySpark brings, which are the class path of its JVM."""
    return sorted(Path(pyspark.__file__).parent.glob("jars/*.jar"))


def submitted_session() -> SparkSession:
    """The session that spark-submit prepared; master, jars and memory are as submitted."""
    return _started(SparkSession.builder)


def _started(builder: SparkSession.Builder) -> SparkSession:
    builder = builder.appName("mirror-ledger")
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
