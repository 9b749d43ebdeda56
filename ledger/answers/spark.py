"""Answers of the catalog in a Spark session: for ledgers that outgrow one machine, and where Spark is what there is.

Spark puts the text of a view wherever it is read: of views that read views that read views it plans the same text
hundreds of times. It does the same with the CTEs of a statement, so that a view which one CTE reads is planned as often
as the CTE is read. So what is read more than once is computed once, when its turn comes, and is a table from then on.
Of a table with few rows the plans that read it hold the rows: Spark then knows how many they are, and plans no reading.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from ledger.answers.elsewhere import spark_table
from ledger.changeover.rehearsing import Task
from ledger.comparing.flow import Asked, Compared, Due, Progress, Say, Sides, in_turn, said
from ledger.errors import MirrorLedgerError, UsageError
from ledger.facts.cuts import Cut
from ledger.facts.tables import TABLE_BY_NAME
from ledger.mirror.spark import SessionFactory, reason, store_environment
from ledger.store import catalog
from ledger.store.answers import audits_of
from ledger.store.catalog import Query, Value
from ledger.store.maintenance import TableUpkeep, Upkeep
from ledger.store.snapshots import DeltaSnapshot
from ledger.store.sql import COMPUTED_FOR_A_FLOW, COUNTED, SINCE, bounds, connect, since_statements

_FEW = 10_000
"""Rows that a plan holds as values: their number is known to it then, and nothing is read again for them."""
_FOR_LARGE_TABLES = {
    # The session is tuned for appends of a few rows.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
_FOR_SMALL_TABLES = {"spark.sql.leafNodeDefaultParallelism": "1"}


def run_query(
    session: SparkSession,
    query: Query,
    params: Mapping[str, Value],
    at: DeltaSnapshot,
    since: Cut | None = None,
) -> pa.Table:
    """The answer of a query over a ledger at a cut; raises `UsageError` for other parameters than it takes.

    `since`: of an audit, by what came after that cut alone. The tables and views are those of a session of its own, so
    that a caller's of the same names stay.
    """
    query.check(params)
    own, is_large = _opened(session, at, catalog.tables_of(query.reads), since)
    return answer(own, query, params, is_large=is_large).toArrow()


def audit_rows(session: SparkSession, at: DeltaSnapshot, since: Cut | None = None) -> dict[str, int]:
    """By audit how many rows break its invariant, as `ledger.store.answers.audit_rows` says it."""
    audits = audits_of(since)
    tables = frozenset[str]().union(*(catalog.tables_of(audit.reads) for audit in audits))
    own, is_large = _opened(session, at, tables, since)
    return {audit.name: answer(own, audit, {}, is_large=is_large).count() for audit in audits}


def _opened(
    session: SparkSession, at: DeltaSnapshot, tables: Collection[str], since: Cut | None
) -> tuple[SparkSession, bool]:
    """A session of its own with these tables and the functions of views, and whether any of them is large."""
    own = session.newSession()
    if "://" in at.path:
        for key, value in store_settings(store_environment()).items():
            own.conf.set(key, value)
    wanted = {*tables, *(() if since is None else SINCE)}
    is_large = not all([_is_read(own, at, table) for table in sorted(wanted)])
    _tune(own, is_large=is_large)
    for function in functions():
        own.sql(function)
    if since is not None:
        _narrow(own, since, is_large=is_large)
    return own, is_large


def _narrow(session: SparkSession, since: Cut, *, is_large: bool) -> None:
    """Let the tables have what came since a cut, and what of the others is audited with it."""
    for table, name in COUNTED.items():
        session.createDataFrame(bounds(since.of_table(table))).createOrReplaceTempView(name)
    for statement in since_statements():
        _execute(session, statement)
    found = {
        table: _computed(
            session, session.table(view).select(*TABLE_BY_NAME[table].column_names), is_large=is_large
        )
        for table, view in SINCE.items()
    }
    for table, rows in found.items():
        rows.createOrReplaceTempView(table)


def store_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """How Hadoop's client for S3 finds the store that these variables name, and logs in there.

    What they do not say is left to that client: profiles, roles of the machine, certificates that the JVM trusts.
    """
    settings = {key: environment[name] for name, key in _STORE_KEYS.items() if name in environment}
    if (endpoint := environment.get("AWS_ENDPOINT_URL")) is not None:
        settings["fs.s3a.path.style.access"] = "true"
        settings["fs.s3a.connection.ssl.enabled"] = str(not endpoint.startswith("http://")).lower()
    if "AWS_SESSION_TOKEN" in environment:
        settings["fs.s3a.aws.credentials.provider"] = _WITH_A_TOKEN
    return settings


_STORE_KEYS = {
    "AWS_ACCESS_KEY_ID": "fs.s3a.access.key",
    "AWS_ENDPOINT_URL": "fs.s3a.endpoint",
    "AWS_REGION": "fs.s3a.endpoint.region",
    "AWS_SECRET_ACCESS_KEY": "fs.s3a.secret.key",
    "AWS_SESSION_TOKEN": "fs.s3a.session.token",
}
_WITH_A_TOKEN = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"


def answer(session: SparkSession, query: Query, params: Mapping[str, Value], *, is_large: bool) -> DataFrame:
    """The answer of a query in a session that has the tables and the functions; the views that it needs are made."""
    times_read = catalog.times_read(query)
    flow = None if query.is_between_clusters else params.get("flow")
    for name, statement in catalog.views_of(query.reads).items():
        _execute(session, statement)
        if times_read[name] > 1:
            rows = _of_flow(session.table(name), name, flow)
            _computed(session, rows, is_large=is_large).createOrReplaceTempView(name)
    if query.params:
        schema = ", ".join(f"{parameter.name} {parameter.type}" for parameter in query.params)
        row = tuple(params.get(name) for name in query.parameter_names)
        session.createDataFrame([row], schema).createOrReplaceTempView("params")
    return session.sql(query.sql)


def _is_read(session: SparkSession, at: DeltaSnapshot, table: str) -> bool:
    """Make a table readable; whether it has few rows: then they are read here, as the cut was, and no job for them."""
    with connect(at, {}, (table,)) as connection:
        first = (
            connection.table(table)
            .limit(_FEW + 1)
            .select(*TABLE_BY_NAME[table].column_names)
            .to_arrow_table()
        )
    if first.num_rows > _FEW:
        _execute(session, spark_table(at, TABLE_BY_NAME[table]))
        return False
    _held(session, first).createOrReplaceTempView(table)
    return True


def _computed(session: SparkSession, rows: DataFrame, *, is_large: bool) -> DataFrame:
    """The rows of a view, computed now. Of those that Spark holds it knows no number, and joins them as if huge."""
    if not is_large:
        return _held(session, rows.toArrow())
    held = rows.localCheckpoint()
    first = held.limit(_FEW + 1).toArrow()
    return held if first.num_rows > _FEW else _held(session, first)


def _held(session: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows as values of plans. Spark takes no table that has columns without any chunk, as empty ones may come."""
    return session.createDataFrame(rows if rows.num_rows else rows.schema.empty_table())


def _tune(session: SparkSession, *, is_large: bool) -> None:
    tasks = str(session.sparkContext.defaultParallelism)
    settings = {**_FOR_LARGE_TABLES, "spark.sql.shuffle.partitions": tasks} if is_large else _FOR_SMALL_TABLES
    for key, value in settings.items():
        session.conf.set(key, value)


def functions() -> list[str]:
    """What the views need of Spark, a statement each."""
    text = files(__package__).joinpath("functions.sql").read_text(encoding="utf-8")
    return [statement for statement in text.split(";\n") if statement.strip()]


def _execute(session: SparkSession, statement: str) -> None:
    session.sql(statement.rstrip().removesuffix(";"))


def _of_flow(frame: DataFrame, name: str, flow: Value) -> DataFrame:
    """The rows of the flow by whose map alone the query answers, of views that nothing reads of others."""
    return frame.where(frame["flow"] == flow) if flow is not None and name in COMPUTED_FOR_A_FLOW else frame


# Rows of instants ---------------------------------------------------------------------------------


_TASKS_PER_CORE = 4
"""Of a range the later instants take longer: the ledger was larger."""


def rows_on_spark(session: SessionFactory, task: Task, of: Sequence[int]) -> Sequence[Mapping[str, Any]]:
    """Implements `Runner` of rehearsals: the instants in tasks beside each other, the rows in their order.

    Raises `MirrorLedgerError` with what a worker says that fails.
    """
    context = session().sparkContext
    tasks = max(min(len(of), context.defaultParallelism * _TASKS_PER_CORE), 1)
    try:
        return context.parallelize(of, tasks).mapPartitions(lambda some: task(list(some))).collect()
    except Py4JJavaError as error:
        raise MirrorLedgerError(f"Spark could not rehearse: {reason(error)}; nothing was recorded") from error


# Comparing ----------------------------------------------------------------------------------------


def compared_on_spark(
    session: SessionFactory,
    sides: Sides,
    due: Sequence[Due],
    asked: Asked,
    progress: Progress,
    say: Say,
) -> Sequence[Compared]:
    """Implements `Comparer`: a task for each partition, as many at a time as there are cores, which share the rate.

    Raises `UsageError` where progress is to be noted, which no task can for the others, and `MirrorLedgerError` with
    what a worker says that fails.
    """
    if asked.file is not None:
        raise UsageError("--progress is not for Spark, which begins all partitions at once; nothing was read")
    context = session().sparkContext
    at_once = max(min(len(due), context.defaultParallelism), 1)
    rate = None if asked.bytes_per_second is None else asked.bytes_per_second / at_once
    task = partial(_compared, sides, replace(asked, bytes_per_second=rate), replace(progress, done={}))
    try:
        found = context.parallelize(due, max(len(due), 1)).mapPartitions(task).collect()
    except Py4JJavaError as error:
        raise MirrorLedgerError(f"Spark could not compare: {reason(error)}") from error
    for one in found:
        say(said(one))
    return found


def _compared(sides: Sides, asked: Asked, progress: Progress, due: Iterable[Due]) -> Sequence[Compared]:
    return in_turn(sides, list(due), asked, progress, lambda _line: None)


# Merging ------------------------------------------------------------------------------------------
# Merged files written by Spark's workers: a merge is bounded, so a ledger of any size is many merges side
# by side.


def merge_on_spark(context: SparkContext, upkeep: TableUpkeep) -> Upkeep:
    """Merge what is due of a table; the driver commits each merge, in turn, as `TableUpkeep.merge` does."""
    files, merges = upkeep.due()
    done = Upkeep(upkeep.table, len(files))
    if not merges:
        return done
    written = context.parallelize(merges, len(merges)).map(upkeep.written).collect()
    for merge, merged in zip(merges, written, strict=True):
        done = upkeep.committed(done, merge, merged)
    return done
