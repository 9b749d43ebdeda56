"""The views of a ledger on a DuckDB connection, some of them as tables: what others read often is computed once."""

import re
from collections.abc import Mapping

import duckdb

COMPUTED_ONCE = frozenset({"last_syncs", "last_high_watermarks"})
"""Views with a row for each partition: joins with them are planned as what they are."""
COMPUTED_FOR_A_FLOW = frozenset(
    {"last_commits", "current_maps", "commit_places", "asked_stripes", "next_stretches"}
    | {"source_truncations", "driver_appends", "ended_targets", "two_way_targets"}
    | {"measured_positions", "measured_lags", "reading_levels", "reading_lags"}
)
"""Views that are read more than once, or for which a choice of flows further up would not reach the tables."""
COMPUTED_WHERE_OTHERS_SHARE_IT = frozenset({"current_syncs"})
"""It is wide, with a row for each offset sync: a view that reads it alone reads what it needs of it faster."""


def make_views(
    connection: duckdb.DuckDBPyConnection, statements: Mapping[str, str], flow: str | None = None
) -> None:
    """Make views by name, one after the other; with a flow, the larger ones have the rows of that flow alone.

    Functions and what the views read have to be there.
    """
    for name, statement in statements.items():
        if name in COMPUTED_ONCE:
            connection.execute(f"create temporary table {name} as {_select(name, statement)}")
        elif flow is not None and (name in COMPUTED_FOR_A_FLOW or _is_shared(name, statements)):
            connection.execute(
                f"create temporary table {name} as select * from (\n{_select(name, statement)}\n) where flow = $flow",
                {"flow": flow},
            )
        else:
            connection.execute(statement)


def _is_shared(name: str, statements: Mapping[str, str]) -> bool:
    read = re.compile(rf"\b(?:from|join) {name}\b")
    readers = sum(len(read.findall(statement)) for statement in statements.values())
    return name in COMPUTED_WHERE_OTHERS_SHARE_IT and readers > 1


def _select(name: str, statement: str) -> str:
    """What a view selects."""
    _, made, select = statement.partition(f"create or replace temporary view {name} as\n")
    assert made, name
    return select.rstrip().removesuffix(";")
