"""Last rows of a table in memory, noted at times and read by the same rules as those on disk (`facts.last_rows`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.facts.last_rows import GRAINS, FileStamps, Grain, LastPlace, Noted, Split
from ledger.facts.tables import Row, place_of

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


def last_of_each(rows: Iterable[Row], grain: Grain) -> list[Row]:
    """The rows of the last append of each combination of the grain's columns, of several those of that append."""
    last: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = tuple(row[name] for name in grain.of_each)
        found = last.setdefault(key, [])
        if found and _place(found[0]) < _place(row):
            found.clear()
        if not found or _place(found[0]) == _place(row):
            found.append(row)
    return [row for found in last.values() for row in found]


def noted_with(rows: Iterable[Row], before: Noted | None = None, *, now_ms: int | None = None) -> Noted:
    """Up to where rows reach, with those that were noted before; `rows` are none of these."""
    count, until = (0, {}) if before is None else (before.rows, dict(before.until))
    for row in rows:
        count += 1
        at = LastPlace(row["writer_epoch"], row["round"], row["recorded_at_ms"])
        until[row["writer"]] = at.further(until.get(row["writer"], at))
    return Noted.of(count, until, now_ms=now_ms)


def _place(row: Row) -> int:
    return place_of(row["writer_epoch"], row["round"])


def _is_noted(row: Row, noted: Noted) -> bool:
    return noted.covers(row["writer"], _place(row))


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
