"""Archives of loaded classes (Java's class data sharing): a JVM that maps one starts in half the time.

An archive fits one Java and one class path: its file is named after both. A JVM that has none, or one that does not
fit, starts as without.
"""

import hashlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ledger.adapters.jvm import check_java, home

_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")  # what is not archived is nobody's concern
_VERSION_TIMEOUT_S = 60
_written: dict[str, Path] = {}


def options(name: str, jars: Sequence[Path]) -> tuple[str, ...]:
    """What a JVM with these jars on its class path is started with; none when there is no archive for it."""
    if name in _written:
        return (f"-XX:ArchiveClassesAtExit={_written[name]}", *_SILENT)
    archive = archive_file(name, jars)
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *_SILENT) if archive.is_file() else ()


@contextmanager
def written(name: str, jars: Sequence[Path]) -> Iterator[None]:
    """JVMs of this name that start in the body write the archive when they end; it is there after the body."""
    archive = archive_file(name, jars)
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(f".{os.getpid()}")
    _written[name] = unfinished
    try:
        yield
        if unfinished.is_file():
            unfinished.rename(archive)
            _remove_former(name, archive)
    finally:
        del _written[name]
        unfinished.unlink(missing_ok=True)


def archive_file(name: str, jars: Sequence[Path]) -> Path:
    """Where the archive for this Java and these jars is, or would be."""
    java = subprocess.run(
        [str(check_java()), "-version"], capture_output=True, timeout=_VERSION_TIMEOUT_S, check=False
    )
    fits = hashlib.sha256(java.stdout + java.stderr)
    for jar in jars:
        status = jar.stat()
        fits.update(f"{jar}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return home() / "classes" / f"{name}-{fits.hexdigest()[:16]}.jsa"


def _remove_former(name: str, archive: Path) -> None:
    """Of another Java or other jars; a JVM that has mapped one keeps it."""
    for former in archive.parent.glob(f"{name}-*.jsa"):
        if former != archive:
            former.unlink(missing_ok=True)
