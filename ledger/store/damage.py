"""Errors of the libraries that read and write the ledger, as errors of ours: the one place that knows them.

What they say is about their own insides, over many lines, and a panic of Rust passes every `except Exception`. Here
each becomes a line that says what was not done; and where a file of the ledger is damaged, which, and how to get it
back.
"""

import errno
import json
import os
import re
import tempfile
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ledger.errors import DamagedLedgerError, LedgerUnavailableError, MirrorLedgerError

# Local tables -------------------------------------------------------------------------------------
# A table of the ledger in a folder of this machine: what is on the disk when a commit counts, and what is
# damaged.
#
# deltalake syncs nothing: what it has committed is lost with the power within the kernel's half minute, and
# may be there afterwards as a file without bytes. So who commits syncs: files before the entry of the log
# that names them, then the entry and its folder, before anybody hears of it. A checkpoint is made beside
# the log, synced, and moved into it. Stores keep what they have taken; there all of this does nothing.
#
# What is damaged all the same, by somebody else or before, is found by reading the log as the protocol of
# Delta has it, without deltalake, which takes an empty entry for a version without rows, and panics at
# others.


LOG = "_delta_log"
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"
ENTRY, CHECKPOINT = ".json", ".checkpoint.parquet"


def local_folder(uri: str) -> Path | None:
    """Where a table lies; None: in a store."""
    if uri.startswith("file://"):
        return Path(unquote(uri.removeprefix("file://")))
    return None if "://" in uri else Path(uri)


def log_file(version: int, ending: str = ENTRY) -> str:
    """The name of a file of a version's log, below the folder of its table."""
    return f"{LOG}/{version:020d}{ending}"


def numbers(names: Iterable[str], ending: str) -> list[int]:
    """The versions of which files of these names are, those with that ending."""
    found = (name.rpartition("/")[2].removesuffix(ending) for name in names if name.endswith(ending))
    return [int(number) for number in found if number.isdecimal()]


# On the disk --------------------------------------------------------------------------------------


def sync(*places: Path) -> None:
    """Files and folders are on the disk, with what is in them, when this returns."""
    for place in places:
        opened = os.open(place, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def sync_entries(uri: str, *, after: int, until: int) -> None:
    """Entries of the log are on the disk when this returns, those of others among them: none may be lacking below one.

    What was cleaned away meanwhile is in a checkpoint.
    """
    if (folder := local_folder(uri)) is None:
        return
    for version in range(after + 1, until + 1):
        with suppress(FileNotFoundError):
            sync(folder / log_file(version))
    sync(folder / LOG)


def sync_table(uri: str) -> None:
    """A table that was created now."""
    if (folder := local_folder(uri)) is not None:
        sync_entries(uri, after=-1, until=0)
        sync(folder, folder.parent)


def make_checkpoint(opened: DeltaTable, uri: str) -> None:
    """A checkpoint of a version, which is whole wherever it is seen."""
    if (folder := local_folder(uri)) is None:
        opened.create_checkpoint()
        return
    with tempfile.TemporaryDirectory(prefix=".checkpoint-", dir=folder) as beside:
        staged = Path(beside)
        (staged / LOG).mkdir()
        for file in (folder / LOG).iterdir():
            if file.suffix in (ENTRY, ".parquet"):
                with suppress(FileNotFoundError):
                    os.link(file, staged / LOG / file.name)
        made = DeltaTable(beside)
        made.create_checkpoint()
        # First the checkpoint, then what names it.
        for name in (log_file(made.version(), CHECKPOINT), LAST_CHECKPOINT):
            sync(staged / name)
            os.replace(staged / name, folder / name)
            sync(folder / LOG)


# What is damaged ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is not what the log has it to be; `version`: of an entry of the log, None: it is another file.

    `rows`: what the log says of the rows that it held, where it is a file of rows.
    """

    file: Path
    words: str
    version: int | None = None
    rows: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.file} {self.words}"


@dataclass(slots=True)
class _Log:
    """A log as it is read: the files that its last version names, and what of it cannot be read."""

    files: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)

    def apply(self, action: Mapping[str, Any]) -> None:
        if (added := action.get("add")) is not None:
            self.files[added["path"]] = added
        elif (removed := action.get("remove")) is not None:
            self.files.pop(removed["path"], None)


def damages_of(uri: str) -> list[Damage]:
    """What is damaged of a table; nothing of one in a store. Every file that its newest version names is read.

    Raises `OSError` where it may not be: that is no damage.
    """
    if (folder := local_folder(uri)) is None or not (folder / LOG).is_dir():
        return []
    log = _read_log(folder)
    for name, added in log.files.items():
        path = folder / unquote(name)
        if (words := _damage_of_rows(path, int(added["size"]))) is not None:
            log.damages.append(Damage(path, words, rows=added))
    return log.damages


def damaged_entries(folder: Path, *, after: int, until: int) -> Iterator[Damage]:
    """Entries of versions that deltalake has read, and that are no commits: one that is empty is no error there.

    `after`: up to there they are known, -1: none. What a checkpoint has in it nobody reads.
    """
    after = after if after >= 0 else _last_checkpoint(folder)
    for version in range(after + 1, until + 1):
        path = folder / log_file(version)
        words = _damage_of_entry(path)
        if words is not None and version > _last_checkpoint(folder):
            yield Damage(path, words, version)


def _damage_of_entry(path: Path) -> str | None:
    """How an entry is not what a commit leaves; None: it is."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return "is missing"
    if not data:
        return "is empty"
    return None if b'"commitInfo"' in data else "holds no commit"


def _read_log(folder: Path) -> _Log:
    log, begins = _Log(), -1
    hinted = _hinted_checkpoint(folder)
    if hinted is not None and not hinted.exists():
        log.damages.append(Damage(hinted, "is missing"))
    for version in sorted(numbers(os.listdir(folder / LOG), CHECKPOINT), reverse=True):
        path = folder / log_file(version, CHECKPOINT)
        try:
            rows = pq.ParquetFile(path).read(columns=["add"])["add"].to_pylist()
        except (OSError, pa.ArrowException, KeyError) as error:
            log.damages.append(Damage(path, _words(error)))
            continue
        for added in filter(None, rows):
            log.apply({"add": added})
        begins = version
        break
    for version in range(begins + 1, max(numbers(os.listdir(folder / LOG), ENTRY), default=-1) + 1):
        _apply_entry(log, folder / log_file(version), version)
    return log


def _apply_entry(log: _Log, path: Path, version: int) -> None:
    if (words := _damage_of_entry(path)) is None:
        try:
            actions = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
            for action in actions:
                log.apply(action)
        except (ValueError, TypeError, AttributeError, KeyError):
            words = "is cut or overwritten"
    if words is not None:
        log.damages.append(Damage(path, words, version))


def _damage_of_rows(path: Path, size: int) -> str | None:
    try:
        found = path.stat().st_size
        if found != size:
            return "is empty" if not found else f"has {found} bytes, not {size} as the log says"
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                batch.validate(full=True)
    except (OSError, pa.ArrowException, UnicodeError) as error:
        return _words(error)
    return None


def _words(error: Exception) -> str:
    """How a file is damaged that gave this error; raises it where nobody may read."""
    if isinstance(error, FileNotFoundError):
        return "is missing"
    if isinstance(error, PermissionError):
        raise error
    return "is no Parquet file any more, or not as it was written"


def _hinted_checkpoint(folder: Path) -> Path | None:
    """The checkpoint that the log names as its last one; None: none, as far as can be read."""
    try:
        version = int(json.loads((folder / LAST_CHECKPOINT).read_bytes())["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return folder / log_file(version, CHECKPOINT)


def _last_checkpoint(folder: Path) -> int:
    return max(numbers(os.listdir(folder / LOG), CHECKPOINT), default=-1)


def set_aside(damage: Damage) -> None:
    """A damaged file of a log is kept under another name; in the place of an entry a commit of nothing is put.

    Nothing is lost by it that was not: no version names what the entry held. A checkpoint is made again.
    """
    if damage.file.exists():
        os.rename(damage.file, damage.file.with_name(f"{damage.file.name}.damaged-{uuid.uuid4()}"))
    if damage.version is None:
        (damage.file.parent / "_last_checkpoint").unlink(missing_ok=True)  # it names what is no checkpoint
    else:
        words = {
            "commitInfo": {
                "timestamp": time.time_ns() // 1_000_000,
                "operation": "REPAIR",
                "was": damage.words,
            }
        }
        with tempfile.NamedTemporaryFile(
            "w", prefix=".entry-", dir=damage.file.parent, delete=False
        ) as staged:
            staged.write(f"{json.dumps(words)}\n")
        sync(Path(staged.name))
        os.link(staged.name, damage.file)
        os.unlink(staged.name)
    sync(damage.file.parent)


# Damage -------------------------------------------------------------------------------------------


os.environ["RUST_BACKTRACE"] = "0"
"""Read by Rust when it first fails: or else half a screen of its own functions is part of a message."""

_OF_FILES = (
    duckdb.IOException,
    duckdb.InvalidInputException,
    duckdb.SerializationException,
    duckdb.InternalException,
)
_PARQUET = re.compile(r"(/[^\"'\n]*?)/[^/\"'\n]*\.parquet")
_REASONS = {
    errno.ENOSPC: "no room is left on its disk",
    errno.EDQUOT: "no room is left for this user on its disk",
    errno.EROFS: "it is mounted read-only",
    errno.EACCES: "this user may not do that there",
    errno.EIO: "its disk fails",
}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m|↳")
_STORES_ANSWER = re.compile(
    r"(<\?xml[^>]*>\s*)?<Error>.*?<Code>(.*?)</Code>.*?<Message>(.*?)</Message>.*</Error>", re.DOTALL
)
_OS_ERROR = re.compile(r"\(os error (\d+)\)|\[Errno (\d+)\]|Os \{ code: (\d+)")


def is_of_a_library(error: BaseException) -> bool:
    """Whether it is deltalake, pyarrow, DuckDB, Rust below them, or the file system that refuses."""
    if isinstance(error, MirrorLedgerError):
        return False
    is_panic = type(error).__name__ == "PanicException"  # of Rust: it is no `Exception`
    return is_panic or isinstance(error, (DeltaError, pa.ArrowException, duckdb.Error, OSError))


@contextmanager
def reported(what: str, *uris: str, otherwise: str = "nothing was done that needs it") -> Iterator[None]:
    """In here what a library refuses is an error of ours: "`what` cannot be read: why; `otherwise`".

    `uris`: the tables that are used, of which it is looked up what is damaged.
    """
    try:
        yield
    except BaseException as error:
        if not is_of_a_library(error):
            raise
        raise error_of(error, what, uris, otherwise) from error


@contextmanager
def reported_of_files(folders: Collection[str]) -> Iterator[None]:
    """The same of DuckDB, which reads files of tables in `folders`; what it says of a statement stays as it is."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        named = {found[1] for found in _PARQUET.finditer(str(error))}
        is_of_files = isinstance(error, _OF_FILES) or (
            bool(named) and not isinstance(error, duckdb.PermissionException)
        )
        if isinstance(error, duckdb.Error) and not is_of_files:
            raise
        otherwise = "nothing was done that needs it"
        if (known := _known(sorted({*named, *folders}), otherwise)) is not None:
            raise known from error
        if isinstance(error, (duckdb.InvalidInputException, duckdb.InternalException)) and not named:
            raise
        what = f"{', '.join(sorted(named or folders))} cannot be read"
        raise LedgerUnavailableError(f"{what}: {words_of(error)}; {otherwise}") from error


def error_of(
    error: BaseException, what: str, uris: Collection[str], otherwise: str
) -> LedgerUnavailableError:
    return _known(uris, otherwise) or LedgerUnavailableError(f"{what}: {words_of(error)}; {otherwise}")


def _known(uris: Iterable[str], otherwise: str) -> LedgerUnavailableError | None:
    """What is wrong with tables, as far as their files tell."""
    for uri in uris:
        if (why := unreadable(uri)) is not None:
            return LedgerUnavailableError(f"{why}; {otherwise}")
    try:
        damages = [one for uri in uris for one in damages_of(uri)]
    except OSError as error:
        return LedgerUnavailableError(
            f"{error.filename or 'a file'} cannot be read: {words_of(error)}; {otherwise}"
        )
    return damaged(damages, otherwise) if damages else None


def damaged(damages: list[Damage], otherwise: str) -> DamagedLedgerError:
    """Names the first file, and how many others there are."""
    more = f" and {len(damages) - 1} more" if len(damages) > 1 else ""
    return DamagedLedgerError(
        f"a file of the ledger is damaged: {damages[0]}{more}; {otherwise}. Put it back from a copy of the ledger's "
        "folder; where there is none: mirror-ledger maintain --repair --reason WHY continues without what it held, "
        "and records what that was"
    )


def words_of(error: BaseException) -> str:
    """Why, in one line."""
    text = _STORES_ANSWER.sub(r"\2: \3", str(error))
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (found := _OS_ERROR.search(text)) is not None:
        number = int(found[1] or found[2] or found[3])
    if number in _REASONS:
        return _REASONS[number]
    lines = [_COLOURS.sub("", line).strip() for line in text.partition("stack backtrace:")[0].splitlines()]
    return " ".join(line for line in lines if line) or type(error).__name__


def unreadable(uri: str) -> str | None:
    """Why nobody can tell what is in a folder; None: it can be read, or is not there."""
    folder = local_folder(uri)
    for place in () if folder is None else (folder.parent, folder, folder / LOG):
        try:
            with os.scandir(place):
                pass
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return f"{place} cannot be read: {words_of(error)}"
    return None
