"""Queries over a ledger of any length: of its large tables they read what their answer needs, by projections.

Where there is no projection, or what it says is not what the snapshot has, all of a table is read, for the same answer.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ledger.errors import MirrorLedgerError
from ledger.facts.last_rows import Noted
from ledger.facts.tables import (
    CHECKPOINTS,
    HIGH_WATERMARKS,
    OFFSET_SYNCS,
    SHARE_OFFSETS,
    TABLE_BY_NAME,
    WRITERS,
    place_of,
)
from ledger.store import catalog, sql
from ledger.store.behind import file_stamps, read_behind
from ledger.store.catalog import Query, Value
from ledger.store.delta_tables import arrow_schema, in_schema
from ledger.store.projections import Projection
from ledger.store.relations import relation_of
from ledger.store.snapshots import DeltaSnapshot
from ledger.store.spans import (
    BETWEEN,
    BY_LAG,
    BY_LOSS,
    MANY_GAPS,
    OF_GROUPS,
    Facts,
    Question,
    in_whole_spans,
    spans_of_rows,
    touched,
)
from ledger.store.spans import SCHEMA as SPANS
from ledger.store.sql import CutRows, ParquetFiles, Relation, Snapshot, connected, register

log = logging.getLogger(__name__)
_T = TypeVar("_T")

_SYNCS = OFFSET_SYNCS.name
QUESTIONS: Mapping[str, Question] = {
    **dict.fromkeys(
        ("offset_translation", "group_positions", "repeated_records", "consumed_not_copied"), OF_GROUPS
    ),
    "one_sided_records": BETWEEN,
}
_IN_WHOLE = frozenset({"flow_losses", "flow_positions", "flow_status"})
"""By what of the offset syncs queries are answered: those that the places of groups touch, or what all come to."""
_BY_LAST_ROWS: Mapping[str, frozenset[str]] = {
    CHECKPOINTS.name: frozenset(
        {"commit_looks", "cluster_commits", "asked_groups", "cluster_groups", "flow_recording"}
    ),
    HIGH_WATERMARKS.name: frozenset(
        {"last_high_watermarks", "source_truncations", "topic_lives", "topic_partitions", "flow_recording"}
    ),
    SHARE_OFFSETS.name: frozenset({"last_share_offsets"}),
    WRITERS.name: frozenset({"last_claims", "flow_status", "flow_recording"}),
}
"""Views and queries that say of the rows which a projection of a table leaves out what they say without these."""
_BY_READINGS: Mapping[str, tuple[Question, Mapping[str, str], str]] = {
    "replication_lag": (
        BY_LAG,
        {"flow": "flow"},
        "(f.status = 'behind' and f.lag_ms_bound is distinct from 'at_most') "
        "or (f.open_since_ms is not null and not exists (select 1 from ends as e "
        "where e.topic = f.source_topic and e.topic_id = f.source_topic_id "
        "and e.partition = f.source_partition and e.read_at_ms < f.open_since_ms))",
    ),
    "failover_loss": (
        BY_LOSS,
        {"here": "from_cluster", "there": "to_cluster"},
        "f.status = 'lagging' and f.flow is not null and f.level_at_ms is null",
    ),
}
"""Queries that tell since when partitions are behind: what each asks, its variables by parameter, and of which rows of
its answer (`found`) the readings that were read (`ends`) do not tell that."""
WINDOWS_MS = (3_600_000, 86_400_000, 30 * 86_400_000)
"""Of high watermarks so long ones are read, one after the other, until they tell since when a flow is behind."""
_UNREADABLE = (DeltaError, OSError, duckdb.Error, pa.ArrowException, ValueError, MirrorLedgerError)


def run_query(
    asked: Query,
    params: Mapping[str, Value],
    snapshot: Snapshot,
    overrides: Mapping[str, Relation] = MappingProxyType({}),
) -> pa.Table:
    """The answer of a query; `overrides` stand in for tables of the snapshot."""
    if asked.name in _BY_READINGS and not overrides and isinstance(snapshot, DeltaSnapshot):
        return _by_readings(asked, params, snapshot)
    return sql.run_query(asked, params, snapshot, for_question(snapshot, asked, params, overrides))


def run_queries(
    asked: Collection[Query], params: Mapping[str, Value], snapshot: Snapshot
) -> dict[str, pa.Table]:
    """The answers of queries by name, each with those parameters that it takes: what reads the same, together."""
    together: dict[Any, tuple[Mapping[str, Relation], list[Query]]] = {}
    found: dict[str, pa.Table] = {}
    for one in asked:
        if one.name in _BY_READINGS:
            taken = {name: params[name] for name in one.parameter_names if name in params}
            found[one.name] = run_query(one, taken, snapshot)
            continue
        shown = for_question(snapshot, one, params)
        read = frozenset((name, id(relation)) for name, relation in shown.items())
        together.setdefault(read, (shown, []))[1].append(one)
    for shown, queries in together.values():
        found |= sql.run_queries(queries, params, snapshot, shown)
    return {one.name: found[one.name] for one in asked}


def _by_readings(asked: Query, params: Mapping[str, Value], snapshot: DeltaSnapshot) -> pa.Table:
    """The answer of a query that asks since when something is so: by the readings of ends that tell it."""
    kept = kept_rows(snapshot, HIGH_WATERMARKS.name)
    try:
        spans = None if kept is None else _spans(snapshot)
        every = None if spans is None else _counted(snapshot, HIGH_WATERMARKS.name)
        if kept is not None and spans is not None and every is not None:
            found = answered_by_readings(asked, params, snapshot, (kept, every), spans)
            if found is not None:
                return found
    except _UNREADABLE as error:
        log.debug("all high watermarks are read: %s", error)
    return sql.run_query(asked, params, snapshot)


def answered_by_readings(
    asked: Query,
    params: Mapping[str, Value],
    snapshot: Snapshot,
    ends: tuple[pa.Table, Facts],
    spans: tuple[pa.Table, Facts],
    windows_ms: Sequence[int] = WINDOWS_MS,
) -> pa.Table | None:
    """The answer of a query by high watermarks that a projection keeps, and those of a window; None: no window tells.

    A window ends where each partition was read last. Since when a partition is behind says the last reading that saw it
    level: a window that has it has all that counts. So it does with a reading from before a transaction was open.
    """
    kept, every = ends
    question, names, untold = _BY_READINGS[asked.name]
    variables = {variable: str(params[name]) for variable, name in names.items()}
    found = touched(question, snapshot, *spans, variables, {HIGH_WATERMARKS.name: kept})
    if found is None:
        return None
    with connected() as connection:
        connection.register("kept", kept)
        connection.register("measured", found.measured)
        for window_ms in windows_ms:
            shown = {**found.shown, HIGH_WATERMARKS.name: _ends_within(connection, every, window_ms)}
            answer = sql.run_query(asked, params, snapshot, shown)
            connection.register("found", answer)
            connection.register("ends", shown[HIGH_WATERMARKS.name])
            if not connection.execute(f"select 1 from found as f where {untold} limit 1").fetchall():
                return answer
    return None


def _ends_within(connection: duckdb.DuckDBPyConnection, every: Facts, window_ms: int) -> pa.Table:
    """The rows that are `kept`, and those of a window before the last read of each partition that is `measured`."""
    times = connection.execute(
        "select min(m.read_at_ms) - $window_ms, max(k.recorded_at_ms) from measured as m "
        "inner join kept as k using (cluster, topic, topic_id, partition) group by m.read_at_ms // 3600000",
        {"window_ms": window_ms},
    ).fetchall()
    are_brought = connection.execute("select count(brought_offsets) > 0 from measured").fetchall() == [
        (True,)
    ]
    found = every([(0, max(last for _, last in times))] if are_brought else times)
    if found is None:
        return connection.table("kept").to_arrow_table()
    register(connection, "every", found)
    for name, value in (
        ("first_ms", min(first for first, _ in times)),
        ("last_ms", max(last for _, last in times)),
        ("window_ms", window_ms),
    ):
        connection.execute(f"set variable {name} = $value", {"value": value})
    return sql.selected(connection, sql.sql_file("ends_within.sql"))


def for_question(
    snapshot: Snapshot,
    asked: Query,
    params: Mapping[str, Value],
    overrides: Mapping[str, Relation] = MappingProxyType({}),
) -> Mapping[str, Relation]:
    """`overrides`, and beside them what the answer of a query needs of large tables."""
    if not isinstance(snapshot, DeltaSnapshot):
        return overrides
    shown = dict(overrides)
    for table in _by_last_rows(asked) - shown.keys():
        if (kept := kept_rows(snapshot, table)) is not None:
            shown[table] = kept
    if _SYNCS in shown:
        return shown
    try:
        found = _of_spans(snapshot, asked.name, params, shown)
    except _UNREADABLE as error:
        log.debug("all offset syncs are read: %s", error)
        return shown
    return shown if found is None else {**shown, **found}


def summed(snapshot: Snapshot, reads: Iterable[str]) -> Mapping[str, Relation]:
    """What stands for large tables where it is asked what rows come to, and when the last of them was recorded.

    `reads`: the tables and views that the question goes by.
    """
    if not isinstance(snapshot, DeltaSnapshot):
        return {}
    tables = catalog.tables_of(tuple(reads))
    kept = {
        table: kept_rows(snapshot, table)
        for table in (CHECKPOINTS.name, HIGH_WATERMARKS.name)
        if table in tables
    }
    shown: dict[str, Relation] = {table: rows for table, rows in kept.items() if rows is not None}
    if _SYNCS not in tables:
        return shown
    try:
        return {**shown, **(_whole_spans(snapshot) or {})}
    except _UNREADABLE as error:
        log.debug("all offset syncs are read: %s", error)
        return shown


@cache
def _by_last_rows(asked: Query) -> frozenset[str]:
    """The tables that a query reads by its last rows only."""
    statements = {**catalog.views_of(asked.reads), asked.name: asked.sql}
    read = {name: catalog.relations_read(text) for name, text in statements.items()}
    readers = {
        table: {name for name, relations in read.items() if table in relations} for table in _BY_LAST_ROWS
    }
    return frozenset(table for table, by in readers.items() if by and by <= _BY_LAST_ROWS[table])


def kept_rows(snapshot: Snapshot, table: str) -> pa.Table | None:
    """Rows of a table by which views tell what is last, as its projection has them, and those since; None: all tell."""
    if not isinstance(snapshot, DeltaSnapshot):
        return None

    def read() -> pa.Table | None:
        found = projected(snapshot, table)
        return None if found is None else pa.concat_tables(found)

    return _once(snapshot, table, read)


def _once(snapshot: DeltaSnapshot, what: str, read: Callable[[], _T]) -> _T:
    """What is read of projections for a snapshot: its questions share it."""
    known = _read.setdefault(snapshot, {})
    if what not in known:
        known[what] = read()
    found: _T = known[what]
    return found


_read: WeakKeyDictionary[DeltaSnapshot, dict[str, Any]] = WeakKeyDictionary()


def _of_spans(
    snapshot: DeltaSnapshot, name: str, params: Mapping[str, Value], shown: Mapping[str, Relation]
) -> dict[str, Relation] | None:
    if name not in {*QUESTIONS, *_IN_WHOLE} or (found := _spans(snapshot)) is None:
        return None
    if name in _IN_WHOLE:
        return _whole_spans(snapshot)
    sides = {"here": str(params["from_cluster"]), "there": str(params["to_cluster"])}
    between = touched(QUESTIONS[name], snapshot, *found, sides, shown)
    return None if between is None else between.shown


def _spans(snapshot: DeltaSnapshot) -> tuple[pa.Table, Facts] | None:
    """Those of all offset syncs, and how to read what they stand for; None: there are none."""
    return _once(snapshot, _SYNCS, lambda: _read_spans(snapshot))


def _whole_spans(snapshot: DeltaSnapshot) -> dict[str, Relation] | None:
    spans = _spans(snapshot)
    return None if spans is None else _once(snapshot, "whole", lambda: in_whole_spans(*spans))


def _read_spans(snapshot: DeltaSnapshot) -> tuple[pa.Table, Facts] | None:
    version = snapshot.version(_SYNCS)
    files = relation_of(version, _SYNCS)
    if not isinstance(files, ParquetFiles):
        return None
    found = _projected(snapshot, _SYNCS, version) or _with_many_gaps(snapshot, files)
    if found is None:
        return None
    return pa.concat_tables([found[0], spans_of_rows(found[1])]).combine_chunks(), _facts(version, files)


def _with_many_gaps(snapshot: DeltaSnapshot, files: ParquetFiles) -> tuple[pa.Table, pa.Table] | None:
    """No spans, and all rows, where these may have so many gaps that spans of them are made for one answer alone."""
    counted = snapshot.counted(_SYNCS)
    with connected() as connection:
        register(connection, "facts", files if counted is None else CutRows(files, *counted))
        without_copy = connection.execute("select sum(source_end - source_start - records) from facts")
        if (without_copy.fetchall()[0][0] or 0) < MANY_GAPS:
            return None
        rows = connection.view("facts").to_arrow_table()
    return SPANS.empty_table(), in_schema(rows, arrow_schema(OFFSET_SYNCS))


def _facts(version: DeltaTable, files: ParquetFiles) -> Facts:
    stamps = file_stamps(version)

    def facts(times: Collection[tuple[int, int]]) -> ParquetFiles | None:
        """Those of files that may have rows of these times."""
        return files.named(
            {
                file.name
                for file in stamps
                if any(
                    (file.first_ms is None or file.first_ms <= last_ms)
                    and (file.last_ms is None or file.last_ms >= first_ms)
                    for first_ms, last_ms in times
                )
            }
        )

    return facts


def _counted(snapshot: DeltaSnapshot, table: str) -> Facts | None:
    """The rows of a table that count at the cut, by times; None: its files cannot be chosen by time."""
    version, counted = snapshot.version(table), snapshot.counted(table)
    files = relation_of(version, table)
    if not isinstance(files, ParquetFiles):
        return None
    every = _facts(version, files)

    def facts(times: Collection[tuple[int, int]]) -> "Relation | None":
        found = every(times)
        return found if found is None or counted is None else CutRows(found, *counted)

    return facts


def _projected(snapshot: DeltaSnapshot, table: str, version: DeltaTable) -> tuple[pa.Table, pa.Table] | None:
    """What a projection has, and the rows of the table that were recorded since; None: nothing is to be had of it."""
    counted = snapshot.counted(table)
    last = {} if counted is None else {one.writer: place_of(one.epoch, one.round) for one in counted[0]}

    def covers(noted: Noted) -> bool:
        return counted is None or all(at.place <= last.get(writer, -1) for writer, at in noted.until.items())

    projected = Projection(snapshot.path, table).read(version, covers, is_now=counted is None)
    if projected is None:
        return None
    until_ms = None if counted is None else counted[1]
    with read_behind(version, table, projected.noted, until_ms=until_ms) as behind:
        if behind is None:
            return None
        since = behind.connection.view("behind").to_arrow_table()
    if counted is not None:
        with connected() as connection:
            register(connection, "counted", CutRows(since, *counted))
            since = connection.view("counted").to_arrow_table()
    return projected.rows, in_schema(since, arrow_schema(TABLE_BY_NAME[table]))


# For who compares both ------------------------------------------------------------------------------


def projected(snapshot: DeltaSnapshot, table: str) -> tuple[pa.Table, pa.Table] | None:
    """What the projection of a table says at the cut, and the rows behind it; None: it cannot be used."""
    try:
        return _projected(snapshot, table, snapshot.version(table))
    except _UNREADABLE as error:
        log.debug("all of %s is read: %s", table, error)
        return None


def views_by_last_rows(table: str) -> frozenset[str]:
    """The views that say of the rows which a projection of a table keeps what they say of all."""
    return _BY_LAST_ROWS[table].intersection(catalog.view_names())
