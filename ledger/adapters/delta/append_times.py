"""When a writer last appended to a table, by what the log says of its files: few of them are read, or none.

Files of a driver or a recorder have rows of that writer alone, and the log says when the last one was recorded. Only a
file with rows of several writers, or of which the log does not say, may have to be read, and what was found is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from deltalake import DeltaTable

from ledger.adapters.delta.last_rows import file_stamps
from ledger.adapters.delta.snapshots import relation_of
from ledger.adapters.duck.engine import ParquetFiles
from ledger.adapters.duck.stamps import last_recorded_at_ms, last_recorded_of_each
from ledger.domain.tables.last_rows import FileStamps


@dataclass(slots=True)
class AppendTimes:
    """Of one writer in one table. What was found in a file is kept by the file's name: a file never changes."""

    table: str
    writer: str
    _told: dict[str, int | None] = field(default_factory=dict)

    def last_ms(self, opened: DeltaTable | None) -> int | None:
        """The latest time of its rows in this version; None: there is none. Raises what deltalake and DuckDB raise."""
        files = [] if opened is None else file_stamps(opened)
        told = {file.name: self._told[file.name] for file in files if file.name in self._told}
        known = [*told.values(), *(file.last_ms_of(self.writer) for file in files)]
        latest_ms = max((at_ms for at_ms in known if at_ms is not None), default=None)
        asked = [
            file for file in files if file.name not in told and file.may_tell_later(self.writer, latest_ms)
        ]
        if asked:
            relation = relation_of(opened, self.table)
            if not isinstance(relation, ParquetFiles):  # a table in a store: its files have no names here
                return last_recorded_at_ms(relation, self.writer)
            told |= self._read(relation, asked)
        self._told = told  # as a whole: of two threads that read at once one reads in vain
        return max((at_ms for at_ms in (latest_ms, *told.values()) if at_ms is not None), default=None)

    def _read(self, relation: ParquetFiles, asked: Sequence[FileStamps]) -> dict[str, int | None]:
        names = {file.name for file in asked}
        paths = tuple(path for path in relation.paths if path.rpartition("/")[2] in names)
        found = last_recorded_of_each(replace(relation, paths=paths), self.writer)
        return {path.rpartition("/")[2]: found.get(path) for path in paths}
