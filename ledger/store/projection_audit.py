"""Audits projections: whether they say, row for row, what the facts that they stand for say, at a cut.

Of offset syncs the spans of each day are made from the facts again. Of the other tables the last rows, and the views
that are answered by rows which a projection keeps, are computed by these and by all rows. All facts are read.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from ledger.clock import DAY_MS, HOUR_MS
from ledger.facts.tables import OFFSET_SYNCS
from ledger.store.behind import last_of_each
from ledger.store.narrowed import projected, views_by_last_rows
from ledger.store.projections import PROJECTED
from ledger.store.relations import last_appends, row_count
from ledger.store.snapshots import DeltaSnapshot
from ledger.store.spans import merged_spans, spans_of_rows
from ledger.store.sql import Relation, connect, connected, register

_DAY_HOURS = DAY_MS // HOUR_MS


class ProjectionStatus(StrEnum):
    """What the audit of a projection came to."""

    SAME = "same"
    DIFFERS = "differs"
    NOT_USED = "not_used"


@dataclass(frozen=True, slots=True)
class ProjectionAudit:
    """Of a table the `rows` that the cut counts, and how many of them its projection stands for at that cut.

    `differing`: rows that are said by one and not by the other. Both None: no projection can be used there, so answers
    read the facts.
    """

    table: str
    rows: int
    projected: int | None
    differing: int | None
    status: ProjectionStatus


def audit_projections(at: DeltaSnapshot, tables: Collection[str] = PROJECTED) -> list[ProjectionAudit]:
    """Those of the tables that have one; raises `LedgerUnavailableError` and what DuckDB raises where facts cannot be
    read."""
    return [_audited(at, table) for table in PROJECTED if table in tables]


def _audited(at: DeltaSnapshot, table: str) -> ProjectionAudit:
    rows = row_count(at.relation(table))
    if (found := projected(at, table)) is None:
        return ProjectionAudit(table, rows, None, None, ProjectionStatus.NOT_USED)
    kept, since = found
    parts = (
        _differing_spans(at, kept, since)
        if table == OFFSET_SYNCS.name
        else _differing_rows(at, table, pa.concat_tables([kept, since]))
    )
    differing = sum(parts) + _differing_appends(at, table)
    status = ProjectionStatus.DIFFERS if differing else ProjectionStatus.SAME
    return ProjectionAudit(table, rows, rows - since.num_rows, differing, status)


def _differing_appends(at: DeltaSnapshot, table: str) -> int:
    """How many writers have another last append by the projection, which cuts are made of."""
    by_facts = {(one.writer, one) for one in last_appends(table, at.relation(table))}
    by_cut = {(one.writer, one) for one in at.cut.of_table(table)}
    return len({writer for writer, _ in by_facts ^ by_cut})


def _differing_spans(at: DeltaSnapshot, kept: pa.Table, since: pa.Table) -> Iterator[int]:
    """By day: a day's spans are the same however often they were made and merged in between."""
    with connected() as connection:
        register(connection, "facts", at.relation(OFFSET_SYNCS.name))
        connection.register("kept", pa.concat_tables([kept, spans_of_rows(since)]))
        days = connection.execute(
            f"select recorded_at_ms // {DAY_MS} from facts union select hour // {_DAY_HOURS} from kept order by all"
        ).fetchall()
        for (day,) in days:
            of_day = connection.sql(f"select * from facts where recorded_at_ms // {DAY_MS} = {int(day)}")
            spans = connection.sql(f"select * from kept where hour // {_DAY_HOURS} = {int(day)}")
            by_facts = merged_spans(spans_of_rows(of_day.to_arrow_table()))
            yield _differing(by_facts, merged_spans(spans.to_arrow_table()))


def _differing_rows(at: DeltaSnapshot, table: str, kept: pa.Table) -> Iterator[int]:
    with connected() as connection:
        register(connection, "facts", at.relation(table))
        connection.register("kept", kept)
        yield _differing(*(last_of_each(connection, table, rows) for rows in ("facts", "kept")))
    for view in sorted(views_by_last_rows(table)):
        yield _differing(_rows_of(at, view, {}), _rows_of(at, view, {table: kept}))


def _rows_of(at: DeltaSnapshot, view: str, shown: dict[str, Relation]) -> pa.Table:
    with connect(at, shown, (view,)) as connection:
        return connection.table(view).to_arrow_table()


def _differing(one: pa.Table, other: pa.Table) -> int:
    """How many rows are in one of two tables alone, each as often as it is."""
    with connected() as connection:
        connection.register("one", one)
        connection.register("other", other)
        [(rows,)] = connection.execute(
            "select count(*) from ((from one except all from other) union all (from other except all from one))"
        ).fetchall()
    return int(rows)
