"""The DuckDB of this process: one database in memory, opened once, in which each use has a connection of its own.

To open one costs ten milliseconds, and a command reads twenty tables. Whatever a use makes has to be temporary: that is
seen on its own connection alone.
"""

from functools import cache

import duckdb


def connected() -> duckdb.DuckDBPyConnection:
    """A connection to close after use; safe to call from several threads."""
    return _database().cursor()


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:")
