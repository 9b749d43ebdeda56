"""The views of a ledger on a DuckDB connection, some of them as tables: what others read often is computed once."""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import TypeAlias

import duckdb

from ledger import catalog

COMPUTED_ONCE = frozenset({"last_syncs", "last_high_watermarks"})
"""Views with a row for each partition: joins with them are planned as what they are."""
COMPUTED_FOR_A_FLOW = frozenset(
    {"last_commits", "current_maps", "commit_places", "asked_stripes", "next_stretches"}
    | {"source_truncations", "driver_appends", "ended_targets", "written_sources", "earlier_copies"}
    | {"measured_positions", "measured_lags", "reading_levels", "reading_lags"}
)
"""Views that are read more than once, or for which a choice of flows further up would not reach the tables."""
COMPUTED_WHERE_OTHERS_SHARE_IT = frozenset({"current_syncs"})
"""It is wide, with a row for each offset sync: a view that reads it alone reads what it needs of it faster."""
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


def sql_file(name: str) -> str:
    """What a file of SQL beside this module holds."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def make_views(
    connection: duckdb.DuckDBPyConnection,
    statements: Mapping[str, str],
    flow: str | None = None,
    clusters: Clusters | None = None,
    at_ms: int | None = None,
) -> None:
    """Make views by name, one after the other; with a flow, the larger ones have the rows of that flow alone.

    With two clusters, pairs of partitions are those from the first to the second alone; with a time, answers are
    compared with the offsets of that time. Functions and what the views read have to be there.
    """
    is_of_pairs = "pairs" in statements
    for name, statement in statements.items():
        if name == "links" and clusters is not None:
            _compute(connection, name, statement, _BETWEEN, {"here": clusters[0], "there": clusters[1]})
        elif name == "compared_offsets" and at_ms is not None:
            connection.execute(sql_file("time_offsets.sql"), {"at_ms": at_ms})
        elif name in COMPUTED_ONCE or (is_of_pairs and name in COMPUTED_FOR_PAIRS):
            _compute(connection, name, statement)
        elif flow is not None and (name in COMPUTED_FOR_A_FLOW or _is_shared(name, statements)):
            _compute(connection, name, statement, "where flow = $flow", {"flow": flow})
        else:
            connection.execute(statement)


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
    connection.execute(made, dict(values or {}))


def _is_shared(name: str, statements: Mapping[str, str]) -> bool:
    read = re.compile(rf"\b(?:from|join) {name}\b")
    readers = sum(len(read.findall(statement)) for statement in statements.values())
    return name in COMPUTED_WHERE_OTHERS_SHARE_IT and readers > 1


def _select(name: str, statement: str) -> str:
    """What a view selects."""
    _, made, select = statement.partition(f"create or replace temporary view {name} as\n")
    assert made, name
    return select.rstrip().removesuffix(";")
