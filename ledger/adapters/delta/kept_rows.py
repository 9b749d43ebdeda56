"""Rows that were read are kept for the next read: that reads the files that are new since.

A file of a table never changes, so its rows are known once it was read. What is kept of files that are not in the
newest version any more, because they were merged or removed, is forgotten, and what took their place is read. So a
read has the rows of the newest version and no others, whatever any clock or round says.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ledger.adapters.duck.engine import ParquetFiles

Row = dict[str, Any]


@dataclass(slots=True)
class KeptRows:
    """Of one table the rows that pass one set of filters, by the files that were read together."""

    _read: dict[frozenset[str], list[Row]] = field(default_factory=dict)

    def of(self, files: ParquetFiles, read: Callable[[ParquetFiles], list[Row]]) -> list[Row]:
        """All rows of these files; `read` is asked for those of files that are new, if there are any."""
        current = frozenset(files.paths)
        kept = {paths: rows for paths, rows in self._read.items() if paths <= current}
        if new := current.difference(*kept):
            kept[new] = read(replace(files, paths=tuple(sorted(new))))
        self._read = kept  # as a whole: of two threads that read at once one reads in vain
        return [row for rows in kept.values() for row in rows]
