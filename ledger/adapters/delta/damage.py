"""Errors of the libraries that read and write the ledger, as errors of ours: the one place that knows them.

What they say is about their own insides, over many lines, and a panic of Rust passes every `except Exception`. Here
each becomes a line that says what was not done; and where a file of the ledger is damaged, which, and how to get it
back.
"""

import errno
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa
from deltalake.exceptions import DeltaError

from ledger.adapters.delta.local_tables import LOG, Damage, damages_of, local_folder
from ledger.errors import DamagedLedgerError, LedgerUnavailableError, MirrorLedgerError

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
_OS_ERROR = re.compile(r"\(os error (\d+)\)|\[Errno (\d+)\]|Os \{ code: (\d+)")


def is_of_a_library(error: BaseException) -> bool:
    """Whether it is deltalake, pyarrow, DuckDB, Rust below them, or the file system that refuses."""
    if isinstance(error, MirrorLedgerError):
        return False
    return isinstance(error, (DeltaError, pa.ArrowException, duckdb.Error, OSError)) or is_panic(error)


def is_panic(error: BaseException) -> bool:
    """A panic of Rust, which is no `Exception`."""
    return type(error).__name__ == "PanicException"


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
    text = str(error)
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
