"""What was read of tables is kept for who asks again: rows by the files that they are from, answers by versions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from ledger.facts.operations import OperationKind
from ledger.facts.tables import Filter
from ledger.store.relations import arrow_rows, filtered_rows, passing_rows
from ledger.store.sql import CutRows, ParquetFiles, Relation

# Rows ---------------------------------------------------------------------------------------------
# Rows that were read are kept for the next read: that reads the files that are new since.
#
# A file of a table never changes, so its rows are known once it was read. What is kept of files that are
# not in the newest version any more, because they were merged or removed, is forgotten, and what took their
# place is read. So a read has the rows of the newest version and no others, whatever any clock or round
# says.


Row = dict[str, Any]


@dataclass(slots=True)
class KeptRows:
    """Of one table the rows that pass one set of filters, by the files that were read together."""

    _read: Mapping[frozenset[str], pa.Table] = field(default_factory=dict)

    def of(self, files: ParquetFiles, read: Callable[[ParquetFiles], pa.Table]) -> pa.Table:
        """All rows of these files; `read` is asked for those of files that are new, if there are any."""
        current = frozenset(files.paths)
        kept = {paths: rows for paths, rows in self._read.items() if paths <= current}
        if new := current.difference(*kept):
            kept[new] = read(replace(files, paths=tuple(sorted(new))))
        self._read = kept  # as a whole: of two threads that read at once one reads in vain
        return pa.concat_tables(kept.values())


_READ_ALONE = (OperationKind.PLAN, OperationKind.SHEET, OperationKind.APPLY_ALIVE)
"""Kinds of `operations` of which there may be many, or large ones, and for which few ask."""
_TOGETHER: Sequence[Filter] = [("kind", "not in", _READ_ALONE)]


@dataclass(slots=True)
class KeptOperations:
    """Rows of `operations`, of the newest version or of one cut: those of all kinds are read at once.

    A driver asks for requests before every round, a plan for a dozen kinds; each read of its own would open every file
    again.
    """

    _rows: KeptRows = field(default_factory=KeptRows)

    def of(self, relation: Relation, filters: Sequence[Filter]) -> list[Row]:
        """The rows that pass all filters, in no particular order; raises what DuckDB raises."""
        files = relation.rows if isinstance(relation, CutRows) else relation
        if not isinstance(files, ParquetFiles) or not _is_of_kept_kinds(filters):
            return filtered_rows(relation, filters)

        def read(new: ParquetFiles) -> pa.Table:
            return arrow_rows(
                replace(relation, rows=new) if isinstance(relation, CutRows) else new, _TOGETHER
            )

        return passing_rows(self._rows.of(files, read), filters)


def _is_of_kept_kinds(filters: Sequence[Filter]) -> bool:
    asked = [
        {value} if comparison == "=" else set(value)
        for column, comparison, value in filters
        if column == "kind" and comparison in ("=", "in")
    ]
    return any(kinds.isdisjoint(_READ_ALONE) for kinds in asked)


# Answers ------------------------------------------------------------------------------------------
# What was answered from versions of tables is the answer as long as none of them has a later version.


_KEPT_ANSWERS_ROWS = 10_000
"""So many rows of answers are kept at most: who asks about one partition after the other asks each once."""
Version = tuple[str, int | None]
"""The id of a table, and what was committed to it last."""
Versions = tuple[Version, ...]


@dataclass(slots=True)
class KeptAnswers:
    """By question the versions of the tables that were read for it, and the rows of its answer."""

    _kept: dict[str, tuple[Versions, list[Row]]] = field(default_factory=dict)

    def of(self, question: str, versions: Versions, answer: Callable[[], list[Row]]) -> list[Row]:
        """`versions` are opened before `answer` is asked: what it reads is not older."""
        known = self._kept.get(question)
        if known is None or known[0] != versions:
            known = versions, answer()
            others = {name: one for name, one in self._kept.items() if name != question}
            rows = sum(len(found) for _, found in (known, *others.values()))
            # As a whole: of two threads that ask at once one asks in vain.
            self._kept = {**others, question: known} if rows <= _KEPT_ANSWERS_ROWS else {}
        return list(known[1])
