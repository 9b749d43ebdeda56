"""Spark for a driver: its session, a round as a job, and what a failure of Spark means."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from threading import Thread
from typing import TypeVar

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession

from ledger import jvm
from ledger.clock import SystemClock
from ledger.config.values import STORE_OPTIONS
from ledger.errors import MirrorLedgerError
from ledger.facts.state import MirrorProducers
from ledger.jvm import check_java, delta_jars
from ledger.kafka.copying import Network
from ledger.mirror.assignment import Assignment, CopyLimits, PartitionResult
from ledger.mirror.contact import DriverAddress, ListeningJob
from ledger.mirror.continuing import CopyJob, JobRounds, Last, Results, copy_in_rounds
from ledger.mirror.slow_partitions import SlowPartitions
from ledger.mirror.task import CopyTask, MergeLimits

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


Share = TypeVar("Share")
Found = TypeVar("Found")
CopyRound = Callable[[Sequence[Assignment], Callable[[], bool]], Results]
"""Copies a round of a share, or until it is to end."""
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
        self._first_worker: Thread | None = None

    def start_worker(self) -> None:
        """Let Spark start its Python worker now, in the background: the first round takes that one, or meets what
        failed."""

        def start() -> None:
            with suppress(Exception):
                self._context.parallelize([0], 1).mapPartitions(iter).collect()

        self._first_worker = Thread(target=start, name="first worker", daemon=True)
        self._first_worker.start()

    def run(self, tasks: Sequence[Sequence[Assignment]], *, seconds: float) -> list[PartitionResult]:
        copy_round = self._copy_round(seconds)

        def copy(shares: Iterable[Sequence[Assignment]]) -> Iterator[PartitionResult]:
            for share in shares:
                yield from copy_round(share, lambda: False)

        return self._collected(tasks, copy)

    def begin(self, tasks: Sequence[Sequence[Assignment]], *, seconds: float) -> CopyJob:
        copy_round = self._copy_round(seconds)
        settings = self._context.getConf()
        host = settings.get("spark.driver.host", "localhost")
        bind = settings.get("spark.driver.bindAddress", host)
        job = ListeningJob(JobRounds(tasks), host=host, bind=bind, seconds=seconds)
        driver = job.address

        def copy(shares: Iterable[tuple[int, Sequence[Assignment]]]) -> Iterator[Last]:
            for index, share in shares:
                yield copied_last(driver, index, share, copy_round)

        job.begin(lambda: self._collected(list(enumerate(tasks)), copy))
        return job

    def _copy_round(self, seconds: float) -> CopyRound:
        connect, writers, limits = self._connect, self._writers, self._limits
        slow, merged = SlowPartitions(), MergeLimits()  # each task gets its own, with this function

        def copy_round(share: Sequence[Assignment], is_to_end: Callable[[], bool]) -> Results:
            task = CopyTask(share, connect(), writers(), SystemClock(), limits, slow, merged)
            return task.run(seconds=seconds, is_to_end=is_to_end)

        return copy_round

    def _collected(
        self, shares: Sequence[Share], copy: Callable[[Iterable[Share]], Iterator[Found]]
    ) -> list[Found]:
        if self._first_worker is not None:
            self._first_worker.join()
        try:
            return self._context.parallelize(list(shares), len(shares)).mapPartitions(copy).collect()
        except Py4JJavaError as error:
            raise MirrorLedgerError(
                f"a round failed: {reason(error)}; its records are found when the flow is started again"
            ) from error


def copied_last(
    driver: DriverAddress, index: int, assignments: Sequence[Assignment], copy_round: CopyRound
) -> Last:
    """Copy a share in rounds; returns what the last one came to, for Spark to bring to the driver.

    A driver that cannot be reached gets a single round so, as it was given. Another attempt than the first one cannot
    know where that began and what was handed over: it fails.
    """
    with driver.contact(index) as contact:
        if contact is not None:
            last = copy_in_rounds(
                contact.turn.assignments, contact, lambda share: copy_round(share, contact.is_to_end)
            )
            return index, contact.handed_over, last
        context = TaskContext.get()
        if context is not None and context.attemptNumber():
            raise MirrorLedgerError(f"a copy task cannot reach its driver at {driver.host}:{driver.port}")
        return index, 0, copy_round(assignments, lambda: False)
