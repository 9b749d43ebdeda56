"""Offset syncs in few rows, and which of them a question touches: it costs what it asks, not what has happened.

A span stands for the offset syncs of a map that follow each other within an hour, or a day. Where each record lies
matters only around the places of the groups that are asked about; there the offset syncs themselves are read. Spans,
and what is read of offset syncs, give the answer that all offset syncs give.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import duckdb
import pyarrow as pa

from ledger.facts.tables import OFFSET_SYNCS, TABLE_BY_NAME
from ledger.store import catalog
from ledger.store.delta_tables import arrow_schema, in_schema
from ledger.store.sql import Relation, Snapshot, carry_out, connect, connected, register, selected, sql_file

_CUT = "cut_spans.sql"
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


@dataclass(frozen=True)
class Question:
    """What answers a question out of spans: statements that name those that it touches, and the views it `reads`.

    `shared`: views that no offset sync changes; the answer gets them as they were read. `opened`: of which touched
    spans the offset syncs are read. `unread`: a table that says of such a span between which offsets of its source it
    is not read by whom each was written. `measures`: the statements name partitions whose high watermarks are read.
    `shares_reads`: where no span is opened, the answer gets the views that it `reads`, too.
    """

    files: tuple[str, ...]
    reads: tuple[str, ...]
    shared: tuple[str, ...] = ()
    opened: str = "not is_exact"
    unread: str | None = None
    measures: bool = False
    shares_reads: bool = False


_ENDS = ("last_claims", "measured_ends", "ended_topics")
BETWEEN = Question(
    ("touched_spans.sql",),
    ("source_truncations", "current_topics", "last_topics"),
    # The rows of a map's last round are spans of their own.
    (
        "last_syncs",
        "cluster_commits",
        "last_high_watermarks",
        "committed_topics",
        "group_moves",
        "topic_readers",
        "partition_ways",
    ),
    "(not is_exact or n.span_number in (select span_number from dated_spans))",
    unread="unread_copies",
    shares_reads=True,
)
"""About what the clusters `here` and `there` have, and groups of the one that are to continue at the other."""
OF_GROUPS = replace(BETWEEN, files=("asked_spans.sql", *BETWEEN.files))
"""About these groups alone."""
BY_LAG = Question(("touched_by_lag.sql",), _ENDS, opened="rows > 1", measures=True)
"""How far the flow `flow` is behind the ends of its source that were measured last."""
BY_LOSS = Question(
    ("touched_by_loss.sql",), ("last_syncs", "covered_ends", "brought_ends", *_ENDS), measures=True
)
"""What the cluster `here` has that has not come to the cluster `there`."""


class Touched(NamedTuple):
    """What stands in for tables and views, and the last reads of partitions whose high watermarks are asked for."""

    shown: dict[str, Relation]
    measured: pa.Table | None


MOST_OPENED = 2_000
"""Where spans stand for more offset syncs than these, not all of them are read as they are."""
MANY_GAPS = 100 * MOST_OPENED
"""Where so many source offsets have no copy, there may be as many gaps, of which a hundred cost as much as a row."""
_OPENED = "greatest(rows, (source_end - source_start - records) // 100)"
"""For so many offset syncs a span counts where it is opened."""
_ROWS_AT_ONCE = 100_000
Facts = Callable[[Collection[tuple[int, int]]], "Relation | None"]
"""Rows of a table that were recorded at some of these times, each from one to another, both counted; perhaps others
too. None: there are none."""


def spans_of(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Spans of the relation `facts` of a connection, which are offset syncs; it is one of `connected`."""
    return _spans(connection, sql_file("single_spans.sql"))


def merged_spans(spans: pa.Table) -> pa.Table:
    """The same by the day."""
    with connected() as connection:
        register(connection, "spans", spans)
        return _spans(connection, "select * replace (hour - hour % 24 as hour) from spans")


def spans_of_rows(facts: Relation) -> pa.Table:
    """Spans of offset syncs."""
    with connected() as connection:
        register(connection, "facts", facts)
        return spans_of(connection)


def _spans(connection: duckdb.DuckDBPyConnection, recorded: str) -> pa.Table:
    """In one statement: a view is bound when it is made, and once more where it is read."""
    before = f"with recorded as (\n{recorded}\n),\n\n"
    return in_schema(selected(connection, f"{before}{_summed('span_rows.sql')}"), SCHEMA)


def _summed(file: str) -> str:
    """The end of a statement that makes spans of `span_rows`, which a file selects."""
    _, _, summed = sql_file("spans.sql").partition("\nwith ")
    return f"span_rows as (\n{sql_file(file)}\n),\n\n{summed}"


def touched(
    question: Question,
    snapshot: Snapshot,
    spans: pa.Table,
    facts: Facts,
    variables: Mapping[str, str],
    overrides: Mapping[str, Relation],
) -> Touched | None:
    """By which offset syncs such questions are answered.

    `spans`: of all that the snapshot has; `variables`: the names that the question asks about; `overrides` stand in for
    other tables. None where `facts` do not have what the spans stand for.
    """
    asked = _asked(question, snapshot, spans, variables, overrides)
    if _cost(asked.wanted) > MOST_OPENED:
        if (finer := _in_parts(asked, facts)) is None:
            return None
        asked = _asked(question, snapshot, finer, variables, {**overrides, **asked.unchanged})
    found = _with_opened(asked.kept, asked.wanted, facts)
    return None if found is None else Touched({**asked.shared, OFFSET_SYNCS.name: found}, asked.measured)


@dataclass(frozen=True)
class _Asked:
    """What a question leaves of spans: those that are `kept`, and the `wanted` ones, which are opened; and what the
    answer gets of the views that it read. `unchanged`: what the same question would read again of other spans."""

    kept: pa.Table
    wanted: pa.Table
    shared: Mapping[str, Relation]
    unchanged: Mapping[str, Relation]
    measured: pa.Table | None


def _asked(
    question: Question,
    snapshot: Snapshot,
    spans: pa.Table,
    variables: Mapping[str, str],
    overrides: Mapping[str, Relation],
) -> _Asked:
    reads = (*question.reads, *question.shared)
    shown = {**overrides, OFFSET_SYNCS.name: spans.select(_SYNCS.names)}
    with connect(snapshot, shown, reads, computed=reads) as connection:
        for name, value in variables.items():
            connection.execute(f"set variable {name} = $value", {"value": value})
        _cut(connection, spans)
        for file in question.files:
            carry_out(connection, file)
        kept, wanted = _parted(connection, question, ("cut_spans", "touched"))
        stay = reads if question.shares_reads and not wanted.num_rows else question.shared
        unchanged = [name for name in question.reads if OFFSET_SYNCS.name not in catalog.tables_of((name,))]
        read = {
            name: connection.table(name).to_arrow_table() for name in {*stay, *question.shared, *unchanged}
        }
        measured = connection.table("measured").to_arrow_table() if question.measures else None
    return _Asked(kept, wanted, {name: read[name] for name in stay}, read, measured)


def _in_parts(asked: _Asked, facts: Facts) -> pa.Table | None:
    """The same spans, and for the large ones of those that are wanted, their parts as spans; None as `touched`.

    A place lies in a part of a span: of the others it matters as little where each record lies as of other spans.
    """
    is_large = f"(rows > 1 and {_OPENED} > {MOST_OPENED // 20})"
    with connected() as connection:
        connection.register("wanted", asked.wanted)
        small, large = (
            selected(connection, f"select * from wanted where {condition}")
            for condition in (f"not {is_large}", is_large)
        )
    parts = [in_schema(part, SCHEMA) for part in _opened(large, facts, f",\n\n{_summed('split_spans.sql')}")]
    if sum(map(_rows, parts)) != _rows(large):
        return None
    return pa.concat_tables([*(in_schema(part, SCHEMA) for part in (asked.kept, small)), *parts])


def in_whole_spans(spans: pa.Table, facts: Facts) -> dict[str, Relation] | None:
    """The same of questions about what rows come to, and not about where records lie."""
    with connected() as connection:
        connection.register("spans", spans)
        if not connection.execute("select 1 from spans where kind = 'superseded' limit 1").fetchall():
            return {OFFSET_SYNCS.name: in_schema(spans, _SYNCS)}
        _cut(connection, spans)
        kept, wanted = _parted(connection, Question((_CUT,), ()), ("cut_spans",))
    found = _with_opened(kept, wanted, facts)
    return None if found is None else {OFFSET_SYNCS.name: found}


def _cut(connection: duckdb.DuckDBPyConnection, spans: pa.Table) -> None:
    connection.register("spans", spans)
    carry_out(connection, _CUT)


def _parted(
    connection: duckdb.DuckDBPyConnection, question: Question, touched_by: Collection[str]
) -> tuple[pa.Table, pa.Table]:
    """Spans that stay, and those of the touched ones that are opened, with what is not read of their source."""
    numbers = " union all ".join(f"select span_number from {name}" for name in touched_by)
    is_opened = f"{question.opened} and n.span_number in ({numbers})"
    none = "cast(null as bigint) as unread_from, cast(null as bigint) as unread_to"
    bounds = none if question.unread is None else "u.unread_from, u.unread_to"
    unread = "" if question.unread is None else f"left join {question.unread} as u using (span_number)"
    kept = f"select n.* from numbered_spans as n where not ({is_opened})"
    wanted = f"select n.*, {bounds} from numbered_spans as n {unread} where {is_opened}"
    # They are wide: to make a table of them takes longer than to plan them twice.
    return connection.sql(kept).to_arrow_table(), connection.sql(wanted).to_arrow_table()


def _with_opened(kept: pa.Table, wanted: pa.Table, facts: Facts) -> pa.Table | None:
    opened = _all_opened(wanted, facts)
    return None if opened is None else pa.concat_tables([in_schema(kept, _SYNCS), *opened])


def _all_opened(wanted: pa.Table, facts: Facts) -> list[pa.Table] | None:
    """Each offset sync that wanted spans stand for; None where `facts` do not have one of them."""
    opened = [
        in_schema(part, _SYNCS) for part in _opened(wanted, facts, f"\n\n{sql_file('opened_spans.sql')}")
    ]
    return opened if sum(map(len, opened)) == _rows(wanted) else None


def _cost(spans: pa.Table) -> int:
    """For how many offset syncs they count."""
    with connected() as connection:
        connection.register("every", spans)
        [[cost]] = connection.execute(f"select coalesce(sum({_OPENED}), 0) from every").fetchall()
    return int(cost)


def _rows(spans: pa.Table) -> int:
    """How many offset syncs they stand for."""
    return sum(spans["rows"].to_pylist())


def _opened(wanted: pa.Table, facts: Facts, select: str) -> Iterator[pa.Table]:
    """What the end of a statement makes of `opened`: of the offset syncs that wanted spans stand for, by days."""
    opened = f"with opened as (\n{sql_file('rows_of_spans.sql')}\n)"
    with connected() as connection:
        connection.register("every", wanted)
        days = connection.execute(
            "select hour // 24 as day, sum(rows), min(first_recorded_at_ms), max(recorded_at_ms) from every "
            "group by day order by day"
        ).fetchall()
        for first, last in together(((day, rows) for day, rows, *_ in days), _ROWS_AT_ONCE):
            found = facts([(first_ms, last_ms) for day, _, first_ms, last_ms in days if first <= day <= last])
            if found is None:
                continue
            register(connection, "facts", found)
            connection.execute(
                "create or replace temporary view wanted as select * from every "
                f"where hour // 24 between {int(first)} and {int(last)}"
            )
            yield selected(connection, opened + select)


def together(counts: Iterable[tuple[int, int]], most_rows: int) -> Iterator[tuple[int, int]]:
    """The first and the last of hours, or days, that follow each other and have so many rows at most; or one alone."""
    first = last = None
    rows = 0
    for number, count in counts:
        if first is not None and last is not None and rows + count > most_rows:
            yield first, last
            first, rows = None, 0
        first, last, rows = number if first is None else first, number, rows + count
    if first is not None and last is not None:
        yield first, last
