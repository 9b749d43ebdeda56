"""Which appends count at a time, and when those of a cut were recorded, without the stamps of all rows.

A block of a projection says up to where each writer's rows are in it or before it, and the latest time of these. So of
each writer one block ends before what is asked, and the next one behind it: the stamps between these are read, and
those behind the last block. That these are all is counted. Where there is no projection, all stamps are read.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from ledger.facts.cuts import LastAppend
from ledger.facts.last_rows import NOTHING, FileStamps, LastPlace, Noted
from ledger.facts.tables import ROUNDS_PER_EPOCH, place_of
from ledger.store.behind import file_stamps, read_behind
from ledger.store.projections import UNREADABLE, Block, Projection
from ledger.store.relations import (
    last_appends,
    last_recorded_at_ms,
    last_recorded_of_each,
    named_appends,
    recorded_from_to_ms,
    relation_of,
)
from ledger.store.sql import ParquetFiles, selected

log = logging.getLogger(__name__)


def recorded_span(table: str, opened: DeltaTable) -> tuple[int, int] | None:
    """When the first and the last row was recorded, by what the log says of files; None: there is no row."""
    files = file_stamps(opened)
    times = [at_ms for file in files for at_ms in (file.first_ms, file.last_ms)]
    known = [at_ms for at_ms in times if at_ms is not None]
    if len(known) < len(times):
        return recorded_from_to_ms(relation_of(opened, table))
    return (min(known), max(known)) if known else None


def appends_until(path: str, table: str, opened: DeltaTable, at_ms: int) -> list[LastAppend]:
    """Per writer the last append such that it and all before it were recorded at or before a time."""
    found = _around(path, table, opened, lambda _, at: at.latest_ms > at_ms)
    if found is None:
        return last_appends(table, relation_of(opened, table), until_ms=at_ms)
    later = {append.writer: append for append in last_appends(table, found.stamps, until_ms=at_ms)}
    return list((found.appends | later).values())


def appends_named(
    path: str, table: str, opened: DeltaTable, last: Sequence[LastAppend]
) -> list[tuple[int | None, int | None]]:
    """When each of these appends was recorded as the rows say, and the latest of those up to it, in their order."""
    places = {append.writer: place_of(append.epoch, append.round) for append in last}
    found = _around(path, table, opened, lambda writer, at: at.place > places.get(writer, at.place))
    if found is None:
        return named_appends(relation_of(opened, table), last)
    answers = []
    for append, (at_ms, latest_ms) in zip(last, named_appends(found.stamps, last), strict=True):
        known, before_ms = found.appends.get(append.writer), found.latest_ms.get(append.writer, latest_ms)
        is_known = known is not None and (known.epoch, known.round) == (append.epoch, append.round)
        latest = max((one for one in (latest_ms, before_ms) if one is not None), default=None)
        answers.append((known.recorded_at_ms if known is not None and is_known else at_ms, latest))
    return answers


# Last appends of a writer -------------------------------------------------------------------------
# When a writer last appended to a table, by what the log says of its files: few of them are read, or none.
#
# Files of a driver or a recorder have rows of that writer alone, and the log says when the last one was
# recorded. Only a file with rows of several writers, or of which the log does not say, may have to be read,
# and what was found is kept.


@dataclass(slots=True)
class AppendTimes:
    """Of one writer in one table. What was found in a file is kept by the file's name: a file never changes."""

    table: str
    writer: str
    _known_ms: dict[str, int | None] = field(default_factory=dict)

    def last_ms(self, opened: DeltaTable) -> int | None:
        """The latest time of its rows in this version; None: there is none. Raises what deltalake and DuckDB raise."""
        known_ms, latest_ms, asked = self._known_of(opened)
        if asked:
            relation = relation_of(opened, self.table)
            if not isinstance(relation, ParquetFiles):  # paths that DuckDB would read otherwise
                return last_recorded_at_ms(relation, self.writer)
            known_ms |= self._read(relation, asked)
        self._known_ms = known_ms  # as a whole: of two threads that read at once one reads in vain
        return max((at_ms for at_ms in (latest_ms, *known_ms.values()) if at_ms is not None), default=None)

    def asked_of(self, opened: DeltaTable) -> bool:
        """Whether files of this version have to be read for that."""
        return bool(self._known_of(opened)[2])

    def _known_of(self, opened: DeltaTable) -> tuple[dict[str, int | None], int | None, list[FileStamps]]:
        """What is known by file, the latest time that this and the log say, and the files that may say a later one."""
        files = file_stamps(opened)
        known_ms = {file.name: self._known_ms[file.name] for file in files if file.name in self._known_ms}
        known = [*known_ms.values(), *(file.last_ms_of(self.writer) for file in files)]
        latest_ms = max((at_ms for at_ms in known if at_ms is not None), default=None)
        asked = [
            file
            for file in files
            if file.name not in known_ms and file.may_tell_later(self.writer, latest_ms)
        ]
        return known_ms, latest_ms, asked

    def _read(self, relation: ParquetFiles, asked: Sequence[FileStamps]) -> dict[str, int | None]:
        names = {file.name for file in asked}
        paths = tuple(path for path in relation.paths if path.rpartition("/")[2] in names)
        found = last_recorded_of_each(replace(relation, paths=paths), self.writer)
        return {path.rpartition("/")[2]: found.get(path) for path in paths}


# Around a place -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Around:
    """By writer its last append of which a block says that it counts, with the latest time up to there; and stamps."""

    appends: dict[str, LastAppend]
    latest_ms: dict[str, int]
    stamps: pa.Table


def _around(
    path: str, table: str, opened: DeltaTable, is_over: Callable[[str, LastPlace], bool]
) -> _Around | None:
    """What is known around the places of each writer behind which nothing counts; None: all stamps are to be read.

    `is_over`: whether some of a writer's rows up to a place do not count.
    """
    if (blocks := Projection(path, table).blocks(opened)) is None:
        return None
    try:
        if (end := blocks.last(lambda _: True)) is None:
            return None
        appends, latest_ms = {}, {}
        gaps: dict[int, Block] = {}
        for writer, last in end.noted.until.items():

            def is_enough(block: Block, writer: str = writer, last: LastPlace = last) -> bool:
                at = block.noted.until.get(writer)
                return at is not None and (at.place == last.place or is_over(writer, at))

            block = blocks.first(is_enough)
            if block is not None and is_over(writer, block.noted.until[writer]):
                gaps[block.noted.rows] = block
                block = blocks.before(block)
            at = None if block is None else block.noted.until.get(writer)
            if block is not None and at is not None:
                appends[writer] = LastAppend(table, writer, at.epoch, at.round, block.appended_ms[writer])
                latest_ms[writer] = at.latest_ms
        stamps = [_stamps(opened, table, end.noted)]
        for block in gaps.values():
            before = blocks.before(block)
            low = NOTHING if before is None else before.noted
            stamps.append(_stamps(opened, table, low, block.noted))
        return _Around(appends, latest_ms, pa.concat_tables(stamps))
    except (*UNREADABLE, _NotAllError) as error:
        log.debug("all stamps of %s are read: %s", table, error)
        return None


class _NotAllError(Exception):
    """Files do not have what blocks say."""


def _stamps(opened: DeltaTable, table: str, low: Noted, high: Noted | None = None) -> pa.Table:
    """Those of the rows behind one block, up to another, None: to the newest; each of them once."""
    until = {} if high is None else high.until
    if high is not None and not all(high.covers(writer, at.place) for writer, at in low.until.items()):
        raise _NotAllError("blocks do not follow each other")
    latest_ms = max((at.latest_ms for at in until.values()), default=None)
    with read_behind(opened, table, low, until_ms=latest_ms) as behind:
        if behind is None:
            raise _NotAllError("rows that are projected are not in the files")
        ends = {"writer": list(until), "place": [at.place for at in until.values()]}
        behind.connection.register("ends", pa.table(ends, _ENDS))
        condition = "" if high is None else _UP_TO
        found = selected(
            behind.connection,
            f"select {_COLUMNS}, count(*) as rows from behind as b {condition} group by all",
        )
    rows = pc.sum(found["rows"]).as_py() or 0
    if high is not None and rows != high.rows - low.rows:
        raise _NotAllError(f"{rows} rows of {high.rows - low.rows}")
    return found.drop_columns("rows")


_COLUMNS = "b.writer, b.writer_epoch, b.round, b.recorded_at_ms"
_UP_TO = (
    "inner join ends as e on e.writer = b.writer "
    f"and b.writer_epoch * {ROUNDS_PER_EPOCH} + b.round <= e.place"
)
_ENDS = pa.schema({"writer": pa.string(), "place": pa.int64()})
