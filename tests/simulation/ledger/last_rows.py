"""Last rows of a table in memory, read by the same rules as those on disk (`facts.last_rows`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.facts.last_rows import GRAINS, FileStamps, Noted, Split, last_of_each, noted_with
from ledger.facts.tables import place_of

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class MemoryLastRows:
    """The last rows of a table, up to where they are, and how many rows were read for them."""

    noted: Noted
    last: Rows
    read: int = 0


def read_last_rows(table: str, files: Mapping[str, Rows], known: MemoryLastRows | None) -> MemoryLastRows:
    """The last rows of files, by those that are `known` of them; where these do not account for them, by all files."""
    if known is not None:
        split = Split.of([_stamps(name, rows) for name, rows in files.items()], known.noted)
        rows = [row for file in split.read for row in files[file.path]]
        new = [row for row in rows if not _is_noted(row, known.noted)]
        if split.misses_nothing(known.noted, noted_rows_read=len(rows) - len(new)):
            last = last_of_each([*known.last, *new], GRAINS[table])
            return MemoryLastRows(noted_with(new, known.noted), last, len(rows))
    every = [row for rows in files.values() for row in rows]
    return MemoryLastRows(noted_with(every), last_of_each(every, GRAINS[table]), len(every))


def _is_noted(row: Mapping[str, Any], noted: Noted) -> bool:
    return noted.covers(row["writer"], place_of(row["writer_epoch"], row["round"]))


def _stamps(name: str, rows: Rows) -> FileStamps:
    """What the log says of a file."""
    writers = [row["writer"] for row in rows]
    return FileStamps(
        name,
        len(rows),
        writers=(min(writers), max(writers)),
        last_epoch=max(row["writer_epoch"] for row in rows),
        last_round=max(row["round"] for row in rows),
        last_ms=max(row["recorded_at_ms"] for row in rows),
    )
