"""What keeps a table quick to open and small: which of its files become one, and when that is overdue.

A file is an append, or what a merge made of several. Files of different UTC days (by `recorded_at_ms`) never become
one, so a reader skips the days that it does not need. Within a day files of like size are merged: a row is
rewritten once for every power of `FANOUT` appends in its day, and once more when the day is over.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

DAY_MS = 86_400_000
SORTED_BY: Mapping[str, Sequence[str]] = {
    "offset_syncs": ("flow", "source_topic", "source_topic_id", "source_partition"),
    "checkpoints": ("cluster", "group_id", "topic", "partition"),
    "groups": ("cluster",),
    "share_offsets": ("cluster", "group_id", "topic", "partition"),
    "group_syncs": ("flow", "group_id", "target_topic", "target_partition"),
    "high_watermarks": ("cluster", "topic", "topic_id", "partition"),
    "topics": ("cluster", "topic"),
    "permissions": ("cluster", "kind"),
    "cut_offsets": ("operation_id",),
}
"""What the rows of a table are about, by which a merge sorts them; then they lie in the order of recording.

Those of other tables lie in that order alone, and in all of them the rows of an append in its order.
"""
FANOUT = 12
"""So many files of like size become one."""
TARGET_BYTES = 32 << 20
"""Merged files are no larger; what is half of that is left alone."""
TARGET_ROWS = 2_000_000
"""Nor have they more rows, as far as rows are known: that bounds the memory and the time of one merge."""
CLOSED_AFTER_MS = 3_600_000
"""A day counts as over so long after its end: clocks of writers differ, and appends are on their way."""
KEEP_SUPERSEDED_HOURS = 1
"""By default, and at least: what readers and writers that are at work hold on to is no older."""
BEHIND_FILES = 200
"""A table with so many files to merge is behind: at five seconds a round nobody merged for a quarter of an hour.

Opening and reading it begins to cost more than its rows: each such file is read by every answer.
"""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of the newest version; rows and times are null where its writer did not say them."""

    path: str
    size_bytes: int
    rows: int | None
    first_ms: int | None
    last_ms: int | None

    @property
    def day(self) -> int | None:
        """The one UTC day of its rows, counted from the epoch; None: several, or not known."""
        if self.first_ms is None or self.last_ms is None:
            return None
        first, last = self.first_ms // DAY_MS, self.last_ms // DAY_MS
        return first if first == last else None

    @property
    def is_mixed(self) -> bool:
        """Whether it is known to have rows of several days."""
        return self.first_ms is not None and self.last_ms is not None and self.day is None

    @property
    def is_small(self) -> bool:
        return 2 * self.size_bytes < TARGET_BYTES and 2 * (self.rows or 0) < TARGET_ROWS

    @property
    def tier(self) -> int:
        """Of like size are files whose rows, or else 64ths of a byte, have the same octal digits."""
        return (max(1, self.size_bytes // 64 if self.rows is None else self.rows).bit_length() - 1) // 3


@dataclass(frozen=True, slots=True)
class Merge:
    """Files that become one for each day of their rows; `day` None: only reading them tells which days."""

    files: tuple[DataFile, ...]
    day: int | None

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def due_merges(files: Iterable[DataFile], *, now_ms: int) -> list[Merge]:
    """What is to be merged as things stand, days that are over first, the oldest first."""
    by_day: dict[int, list[DataFile]] = {}
    of_no_day: list[DataFile] = []
    for file in sorted(files, key=lambda file: (file.first_ms or 0, file.path)):
        if file.day is None:
            of_no_day.append(file)
        elif file.is_small:
            by_day.setdefault(file.day, []).append(file)
    merges = [
        merge
        for day, of_day in sorted(by_day.items())
        for merge in (_of_closed(day, of_day) if _is_closed(day, now_ms) else _of_open(day, of_day))
    ]
    return [*_of_no_day(of_no_day), *merges]


def files_behind(files: Iterable[DataFile], *, now_ms: int) -> int:
    """How many files of a table wait to be merged."""
    return sum(len(merge.files) for merge in due_merges(files, now_ms=now_ms))


def _is_closed(day: int, now_ms: int) -> bool:
    return now_ms >= (day + 1) * DAY_MS + CLOSED_AFTER_MS


def _of_closed(day: int, files: Sequence[DataFile]) -> Iterator[Merge]:
    return (Merge(tuple(chosen), day) for chosen in _bounded(files) if len(chosen) > 1)


def _of_open(day: int, files: Sequence[DataFile]) -> Iterator[Merge]:
    """The largest size that has enough files, with all that are smaller."""
    enough = [tier for tier, count in Counter(file.tier for file in files).items() if count >= FANOUT]
    upto = [file for file in files if file.tier <= max(enough, default=-1)]
    yield from (Merge(tuple(chosen), day) for chosen in _bounded(upto) if len(chosen) > 1)


def _of_no_day(files: Sequence[DataFile]) -> Iterator[Merge]:
    """What has rows of several days is taken apart; what says nothing waits until it is worth the reading."""
    mixed = [file for file in files if file.is_mixed]
    silent = [file for file in files if not file.is_mixed]
    chosen = [*mixed, *(silent if len(silent) >= FANOUT else ())]
    return (Merge(tuple(part), None) for part in _bounded(chosen))


@dataclass(slots=True)
class _Part:
    """Files that together stay within the bounds of a merge; the first one always does."""

    files: list[DataFile] = field(default_factory=list)
    size_bytes: int = 0
    rows: int = 0

    def takes(self, file: DataFile) -> bool:
        fits = self.size_bytes + file.size_bytes <= TARGET_BYTES
        return not self.files or (fits and self.rows + (file.rows or 0) <= TARGET_ROWS)

    def add(self, file: DataFile) -> None:
        self.files.append(file)
        self.size_bytes += file.size_bytes
        self.rows += file.rows or 0


def _bounded(files: Sequence[DataFile]) -> list[list[DataFile]]:
    parts: list[_Part] = []
    for file in files:
        if not parts or not parts[-1].takes(file):
            parts.append(_Part())
        parts[-1].add(file)
    return [part.files for part in parts]
