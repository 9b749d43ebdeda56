"""Copies a ledger to a second place, a folder or a store, while drivers and recorders append to it.

What is copied is one instant of all tables: after each was opened none of them had a later version. Files of rows come
first, then checkpoints and entries of the logs, in their order; last the file that says that it is a copy, which names
the versions that count. So whoever reads, and whoever restores, finds the former cut or the new one, whole, wherever
the process died; the next one continues with what is lacking.

A file of a table never changes, so what a copy has already is not sent again. Each file is read back when it was sent,
and its SHA-256 kept. Projections are not copied: they are made from the facts.
"""

import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace

from deltalake import DeltaTable

from ledger.clock import HOUR_MS, Clock
from ledger.errors import LedgerUnavailableError, PreconditionError, SetupError, Trouble, UsageError
from ledger.facts.tables import TABLES
from ledger.store.damage import CHECKPOINT, ENTRY, LOG, local_folder, log_file, numbers, reported
from ledger.store.delta_tables import open_table, opened_at, require_plain, table_id, table_uri
from ledger.store.heads import anchor_of, keep_heads
from ledger.store.ledger_copy import (
    CopiedFile,
    CopiedTable,
    LedgerCopy,
    read_copy,
    require_no_copy,
    write_copy,
)
from ledger.store.places import Place, send
from ledger.store.relations import relation_of, row_count
from ledger.store.snapshots import DeltaLedger, OpenedTables

_INSTANT_WITHIN_S = 60.0
_LISTED_AGAIN = 3


@dataclass(frozen=True, slots=True)
class TableCopied:
    """What became of a table: its `version`, `rows` and `files` in the copy; of the files those that were `sent` now,
    and `removed`: what the copy needs no more."""

    table: str
    version: int
    rows: int
    files: int
    sent: int
    sent_bytes: int
    removed: int = 0


# One instant --------------------------------------------------------------------------------------


def opened_at_one_instant(
    path: str, monotonic: Callable[[], float] = time.monotonic
) -> dict[str, DeltaTable]:
    """All tables of a ledger as they were at one instant.

    A table is opened again as long as any of them has a later version than the opened one. Raises
    `LedgerUnavailableError` when that is so for a minute, and where a table cannot be read.
    """
    deadline = monotonic() + _INSTANT_WITHIN_S
    opened = {table.name: _opened(path, table.name) for table in TABLES}
    while later := [name for name, table in opened.items() if _has_later(path, name, table)]:
        if monotonic() >= deadline:
            raise LedgerUnavailableError(
                f"{', '.join(later)} of {path} got a later version whenever all tables had been opened, for "
                f"{_INSTANT_WITHIN_S:g} s: there was no instant of all of them; nothing was copied. Start it again"
            )
        opened.update({name: _opened(path, name) for name in later})
    return opened


def _opened(path: str, table: str) -> DeltaTable:
    open_table(path, table)  # with its checks
    uri = table_uri(path, table)
    with reported(f"{uri} cannot be read", uri):
        return opened_at(uri)


def _has_later(path: str, table: str, opened: DeltaTable) -> bool:
    return Place(path).is_there(_name(table, opened.version() + 1))


def _name(table: str, version: int, ending: str = ENTRY) -> str:
    return f"{table}/{log_file(version, ending)}"


# Files of a version -------------------------------------------------------------------------------


def files_of(place: Place, table: str, opened: DeltaTable) -> dict[str, int]:
    """The files that a version of a table is: of rows, then of its log, in the order in which they are to be copied;
    with their bytes.

    Raises `LedgerUnavailableError` where entries of the log are missing.
    """
    actions = opened.get_add_actions()
    rows = dict(zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True))
    for _ in range(
        _LISTED_AGAIN
    ):  # a checkpoint may be made, and what lies before it removed, between two names
        if (log := _log_of(place.sizes(f"{table}/{LOG}"), table, opened.version())) is not None:
            return {**{f"{table}/{name}": int(size) for name, size in rows.items()}, **log}
    raise LedgerUnavailableError(
        f"the log of {place.uri}/{table} lacks entries up to version {opened.version()}, which was read from it; "
        "nothing of it was copied. Start it again"
    )


def _log_of(listed: Mapping[str, int], table: str, version: int) -> dict[str, int] | None:
    """The last checkpoint that the version has, and the entries behind it; None: one is missing.

    The entry of the checkpoint's own version comes along where there is one: without it Delta on Spark opens the newest
    version alone, and no other by its number.
    """
    begins = max((number for number in numbers(listed, CHECKPOINT) if number <= version), default=None)
    wanted = [] if begins is None else [_name(table, begins, CHECKPOINT)]
    if begins is not None and _name(table, begins) in listed:
        wanted.append(_name(table, begins))
    wanted += [_name(table, number) for number in range(0 if begins is None else begins + 1, version + 1)]
    return {name: listed[name] for name in wanted} if listed.keys() >= set(wanted) else None


# Copying ------------------------------------------------------------------------------------------


def copy_ledger(
    path: str, to: str, *, keep_hours: int, clock: Clock, progress: Callable[[str], None]
) -> tuple[LedgerCopy, list[TableCopied]]:
    """Bring a copy of the ledger at `path` up to date, or begin one; returns what it says of itself, and what was done.

    `keep_hours`: for how long what is superseded stays in the copy, for who reads it meanwhile.

    Raises `PreconditionError` where something else lies at `to` than a copy of this ledger and of this history of it,
    and where `path` is a copy itself; `UnsafeError` where the copy's heads are of appends that the ledger lacks;
    `LedgerUnavailableError` where either place cannot be read or written: then the
    copy is as it was, and what was sent counts for the next try.
    """
    require_no_copy(path)
    target = _target(path, to)
    opened = opened_at_one_instant(path)
    now_ms = clock.now_ms()
    tables = OpenedTables(path, dict(opened))
    former = _former(tables, target, path)
    cut = tables.cut.token
    copied, done = {}, []
    for name, table in opened.items():
        copied[name], table_done = _copy_table(Place(path), target, name, table, former)
        done.append(table_done)
        progress(f"{name}: {table_done.sent} of {table_done.files} files sent")
    new = replace(former, origin=path, cut=cut, cut_at_ms=now_ms, tables=copied)
    new = replace(new, superseded=_superseded(target, new, former, now_ms))
    keep_heads(target.uri, anchor_of(tables, now_ms=now_ms))
    write_copy(target, new)
    removed = _remove(target, new, before_ms=now_ms - keep_hours * HOUR_MS)
    return new, [replace(one, removed=removed.get(one.table, 0)) for one in done]


def _target(path: str, to: str) -> Place:
    folder, own = local_folder(to), local_folder(path)
    if (folder is not None and own is not None and folder.absolute() == own.absolute()) or to.rstrip(
        "/"
    ) == path:
        raise PreconditionError(f"{to} is where the ledger itself lies; nothing was copied")
    require_parent(to, "the copy")
    return Place(to if folder is None else str(folder.absolute()))


def require_parent(path: str, what: str) -> None:
    """Raise `SetupError` where no folder is to be made: what was to be mounted there is not."""
    require_plain(path)
    folder = local_folder(path)
    if folder is not None and not folder.absolute().parent.is_dir():
        raise SetupError(
            f"{folder.parent} is no folder: {what} is to be in {folder}; nothing was copied. Mount what belongs there, "
            f"or create it: mkdir -p {folder.parent}",
            trouble=Trouble.LEDGER,
        )


def _former(tables: OpenedTables, target: Place, path: str) -> LedgerCopy:
    """What lies there of this ledger; begun now where nothing does."""
    found = read_copy(target.uri)
    if found is None:
        if any(target.sizes(f"{table.name}/{LOG}") for table in TABLES):
            raise PreconditionError(
                f"at {target.uri} lies a ledger, which is no copy; nothing was copied. Copy to another place"
            )
        found = LedgerCopy(ledger_id=tables.ledger_id, origin=path)
        write_copy(target, found)
    if found.restoration is not None:
        raise PreconditionError(f"a ledger is being restored at {target.uri}; nothing was copied")
    if found.ledger_id != tables.ledger_id:
        raise PreconditionError(
            f"{target.uri} is {found.words}, and the ledger at {path} is {tables.ledger_id}; nothing was copied. Copy "
            "to another place"
        )
    if found.cut is not None:
        _require_same_history(path, found)
    return found


def _require_same_history(path: str, copy: LedgerCopy) -> None:
    """Raise where the ledger does not have what was copied of it: it is an older one, or went another way since."""
    try:
        DeltaLedger(path).as_of(copy.cut, now_ms=0)
    except UsageError as error:
        raise PreconditionError(
            f"the copy has what the ledger at {path} does not have: {error}; nothing was copied. Copy to another place"
        ) from error


def _copy_table(
    source: Place, target: Place, name: str, opened: DeltaTable, former: LedgerCopy
) -> tuple[CopiedTable, TableCopied]:
    """Send what is lacking of a version of a table; the log comes last, in its order."""
    known = former.tables[name].files if name in former.tables else {}
    there = target.sizes_of_table(name)
    files: dict[str, CopiedFile] = {}
    sent = sent_bytes = 0
    for file, size in files_of(source, name, opened).items():
        if file in known and there.get(file) == size == known[file].size:
            files[file] = known[file]
            continue
        if there.get(file) == size and (digest := target.digest(file)) == source.digest(file):
            files[file] = CopiedFile(size, digest)  # sent by a process that died
            continue
        files[file] = CopiedFile(size, send(source, file, target))
        sent, sent_bytes = sent + 1, sent_bytes + size
    version = opened.version()
    _remove_strange_checkpoints(target, name, files, version)
    rows = row_count(relation_of(opened, name))
    copied = CopiedTable(table_id(opened), version, rows, files)
    return copied, TableCopied(name, version, rows, len(files), sent, sent_bytes)


def _remove_strange_checkpoints(target: Place, table: str, files: Container[str], version: int) -> None:
    """Of a copying that died, from a history of the ledger that was lost since: a reader would begin with them."""
    listed = target.sizes(f"{table}/{LOG}")
    begins = max(
        (number for number in numbers(listed, CHECKPOINT) if _name(table, number, CHECKPOINT) in files),
        default=-1,
    )
    for number in numbers(listed, CHECKPOINT):
        if begins < number <= version:
            target.delete(_name(table, number, CHECKPOINT))


def _superseded(target: Place, new: LedgerCopy, former: LedgerCopy, now_ms: int) -> dict[str, int]:
    """What lies in the copy and its cut needs no more, with since when: also what a process left that died."""
    needed = new.files
    there = [name for table in TABLES for name in target.sizes_of_table(table.name)]
    return {name: former.superseded.get(name, now_ms) for name in there if name not in needed}


def _remove(target: Place, copy: LedgerCopy, *, before_ms: int) -> dict[str, int]:
    """Remove what has been superseded for long enough; returns how many files of each table. What is named and missing
    is named no more by the next copying."""
    removed: dict[str, int] = {}
    for name, since_ms in copy.superseded.items():
        if since_ms <= before_ms:
            target.delete(name)
            table = name.partition("/")[0]
            removed[table] = removed.get(table, 0) + 1
    return removed
