"""Random edits of a ledger's files by who owns its store, and whether an edit changes what anybody reads of it.

What is read is compared with what was read before, at every cut: by Delta's library, and by answers' way of reading.
Neither knows of links.
"""

import json
import os
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ledger.errors import MirrorLedgerError
from ledger.facts.cuts import Cut
from ledger.facts.tables import TABLE_BY_NAME
from ledger.store.appends import appends_until
from ledger.store.damage import is_of_a_library
from ledger.store.heads import Anchor, anchor_of
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import TableUpkeep
from ledger.store.merging import Merge, write_merged
from ledger.store.session import FLOW_TABLES, RECORDER_TABLES
from ledger.store.snapshots import DeltaSnapshot, OpenedTables
from ledger.store.sql import connected, register
from ledger.store.verifying import verify_ledger
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import claim_row, row, watermark
from tests.support.ledgers import claim_of

EDITED = ("high_watermarks", "offset_syncs", "operations")
LOG = "_delta_log"
_STAMP = {"writer", "writer_epoch", "round", "recorded_at_ms"}


@dataclass(frozen=True)
class Written:
    """A ledger, an older copy of its folder, the heads that were kept of it, and what is read of it at each cut."""

    path: Path
    older: Path
    anchor: Anchor
    now_ms: int
    times: tuple[int, ...]
    read: Mapping[str, object]


def written(folder: Path, empty: Path) -> Written:
    """Several writers and epochs; merged files and single ones, entries of the log on both sides of a checkpoint."""
    path, older, clock = folder / "ledger", folder / "older", FakeClock()
    shutil.copytree(empty, path)
    times = []
    for epoch in (1, 2, 3):
        log = DeltaFactLog(str(path), clock)
        recorder = log.claim("recorder:east", RECORDER_TABLES, {**claim_row("h"), "host": f"h{epoch}"})
        flow = log.claim("flow:f", FLOW_TABLES, {**claim_of("f"), "host": f"h{epoch}"})
        for number in (1, 2, 3):
            clock.now_s += 60
            end = epoch * 100 + number
            rows = [{**watermark(end), "topic": topic} for topic in ("z", "a", "z")]
            log.append(recorder, "high_watermarks", number, rows)
            log.append(flow, "offset_syncs", number, [_sync(end, partition) for partition in (1, 0)])
            log.append_next("operator", "operations", [_operation(end, one) for one in range(number)])
            times.append(clock.now_ms())
        if epoch == 1:
            for table in EDITED:
                _merge(str(path), table, clock)
                DeltaTable(str(path / table)).create_checkpoint()
        if epoch == 2:
            shutil.copytree(path, older)
    anchor = anchor_of(OpenedTables.of(str(path)), now_ms=clock.now_ms())
    at = tuple(times)
    return Written(path, older, anchor, clock.now_ms(), at, _read(path, at, EDITED))


def _merge(path: str, table: str, clock: FakeClock) -> None:
    """All files of a table but the last."""
    upkeep = TableUpkeep(path, table, clock, keep_hours=1)
    files, _ = upkeep.due()
    merge = Merge(tuple(files[:-1]), None)
    assert upkeep.put_in_place(files[:-1], write_merged(f"{path}/{table}", table, merge))


def _operation(end: int, number: int) -> dict[str, object]:
    whole = row(
        "operations", operation_id=f"{end}", kind="stop", operator="ann", content=f'{{"n": {number}}}'
    )
    return {name: value for name, value in whole.items() if name not in _STAMP}


def _sync(end: int, partition: int) -> dict[str, object]:
    whole = row(
        "offset_syncs",
        flow="f",
        source_topic="t",
        source_topic_id="T",
        source_partition=partition,
        target_topic_id="X",
        source_start=end,
        source_end=end + 1,
        gaps=[{"source_start": end, "source_end": end + 1, "cause": "control"}],
        kind="copied",
    )
    return {name: value for name, value in whole.items() if name not in _STAMP}


# What is read -------------------------------------------------------------------------------------


def _read(path: Path, times: Sequence[int], tables: Sequence[str]) -> dict[str, object]:
    """The rows of tables as Delta has them, as answers read them now, and at each time."""
    found: dict[str, object] = {}
    for table in tables:
        rows = DeltaTable(str(path / table)).to_pyarrow_table()
        names = [name for name in rows.column_names if name != "link"]
        found[f"{table} by Delta"] = sorted(map(repr, rows.select(sorted(names)).to_pylist()))
    for table in tables:
        opened = OpenedTables.of(str(path), (table,))
        for at_ms in (None, *times):
            at = DeltaSnapshot(opened)
            if at_ms is not None:
                last = appends_until(str(path), table, opened.table(table), at_ms)
                at = DeltaSnapshot(opened, Cut.of(opened.ledger_id, last), {table: at_ms})
            with connected() as connection:
                register(connection, "wanted", at.counted_relation(table))
                rows = connection.table("wanted").to_arrow_table()
            found[f"{table} at {at_ms}"] = sorted(
                map(repr, rows.select(sorted(rows.column_names)).to_pylist())
            )
    return found


def changes(ledger: Written, path: Path, tables: Sequence[str], times: Sequence[int]) -> bool:
    """Whether anything else is read of an edited ledger than before, or cannot be read."""
    try:
        found = _read(path, times, tables)
    except BaseException as error:
        if not is_of_a_library(error) and not isinstance(
            error, (MirrorLedgerError, UnicodeError, ValueError)
        ):
            raise
        return True
    return any(ledger.read[what] != rows for what, rows in found.items())


# Edits --------------------------------------------------------------------------------------------


Edit = Callable[[random.Random, Path, Path, str], str | None]
"""Changes files of a table of a ledger; the second path is an older copy. Returns what was done, None: nothing."""


def _entries(folder: Path) -> list[Path]:
    return sorted((folder / LOG).glob("*.json"))


def _files(folder: Path) -> list[Path]:
    """Those that the newest version names."""
    return [folder / unquote(name) for name in DeltaTable(str(folder)).get_add_actions()["path"].to_pylist()]


def _replace(file: Path, content: bytes) -> None:
    """Written anew: an edited ledger shares its other files with the one that was copied."""
    file.unlink(missing_ok=True)
    file.write_bytes(content)


def _say_size(folder: Path, file: Path) -> None:
    """Whoever changes a file lets the log say its size."""
    for entry in _entries(folder):
        lines = [json.loads(line) for line in entry.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            if line.get("add", {}).get("path") == file.name:
                line["add"]["size"] = file.stat().st_size
                _replace(entry, "".join(f"{json.dumps(one)}\n" for one in lines).encode())
                return


def edit_rows(random_: random.Random, folder: Path, older: Path, table: str) -> str | None:
    """A row altered, removed, inserted or moved, in a file that reads as before."""
    file = random_.choice(_files(folder))
    with pq.ParquetFile(file) as opened:
        schema, rows = opened.schema_arrow, opened.read().to_pylist()
    at, way = (
        random_.randrange(len(rows)),
        random_.choice(["alter", "remove", "insert", "move", "stamp", "unlink"]),
    )
    if way == "alter":
        name = random_.choice([name for name in schema.names if name not in _STAMP])
        was = rows[at][name]
        rows[at][name] = _other(was, schema.field(name).type)
        if rows[at][name] == was:
            return None
    elif way == "stamp":
        name = random_.choice(["writer_epoch", "round", "recorded_at_ms"])
        rows[at][name] += random_.choice([-1, 1, 60_000])
    elif way == "remove":
        del rows[at]
    elif way == "insert":
        rows.insert(random_.randrange(len(rows) + 1), {**rows[at], "link": None})
    elif way == "unlink":
        rows[at]["link"] = None
    else:
        rows.insert(random_.randrange(len(rows)), rows.pop(at))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
    _replace(file, sink.getvalue().to_pybytes())
    _say_size(folder, file)
    return f"{way} row {at} of {file.name}"


def _other(value: object, type_: pa.DataType) -> object:
    if value is None:
        return (
            None
            if not pa.types.is_integer(type_) and not pa.types.is_string(type_)
            else (7 if pa.types.is_integer(type_) else "x")
        )
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return f"{value}x" if isinstance(value, str) else value[:-1] if isinstance(value, list) else value


def edit_bytes(random_: random.Random, folder: Path, older: Path, table: str) -> str | None:
    """Bytes of a file of rows flipped, cut off or appended."""
    return _edit_bytes(random_, random_.choice(_files(folder)))


def _edit_bytes(random_: random.Random, file: Path) -> str:
    content = bytearray(file.read_bytes())
    way = random_.choice(["flip", "flip", "flip", "cut", "append", "empty"])
    at = random_.randrange(len(content))
    if way == "flip":
        content[at] ^= 1 << random_.randrange(8)
    elif way == "append":
        content += random_.randbytes(9)
    else:
        del content[at if way == "cut" else 0 :]
    _replace(file, bytes(content))
    return f"{way} at {at} of {file.name}"


def edit_log(random_: random.Random, folder: Path, older: Path, table: str) -> str | None:
    """An entry of the log changed, removed, or the last ones cut off."""
    entries = _entries(folder)
    entry, way = (
        random_.choice(entries),
        random_.choice(["bytes", "drop", "cut", *_ENTRY_EDITS, *_ENTRY_EDITS]),
    )
    if way == "bytes":
        return _edit_bytes(random_, entry)
    if way in ("drop", "cut"):
        chosen = [entry] if way == "drop" else entries[-random_.randrange(1, 4) :]
        for one in chosen:
            one.unlink()
        return f"{way} {len(chosen)} from {chosen[0].name}"
    lines = [json.loads(line) for line in entry.read_text(encoding="utf-8").splitlines()]
    if not _ENTRY_EDITS[way](random_, lines, folder):
        return None
    _replace(entry, "".join(f"{json.dumps(one)}\n" for one in lines).encode())
    return f"{way} in {entry.name}"


Lines = list[dict[str, Any]]


def _without_action(random_: random.Random, lines: Lines, _: Path) -> bool:
    del lines[random_.randrange(len(lines))]
    return True


def _with_another(random_: random.Random, lines: Lines, folder: Path) -> bool:
    other = random_.choice(_entries(folder)).read_text(encoding="utf-8")
    lines += [json.loads(line) for line in other.splitlines()]
    return True


def _removing(random_: random.Random, lines: Lines, folder: Path) -> bool:
    removed = random_.choice(_files(folder)).name
    lines.append({"remove": {"path": removed, "deletionTimestamp": 1, "dataChange": False}})
    return True


def _other_version(random_: random.Random, lines: Lines, _: Path) -> bool:
    found = [line["txn"] for line in lines if "txn" in line]
    for one in found[:1]:
        one["version"] += random_.choice([-1, 1, 1 << 32])
    return bool(found)


def _other_bounds(random_: random.Random, lines: Lines, _: Path) -> bool:
    adds = [line["add"] for line in lines if "add" in line]
    for add in adds[:1]:
        said = json.loads(add["stats"])
        name = random_.choice(["numRecords", "size", "writer_epoch", "round", "recorded_at_ms"])
        if name == "size":
            add["size"] += random_.choice([-1, 1])
        elif name == "numRecords":
            said[name] += random_.choice([-1, 1])
        else:
            said[random_.choice(["minValues", "maxValues"])][name] += random_.choice(
                [-100_000, -1, 1, 100_000]
            )
        add["stats"] = json.dumps(said)
    return bool(adds)


_ENTRY_EDITS: Mapping[str, Callable[[random.Random, Lines, Path], bool]] = {
    "an action less": _without_action,
    "another entry more": _with_another,
    "a file less": _removing,
    "another place": _other_version,
    "other bounds": _other_bounds,
}


def edit_checkpoint(random_: random.Random, folder: Path, older: Path, table: str) -> str | None:
    """The checkpoint changed, exchanged or removed, or what names it."""
    [checkpoint, *_] = (folder / LOG).glob("*.checkpoint.parquet")
    way = random_.choice(["bytes", "hint", "other", "drop", "row", "bounds", "row", "bounds"])
    if way == "bytes":
        return _edit_bytes(random_, checkpoint)
    if way == "hint":
        return _edit_bytes(random_, folder / LOG / "_last_checkpoint")
    if way == "drop":
        checkpoint.unlink()
        return "drop"
    if way == "other":
        other = folder.parent / random_.choice([one for one in EDITED if one != table])
        [found, *_] = (other / LOG).glob("*.checkpoint.parquet")
        _replace(checkpoint, found.read_bytes())
        return f"that of {other.name}"
    with pq.ParquetFile(checkpoint) as opened:
        schema, rows = opened.schema_arrow, opened.read().to_pylist()
    at = random_.randrange(len(rows))
    if way == "row":
        del rows[at]
    else:
        adds = [one["add"] for one in rows if one.get("add")]
        add = random_.choice(adds)
        said = json.loads(add["stats"])
        said[random_.choice(["minValues", "maxValues"])]["recorded_at_ms"] += random_.choice(
            [-100_000, 1, 100_000]
        )
        add["stats"] = json.dumps(said)
        add.pop("stats_parsed", None)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    _replace(checkpoint, sink.getvalue().to_pybytes())
    for hint in (folder / LOG).glob("_last_checkpoint"):
        said = json.loads(hint.read_text(encoding="utf-8"))
        _replace(hint, json.dumps({"version": said["version"], "size": len(rows)}).encode())
    return f"{way} {at} of the checkpoint"


def edit_swapped(random_: random.Random, folder: Path, older: Path, table: str) -> str | None:
    """Two files exchanged: of rows, of one table or two, or entries of the log."""
    other = folder.parent / random_.choice(EDITED)
    kind = _files if random_.random() < 0.6 else _entries
    one, two = random_.choice(kind(folder)), random_.choice(kind(other))
    if one == two or one.read_bytes() == two.read_bytes():
        return None
    first, second = one.read_bytes(), two.read_bytes()
    _replace(one, second)
    if random_.random() < 0.5:
        _replace(two, first)
    _say_size(folder, one)
    return f"{one.name} and {two.name} of {other.name}"


def edit_restored(random_: random.Random, folder: Path, older: Path, table: str) -> str | None:
    """An older copy put back: of the ledger, a table, its log, or one of its files."""
    way = random_.choice(["ledger", "table", "log", "file", "chosen"])
    if way == "ledger":
        for one in older.iterdir():
            shutil.rmtree(folder.parent / one.name)
            shutil.copytree(one, folder.parent / one.name)
        return way
    if way == "table":
        shutil.rmtree(folder)
        shutil.copytree(older / table, folder)
        return way
    if way == "log":
        shutil.rmtree(folder / LOG)
        shutil.copytree(older / table / LOG, folder / LOG)
        return way
    files = [file for file in (older / table).rglob("*") if file.is_file()]
    chosen = [random_.choice(files)] if way == "file" else random_.sample(files, len(files) // 2)
    for file in chosen:
        place = folder / file.relative_to(older / table)
        if not place.parent.exists():
            continue
        _replace(place, file.read_bytes())
    for later in _entries(folder)[len(_entries(older / table)) :]:
        if way == "chosen" and random_.random() < 0.5:
            later.unlink()
    return f"{way}: {len(chosen)} files"


EDITS: Mapping[str, Edit] = {
    "rows": edit_rows,
    "bytes": edit_bytes,
    "log": edit_log,
    "checkpoint": edit_checkpoint,
    "swapped": edit_swapped,
    "restored": edit_restored,
}

_PAGE = "bound of a page"
SOUND = {kind: {"found", "harmless", "nothing", *([_PAGE] if kind == "bytes" else [])} for kind in EDITS}
"""What edits of a kind may come to: see `tried`."""


def edited(ledger: Written, to: Path, kind: str, random_: random.Random) -> tuple[str, str] | None:
    """A copy of the ledger with an edit of that kind; returns the table and what was done, None: nothing was."""
    shutil.copytree(ledger.path, to, copy_function=os.link)
    table = random_.choice(EDITED)
    done = EDITS[kind](random_, to / table, ledger.older, table)
    return None if done is None else (table, done)


# Trying them --------------------------------------------------------------------------------------


def tried(ledger: Written, folder: Path, kind: str, number: int, *, whole: bool) -> str:
    """One edit of a kind: `found`, `harmless` or `nothing`; `missed: ...` where it changes what is read, unnoticed.

    `bound of a page`: it changes what is read, unnoticed, as it may (GUARANTEES, G14).
    `whole`: all tables are verified and read; else the edited one, which takes a tenth of the time.
    """
    random_, to = (
        random.Random(f"{kind} {number}"),
        folder / f"{kind}-{number}",
    )  # what is opened is kept by path
    try:
        done = edited(ledger, to, kind, random_)
        return "nothing" if done is None else _came_to(ledger, to, *done, random_, whole=whole)
    finally:
        shutil.rmtree(to)


def _came_to(ledger: Written, to: Path, table: str, what: str, random_: random.Random, *, whole: bool) -> str:
    tables = EDITED if whole else (table,)
    times = random_.sample(ledger.times, 2)
    if verified(to, [ledger.anchor], ledger.now_ms, None if whole else tables):
        return "found"
    if not changes(ledger, to, tables, times):
        return "harmless"
    if all(changes_pages_alone(ledger, to, table) for table in tables):
        return _PAGE
    return f"missed: {to.name}: {table}: {what}"


def changes_pages_alone(ledger: Written, path: Path, table: str) -> bool:
    """Whether a table has its rows, with a log and files that say the same of them, but in their pages."""
    files = [(file, ledger.path / table / file.name) for file in _files(path / table)]
    rows = DeltaTable(str(path / table)).to_pyarrow_table()
    names = sorted(name for name in rows.column_names if name != "link")
    return (
        all(was.is_file() and _footer(file) == _footer(was) for file, was in files)
        and ledger.read[f"{table} by Delta"] == sorted(map(repr, rows.select(names).to_pylist()))
        and _log(path / table) == _log(ledger.path / table)
    )


def _footer(file: Path) -> bytes:
    """What a file says behind its pages of all that it has; its length stands in front of the last four bytes."""
    content = file.read_bytes()
    return content[-8 - int.from_bytes(content[-8:-4], "little") :]


def _log(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in (folder / LOG).iterdir()}


def verified(
    path: Path, anchors: Sequence[Anchor], now_ms: int, tables: Sequence[str] | None = None
) -> list[str]:
    """What is found of a ledger, in words."""
    try:
        done = verify_ledger(
            str(path), anchors, as_of=None, now_ms=now_ms, tables=TABLE_BY_NAME if tables is None else tables
        )
    except MirrorLedgerError as error:
        return [str(error)]
    return [f"{one.table} {one.writer} {one.epoch} {one.round} {one.status}" for one in done.found]
