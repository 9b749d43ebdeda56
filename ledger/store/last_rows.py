"""Last rows of the ledger's tables, read without reading the tables: by their projections, and what is new.

They are kept from read to read. Where there is no projection they are found among all rows, once.
"""

import logging
import threading
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable

from ledger.facts.last_rows import GRAINS, NOTHING, Noted
from ledger.store.behind import last_of_each, last_rows_schema, read_behind
from ledger.store.delta_tables import newest_version
from ledger.store.projections import Projection

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableLastRows:
    """The last rows of a table, perhaps with earlier ones; up to where they are, and of which version, if of one."""

    noted: Noted
    last: pa.Table
    version: int | None = None


class LastRowsReader:
    """The last rows of tables as of each call; safe to use from several threads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._kept: dict[str, TableLastRows] = {}
        self._noted: dict[str, tuple[int, Noted | None]] = {}
        self._reading = {table: threading.Lock() for table in GRAINS}

    def noted(self, table: str) -> Noted | None:
        """Up to where each writer's rows of a table are, by a projection; None: there is none. Raises as `of`."""
        projection = Projection(self._path, table)
        if not projection.is_there:
            return None
        opened = newest_version(self._path, table)
        version, known = self._noted.get(table, (None, None))
        if known is None:
            known = projection.noted(opened)
        if known is not None and version != opened.version():
            with read_behind(opened, table, known) as behind:
                known = None if behind is None else behind.noted
        self._noted[table] = opened.version(), known
        return known

    def of(self, table: str) -> TableLastRows:
        """Those of a table of `GRAINS`; raises what deltalake and DuckDB raise where it cannot be read."""
        opened = newest_version(self._path, table)
        with self._reading[table]:  # who asks meanwhile knows it then
            if table not in self._kept:
                self._keep_projected(opened, table)
            known = self._kept.get(table, _nothing(table))
            if known.version != opened.version():
                opened = newest_version(self._path, table)  # who was faster may have read on
            if known.version != opened.version():
                known = self._kept[table] = read_last_rows(opened, table, known)
            return known

    def _keep_projected(self, opened: DeltaTable, table: str) -> None:
        columns = last_rows_schema(table).names
        found = Projection(self._path, table).read(opened, lambda _: True, is_now=True, columns=columns)
        if found is not None:
            self._kept[table] = TableLastRows(found.noted, found.rows)


def read_last_rows(opened: DeltaTable, table: str, known: TableLastRows) -> TableLastRows:
    """The last rows of a version, by those that are `known` of it; where these do not account for it, by all files."""
    with read_behind(opened, table, known.noted) as behind:
        if behind is not None:
            behind.connection.register("known", known.last)
            names = ", ".join(known.last.column_names)
            behind.connection.execute(
                f"create temporary view placed as select {names} from behind union all select {names} from known"
            )
            last = last_of_each(behind.connection, table, "placed")
            return TableLastRows(behind.noted, last, opened.version())
    log.debug("%s: what was noted does not account for its files; all of them are read", table)
    return read_last_rows(opened, table, _nothing(table))


def _nothing(table: str) -> TableLastRows:
    return TableLastRows(NOTHING, last_rows_schema(table).empty_table())
