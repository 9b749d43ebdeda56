"""Periods whose facts have left the ledger into an archive, as it is recorded."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ledger.facts.operations import OperationContent, OperationKind
from ledger.facts.tables import Row, place_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTable:
    """A table of an archive: its `files` and `rows` there, and of these the rows that `stay` in the ledger."""

    table: str
    files: int
    rows: int
    stay: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedEnd:
    """The last append of a writer to a table that is in an archive, with its link."""

    fact_table: str
    writer: str
    writer_epoch: int
    round: int
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsArchived(OperationContent):
    """The facts of a period lie in an archive, and are about to leave the ledger ("Periods that leave").

    By `mirror-ledger maintain`, once for each period; of two for one archive the first counts. `flow` is null.

    Keys: `archive` (where that lies), `from_ms` (when the first fact of the period was recorded), `until_ms` (before
    that all of them were), `cut` (token of what the archive has), `root` (SHA-256 over the names, sizes and SHA-256 of
    the files of rows there), `tables`: `table`, `files`, `rows` (there), `stay` (rows that are in their place then)
    each; `ends`: `fact_table`, `writer`, `writer_epoch`, `round` (the last append in the archive), `link` (that of
    it) each.
    """

    kind: ClassVar = OperationKind.FACTS_ARCHIVED
    archive: str
    from_ms: int
    until_ms: int
    cut: str
    root: str
    tables: Sequence[ArchivedTable]
    ends: Sequence[ArchivedEnd]

    def places_of(self, table: str) -> dict[str, int]:
        """By writer the place of its last append to a table that is in the archive."""
        return {
            end.writer: place_of(end.writer_epoch, end.round) for end in self.ends if end.fact_table == table
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsLeft(OperationContent):
    """The facts of a period have left the ledger, all of them.

    By `mirror-ledger maintain`, with the operation id of `facts_archived`; without this row some tables may have them
    still. `flow` is null.

    Keys: `archive` (where they lie), `rows` (by table how many the process took out that ended it), `stay` (by table a
    hash of the rows that are in their place, see "Links").
    """

    kind: ClassVar = OperationKind.FACTS_LEFT
    archive: str
    rows: Mapping[str, int]
    stay: Mapping[str, str]


def archived_periods(rows: Iterable[Row]) -> list[FactsArchived]:
    """Those of rows of `operations`, in the order of their periods."""
    found: dict[str, FactsArchived] = {}
    for row in rows:
        if row["kind"] == FactsArchived.kind:
            one = FactsArchived.of_row(row)
            found.setdefault(one.archive, one)
    return sorted(found.values(), key=lambda one: one.until_ms)


def unended(rows: Iterable[Row]) -> tuple[str, FactsArchived] | None:
    """The last of these periods, with its operation id, where its facts have not all left; None: they have."""
    of_period = [row for row in rows if row["kind"] in (FactsArchived.kind, FactsLeft.kind)]
    ended = {FactsLeft.of_row(row).archive for row in of_period if row["kind"] == FactsLeft.kind}
    for period in archived_periods(of_period)[-1:]:
        if period.archive not in ended:
            ids = [
                row["operation_id"]
                for row in of_period
                if row["kind"] == FactsArchived.kind and FactsArchived.of_row(row) == period
            ]
            return str(ids[0]), period
    return None
