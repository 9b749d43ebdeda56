"""Files of a ledger in a store, fetched to this machine once: no file of a Delta table ever changes.

So answers read a store's ledger as they read a folder's. The copies lie in `MIRROR_LEDGER_CACHE`, else in the cache
folder of this user, by the id of their table; any of them may be removed at any time.
"""

import os
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from deltalake import DeltaTable
from deltalake._internal import DeltaFileSystemHandler

from ledger.store.damage import local_folder
from ledger.store.places import PROMPT

CACHE_VARIABLE = "MIRROR_LEDGER_CACHE"
_CHUNK_BYTES = 1 << 20
"""A request for so much is answered by slow lines too, before it is given up."""
_KEPT_S = 3600.0
"""A file that no version names any more may be in use by who opened one that did: as long as maintenance keeps it."""


def cache_folder() -> Path:
    """Where copies of files of stores lie on this machine: the first of three places that can be written to."""
    if (chosen := os.environ.get(CACHE_VARIABLE)) is not None:
        return Path(chosen)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache / "mirror-ledger"
    with suppress(OSError):
        place.mkdir(parents=True, exist_ok=True)
        if os.access(place, os.W_OK):
            return place
    return Path(tempfile.gettempdir()) / f"mirror-ledger-{os.getuid()}"


def places(table: DeltaTable, sizes: Mapping[str, int]) -> list[str]:
    """Where these files of a table can be read on this machine, in their order; `sizes` in bytes, by name.

    Raises what deltalake raises where a store does not give one, and `OSError` where a copy cannot be written.
    """
    folder = local_folder(table.table_uri)
    if folder is None:
        folder = cache_folder() / str(table.metadata().id)
        _fetch_missing(table, sizes, folder)
    return [str(folder / name) for name in sizes]


def _fetch_missing(table: DeltaTable, sizes: Mapping[str, int], folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    missing = [name for name, size in sizes.items() if not _is_there(folder / name, size)]
    if missing:
        # One after the other, for the library holds the interpreter: threads would wait for each other, and stand
        # still once each where a store says nothing.
        store = DeltaFileSystemHandler(table.table_uri, PROMPT)
        for name in missing:
            fetch(store, name, folder / name)
        _forget(folder, sizes)


def fetch(store: DeltaFileSystemHandler, name: str, place: Path) -> None:
    """A copy of a file of a store; it is there as a whole or not at all."""
    staged = place.with_name(f".{uuid.uuid4()}")
    try:
        source = store.open_input_file(name)
        with staged.open("wb") as sink:
            while chunk := source.read(_CHUNK_BYTES):
                sink.write(chunk)
        staged.replace(place)
    finally:
        staged.unlink(missing_ok=True)


def _is_there(place: Path, size: int) -> bool:
    try:
        return place.stat().st_size == size
    except FileNotFoundError:
        return False


def _forget(folder: Path, sizes: Mapping[str, int]) -> None:
    """Remove copies that the version which was asked for does not name, once they are old enough."""
    before_s = time.time() - _KEPT_S
    for file in folder.iterdir():
        with suppress(FileNotFoundError):
            if file.name not in sizes and file.stat().st_mtime < before_s:
                file.unlink()
