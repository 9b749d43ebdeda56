"""What a start needs of a table without reading all of it: last rows, up to where, and the proof that none is missed.

Rows are only ever added, and a writer's rows of one table are ordered by (epoch, round). So the rows up to a place of
each writer are the same for ever (L4), whoever noted the last ones of them, however long ago, and whatever became of
that process since: these and the rows behind the places tell the last rows of all. Which files have rows behind them is
guessed by what the log says of files; that the guess left nothing out is counted:

    S1  rows of the files left out + rows read that lie at or before the places = rows noted
        (then every row behind the places was read)

Where the sum is another one, all files are read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from ledger.errors import InvalidValueError
from ledger.facts.tables import epoch_and_round, place_of

CLOCKS_APART_MS = 10_000
"""So much younger than a file of several writers what was noted has to be, before the file is left out."""


@dataclass(frozen=True, slots=True)
class Grain:
    """The last append is wanted of each combination of these columns; others are `left_out` of its rows."""

    of_each: tuple[str, ...]
    left_out: frozenset[str] = frozenset()

    def decides(self, columns: Iterable[str]) -> bool:
        """Whether the last rows tell if any row at all has certain values in these columns."""
        return set(self.of_each).issuperset(columns)


GRAINS: Mapping[str, Grain] = {
    "offset_syncs": Grain(
        (
            *("flow", "source_cluster", "source_topic", "source_topic_id", "source_partition"),
            *("target_topic_id", "kind", "cause"),
        ),
        frozenset(
            {
                *("gaps", "recovered", "first_timestamp_ms", "last_timestamp_ms", "bytes", "checksum"),
                *("raw_batches", "record_path_batches", "merged_batches"),
            }
        ),
    ),
    "checkpoints": Grain(("cluster", "group_id", "topic", "partition")),
    "share_offsets": Grain(("cluster", "group_id", "topic", "partition")),
    "high_watermarks": Grain(("cluster", "topic", "topic_id", "partition")),
    "writers": Grain(("writer", "writer_epoch", "event", "flow")),
}
"""By table. The others grow with what happens, not with every round."""


@dataclass(frozen=True, slots=True)
class LastPlace:
    """A writer's last append to a table, and when it appended last by its clocks: of all its rows the latest time."""

    epoch: int
    round: int
    latest_ms: int

    @property
    def place(self) -> int:
        """What orders a writer's rows."""
        return place_of(self.epoch, self.round)

    def further(self, other: Self) -> Self:
        """The later append of two, and the latest time of both."""
        last = max(self, other, key=lambda at: at.place)
        return replace(last, latest_ms=max(self.latest_ms, other.latest_ms))

    @classmethod
    def of_place(cls, place: int, latest_ms: int) -> Self:
        return cls(*epoch_and_round(place), latest_ms)


@dataclass(frozen=True, slots=True)
class Noted:
    """Up to where last rows were noted: so many rows of the table, by writer up to its place.

    `settled_ms`: files that have nothing younger seem to have been there.
    """

    rows: int
    until: Mapping[str, LastPlace]
    settled_ms: int

    def __post_init__(self) -> None:
        if self.rows < len(self.until) or any(min(at.epoch, at.round) < 0 for at in self.until.values()):
            raise InvalidValueError(f"no table has {self.rows} rows up to {dict(self.until)}")

    @classmethod
    def of(cls, rows: int, until: Mapping[str, LastPlace], *, now_ms: int | None = None) -> Self:
        """As a table was read; at a time by the clock of who read it, where that is known."""
        latest_ms = max((at.latest_ms for at in until.values()), default=0)
        return cls(rows, until, settled(latest_ms, now_ms=now_ms))

    def covers(self, writer: str, place: int) -> bool:
        """Whether a row counts among those noted."""
        return writer in self.until and place <= self.until[writer].place


NOTHING = Noted(0, {}, 0)
"""Where nothing was noted yet."""


@dataclass(frozen=True, slots=True)
class FileStamps:
    """What the log says of a file's rows; None where it does not."""

    path: str
    rows: int | None
    writers: tuple[str, str] | None = None
    last_epoch: int | None = None
    last_round: int | None = None
    last_ms: int | None = None
    first_ms: int | None = None

    @property
    def name(self) -> str:
        """What tells it from all other files of its table."""
        return self.path.rpartition("/")[2]

    def last_ms_of(self, writer: str) -> int | None:
        """When the writer's last row in it was recorded, where the log says that; None where it does not."""
        return self.last_ms if self.writers == (writer, writer) else None

    def may_tell_later(self, writer: str, known_ms: int | None) -> bool:
        """Whether only its rows can tell that it has one of the writer that was recorded after what is known."""
        if self.last_ms_of(writer) is not None:
            return False
        may_have_some = self.writers is None or self.writers[0] <= writer <= self.writers[1]
        return may_have_some and (None in (self.last_ms, known_ms) or (self.last_ms or 0) > (known_ms or 0))

    def seems_noted(self, noted: Noted) -> bool:
        """Whether none of its rows seems to be new: by places where one writer made it, else by time."""
        if self.rows is None or not noted.until:
            return False
        is_of_one = self.writers is not None and self.writers[0] == self.writers[1]
        if is_of_one and self.writers is not None and None not in (self.last_epoch, self.last_round):
            return noted.covers(self.writers[0], place_of(self.last_epoch or 0, self.last_round or 0))
        return self.last_ms is not None and self.last_ms <= noted.settled_ms


@dataclass(frozen=True, slots=True)
class Split:
    """The files that are read, and how many rows those have that are left out."""

    read: tuple[FileStamps, ...]
    left_out_rows: int

    @classmethod
    def of(cls, files: Sequence[FileStamps], noted: Noted) -> Self:
        """All files are read where nothing was noted."""
        read = tuple(file for file in files if not file.seems_noted(noted))
        return cls(read, sum(file.rows or 0 for file in files) - sum(file.rows or 0 for file in read))

    def misses_nothing(self, noted: Noted, *, noted_rows_read: int) -> bool:
        """S1."""
        return self.left_out_rows + noted_rows_read == noted.rows


def settled(latest_ms: int, *, now_ms: int | None) -> int:
    """Until when rows of all writers are there where the latest one is of that time: clocks differ, appends take time.

    Without a clock only what is older by so much counts.
    """
    return latest_ms - CLOCKS_APART_MS if now_ms is None else min(latest_ms, now_ms - CLOCKS_APART_MS)
