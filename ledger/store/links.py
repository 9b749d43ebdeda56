"""The links of appends, where they are made and read: in the column `link` of the ledger's files.

An append follows the last one of its writer in the table that is committed. Who made that one knows its link; who does
not, because another process made it or an outcome was unknown, reads it from the newest version.
"""

import math
from collections.abc import Sequence
from operator import itemgetter

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ledger.facts.archived import archived_periods
from ledger.facts.last_rows import FileStamps
from ledger.facts.links import LINK, content_of, link_of, row_order
from ledger.facts.operations import OperationKind
from ledger.facts.tables import OPERATIONS, place_of
from ledger.store.behind import file_stamps
from ledger.store.delta_tables import newest_version
from ledger.store.merging import SORTED_BY, STAMPED, TableFolder
from ledger.store.relations import filtered_rows, relation_of


class Links:
    """The links that appends of this process follow, by table and writer; of the ledger at a path."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._last: dict[tuple[str, str], tuple[int, str | None]] = {}

    def linked(
        self, opened: DeltaTable, table: str, writer: str, last: int, rows: pa.Table
    ) -> tuple[pa.Table, str | None]:
        """The rows of an append with their link, and that link; an append without rows has none.

        `last`: the place of the writer's last commit in the opened version. Raises what reading a file raises.
        """
        if not len(rows):
            return rows.append_column(LINK, pa.array([], pa.string())), None
        place, previous = self._last.get((table, writer), (None, None))
        if place != last:
            previous = self._recorded(opened, table, writer) if last else None
        values: dict[str, Sequence[object]] = {
            name: rows[name].to_pylist() for name in rows.column_names if rows[name].null_count < len(rows)
        }
        keys = [values[name] for name in SORTED_BY.get(table, ()) if name in values]
        order = row_order(keys, len(rows))
        if order != list(range(len(rows))):
            in_order = itemgetter(*order)
            values = {name: in_order(of_column) for name, of_column in values.items()}
        link = link_of(table, previous, content_of(values))
        cells = pa.array([link if row == order[0] else None for row in range(len(rows))], pa.string())
        return rows.append_column(LINK, cells), link

    def committed(self, table: str, writer: str, place: int, link: str | None) -> None:
        """An append with that link was committed: the next one follows it."""
        if link is not None:
            self._last[table, writer] = place, link

    def _recorded(self, opened: DeltaTable, table: str, writer: str) -> str | None:
        """The link of the writer's last append with rows; None: it has none."""
        place, link = _last_in_files(opened, writer)
        return link or self._archived(table, writer, place)

    def _archived(self, table: str, writer: str, place: int) -> str | None:
        """The same of a writer whose last rows have left into an archive, or stay without their links."""
        operations = newest_version(self._path, OPERATIONS.name)
        rows = filtered_rows(
            relation_of(operations, OPERATIONS.name), [("kind", "=", str(OperationKind.FACTS_ARCHIVED))]
        )
        for period in reversed(archived_periods(rows)):
            for end in period.ends:
                if (end.fact_table, end.writer) == (table, writer):
                    return end.link if place_of(end.writer_epoch, end.round) >= place else None
        return None


def _last_in_files(opened: DeltaTable, writer: str) -> tuple[int, str | None]:
    """The place of a writer's last rows in a version, and their link; -1: it has none. Few files are read."""
    place, link = -1, None
    files = [(_bound(file), file) for file in file_stamps(opened) if _may_have(file, writer)]
    folder = TableFolder(opened.table_uri)
    for bound, file in sorted(files, key=lambda one: one[0], reverse=True):
        if bound < place:
            break
        with folder.readable([file.path]) as [path], pq.ParquetFile(path) as parquet:
            rows = parquet.read(columns=[*STAMPED, LINK])
        for row in rows.to_pylist():
            at = place_of(row["writer_epoch"], row["round"])
            if row["writer"] == writer and (at > place or (at == place and row[LINK] is not None)):
                place, link = at, row[LINK]
    return place, link


def _may_have(file: FileStamps, writer: str) -> bool:
    return file.writers is None or file.writers[0] <= writer <= file.writers[1]


def _bound(file: FileStamps) -> float:
    """No row of a file has a later place."""
    if file.last_epoch is None or file.last_round is None:
        return math.inf
    return place_of(file.last_epoch, file.last_round)
