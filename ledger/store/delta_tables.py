"""Creates the ledger's tables; the protocol features and properties of each are fixed here."""

import json
import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from ledger.errors import (
    DamagedLedgerError,
    InvalidValueError,
    LedgerUnavailableError,
    MirrorLedgerError,
    PreconditionError,
    SetupError,
    Trouble,
)
from ledger.facts.links import LINK
from ledger.facts.tables import (
    FORMAT_PROPERTY,
    KEEP_SUPERSEDED_HOURS,
    LEDGER_FORMAT,
    TABLES,
    WRITERS,
    Table,
)
from ledger.store.damage import (
    damaged,
    damaged_entries,
    error_of,
    is_of_a_library,
    local_folder,
    log_file,
    reported,
    sync_entries,
    sync_table,
    unreadable,
    words_of,
)
from ledger.store.ledger_copy import LedgerCopy, copy_at, require_no_copy

log = logging.getLogger(__name__)

# Arrow schema -------------------------------------------------------------------------------------
# Arrow schemas of the ledger's tables, derived from the type words of `ledger.facts.tables`.


_SCALARS = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
}


def arrow_type(type_: str) -> pa.DataType:
    """The Arrow type of a Spark SQL type name: a scalar, `array<...>` or `struct<name:type,...>`."""
    if type_ in _SCALARS:
        return _SCALARS[type_]
    if type_.startswith("array<") and type_.endswith(">"):
        return pa.list_(pa.field("element", arrow_type(type_[len("array<") : -1])))
    if type_.startswith("struct<") and type_.endswith(">"):
        members = (text.partition(":") for text in _split(type_[len("struct<") : -1]))
        return pa.struct([pa.field(name, arrow_type(member)) for name, _, member in members])
    raise InvalidValueError(f"no Arrow type for {type_!r}; known: {', '.join(_SCALARS)}, array<>, struct<>")


@cache
def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of a table, columns in the order of `ledger.facts.tables`."""
    return pa.schema(
        [pa.field(column.name, arrow_type(column.type), nullable=column.nullable) for column in table.columns]
    )


@cache
def stored_schema(table: Table) -> pa.Schema:
    """The same with the column of links, which is in the files of a table and which nothing but `store.links` reads."""
    return arrow_schema(table).append(pa.field(LINK, pa.string()))


def in_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns that a schema names, in its order and of its types."""
    # Arrow's cast of a table imports what it computes with, whether or not anything is to be cast.
    found = ((rows.column(field.name), field.type) for field in schema)
    columns = [column if column.type == type_ else column.cast(type_) for column, type_ in found]
    return pa.Table.from_arrays(columns, schema=schema)


def _split(text: str) -> list[str]:
    """Split at the commas that are outside of angle brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def arrow_rows(table: Table, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Rows that name every column of a table, as Arrow has them.

    Raises `InvalidValueError` for a row that names others: Arrow would leave out what it does not know, and take
    for null what is missing.
    """
    names = set(table.column_names)
    for row in rows:
        if wrong := sorted(names ^ row.keys()):
            raise InvalidValueError(
                f"a row of {table.name} must name its columns; {', '.join(wrong)} missing or unknown; "
                "nothing was appended"
            )
    return pa.Table.from_pylist([dict(row) for row in rows], schema=arrow_schema(table))


# Tables -------------------------------------------------------------------------------------------


RECORDED_AT = "recorded_at_ms"
STATISTICS = ("writer", "writer_epoch", "round", "recorded_at_ms")
"""Columns of which the log has the least and the greatest value for each file: those of the stamp.

With all columns an entry is 2.8 kB and a checkpoint grows by 2 kB for each file of a driver; with these 1 kB.
"""
RESTORED_AS = "mirrorLedger.restored"
"""Property of every table of a ledger that was restored from a copy: the operation that says so."""
_REMEMBERED_HOURS = 1
"""So much longer the log remembers which files were superseded: until they are removed."""
_PROPERTIES = {
    "delta.appendOnly": "true",
    "delta.checkpointInterval": "100",  # every ten, an append in ten takes more than a second
    FORMAT_PROPERTY: str(LEDGER_FORMAT),
}
_IN_A_STORE = {"delta.checkpointInterval": "25"}
"""To open a table there is a request for each entry of its log behind the checkpoint."""

_CREATED = sorted(TABLES, key=lambda table: table is WRITERS)
"""`writers` is created last: where it is, a ledger has all tables."""
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|[\\\[\]\x00-\x1f\x7f]")


def table_uri(path: str, table: str) -> str:
    """The folder of a table of the ledger at `path`."""
    return f"{path.rstrip('/')}/{table}"


def is_table(uri: str) -> bool:
    """Whether a table is there; a store that does not say so is an error."""
    with reported(f"{uri} cannot be read", uri):
        return DeltaTable.is_deltatable(uri)


def upkeep_properties(keep_hours: int) -> dict[str, str]:
    """The table properties that say what maintenance may remove, and what each entry of the log says of a file."""
    return {
        "delta.logRetentionDuration": f"interval {keep_hours} hours",
        "delta.deletedFileRetentionDuration": f"interval {keep_hours + _REMEMBERED_HOURS} hours",
        "delta.dataSkippingStatsColumns": ",".join(STATISTICS),
    }


def settle_properties(path: str, table: str, *, keep_hours: int, now_ms: int) -> bool:
    """Give a table the properties of its upkeep; returns whether it had others.

    An append that is under way at that moment is refused and made again by its writer. Of two that set them at once
    one may be refused: raises `MirrorLedgerError` when the table does not have them afterwards.
    """
    return _settle(table_uri(path, table), upkeep_properties(keep_hours), now_ms)


def mark_restored(path: str, table: str, operation_id: str, *, now_ms: int) -> None:
    """Let a table be that of another ledger for whoever claimed a role in it before."""
    _settle(table_uri(path, table), {RESTORED_AS: operation_id}, now_ms)


def _settle(uri: str, wanted: Mapping[str, str], now_ms: int) -> bool:
    """Give a table properties; returns whether it had others."""
    opened = opened_at(uri)
    if _has_properties(opened, wanted):
        return False
    before = opened.version()
    try:
        opened.alter.set_table_properties(
            dict(wanted), raise_if_not_exists=False, commit_properties=_commit_properties(now_ms)
        )
    except (DeltaError, OSError) as error:
        opened = opened_at(uri)
        if not _has_properties(opened, wanted):
            raise MirrorLedgerError(f"properties of {uri} cannot be set: {words_of(error)}") from error
    sync_entries(uri, after=before, until=opened.version())
    return True


def _has_properties(opened: DeltaTable, wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= opened.metadata().configuration.items()


def create_tables(path: str, *, now_ms: int, keep_hours: int = KEEP_SUPERSEDED_HOURS) -> list[str]:
    """Create the tables of a ledger, also those that an interrupted creation left out; returns their names.

    Existing tables keep the properties that they have; their maintenance changes them.

    Raises before anything is created when one that exists is not of this program's format, when a table of a ledger is
    missing, and where no folder is to be made.
    """
    _require_place(path)
    require_no_copy(path)
    for table in TABLES:
        if (why := unreadable(table_uri(path, table.name))) is not None:
            raise SetupError(f"{why}; nothing was created", trouble=Trouble.LEDGER)
    is_complete = is_table(table_uri(path, WRITERS.name))  # asked first: another process may create them now
    missing = [table for table in _CREATED if not is_table(table_uri(path, table.name))]
    for table in _CREATED:
        if table not in missing:
            open_table(path, table.name)
        elif is_complete or (table is WRITERS and _has_rows(path, missing)):
            raise _removed(path, table.name)
    created = [table.name for table in missing if _create(path, table, now_ms, keep_hours)]
    return sorted(created, key=[table.name for table in TABLES].index)


def _has_rows(path: str, missing: Sequence[Table]) -> bool:
    """Whether anything was appended to one of the tables that are there: who creates a ledger comes to none of that."""
    there = [table.name for table in TABLES if table not in missing]
    return any(opened_at(table_uri(path, name)).version() > 0 for name in there)


def _require_place(path: str) -> None:
    """Raise where the folder of a ledger is not to be made: only what was meant to be there may be written into."""
    require_plain(path)
    folder = local_folder(path)
    if folder is not None and not folder.parent.is_dir():
        raise SetupError(
            f"{folder.parent} is no folder: the ledger is to be in {folder}; nothing was created. Mount what belongs "
            f"there, correct [ledger] path, or create it: mkdir -p {folder.parent}",
            trouble=Trouble.LEDGER,
        )


def require_plain(path: str) -> None:
    """Raise `SetupError` for a folder whose name Delta's library takes for another one."""
    if local_folder(path) is not None and (found := _MISREAD.search(path)) is not None:
        raise SetupError(
            f"the folder of a ledger cannot have {found[0]!r} in its path, which the library of Delta reads otherwise: "
            f"{path!r}; nothing was read or written. Correct [ledger] path",
            trouble=Trouble.LEDGER,
        )


def open_table(path: str, table: str, copy: LedgerCopy | None = None) -> DeltaTable:
    """The newest version of a table, after a check that it is one of a ledger that this program can read and write.

    `copy`: what lies there, where it is a copy; then it is the version that was copied.
    Raises `SetupError` where there is no such table, and `PreconditionError` for another format: what its rows mean
    only another program knows.
    """
    uri = table_uri(path, table)
    try:
        with reported(f"{uri} cannot be read", uri):
            opened = newest_version(path, table) if copy is None else _copied(path, table, copy)
            _check_format(path, table, opened)
    except LedgerUnavailableError as error:
        if isinstance(error.__cause__, TableNotFoundError) and not isinstance(error, DamagedLedgerError):
            raise _no_ledger(path, table) from error.__cause__
        raise
    return opened


def newest_version(path: str, table: str) -> DeltaTable:
    """The same without a check, as deltalake opens it: raises its errors, `TableNotFoundError` among them.

    It may be the object that an earlier call gave, as long as the log has no later version: it is for reading alone.

    Raises `DamagedLedgerError` where the ledger is there and the table is missing: a folder that is away has none.
    """
    if (copy := copy_at(path)) is not None:
        return _copied(path, table, copy)
    try:
        return _kept(table_uri(path, table))
    except TableNotFoundError:
        if table != WRITERS.name and is_table(table_uri(path, WRITERS.name)):
            raise _removed(path, table) from None
        raise


def _copied(path: str, table: str, copy: LedgerCopy) -> DeltaTable:
    """A table of a copy at the version that was copied."""
    if copy.words not in _read_copies:
        _read_copies.add(copy.words)
        log.warning("%s", copy.words)
    return _at_version(table_uri(path, table), copy.tables[table].version, str(copy.cut))


_read_copies: set[str] = set()
"""Those of which was said that they are copies."""


@lru_cache(maxsize=64)
def _at_version(uri: str, version: int, _cut: str) -> DeltaTable:
    return opened_at(uri, version)


def _removed(path: str, table: str) -> DamagedLedgerError:
    folder = table_uri(path, table)
    return DamagedLedgerError(
        f"the ledger has had a table {table}, and {folder} is missing, with all that was recorded in it; nothing was "
        "read or written. Put that folder back from a copy of the ledger's folder"
    )


def reopen(path: str, table: str) -> DeltaTable:
    """The newest version as its log says now, for reading alone; who asks for it next is given the same."""
    uri = table_uri(path, table)
    opened = opened_at(uri)
    _keep(uri, opened)
    return opened


def opened_at(uri: str, version: int | None = None) -> DeltaTable:
    """A table at a version (None: its newest one), for one's own use; an entry of its log that is no commit is damage.

    Raises what deltalake raises, and `DamagedLedgerError`; where it panics `LedgerUnavailableError`.
    """
    require_plain(uri)
    with _without_panics(uri):
        opened = DeltaTable(uri) if version is None else DeltaTable(uri, version=version)
    _require_whole(opened, uri)
    return opened


def _require_whole(opened: DeltaTable, uri: str) -> None:
    folder = local_folder(uri)
    if folder is not None:
        known = _whole_entries.get(uri)
        found_id, version = table_id(opened), opened.version()
        after = known[1] if known is not None and known[0] == found_id and known[1] <= version else -1
        if found := list(damaged_entries(folder, after=after, until=version)):
            raise damaged(found, "nothing was read or written")
        _whole_entries[uri] = found_id, version


def table_id(opened: DeltaTable) -> str:
    """What Delta calls a table by: a folder that was created again has another."""
    return str(opened.metadata().id)


def identity_of(opened: DeltaTable) -> str:
    """What tells a table from that of another ledger, and from the one that it was restored from a copy of."""
    restored = opened.metadata().configuration.get(RESTORED_AS)
    return table_id(opened) if restored is None else f"{table_id(opened)} restored by {restored}"


@contextmanager
def _without_panics(uri: str) -> Iterator[None]:
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if not is_of_a_library(error):
            raise
        raise error_of(error, f"{uri} cannot be read", [uri], "nothing was read or written") from error


_whole_entries: dict[str, tuple[str, int]] = {}
"""By table its id and the version up to which its entries were checked: they do not change."""


@dataclass(frozen=True, slots=True)
class _Version:
    """A version of a table on a disk, and what tells that it is still the newest one: reading a log takes 10 ms."""

    number: int
    entry: "_Entry"
    until_s: float

    @classmethod
    def of(cls, number: int, uri: str) -> "_Version | None":
        """None: nothing would tell it, of a table in a store, or of a version whose entry was cleaned away."""
        if "://" in uri:
            return None
        with suppress(OSError):
            return cls(number, _entry(uri, number), time.monotonic() + _KEPT_SECONDS)
        return None

    def is_there(self, uri: str) -> bool:
        """Whether it is one of the table's still, and entries behind it tell of all that was committed since."""
        with suppress(OSError):
            return _entry(uri, self.number) == self.entry and time.monotonic() < self.until_s
        return False

    def is_newest(self, uri: str) -> bool:
        """Versions follow each other: there is a later one only where there is the next."""
        return self.is_there(uri) and not (Path(uri) / log_file(self.number + 1)).exists()


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A table on a disk at a version."""

    table: DeltaTable
    at: _Version

    @classmethod
    def of(cls, table: DeltaTable, uri: str) -> "OpenedTable | None":
        at = _Version.of(table.version(), uri)
        return None if at is None else cls(table, at)

    def is_newest(self, uri: str) -> bool:
        return self.at.is_newest(uri)

    def holds(self, uri: str, writer: str, number: int) -> bool:
        """Whether it is the newest one, and its entry, as it is on the disk, that append of the writer."""
        with suppress(*_NO_ENTRY):
            return self.is_newest(uri) and _appends_of(uri, self.at.number).get(writer) == number
        return False

    def read_on(self, uri: str) -> DeltaTable | None:
        """The table, at its newest version from now on; None where it has to be opened again to know that."""
        if self.is_newest(uri):
            return self.table
        if not self.at.is_there(uri):
            return None
        with suppress(DeltaError):
            self.table.update_incremental()
            _require_whole(self.table, uri)
            return self.table
        return None


_Entry = tuple[int, int, int]
_KEPT_SECONDS = 60.0
"""So soon no entry of a log is cleaned away. Later the next one could be removed and this one still be there."""
_MOST_KEPT = 64
_opened_tables: dict[str, OpenedTable] = {}
"""For reading, by who asks for them."""
_appended_to: dict[str, OpenedTable] = {}
"""For appending, by one at a time: who appends takes it out."""


def _kept(uri: str) -> DeltaTable:
    """A table at its newest version, opened now unless that is at hand."""
    kept = _opened_tables.get(uri)
    if kept is not None and kept.is_newest(uri):
        return kept.table
    opened = opened_at(uri)
    _keep(uri, opened)
    return opened


def _keep(uri: str, opened: DeltaTable) -> None:
    if len(_opened_tables) >= _MOST_KEPT:
        _opened_tables.clear()
    if (kept := OpenedTable.of(opened, uri)) is not None:
        _opened_tables[uri] = kept


def opened_to_append(uri: str) -> DeltaTable:
    """A table at its newest version for one append, which changes it; raises as `opened_at`.

    What the last append of this process has left, if there is one, is read on from there.
    """
    left = _appended_to.pop(uri, None)
    newest = None if left is None else left.read_on(uri)
    return opened_at(uri) if newest is None else newest


def keep_appended(uri: str, opened: DeltaTable) -> OpenedTable | None:
    """For the next append to a table, what an append to it has left; None of a table in a store."""
    left = OpenedTable.of(opened, uri)
    if left is not None:
        _appended_to[uri] = left
    return left


def _entry(uri: str, version: int) -> _Entry:
    """What tells the entry of a version from that of another table that was put in its place."""
    found = (Path(uri) / log_file(version)).stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


# Last appends -------------------------------------------------------------------------------------
# What a writer appended last is asked again and again, mostly where others have appended since: small entries of the
# log tell that.


def last_append(path: str, table: str, writer: str) -> tuple[str, int | None]:
    """The id of a table, and the number of the writer's last append, None: it has none; raises as `newest_version`."""
    uri = table_uri(path, table)
    with _asking:
        known = _last_appends.get(uri)
        is_followed = known is not None and known.follow(uri)
        if known is not None and is_followed and writer in known.numbers:
            return known.table_id, known.numbers[writer]
    opened = newest_version(path, table)
    found = table_id(opened), opened.transaction_version(writer)
    at = None if copy_at(path) is not None else _Version.of(opened.version(), uri)
    if at is not None:
        with _asking:
            if known is None or not is_followed:
                known = _last_appends[uri] = _LastAppends(found[0], at)
            if known.at.number <= at.number:  # else another thread has read on since
                known.numbers.setdefault(writer, found[1])
    return found


@dataclass(slots=True)
class _LastAppends:
    """By writer the number of its last append to a table as of the version `at`, None: it has none."""

    table_id: str
    at: _Version
    numbers: dict[str, int | None] = field(default_factory=dict)

    def follow(self, uri: str) -> bool:
        """Read the entries that are new; False where the table has to be opened again."""
        if not self.at.is_there(uri):
            return False
        number = self.at.number
        with suppress(*_NO_ENTRY):
            while (Path(uri) / log_file(number + 1)).exists():
                number += 1
                self.numbers |= _appends_of(uri, number)
            if (at := _Version.of(number, uri)) is not None:
                self.at = at
                return True
        return False


def _appends_of(uri: str, version: int) -> dict[str, int]:
    """By writer the number of its append in a version; raises `_NO_ENTRY` where its entry cannot be read."""
    lines = (Path(uri) / log_file(version)).read_text().splitlines()
    found = (json.loads(line).get("txn") for line in lines)
    return {one["appId"]: one["version"] for one in found if one is not None}


_NO_ENTRY = (OSError, ValueError, KeyError, AttributeError)
_asking = threading.Lock()
_last_appends: dict[str, _LastAppends] = {}


def _no_ledger(path: str, table: str) -> SetupError:
    if (why := unreadable(table_uri(path, table))) is not None:
        return SetupError(f"{why}; nothing was read", trouble=Trouble.LEDGER)
    return SetupError(
        f"{path} is not a ledger (no table {table} of one); nothing was read. Create one there with "
        "mirror-ledger init, or correct [ledger] path: a relative one begins at the configuration file's folder",
        trouble=Trouble.LEDGER,
    )


def _check_format(path: str, table: str, opened: DeltaTable) -> None:
    found = opened.metadata().configuration.get(FORMAT_PROPERTY)
    if found is None:
        raise _no_ledger(path, table)
    if found != str(LEDGER_FORMAT):
        raise PreconditionError(
            f"{path} is a ledger of format {found}, this program knows format {LEDGER_FORMAT} alone; nothing was "
            f"read or written. Use a version of this program that knows format {found}, or begin another ledger at "
            "another path: mirror-ledger init, then mirror-ledger adopt FLOW takes over what was mirrored",
            trouble=Trouble.LEDGER,
        )


def _create(path: str, table: Table, now_ms: int, keep_hours: int) -> bool:
    """Of several that create a table at once one does, and returns that it did.

    deltalake would commit the creation again as version 1, and with it another id: that of another ledger.
    """
    uri = table_uri(path, table.name)
    try:
        DeltaTable.create(
            uri,
            schema=stored_schema(table),
            name=table.name,
            description=f"one row per {table.row_per}",
            configuration={
                **_PROPERTIES,
                **(_IN_A_STORE if local_folder(uri) is None else {}),
                **upkeep_properties(keep_hours),
            },
            commit_properties=_commit_properties(now_ms, max_commit_retries=0),
            raise_if_key_not_exists=False,
        )
    except BaseException as error:
        if not is_of_a_library(error):
            raise
        if not is_table(uri):
            raise MirrorLedgerError(
                f"table {table.name} cannot be created at {uri}: {words_of(error)}; nothing was recorded"
            ) from error
        return False
    sync_table(uri)
    return True


def _commit_properties(now_ms: int, *, max_commit_retries: int | None = None) -> CommitProperties:
    return CommitProperties(custom_metadata={RECORDED_AT: str(now_ms)}, max_commit_retries=max_commit_retries)
