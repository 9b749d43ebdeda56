"""What stays in a ledger of the rows of a period that leaves it: few rows by which answers are what all rows say.

Of offset syncs those that follow each other become one. Of checkpoints, high watermarks, offsets of share groups and
rows of writers those stay that tell what is last, as projections keep them. Rows are taken in parts, for memory is to
be had of so many at a time; what stays of the parts is taken together once more.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from ledger.clock import HOUR_MS
from ledger.errors import MirrorLedgerError
from ledger.facts.tables import (
    CHECKPOINTS,
    HIGH_WATERMARKS,
    OFFSET_SYNCS,
    SHARE_OFFSETS,
    TABLE_BY_NAME,
    WRITERS,
)
from ledger.store.behind import last_of_each
from ledger.store.merging import TableFolder, WrittenFile, reading_rows, write_days
from ledger.store.sql import FUNCTIONS, sql_file

LEAVING = (HIGH_WATERMARKS.name, WRITERS.name, CHECKPOINTS.name, SHARE_OFFSETS.name, OFFSET_SYNCS.name)
"""Tables whose rows leave, in the order in which it is found what stays: those that grow with every round."""
BESIDE = (HIGH_WATERMARKS.name, WRITERS.name)
"""Those of which the rows that stay tell where rows of others end."""
_PART_ROWS = 300_000
_LAST_ALONE = (SHARE_OFFSETS.name, WRITERS.name)


class Carried:
    """The rows of a table that stay, as a table of a connection that has all rows as `every`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: TableFolder, table: str) -> None:
        self._connection = connection
        self._folder = folder
        self._table = table
        connection.execute("create temporary table stay as select * from every limit 0")
        for first_ms, last_ms in connection.execute(_PARTS).fetchall():
            self._stay(f"select * from every where recorded_at_ms between {int(first_ms)} and {int(last_ms)}")
        connection.execute("create temporary table parts as from stay")
        connection.execute("truncate stay")
        self._stay("select * from parts")
        connection.execute("drop table parts")
        if table == OFFSET_SYNCS.name:
            self._require_same_sums()

    @property
    def rows(self) -> pa.Table:
        return self._connection.table("stay").to_arrow_table()

    @property
    def count(self) -> int:
        [(rows,)] = self._connection.execute("select count(*) from stay").fetchall()
        return int(rows)

    def written(self, prefix: str) -> list[WrittenFile]:
        """In new files, one for each day; no version of the table names these yet."""
        return write_days(self._folder, self._table, self._connection.table("stay"), prefix)

    def _require_same_sums(self) -> None:
        """Raise where the rows that stay do not say of as many offsets and records as all."""
        [every], [stay] = (
            self._connection.execute(f"{_SUMS} {name}").fetchall() for name in ("every", "stay")
        )
        if every != stay:
            raise MirrorLedgerError(
                f"offset syncs come to {every} (offsets, in gaps, records, bytes), what is to stay of them to "
                f"{stay}; nothing left the ledger"
            )

    def _stay(self, select: str) -> None:
        """Add what stays of the rows that are selected."""
        self._connection.execute(f"create or replace temporary view recorded as {select}")
        names = ", ".join(f'"{name}"' for name in TABLE_BY_NAME[self._table].column_names)
        if self._table in _LAST_ALONE:
            self._connection.register("found", last_of_each(self._connection, self._table, "recorded"))
            self._connection.execute(f"insert into stay select {names} from found")
            return
        which = "carried" if self._table == OFFSET_SYNCS.name else "kept"
        self._connection.execute(
            f"insert into stay select {names} from ({sql_file(f'{which}_{self._table}.sql')})"
        )


@contextmanager
def carried(
    folder: TableFolder, table: str, paths: Sequence[str], beside: Mapping[str, pa.Table]
) -> Iterator[Carried]:
    """What stays of the rows of files of a table; `beside`: what stays of the tables that come before it."""
    with folder.readable(paths) as local, reading_rows(local, table) as connection:
        connection.execute(FUNCTIONS)
        if table == OFFSET_SYNCS.name:
            for name in BESIDE:
                connection.register(name, beside[name])
            connection.execute(sql_file("carried_between.sql"))
        yield Carried(connection, folder, table)


_SUMS = (
    "select sum(source_end - source_start), sum(offsets_in(gaps)), sum(records), sum(bytes), "
    "sum(target_end - target_start) from"
)
_PARTS = f"""
select min(first_ms), max(last_ms)
from (
    select
        recorded_at_ms // {HOUR_MS} as hour,
        min(recorded_at_ms) as first_ms,
        max(recorded_at_ms) as last_ms,
        sum(count(*)) over (order by hour) // {_PART_ROWS} as part
    from every
    group by hour
)
group by part
order by part
"""
