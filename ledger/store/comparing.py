"""Compares a copy of a ledger with the ledger, and with itself: whether it has the same rows and the files that it had.

Files of the ledger may have been merged since, so tables are compared by their rows at the cut of the copy.
"""

from dataclasses import dataclass

from ledger.errors import DamagedLedgerError, PreconditionError
from ledger.facts.tables import TABLES
from ledger.store.ledger_copy import CopiedFile, LedgerCopy, copy_at
from ledger.store.places import Place
from ledger.store.snapshots import DeltaLedger, DeltaSnapshot
from ledger.store.sql import connected, register

_ROWS = "select count(*), coalesce(sum(hash(wanted)::hugeint), 0) from wanted"


@dataclass(frozen=True, slots=True)
class TableCompared:
    """A table of a copy: its `rows` there, and those that the ledger has at the copy's cut.

    `damaged`: files that are missing or not as they were when they were read back, of `files`. `rows` None: they
    cannot be read, for a file of them is damaged.
    """

    table: str
    rows: int | None
    ledger_rows: int
    files: int
    damaged: int
    differs: bool


def compare_copy(path: str, to: str) -> tuple[LedgerCopy, list[TableCompared]]:
    """The tables of a copy of the ledger at `path`, each compared; nothing is written.

    Raises `PreconditionError` where no copy lies at `to`, `UsageError` where the ledger does not hold its cut, and
    `LedgerUnavailableError` where either cannot be read.
    """
    copy = copy_at(to)
    if copy is None:
        raise PreconditionError(f"{to} is no copy of a ledger; nothing was compared")
    ledger = DeltaLedger(path).as_of(copy.cut, now_ms=0)
    try:
        copied = DeltaLedger(to).as_of(copy.cut, now_ms=0)
    except DamagedLedgerError:  # which file it is, is found below; the other tables are compared as they are
        copied = DeltaLedger(to).now()
    return copy, [_compared(table.name, copy, Place(to), ledger, copied) for table in TABLES]


def _compared(
    table: str, copy: LedgerCopy, place: Place, ledger: DeltaSnapshot, copied: DeltaSnapshot
) -> TableCompared:
    files = copy.tables[table].files if table in copy.tables else {}
    damaged = sum(not _is_as_it_was(place, name, file) for name, file in files.items())
    rows, digest = _rows(ledger, table)
    own_rows, own_digest = (None, None) if damaged else _rows(copied, table)
    differs = bool(damaged) or (own_rows, own_digest) != (rows, digest)
    return TableCompared(table, own_rows, rows, len(files), damaged, differs)


def _is_as_it_was(place: Place, name: str, file: CopiedFile) -> bool:
    return place.is_there(name) and place.digest(name) == file.sha256


def _rows(at: DeltaSnapshot, table: str) -> tuple[int, int]:
    """How many rows, and the sum of their hashes: the same in whatever order and files they lie."""
    with connected() as connection:
        register(connection, "wanted", at.counted_relation(table))
        [(rows, digest)] = connection.execute(_ROWS).fetchall()
    return int(rows), int(digest)
