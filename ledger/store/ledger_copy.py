"""A copy of a ledger says that it is one, of which ledger and as of when: the file `ledger-copy.json` in its folder.

The file is replaced in one write when all of a copy is there, and says which version of each table is copied. Whoever
reads opens these versions, whatever lies in the folder besides: so a reader finds the copy as of the former cut or as
of the new one, wherever the process that copies dies. Nothing is appended to a copy; `ledger restore` makes a ledger
of one.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from ledger.errors import DamagedLedgerError, PreconditionError
from ledger.store.damage import local_folder
from ledger.store.places import Place
from ledger.words import instant

COPY_FILE = "ledger-copy.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file of a copy: its bytes, and the SHA-256 that it had when it was read back."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table of a copy: the id that Delta calls it by, the version that counts, its rows, and its files by name."""

    table_id: str
    version: int
    rows: int
    files: Mapping[str, CopiedFile]


@dataclass(frozen=True, slots=True)
class Restoration:
    """A ledger that is being made of a copy: `operation_id` of what will be recorded of it, and the first epoch that
    each writer is given (`epoch`): above all that the lost ledger can have given it."""

    operation_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class LedgerCopy:
    """What a copy says of itself.

    `ledger_id`: of the ledger that it is a copy of. `origin`: where that lay. `cut`: token of what had been appended,
    None: the first copying has not ended. `cut_at_ms`: when that was, by the clock of who copied. `superseded`: files
    that the cut needs no more, and since when. `restoration` not None: no copy any more, and no ledger yet.
    """

    ledger_id: str
    origin: str
    cut: str | None = None
    cut_at_ms: int | None = None
    tables: Mapping[str, CopiedTable] = field(default_factory=dict)
    superseded: Mapping[str, int] = field(default_factory=dict)
    restoration: Restoration | None = None

    @property
    def words(self) -> str:
        when = "no time yet" if self.cut_at_ms is None else instant(self.cut_at_ms)
        return f"a copy of ledger {self.ledger_id} ({self.origin}) as of {when}"

    @property
    def files(self) -> dict[str, CopiedFile]:
        """The files of all tables, by name."""
        return {name: file for table in self.tables.values() for name, file in table.files.items()}


def write_copy(place: Place, copy: LedgerCopy) -> None:
    place.write(COPY_FILE, [json.dumps({"format": _FORMAT, **asdict(copy)}, separators=(",", ":")).encode()])


def read_copy(path: str) -> LedgerCopy | None:
    """What a copy says of itself; None: there is none.

    Raises `DamagedLedgerError` where that cannot be understood, `PreconditionError` where a later program wrote it.
    """
    text = Place(path).text(COPY_FILE)
    return None if text is None else _parsed(text, path)


def _parsed(text: str, path: str) -> LedgerCopy:
    try:
        said: dict[str, Any] = json.loads(text)
        if (number := said.pop("format")) != _FORMAT:
            raise PreconditionError(
                f"{path} is a copy of a ledger in format {number}, this program knows {_FORMAT}; nothing was read or "
                "written. Use the version of this program that wrote it, or a later one"
            )
        said["tables"] = {name: _table(table) for name, table in said["tables"].items()}
        if said["restoration"] is not None:
            said["restoration"] = Restoration(**said["restoration"])
        return LedgerCopy(**said)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedLedgerError(
            f"{path}/{COPY_FILE} is not as copying leaves it ({type(error).__name__}: {error}); nothing was read or "
            "written. Copy the ledger to another place, or put that file back"
        ) from error


def _table(said: Mapping[str, Any]) -> CopiedTable:
    files = {name: CopiedFile(**file) for name, file in said["files"].items()}
    return CopiedTable(said["table_id"], said["version"], said["rows"], files)


# Who may read, and who may append -----------------------------------------------------------------


_ledgers_in_stores: set[str] = set()
"""Places in stores that were found to be no copies: a ledger never becomes one."""
_being_restored: set[str] = set()
"""Places that this process makes a ledger of."""


def copy_at(path: str) -> LedgerCopy | None:
    """The copy that lies at a place; None: a ledger, or nothing.

    Raises `PreconditionError` where neither is there to be read: what was begun there has not ended.
    """
    if path in _being_restored or path in _ledgers_in_stores:
        return None
    found = read_copy(path)
    if found is None:
        if local_folder(path) is None:
            _ledgers_in_stores.add(path)
        return None
    if found.restoration is not None:
        raise PreconditionError(
            f"a ledger is being restored at {path}, and that has not ended; nothing was read or written. Restore it "
            f"again, which continues: mirror-ledger ledger restore COPY --accept-loss-of {found.ledger_id} --reason WHY"
        )
    if found.cut is None:
        raise PreconditionError(
            f"{path} is a copy of ledger {found.ledger_id} whose first copying has not ended; nothing was read or "
            "written. Copy again, which continues: mirror-ledger ledger copy TO"
        )
    return found


def require_no_copy(path: str) -> None:
    """Raise `PreconditionError` where a copy lies: nothing is appended to one."""
    if (found := copy_at(path)) is not None:
        raise PreconditionError(
            f"{path} is {found.words}: nothing is appended to a copy; nothing was done. Use the ledger itself; where "
            "that is lost, make a ledger of the copy at another path: mirror-ledger ledger restore COPY "
            f"--accept-loss-of {found.ledger_id} --reason WHY"
        )


@contextmanager
def being_restored(path: str) -> Iterator[None]:
    """In here this process may append to what it makes a ledger of."""
    _being_restored.add(path)
    try:
        yield
    finally:
        _being_restored.discard(path)
