"""The DuckDB of this process: one database in memory, opened once, in which each use has a connection of its own.

To open one costs ten milliseconds, and a command reads twenty tables. Whatever a use makes has to be temporary: that is
seen on its own connection alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import duckdb

from ledger.adapters.delta.damage import reported_of_files


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


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:")
