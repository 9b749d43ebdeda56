"""Run a query of the catalog over a ledger at a cut, with DuckDB in this process.

Values reach SQL only through the one-row relation `params`; SQL is never built from them.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeAlias

import duckdb
import pyarrow as pa

from ledger.facts.cuts import Cut, LastAppend
from ledger.facts.tables import HIGH_WATERMARKS, OFFSET_SYNCS, ROUNDS_PER_EPOCH, TABLE_BY_NAME, TABLES
from ledger.store import catalog
from ledger.store.catalog import Named, Query, Value
from ledger.store.damage import reported_of_files
from ledger.store.delta_tables import arrow_schema, arrow_type, in_schema

if TYPE_CHECKING:
    import pyarrow.dataset  # every command would wait for it

# Views --------------------------------------------------------------------------------------------
# The views of a ledger on a DuckDB connection, some of them as tables: what others read often is computed
# once.


COMPUTED_ONCE = frozenset({"last_syncs", "last_high_watermarks"})
"""Views with a row for each partition: joins with them are planned as what they are."""
COMPUTED_FOR_A_FLOW = frozenset(
    {"current_maps", "ended_targets", "measured_positions", "measured_lags", "reading_levels", "reading_lags"}
)
"""Views that are read more than once, or for which a choice of flows further up would not reach the tables."""
COMPUTED_FOR_LOSSES = frozenset({"measured_ends", "covered_ends", "passed_stretches", "unseen_ends"})
"""What `losable_partitions` reads several times over: its text has them a dozen times."""
COMPUTED_FOR_AUDITS = frozenset({"effective_syncs"})
"""Views that most audits read, and several times each."""
COMPUTED_FOR_PAIRS = frozenset(
    {"effective_syncs", "current_maps", "source_truncations"}
    | {"cluster_commits", "committed_topics", "group_moves", *catalog.names_between_clusters()}
)
"""Views between two clusters, and what several of them read: each reads several of the others, most more than once."""

Clusters: TypeAlias = tuple[str, str]
"""Aliases of two clusters: where groups have committed, and where they shall continue."""

_BETWEEN = (
    "where here_log in (select log_number from logs where cluster = $here) "
    "and there_log in (select log_number from logs where cluster = $there)"
)


@cache
def sql_file(name: str) -> str:
    """What a file of SQL beside this module holds."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def carry_out(connection: duckdb.DuckDBPyConnection, file: str) -> None:
    """The statements of a file of SQL beside this module, which are parsed once."""
    for statement in _statements(sql_file(file)):
        connection.execute(statement)


def make_views(
    connection: duckdb.DuckDBPyConnection,
    statements: Mapping[str, str],
    flow: str | None = None,
    clusters: Clusters | None = None,
    at_ms: int | None = None,
    computed: Collection[str] = (),
) -> None:
    """Make views by name, one after the other; with a flow, the larger ones have the rows of that flow alone.

    With two clusters, pairs of partitions are those from the first to the second alone; with a time, answers are
    compared with the offsets of that time. Functions and what the views read have to be there. The
    `computed` ones are tables.
    """
    is_of_pairs, is_of_losses = "pairs" in statements, "losable_partitions" in statements
    for name, statement in statements.items():
        if name == "links" and clusters is not None:
            _compute(connection, name, statement, _BETWEEN, {"here": clusters[0], "there": clusters[1]})
        elif name == "compared_offsets" and at_ms is not None:
            connection.execute(sql_file("time_offsets.sql"), {"at_ms": at_ms})
        elif (
            name in COMPUTED_ONCE
            or name in computed
            or (is_of_pairs and name in COMPUTED_FOR_PAIRS)
            or (is_of_losses and name in COMPUTED_FOR_LOSSES)
        ):
            _compute(connection, name, statement)
        elif flow is not None and name in COMPUTED_FOR_A_FLOW:
            _compute(connection, name, statement, "where flow = $flow", {"flow": flow})
        else:
            connection.execute(_parsed(statement))


def _compute(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    statement: str,
    condition: str = "",
    values: Mapping[str, str] | None = None,
) -> None:
    """Make a table of a view, with its rows that fulfil a condition."""
    select = _select(name, statement)
    made = f"create temporary table {name} as select * from (\n{select}\n) {condition}"
    connection.execute(_parsed(made), dict(values or {}))


def _parsed(statement: str) -> duckdb.Statement:
    """Parsed once: a process makes the same views for each question, and an eighth of what that costs is to parse."""
    [parsed] = _statements(statement)
    return parsed


@cache
def _statements(text: str) -> Sequence[duckdb.Statement]:
    with _database().cursor() as connection:
        return connection.extract_statements(text)


def _select(name: str, statement: str) -> str:
    """What a view selects."""
    _, made, select = statement.partition(f"create or replace temporary view {name} as\n")
    assert made, name
    return select.rstrip().removesuffix(";")


# In process ---------------------------------------------------------------------------------------
# The DuckDB of this process: one database in memory, opened once, in which each use has a connection of its
# own.
#
# To open one costs ten milliseconds, and a command reads twenty tables. Whatever a use makes has to be
# temporary: that is seen on its own connection alone.


@contextmanager
def connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection, closed after use; safe to call from several threads.

    In here a file of the ledger that cannot be read is a `LedgerUnavailableError`.
    """
    with _database().cursor() as connection:
        folders = _folders_read[id(connection)] = set[str]()
        try:
            with reported_of_files(folders):
                yield connection
        finally:
            del _folders_read[id(connection)]


def is_read(connection: duckdb.DuckDBPyConnection, folder: str) -> None:
    """Files of a table are read by the connection from now on: DuckDB does not name each that it cannot read."""
    _folders_read.get(id(connection), set()).add(folder)


_folders_read: dict[int, set[str]] = {}


def opened() -> duckdb.DuckDBPyConnection:
    """A database in memory that has `FUNCTIONS` for all its connections: to make them takes as long as an answer.

    It works in one thread until it reads something large (`_is_large`): between small steps threads only wait.
    """
    database = duckdb.connect(":memory:", config={"threads": 1})
    database.execute(FUNCTIONS.replace("create or replace temporary macro", "create or replace macro"))
    return database


_database = cache(opened)


# Engine -------------------------------------------------------------------------------------------


EVERYTHING = (*(table.name for table in TABLES), *catalog.view_names())
"""Every table, and every view but those of answers between clusters."""
FUNCTIONS = sql_file("functions.sql")
"""What the views need of DuckDB, and of it alone."""


@dataclass(frozen=True, slots=True)
class ParquetFiles:
    """A table as the Parquet files of one version; never empty."""

    paths: tuple[str, ...]
    columns: tuple[str, ...]

    def named(self, names: Collection[str]) -> "ParquetFiles | None":
        """Those of these names; None: there is none."""
        paths = tuple(path for path in self.paths if path.rpartition("/")[2] in names)
        return replace(self, paths=paths) if paths else None


@dataclass(frozen=True, slots=True)
class CutRows:
    """Of a table's rows those that count at a cut; `until_ms`: the latest `recorded_at_ms` among them."""

    rows: "pa.Table | ParquetFiles"
    last: tuple[LastAppend, ...]
    until_ms: int

    @property
    def bounds(self) -> pa.Table:
        return bounds(self.last)


def bounds(last: Sequence[LastAppend]) -> pa.Table:
    """A row per writer: its last append that counts."""
    return pa.table(
        {
            "writer": pa.array([append.writer for append in last], pa.string()),
            "last_epoch": pa.array([append.epoch for append in last], pa.int64()),
            "last_round": pa.array([append.round for append in last], pa.int64()),
            "last_recorded_at_ms": pa.array([append.recorded_at_ms for append in last], pa.int64()),
        }
    )


Relation: TypeAlias = "pa.Table | pyarrow.dataset.Dataset | ParquetFiles | CutRows"


class Snapshot(Protocol):
    """The tables of a ledger at one cut."""

    def relation(self, table: str) -> Relation:
        """The rows of a table."""
        ...


def run_query(
    query: Query,
    params: Mapping[str, Value],
    snapshot: Snapshot,
    overrides: Mapping[str, Relation] | None = None,
) -> pa.Table:
    """The answer of a query; `overrides` stand in for tables of the snapshot."""
    between, computed = _clusters(params), _computed([query])
    with connect(
        snapshot, overrides or {}, query.reads, _flow(params, [query]), between, computed=computed
    ) as connection:
        return answer(connection, query, params)


def run_queries(
    queries: Sequence[Query],
    params: Mapping[str, Value],
    snapshot: Snapshot,
    overrides: Mapping[str, Relation] = MappingProxyType({}),
) -> dict[str, pa.Table]:
    """The answers of queries by name, each with those parameters that it takes: to connect takes longer than most.

    `overrides` stand in for tables of the snapshot.
    """
    reads = [name for query in queries for name in query.reads]
    between, computed = _clusters(params), _computed(queries)
    flow = _flow(params, queries)
    with connect(snapshot, overrides, reads, flow, between, computed=computed) as connection:
        return {
            query.name: answer(
                connection, query, {name: params[name] for name in query.parameter_names if name in params}
            )
            for query in queries
        }


def _computed(queries: Sequence[Query]) -> frozenset[str]:
    """The views that pay to be tables for these queries alone."""
    return COMPUTED_FOR_AUDITS if any(query.is_audit for query in queries) else frozenset()


def _flow(params: Mapping[str, Value], queries: Sequence[Query]) -> str | None:
    """The flow by whose map alone queries answer; None: they go by all maps."""
    flow = params.get("flow")
    return flow if isinstance(flow, str) and not any(query.is_between_clusters for query in queries) else None


def _clusters(params: Mapping[str, Value]) -> Clusters | None:
    """The clusters that a query is asked about, as from where and to where."""
    here, there = params.get("from_cluster"), params.get("to_cluster")
    return (here, there) if isinstance(here, str) and isinstance(there, str) else None


def answer(connection: duckdb.DuckDBPyConnection, query: Query, params: Mapping[str, Value]) -> pa.Table:
    """The answer of a query on a connection that has what it reads."""
    query.check(params)
    register_params(connection, query.params, params)
    return selected(connection, query.sql)


def selected(
    connection: duckdb.DuckDBPyConnection, select: str, values: Mapping[str, object] | None = None
) -> pa.Table:
    """What a statement selects.

    By way of a table: a relation of DuckDB parses and binds its text twice, which takes longer than small answers.
    """
    connection.execute(_parsed(f"create or replace temporary table selected as\n{select}"), values)
    return connection.table("selected").to_arrow_table()


READ_FOR_PARTITIONS = ("offset_syncs", "partition_events", "last_claims")
READ_FOR_INCARNATIONS = ("topic_pairs",)
READ_FOR_COMMITS = ("cluster_commits",)
"""The tables and views by which `partitions`, `incarnations` and `cluster_commits` answer."""


def partitions(
    snapshot: Snapshot, cluster: str, overrides: Mapping[str, Relation] = MappingProxyType({})
) -> list[tuple[str, int]]:
    """Topic and number of every partition of a cluster that flows have recorded something about.

    `overrides` stand in for tables of the snapshot.
    """
    with connect(snapshot, overrides, READ_FOR_PARTITIONS) as connection:
        return connection.execute(
            "select source_topic, source_partition from offset_syncs where source_cluster = $cluster union "
            "select target_topic, target_partition from offset_syncs where target_cluster = $cluster union "
            "select e.source_topic, e.source_partition from partition_events as e inner join last_claims as c "
            "on c.flow = e.flow where c.source_cluster = $cluster",
            {"cluster": cluster},
        ).fetchall()


def incarnations(
    snapshot: Snapshot, flow: str, overrides: Mapping[str, Relation] = MappingProxyType({})
) -> dict[str, str]:
    """By source topic the topic id of the incarnation that a flow copied last; `overrides` stand in for tables."""
    with connect(snapshot, overrides, READ_FOR_INCARNATIONS) as connection:
        found = connection.execute(
            "select source_topic, source_topic_id from topic_pairs where flow = $flow", {"flow": flow}
        )
        return dict(found.fetchall())


def cluster_commits(
    snapshot: Snapshot, cluster: str, overrides: Mapping[str, Relation] = MappingProxyType({})
) -> pa.Table:
    """What is known of the last known commit of each group on each partition of a cluster.

    `overrides` stand in for tables of the snapshot.
    """
    with connect(snapshot, overrides, READ_FOR_COMMITS) as connection:
        return selected(
            connection,
            "select group_id, topic, topic_id, partition, committed_offset, absence, leader_epoch, made_after_ms "
            "from cluster_commits where cluster = $cluster",
            {"cluster": cluster},
        )


def flows(snapshot: Snapshot) -> tuple[str, ...]:
    """Every flow that was ever claimed, in the order of names."""
    with connected() as connection:
        register(connection, "writers", snapshot.relation("writers"))
        rows = connection.execute(
            "select flow from writers where event = 'claimed' and flow is not null group by flow order by flow"
        ).fetchall()
    return tuple(flow for (flow,) in rows)


@contextmanager
def connect(
    snapshot: Snapshot,
    overrides: Mapping[str, Relation],
    reads: Iterable[str] = EVERYTHING,
    flow: str | None = None,
    clusters: Clusters | None = None,
    at_ms: int | None = None,
    computed: Collection[str] = (),
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection on which these tables and views can be read, and what they read; nothing else is opened.

    With a flow, some views have the rows of that flow alone; with two clusters, those from one to the other; with a
    time, these are compared with the offsets of that time. `overrides` stand in for tables, and for views that were
    `computed` before.
    """
    relations = tuple(reads)
    views = catalog.views_of(relations, overrides.keys())
    with connected() as connection:
        for table in sorted(catalog.tables_of(relations, overrides.keys()) - overrides.keys()):
            _hold(connection, table, snapshot.relation(table))
        for name, relation in overrides.items():
            _hold(connection, name, relation)
        make_views(connection, views, flow, clusters, at_ms, computed)
        yield connection


def register(connection: duckdb.DuckDBPyConnection, name: str, relation: Relation) -> None:
    """Make a relation readable under a name on a connection of this process's database."""
    if _is_large(relation):
        connection.execute("reset threads")  # as many as there are cores, for all of this process from now on
    show(connection, name, relation)


def show(connection: duckdb.DuckDBPyConnection, name: str, relation: Relation) -> None:
    """Make a relation readable under a name; of rows up to a cut, those of all times are under `NAME_uncut`."""
    if isinstance(relation, CutRows):
        show(connection, f"{name}_uncut", relation.rows)
        connection.register(f"{name}_bounds", relation.bounds)
        _make(connection, name, _COUNTED.format(name=name, until_ms=relation.until_ms))
    elif isinstance(relation, ParquetFiles):
        _make(connection, name, _parquet(connection, relation))
    else:
        connection.register(name, relation)


_COUNTED = f"""
select r.*
from {{name}}_uncut as r
semi join {{name}}_bounds as b
    on b.writer = r.writer
    and r.writer_epoch * {ROUNDS_PER_EPOCH} + r.round <= b.last_epoch * {ROUNDS_PER_EPOCH} + b.last_round
where r.recorded_at_ms <= {{until_ms}}
"""
"""The time is compared alone: by its statistics whole files are skipped that were written after the cut."""


def _make(connection: duckdb.DuckDBPyConnection, name: str, select: str) -> None:
    """By its text: each step of a relation of DuckDB is planned by itself, and opens the files again."""
    connection.execute(f"create or replace temporary view {name} as {select}")


def _hold(connection: duckdb.DuckDBPyConnection, name: str, relation: Relation) -> None:
    """Make a relation readable under a name by many views: a small one as a table of the connection.

    Each view that reads files, or Arrow, opens them again when it is planned, and joins them with their cut.
    """
    if not _is_small(relation):
        register(connection, name, relation)
        return
    register(connection, f"{name}_read", relation)
    connection.execute(_parsed(f"create temporary table {name} as from {name}_read"))


def _is_small(relation: Relation) -> bool:
    """Whether a copy costs less than what each reader would."""
    rows = relation.rows if isinstance(relation, CutRows) else relation
    if isinstance(rows, ParquetFiles):
        return len(rows.paths) <= _FEW_FILES and sum(map(_size, rows.paths)) <= _FEW_BYTES
    return isinstance(rows, pa.Table) and rows.nbytes <= _FEW_BYTES_OF_ROWS


def _is_large(relation: Relation) -> bool:
    """Whether several threads are faster by more than they cost."""
    rows = relation.rows if isinstance(relation, CutRows) else relation
    if isinstance(rows, ParquetFiles):
        return len(rows.paths) > _MANY_FILES or sum(map(_size, rows.paths)) > _MANY_BYTES
    return not isinstance(rows, pa.Table) or rows.num_rows > _MANY_ROWS or rows.nbytes > _MANY_BYTES


def _size(path: str) -> int:
    """In bytes; 0 of a file that is not there: who reads it says so."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


_MANY_ROWS, _MANY_FILES, _MANY_BYTES = 100_000, 100, 32 << 20
_FEW_FILES, _FEW_BYTES, _FEW_BYTES_OF_ROWS = 20, 1 << 20, 8 << 20


def folder_of(relation: Relation) -> str | None:
    """Where the files of a table lie that are read; None: it is no such."""
    rows = relation.rows if isinstance(relation, CutRows) else relation
    return str(Path(rows.paths[0]).parent) if isinstance(rows, ParquetFiles) else None


def _parquet(connection: duckdb.DuckDBPyConnection, files: ParquetFiles) -> str:
    """What selects the columns of these files, by name."""
    is_read(connection, str(Path(files.paths[0]).parent))
    paths = ", ".join(map(_literal, files.paths))
    return f"select {', '.join(files.columns)} from read_parquet([{paths}])"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def register_params(
    connection: duckdb.DuckDBPyConnection, names: Sequence[Named], values: Mapping[str, Value]
) -> None:
    """The one-row relation `params`; none when a query takes no parameters."""
    if names:
        schema = pa.schema([(parameter.name, arrow_type(parameter.type)) for parameter in names])
        connection.register("params", pa.Table.from_pylist([dict(values)], schema=schema))


# Rows since ---------------------------------------------------------------------------------------
# What came to a ledger since an earlier cut, for audits of that alone.


COUNTED = {OFFSET_SYNCS.name: "counted_syncs", HIGH_WATERMARKS.name: "counted_ends"}
"""By table what says which of its rows an earlier cut counts, for `rows_since.sql`: of each writer the last append."""
SINCE = {OFFSET_SYNCS.name: "syncs_since", HIGH_WATERMARKS.name: "ends_since"}
"""By table the view of `rows_since.sql` that stands in for it."""


def since_statements() -> list[str]:
    """What makes the views `SINCE` of the tables and of `COUNTED`, in words of both engines."""
    return [statement for statement in sql_file("rows_since.sql").split(";\n") if statement.strip()]


def rows_since(snapshot: Snapshot, before: Cut) -> dict[str, pa.Table]:
    """By table the rows that a cut did not count, and those before that they continue, overlap or deny."""
    with connect(snapshot, {}, tuple(SINCE)) as connection:
        for table, name in COUNTED.items():
            connection.register(name, bounds(before.of_table(table)))
        for statement in since_statements():
            connection.execute(statement)
        return {table: _of_table(connection, table, view) for table, view in SINCE.items()}


def _of_table(connection: duckdb.DuckDBPyConnection, table: str, view: str) -> pa.Table:
    schema = arrow_schema(TABLE_BY_NAME[table])
    return in_schema(connection.table(view).select(*schema.names).to_arrow_table(), schema)
