"""Spark for a driver: its session, a round as a job, and what a failure of Spark means."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from ledger import jvm
from ledger.clock import SystemClock
from ledger.config.values import STORE_OPTIONS
from ledger.errors import MirrorLedgerError
from ledger.facts.state import MirrorProducers
from ledger.jvm import check_java, delta_jars
from ledger.kafka.copying import Network
from ledger.mirror.assignment import Assignment, CopyLimits, PartitionResult
from ledger.mirror.task import CopyTask

# Session ------------------------------------------------------------------------------------------
# The Spark session of a mirror driver, tuned for small appends and short jobs.


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
    classes = (f'"{option}"' for option in jvm.options(SPARK_CLASSES, spark_jars()))
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
    session.sparkContext.environment.update(store_environment())
    return session


def store_environment() -> dict[str, str]:
    """Variables of this process by which clients of the ledger's store find it, and log in there.

    The workers of a JVM that spark-submit has started lack them: the configuration was read later. They get them with
    each task, so that no property of Spark has a secret.
    """
    names = (name.upper() for name in STORE_OPTIONS)
    return {name: os.environ[name] for name in names if name in os.environ}


# Failures -----------------------------------------------------------------------------------------
# What went wrong in the JVM or in a worker, in one line.


def reason(error: BaseException) -> str:
    """The line that says most: the JVM's exception, or the last line of a worker's traceback inside it."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if line.startswith("ledger.errors.")]
    return (raised or lines or [type(error).__name__])[0]


# Rounds -------------------------------------------------------------------------------------------
# Runs the copy tasks of a round as one Spark job.
#
# Connections to brokers are kept in the Python worker, so they survive from round to round. A task that
# fails drops them: its next attempt starts from nothing and reconciles with the target first.


NetworkFactory = Callable[[], Network]
MirrorProducersFactory = Callable[[], MirrorProducers]


class SparkRoundRunner:
    """Implements `rounds.RoundRunner`; both factories are sent to the workers and must be picklable."""

    def __init__(
        self,
        context: SparkContext,
        connect: NetworkFactory,
        writers: MirrorProducersFactory,
        limits: CopyLimits,
    ) -> None:
        self._context = context
        self._connect = connect
        self._writers = writers
        self._limits = limits

    def run(self, tasks: Sequence[Sequence[Assignment]], *, seconds: float) -> list[PartitionResult]:
        connect, writers, limits = self._connect, self._writers, self._limits

        def copy(shares: Iterable[Sequence[Assignment]]) -> Iterator[PartitionResult]:
            for share in shares:
                yield from CopyTask(share, connect(), writers(), SystemClock(), limits).run(seconds=seconds)

        try:
            return self._context.parallelize(list(tasks), len(tasks)).mapPartitions(copy).collect()
        except Py4JJavaError as error:
            raise MirrorLedgerError(
                f"a round failed: {reason(error)}; its records are found when the flow is started again"
            ) from error
