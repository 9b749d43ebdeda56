"""Queries over a ledger of any length: of its large tables they read what their answer needs, by projections.

Where there is no projection, or what it says is not what the snapshot has, all of a table is read, for the same answer.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ledger.errors import MirrorLedgerError
from ledger.facts.last_rows import Noted
from ledger.facts.tables import CHECKPOINTS, HIGH_WATERMARKS, OFFSET_SYNCS, TABLE_BY_NAME, place_of
from ledger.store import catalog, sql
from ledger.store.catalog import Query, Value
from ledger.store.delta_tables import arrow_schema
from ledger.store.last_rows import file_stamps, read_behind
from ledger.store.projections import Projection
from ledger.store.relations import relation_of
from ledger.store.snapshots import DeltaSnapshot
from ledger.store.spans import (
    Facts,
    in_whole_spans,
    spans_of_rows,
    touched_between,
    touched_by_flow,
    touched_by_lag,
)
from ledger.store.sql import CutRows, ParquetFiles, Relation, Snapshot, connected, register

log = logging.getLogger(__name__)

_SYNCS = OFFSET_SYNCS.name
_BETWEEN = frozenset({"group_translation", "group_positions", "repeated_records", "consumed_not_copied"})
_BY_FLOW = frozenset({"offset_translation"})
_IN_WHOLE = frozenset({"flow_positions", "flow_status", "uncommitted_partitions"})
"""By what of the offset syncs queries are answered: those that the places of groups touch, or what all come to."""
_BY_LAST_ROWS: Mapping[str, frozenset[str]] = {
    CHECKPOINTS.name: frozenset(
        {"commit_looks", "cluster_commits", "asked_groups", "cluster_groups", "flow_recording"}
    ),
    HIGH_WATERMARKS.name: frozenset(
        {"last_high_watermarks", "source_truncations", "topic_lives", "topic_partitions", "flow_recording"}
    ),
}
"""Views and queries that say of the rows which a projection of a table leaves out what they say without these."""
_LAG = "replication_lag"
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
    if asked.name == _LAG and not overrides and isinstance(snapshot, DeltaSnapshot):
        return _lag(asked, params, snapshot)
    return sql.run_query(asked, params, snapshot, for_question(snapshot, asked, params, overrides))


def run_queries(
    asked: Collection[Query], params: Mapping[str, Value], snapshot: Snapshot
) -> dict[str, pa.Table]:
    """The answers of queries by name, each with those parameters that it takes: what reads the same, together."""
    together: dict[Any, tuple[Mapping[str, Relation], list[Query]]] = {}
    found: dict[str, pa.Table] = {}
    for one in asked:
        if one.name == _LAG:
            taken = {name: params[name] for name in one.parameter_names if name in params}
            found[one.name] = run_query(one, taken, snapshot)
            continue
        shown = for_question(snapshot, one, params)
        read = frozenset((name, id(relation)) for name, relation in shown.items())
        together.setdefault(read, (shown, []))[1].append(one)
    for shown, queries in together.values():
        found |= sql.run_queries(queries, params, snapshot, shown)
    return {one.name: found[one.name] for one in asked}


def _lag(asked: Query, params: Mapping[str, Value], snapshot: DeltaSnapshot) -> pa.Table:
    """How far a flow is behind: by high watermarks of the last hour, day or month, where these tell since when."""
    kept = kept_rows(snapshot, HIGH_WATERMARKS.name)
    try:
        spans = None if kept is None else _spans(snapshot)
        if kept is not None and spans is not None:
            every = snapshot.relation(HIGH_WATERMARKS.name)
            found = lag_since(asked, params, snapshot, kept, every, spans)
            if found is not None:
                return found
    except _UNREADABLE as error:
        log.debug("all high watermarks are read: %s", error)
    return sql.run_query(asked, params, snapshot)


def lag_since(
    asked: Query,
    params: Mapping[str, Value],
    snapshot: Snapshot,
    kept: pa.Table,
    every: Relation,
    spans: tuple[pa.Table, Facts],
    windows_ms: Sequence[int] = WINDOWS_MS,
) -> pa.Table | None:
    """The answer of `replication_lag` by the `kept` high watermarks and those of a window; None: no window tells.

    Since when a partition is behind says the last reading that saw it level: a window that has it has all that
    counts. So it does with a reading from before a transaction was open.
    """
    last_ms = pa.compute.max(kept["recorded_at_ms"]).as_py() or 0
    for window_ms in windows_ms:
        with connected() as connection:
            register(connection, "every", every)
            connection.register("kept", kept)
            ends = connection.sql(
                "select * from kept union select * from every where recorded_at_ms >= $since_ms",
                params={"since_ms": last_ms - window_ms},
            ).to_arrow_table()
        shown = {HIGH_WATERMARKS.name: ends}
        touched = touched_by_lag(snapshot, *spans, str(params["flow"]), shown)
        if touched is None:
            return None
        found = sql.run_query(asked, params, snapshot, {**shown, **touched})
        if _tells_since_when(found, ends):
            return found
    return None


def _tells_since_when(found: pa.Table, ends: pa.Table) -> bool:
    """Whether of each partition that is behind, or has an open transaction, there is a reading from before that."""
    with connected() as connection:
        connection.register("found", found)
        connection.register("ends", ends)
        unknown = connection.execute(
            "select 1 from found as f where (f.status = 'behind' and f.lag_ms_bound is distinct from 'at_most') "
            "or (f.open_since_ms is not null and not exists (select 1 from ends as e "
            "where e.topic = f.source_topic and e.topic_id = f.source_topic_id "
            "and e.partition = f.source_partition and e.read_at_ms < f.open_since_ms)) limit 1"
        ).fetchall()
    return not unknown


def translate_offset(snapshot: Snapshot, flow: str, topic: str, partition: int, offset: int) -> pa.Table:
    """What `sql.translate_offset` returns and raises."""
    shown = summed(snapshot)
    if _SYNCS not in shown:
        return sql.translate_offset(snapshot, flow, topic, partition, offset)
    commit = sql.commit_of_offset(snapshot, flow, topic, partition, offset, {_SYNCS: shown[_SYNCS]})
    params: Mapping[str, Value] = {"flow": flow, "driver_lives": False}
    return run_query(catalog.query("offset_translation"), params, snapshot, {CHECKPOINTS.name: commit})


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


def summed(snapshot: Snapshot) -> Mapping[str, Relation]:
    """What stands for large tables where it is asked what rows come to, and when the last of them was recorded."""
    if not isinstance(snapshot, DeltaSnapshot):
        return {}
    kept = {table: kept_rows(snapshot, table) for table in (CHECKPOINTS.name, HIGH_WATERMARKS.name)}
    shown: dict[str, Relation] = {table: rows for table, rows in kept.items() if rows is not None}
    try:
        return {**shown, **(_whole_spans(snapshot) or {})}
    except _UNREADABLE as error:
        log.debug("all offset syncs are read: %s", error)
        return shown


@cache
def _by_last_rows(asked: Query) -> frozenset[str]:
    """The tables that a query reads by its last rows only."""
    statements = {**catalog.views_of(asked.reads), asked.name: asked.sql}
    readers = {
        table: {name for name, text in statements.items() if table in catalog.relations_read(text)}
        for table in _BY_LAST_ROWS
    }
    return frozenset(table for table, by in readers.items() if by and by <= _BY_LAST_ROWS[table])


def kept_rows(snapshot: DeltaSnapshot, table: str) -> pa.Table | None:
    """Rows of a table by which views tell what is last, as its projection has them, and those since; None: all tell."""
    read = _read_of(snapshot)
    if table not in read:
        read[table] = _kept_rows(snapshot, table)
    kept: pa.Table | None = read[table]
    return kept


def _read_of(snapshot: DeltaSnapshot) -> dict[str, Any]:
    """What was read of projections for a snapshot: its questions share it."""
    return _read.setdefault(snapshot, {})


_read: WeakKeyDictionary[DeltaSnapshot, dict[str, Any]] = WeakKeyDictionary()


def _kept_rows(snapshot: DeltaSnapshot, table: str) -> pa.Table | None:
    version = snapshot.version(table)
    try:
        found = None if version is None else _projected(snapshot, table, version)
    except _UNREADABLE as error:
        log.debug("all of %s is read: %s", table, error)
        return None
    return None if found is None else pa.concat_tables(found)


def _of_spans(
    snapshot: DeltaSnapshot, name: str, params: Mapping[str, Value], shown: Mapping[str, Relation]
) -> dict[str, Relation] | None:
    if name not in _BETWEEN | _BY_FLOW | _IN_WHOLE or (found := _spans(snapshot)) is None:
        return None
    if name in _IN_WHOLE:
        return _whole_spans(snapshot)
    if name in _BY_FLOW:
        return touched_by_flow(snapshot, *found, str(params["flow"]), shown)
    clusters = str(params["from_cluster"]), str(params["to_cluster"])
    return touched_between(snapshot, *found, clusters, shown)


def _spans(snapshot: DeltaSnapshot) -> tuple[pa.Table, Facts] | None:
    """Those of all offset syncs, and how to read what they stand for; None: there are none."""
    read = _read_of(snapshot)
    if _SYNCS not in read:
        read[_SYNCS] = _read_spans(snapshot)
    spans: tuple[pa.Table, Facts] | None = read[_SYNCS]
    return spans


def _whole_spans(snapshot: DeltaSnapshot) -> dict[str, Relation] | None:
    read = _read_of(snapshot)
    if "whole" not in read:
        spans = _spans(snapshot)
        read["whole"] = None if spans is None else in_whole_spans(*spans)
    whole: dict[str, Relation] | None = read["whole"]
    return whole


def _read_spans(snapshot: DeltaSnapshot) -> tuple[pa.Table, Facts] | None:
    if (version := snapshot.version(_SYNCS)) is None:
        return None
    files = relation_of(version, _SYNCS)
    if not isinstance(files, ParquetFiles) or (found := _projected(snapshot, _SYNCS, version)) is None:
        return None
    return pa.concat_tables([found[0], spans_of_rows(found[1])]), _facts(version, files)


def _facts(version: DeltaTable, files: ParquetFiles) -> Facts:
    stamps = file_stamps(version)

    def facts(first_ms: int, last_ms: int) -> "Relation | None":
        """Those of files that may have rows of a time."""
        return files.named(
            {
                file.name
                for file in stamps
                if (file.first_ms is None or file.first_ms <= last_ms)
                and (file.last_ms is None or file.last_ms >= first_ms)
            }
        )

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
    return projected.rows, since.cast(arrow_schema(TABLE_BY_NAME[table]))
