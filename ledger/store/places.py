"""Files below a place that is a folder of this machine or a prefix of a store, for who copies them as they are."""

import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from deltalake._internal import DeltaFileSystemHandler

from ledger.errors import LedgerUnavailableError
from ledger.store.damage import LOG, is_of_a_library, local_folder, sync, words_of

_CHUNK_BYTES = 4 << 20
PROMPT = {"connect_timeout": "3s", "timeout": "5s", "max_retries": "1", "retry_timeout": "5s"}
"""For how long a store is asked for a little at a time, by who runs beside others; else it is minutes."""


class Place:
    """A folder, or a prefix of a store; names of files are relative to it, with `/` between.

    Every method raises `LedgerUnavailableError` where the place cannot be read or written, with the name of the file.
    A file that is written is there as a whole or not at all, and on the disk when the method returns. All
    threads of this process stand still while a store is waited for: the library holds the interpreter. `is_prompt`: so
    a store is given up after ten seconds; each file of the place is small.
    """

    def __init__(self, uri: str, *, is_prompt: bool = False) -> None:
        self.uri, self._options = uri.rstrip("/"), PROMPT if is_prompt else None
        self._local = local_folder(self.uri)

    def sizes(self, folder: str) -> dict[str, int]:
        """Bytes of the files right in a folder, by name below the place; none where there is no such folder."""
        with self._reported(folder, "listed"):
            if self._local is None:
                found = self._store.get_file_info_selector(folder, allow_not_found=True)
                return {
                    f"{folder}/{Path(file.path).name}": int(file.size or 0) for file in found if file.is_file
                }
            there: dict[str, int] = {}
            with suppress(FileNotFoundError):
                for entry in os.scandir(self._local / folder):
                    if entry.is_file():
                        there[f"{folder}/{entry.name}"] = entry.stat().st_size
            return there

    def sizes_of_table(self, table: str) -> dict[str, int]:
        """The same of the files of a Delta table: those with its rows, and those of its log."""
        return {**self.sizes(table), **self.sizes(f"{table}/{LOG}")}

    def is_there(self, name: str) -> bool:
        with self._reported(name, "found or missed"):
            if self._local is not None:
                return (self._local / name).exists()
            [found] = self._store.get_file_info([name])
            return bool(found.is_file)

    def text(self, name: str) -> str | None:
        """What a small file says; None: there is none."""
        try:
            return b"".join(self.chunks(name)).decode()
        except _MissingFileError:
            return None

    def chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of a file, a few megabytes at a time."""
        with self._reported(name, "read"):
            source: Any = (
                self._store.open_input_file(name) if self._local is None else (self._local / name).open("rb")
            )
        try:
            while chunk := self._next(source, name):
                yield chunk
        finally:
            source.close()

    def _next(self, source: Any, name: str) -> bytes:
        with self._reported(name, "read"):
            return bytes(source.read(_CHUNK_BYTES))

    def digest(self, name: str) -> str:
        """SHA-256 of a file, in hexadecimal digits."""
        found = hashlib.sha256()
        for chunk in self.chunks(name):
            found.update(chunk)
        return found.hexdigest()

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Put a file in its place; one of that name is replaced."""
        if self._local is None:
            self._put(name, chunks)
            return
        place = self._local / name
        with self._reported(name, "written"):
            if not place.parent.is_dir():
                place.parent.mkdir(parents=True, exist_ok=True)
                sync(*self._folders_above(place.parent))
            staged = place.with_name(f".{uuid.uuid4()}.part")
        try:
            with self._reported(name, "written"), staged.open("wb") as sink:
                for chunk in chunks:
                    sink.write(chunk)
                sink.flush()
                os.fsync(sink.fileno())
            with self._reported(name, "written"):
                staged.replace(place)
                sync(place.parent)
        finally:
            staged.unlink(missing_ok=True)

    def _folders_above(self, folder: Path) -> list[Path]:
        """Up to the one that the place is in: each may have been made now."""
        assert self._local is not None
        return [one for one in folder.parents if one.is_relative_to(self._local.parent)]

    def _put(self, name: str, chunks: Iterable[bytes]) -> None:
        # A store shows an object once its last byte is there: what breaks off before is never seen.
        with self._reported(name, "written"):
            sink: Any = self._store.open_output_stream(name, None)
            for chunk in chunks:
                sink.write(chunk)
            sink.close()

    def delete(self, name: str) -> None:
        """Remove a file; it may have been removed already."""
        with self._reported(name, "removed"), suppress(FileNotFoundError):
            if self._local is None:
                self._store.delete_file(name)
            else:
                (self._local / name).unlink()

    @property
    def _store(self) -> DeltaFileSystemHandler:
        return DeltaFileSystemHandler(self.uri, self._options)

    @contextmanager
    def _reported(self, name: str, what: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise _MissingFileError(f"{self.uri}/{name} is missing") from error
        except BaseException as error:
            if not is_of_a_library(error):
                raise
            raise LedgerUnavailableError(
                f"{self.uri}/{name} cannot be {what}: {words_of(error)}; what was copied before stays. Start it again"
            ) from error


class _MissingFileError(LedgerUnavailableError):
    """There is no such file."""


def send(source: Place, name: str, target: Place) -> str:
    """Copy a file and read the copy back; returns the SHA-256 of both.

    Raises `LedgerUnavailableError` where the copy is another one than what was read.
    """
    read = hashlib.sha256()

    def observed() -> Iterator[bytes]:
        for chunk in source.chunks(name):
            read.update(chunk)
            yield chunk

    target.write(name, observed())
    if target.digest(name) != read.hexdigest():
        raise LedgerUnavailableError(
            f"{target.uri}/{name} is not what was written there: its SHA-256 is another one; the copy is as it was "
            "before. Start it again"
        )
    return read.hexdigest()
