"""Offset syncs in few rows, and which of them a question touches: it costs what it asks, not what has happened.

A span stands for the offset syncs of a map that follow each other within an hour, or a day. Where each record lies
matters only around the places of the groups that are asked about; there the offset syncs themselves are read. Spans,
and what is read of offset syncs, give the answer that all offset syncs give.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from ledger.facts.tables import OFFSET_SYNCS, TABLE_BY_NAME
from ledger.store.delta_tables import arrow_schema
from ledger.store.sql import FUNCTIONS, Clusters, Relation, Snapshot, connect, connected, register, sql_file

HOUR_MS = 3_600_000
_SYNCS = arrow_schema(TABLE_BY_NAME[OFFSET_SYNCS.name])
SCHEMA = pa.schema(
    [
        *_SYNCS,
        pa.field("hour", pa.int64()),
        pa.field("first_round", pa.int64()),
        pa.field("first_recorded_at_ms", pa.int64()),
        pa.field("span_target_start", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("is_exact", pa.bool_()),
    ]
)
"""Of a span: the columns of an offset sync, the hour since 1970, where its rounds, times and target range begin, how
many offset syncs it stands for, and whether it says of each record where it is."""
_SHARED = ("cluster_commits", "committed_topics", "group_moves", "topic_readers", "last_high_watermarks")
"""Views that `touched_spans.sql` reads, and that no offset sync changes."""
_READ = ("last_syncs", "source_truncations", "current_topics", *_SHARED)
"""All that it reads."""
_READ_BY_LAG = ("last_claims", "measured_ends")
"""The views that `touched_by_lag.sql` reads."""
_READ_BY_FLOW = (
    "cluster_commits",
    "last_high_watermarks",
    "last_syncs",
    "source_truncations",
    "commit_places",
)
"""The views that `touched_by_flow.sql` reads, and what they share with the answer."""
Facts = Callable[[int, int], "Relation | None"]
"""The offset syncs that were recorded from a time to another one, both counted; others may be among them."""


def spans_of(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Spans of the relation `facts` of a connection, which are offset syncs; it has to have `FUNCTIONS`."""
    connection.execute(f"create or replace temporary view recorded as {sql_file('single_spans.sql')}")
    return _spans(connection)


def merged_spans(spans: pa.Table) -> pa.Table:
    """The same by the day."""
    with connected() as connection:
        connection.execute(FUNCTIONS)
        connection.register("spans", spans)
        connection.execute(
            "create temporary view recorded as select * replace (hour - hour % 24 as hour) from spans"
        )
        return _spans(connection)


def spans_of_rows(facts: Relation) -> pa.Table:
    """Spans of offset syncs."""
    with connected() as connection:
        connection.execute(FUNCTIONS)
        register(connection, "facts", facts)
        return spans_of(connection)


def _spans(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    connection.execute(f"create or replace temporary view span_rows as {sql_file('span_rows.sql')}")
    return connection.sql(sql_file("spans.sql")).to_arrow_table().select(SCHEMA.names).cast(SCHEMA)


def touched_between(
    snapshot: Snapshot, spans: pa.Table, facts: Facts, clusters: Clusters, overrides: Mapping[str, Relation]
) -> dict[str, Relation] | None:
    """Offset syncs by which questions about groups of one cluster that are to continue at another are answered.

    Beside them views that were read for that. `spans`: of all that the snapshot has; `overrides` stand in for other
    tables. None where `facts` do not have what the spans stand for.
    """
    with _asked(snapshot, spans, _READ, overrides) as connection:
        connection.execute("set variable here = $alias", {"alias": clusters[0]})
        connection.execute("set variable there = $alias", {"alias": clusters[1]})
        connection.execute(sql_file("touched_spans.sql"))
        floors = (
            "inner join sides as s on s.span_number = n.span_number and s.is_source "
            "inner join floors as f using (log_number)"
        )
        kept, wanted = _parted(connection, "f.floor_offset", floors)
        shared = {name: connection.table(name).to_arrow_table() for name in _SHARED}
    found = _with_opened(kept, wanted, facts)
    return None if found is None else {**shared, OFFSET_SYNCS.name: found}


def touched_by_flow(
    snapshot: Snapshot, spans: pa.Table, facts: Facts, flow: str, overrides: Mapping[str, Relation]
) -> dict[str, Relation] | None:
    """The same of questions about commits at the source of a flow, by its maps alone."""
    with _asked(snapshot, spans, _READ_BY_FLOW, overrides) as connection:
        connection.execute("set variable flow = $flow", {"flow": flow})
        connection.execute(sql_file("touched_by_flow.sql"))
        kept, wanted = _parted(connection)
        shared = {name: connection.table(name).to_arrow_table() for name in _READ_BY_FLOW[:2]}
    found = _with_opened(kept, wanted, facts)
    return None if found is None else {**shared, OFFSET_SYNCS.name: found}


def touched_by_lag(
    snapshot: Snapshot, spans: pa.Table, facts: Facts, flow: str, overrides: Mapping[str, Relation]
) -> dict[str, Relation] | None:
    """The same of the question how far a flow is behind the ends of its source that were measured last."""
    with _asked(snapshot, spans, _READ_BY_LAG, overrides) as connection:
        connection.execute("set variable flow = $flow", {"flow": flow})
        connection.execute(sql_file("touched_by_lag.sql"))
        kept, wanted = _parted(connection, is_opened="rows > 1")
    found = _with_opened(kept, wanted, facts)
    return None if found is None else {OFFSET_SYNCS.name: found}


def in_whole_spans(spans: pa.Table, facts: Facts) -> dict[str, Relation] | None:
    """The same of questions about what rows come to, and not about where records lie."""
    with connected() as connection:
        connection.register("spans", spans)
        connection.execute(sql_file("cut_spans.sql"))
        kept, wanted = _parted(connection)
    found = _with_opened(kept, wanted, facts)
    return None if found is None else {OFFSET_SYNCS.name: found}


@contextmanager
def _asked(
    snapshot: Snapshot, spans: pa.Table, reads: Collection[str], overrides: Mapping[str, Relation]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection whose views read spans as offset syncs."""
    shown = {**overrides, OFFSET_SYNCS.name: spans.select(_SYNCS.names)}
    with connect(snapshot, shown, reads, computed=reads) as connection:
        connection.register("spans", spans)
        yield connection


def _parted(
    connection: duckdb.DuckDBPyConnection,
    floor: str = "cast(0 as bigint)",
    floors: str = "",
    is_opened: str = "not is_exact",
) -> tuple[pa.Table, pa.Table]:
    """Spans that stay, and those of the touched ones that are opened, with the floor of their source."""
    touched = f"{is_opened} and n.span_number in (select span_number from touched)"
    kept = connection.sql(f"select n.* from numbered_spans as n where not ({touched})")
    wanted = connection.sql(
        f"select n.*, {floor} as floor_offset from numbered_spans as n {floors} where {touched}"
    )
    return kept.to_arrow_table(), wanted.to_arrow_table()


def _with_opened(kept: pa.Table, wanted: pa.Table, facts: Facts) -> pa.Table | None:
    opened = list(_opened(wanted, facts))
    if sum(map(len, opened)) != sum(wanted["rows"].to_pylist()):
        return None
    return pa.concat_tables([part.select(_SYNCS.names).cast(_SYNCS) for part in (kept, *opened)])


def _opened(wanted: pa.Table, facts: Facts) -> Iterator[pa.Table]:
    """What wanted spans stand for, those of a day together."""
    with connected() as connection:
        connection.execute(FUNCTIONS)
        connection.register("every", wanted)
        days = connection.execute(
            "select hour // 24 as day, min(first_recorded_at_ms), max(recorded_at_ms) from every group by day"
        ).fetchall()
        for day, first_ms, last_ms in days:
            found = facts(first_ms, last_ms)
            if found is None:
                continue
            register(connection, "facts", found)
            connection.execute(
                f"create or replace temporary view wanted as select * from every where hour // 24 = {int(day)}"
            )
            yield connection.sql(sql_file("opened_spans.sql")).to_arrow_table()
