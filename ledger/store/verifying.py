"""Whether the rows of a table are those that its writers appended: every file is read, every link is made again.

Also found is what would hide a row that is there: a log or a file that says other bounds of its values than it has, by
which readers skip it. Files are read by both libraries that answers are read with, which have to agree.
"""

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ledger.errors import LedgerUnavailableError
from ledger.facts.archived import FactsArchived, FactsLeft, archived_periods, unended
from ledger.facts.cuts import Cut
from ledger.facts.links import LINK, Head, content_of, link_of, root_of, row_order
from ledger.facts.tables import OPERATIONS, ROUNDS_PER_EPOCH, TABLE_BY_NAME, epoch_and_round
from ledger.store.carried import LEAVING
from ledger.store.damage import damages_of, is_of_a_library, words_of
from ledger.store.delta_tables import STATISTICS, stored_schema, table_uri
from ledger.store.heads import Anchor
from ledger.store.ledger_copy import copy_at
from ledger.store.merging import SORTED_BY, TableFolder
from ledger.store.projection_audit import ProjectionStatus, audit_projections
from ledger.store.snapshots import DeltaLedger, DeltaSnapshot, OpenedTables
from ledger.store.sql import connected
from ledger.words import instant

_APPENDS_ROWS = 20_000
"""So many rows at a time become objects of Python."""


class Finding(StrEnum):
    """What is wrong of a ledger's rows."""

    ALTERED = "altered"  # rows of the append, or of one before it, are not what they were
    UNLINKED = "unlinked"  # rows of no link
    HIDDEN = "hidden"  # rows that are there, and that readers may skip
    UNREADABLE = "unreadable"  # a file
    CUT_OFF = "cut_off"  # the log has heard of a later append
    MISSING = "missing"  # an append that an anchor has
    REPLACED = "replaced"  # an append that an anchor has otherwise
    OTHER_LEDGER = "other_ledger"  # an anchor is of another ledger
    PROJECTION = "projection"  # answers by a projection would be others than by the facts


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that is wrong; `writer`, `epoch` and `round` of the append, None: it is about no certain one."""

    table: str
    status: Finding
    words: str
    writer: str | None = None
    epoch: int | None = None
    round: int | None = None


@dataclass(frozen=True, slots=True)
class Linked:
    """An append as it lies in the files: the values of its rows in the order of links, without columns that have none.

    `link` None: it has none, or not on its first row.
    """

    place: int
    columns: Mapping[str, list[Any]]
    link: str | None

    @property
    def content(self) -> str:
        """What tells its rows from others."""
        return content_of(self.columns)


class _Said(NamedTuple):
    """Of an append what is kept of it: its rows would not fit into memory."""

    place: int
    content: str
    link: str | None


@dataclass(slots=True)
class TableVerified:
    """What was found of a table. `appends`: how many were compared with their link; `links` by writer and place.
    `stay`: a hash of the rows that stay of what has left, see `stay_of`."""

    table: str
    found: list[Found] = field(default_factory=list)
    heads: list[Head] = field(default_factory=list)
    appends: int = 0
    links: dict[tuple[str, int], str] = field(default_factory=dict)
    stay: str = ""


def verify_table(
    opened: DeltaTable,
    table: str,
    *,
    until: Mapping[str, int] | None,
    left: Mapping[str, Head],
) -> TableVerified:
    """What is wrong of the rows of a version.

    `until`: by writer the last place that counts, None: all do. `left`: by writer the last append whose rows have left
    into an archive: what follows continues it.
    """
    done = TableVerified(table)
    with _unreadable_is_found(done, "its log"):
        appends = _appends(opened, table, done, {writer: head.place for writer, head in left.items()})
        for writer in sorted({*appends, *left}):
            of_writer = appends.get(writer, [])
            last = None if until is None else until.get(writer, -1)
            counted = [one for one in of_writer if last is None or one.place <= last]
            _follow(done, writer, sorted(counted, key=lambda one: one.place), left.get(writer))
            if until is None and of_writer:
                _require_last(done, opened, writer, max((one.place for one in of_writer), default=0))
    return done


@contextmanager
def _unreadable_is_found(done: TableVerified, what: str) -> Iterator[None]:
    """What cannot be read in here is found of the table; what was found before stays."""
    try:
        yield
    except BaseException as error:
        if not (is_of_a_library(error) or isinstance(error, (LedgerUnavailableError, ValueError, KeyError))):
            raise
        done.found.append(Found(done.table, Finding.UNREADABLE, f"{what}: {words_of(error)}"))


def stay_of(opened: DeltaTable, table: str, left: Mapping[str, int]) -> str:
    """A hash of the rows of a version up to a place of each writer, in whatever files they lie; empty: there are none.

    Raises `LedgerUnavailableError` where a file cannot be read.
    """
    done = TableVerified(table)
    _appends(opened, table, done, left)
    if done.found:
        raise LedgerUnavailableError(f"{table} has {done.found[0].words}; nothing was recorded of it")
    return done.stay


# The chain ----------------------------------------------------------------------------------------


def _follow(done: TableVerified, writer: str, appends: Sequence[_Said], left: Head | None) -> None:
    """Compare each append with its link, and that with the one before."""
    head = left
    previous = None if head is None else head.link
    seen = -1
    for one in appends:
        epoch, number = epoch_and_round(one.place)
        at = (writer, epoch, number)
        if one.place == seen:
            done.found.append(Found(done.table, Finding.ALTERED, "its rows are there twice", *at))
            continue
        seen = one.place
        if one.link is None:
            words = "it has no link, or not on its first row: it was not appended by this program"
            done.found.append(Found(done.table, Finding.UNLINKED, words, *at))
            continue
        done.appends += 1
        if link_of(done.table, previous, one.content) != one.link:
            words = "its rows, or the append before it, are not those that its link was made of"
            done.found.append(Found(done.table, Finding.ALTERED, words, *at))
        previous = one.link
        done.links[writer, one.place] = one.link
        head = Head(done.table, writer, epoch, number, one.link)
    if head is not None:
        done.heads.append(head)


def _require_last(done: TableVerified, opened: DeltaTable, writer: str, last: int) -> None:
    """The log has the place of the writer's last commit: its rows are there, but for those of a claim."""
    committed = opened.transaction_version(writer)
    if committed is None or committed < last:
        epoch, number = epoch_and_round(last)
        words = "the log does not say that its writer has come so far: a later append could take its place"
        done.found.append(Found(done.table, Finding.CUT_OFF, words, writer, epoch, number))
    elif committed > last and committed % ROUNDS_PER_EPOCH:
        epoch, number = epoch_and_round(committed)
        words = "the log says that it was appended, and its rows are not there"
        done.found.append(Found(done.table, Finding.CUT_OFF, words, writer, epoch, number))


# The files ----------------------------------------------------------------------------------------


def _appends(
    opened: DeltaTable, table: str, done: TableVerified, left: Mapping[str, int]
) -> dict[str, list[_Said]]:
    """By writer the appends of a version, those that have left excepted."""
    found: dict[str, list[_Said]] = {}
    stays: list[str] = []
    folder, said_columns = TableFolder(opened.table_uri), pa.schema(opened.schema().to_arrow())
    if (wrong := _other_columns(said_columns, stored_schema(TABLE_BY_NAME[table]))) is not None:
        done.found.append(Found(table, Finding.HIDDEN, wrong))
    for said in pa.table(opened.get_add_actions(flatten=True)).to_pylist():
        with (
            _unreadable_is_found(done, said["path"]),
            folder.readable([said["path"]]) as [path],
        ):
            rows, why_hidden = _read(path, table, said, said_columns.names)
            if why_hidden is not None:
                done.found.append(Found(table, Finding.HIDDEN, f"{said['path']}: {why_hidden}"))
            for writer, one in appends_of(table, rows):
                if one.place > left.get(writer, -1):
                    found.setdefault(writer, []).append(_Said(one.place, one.content, one.link))
                else:
                    stays.append(f"{writer}\n{one.place}\n{one.content}\n")
    done.stay = hashlib.sha256("".join(sorted(stays)).encode()).hexdigest() if stays else ""
    return found


def _other_columns(said: pa.Schema, known: pa.Schema) -> str | None:
    """Say how the columns of the log are not those of the table; None: they are."""
    for column in said:
        if column.name in known.names and _kind(column.type) != _kind(known.field(column.name).type):
            return f"its log says another type of {column.name} than the table's: {column.type}"
    more, lacking = (
        [name for name in one.names if name not in other.names]
        for one, other in ((said, known), (known, said))
    )
    if more or lacking:
        return f"its log has not the columns of the table: {', '.join(sorted({*more, *lacking}))} lacking or unknown"
    return None


def _read(
    path: str, table: str, said: Mapping[str, Any], columns: Collection[str]
) -> tuple[pa.Table, str | None]:
    """The rows of a file, and why some of them may be hidden; None: they are not. `columns`: those of the log.

    Raises what its libraries raise where it cannot be read, and `ValueError` where they read different rows.
    """
    schema, size = stored_schema(TABLE_BY_NAME[table]), os.stat(path).st_size
    if size != said["size_bytes"]:
        raise ValueError(f"it has {size} bytes, not {said['size_bytes']} as the log says")
    with pq.ParquetFile(path) as file:
        if other := set(file.schema_arrow.names) ^ set(columns):
            raise ValueError(
                f"it has other columns than the log: {', '.join(sorted(other))} lacking or unknown"
            )
        rows = file.read()
        rows.validate(full=True)
        hidden = _hidden_in_parts(file, rows)
    with connected() as connection:
        as_answers_read = connection.read_parquet(path).to_arrow_table()
    rows, as_answers_read = (_whole(one, schema) for one in (rows, as_answers_read))
    if not rows.equals(as_answers_read):
        raise ValueError("two libraries read different rows")
    return rows, hidden or _hidden_by_log(rows, said)


def _whole(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns of a table. Raises `ValueError` where a file says that a column is of another type."""
    for column in rows.schema:
        if _kind(column.type) != _kind(schema.field(column.name).type):
            raise ValueError(f"its column {column.name} is of another type than the table's: {column.type}")
    return rows.select(schema.names).cast(schema).combine_chunks()


def _kind(type_: pa.DataType) -> str:
    """A type by what it holds: libraries have texts and lists of several makes."""
    if pa.types.is_struct(type_):
        return ",".join(f"{one.name}:{_kind(one.type)}" for one in type_)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"[{_kind(type_.value_type)}]"
    is_text = pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)
    return "string" if is_text else str(type_)


def _hidden_by_log(rows: pa.Table, said: Mapping[str, Any]) -> str | None:
    """Where the log says of a file what its rows deny."""
    if said.get("num_records") not in (None, len(rows)):
        return f"the log says {said['num_records']} rows, there are {len(rows)}"
    for name in STATISTICS:
        if (wrong := _outside(rows[name], said.get(f"min.{name}"), said.get(f"max.{name}"))) is not None:
            return f"the log says {name} {wrong}"
        if said.get(f"null_count.{name}") not in (None, rows[name].null_count):
            return f"the log says {said[f'null_count.{name}']} rows without {name}"
    return None


def _hidden_in_parts(file: pq.ParquetFile, rows: pa.Table) -> str | None:
    """Where a file says of its parts what their rows deny. Bounds of pages are not read: no library shows them."""
    begins = 0
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        part = rows.slice(begins, group.num_rows)
        begins += group.num_rows
        for column in map(group.column, range(group.num_columns)):
            said = column.statistics
            if column.bloom_filter_offset is not None:
                return (
                    f"it has a filter of the values of {column.path_in_schema}, as this program writes none"
                )
            if said is None or column.path_in_schema not in part.column_names:
                continue
            values = part[column.path_in_schema]
            if said.has_null_count and said.null_count != values.null_count:
                return f"it says {said.null_count} rows without {column.path_in_schema}"
            if said.has_min_max and (wrong := _outside(values, said.min, said.max)) is not None:
                return f"it says {column.path_in_schema} {wrong}"
    return None if begins == len(rows) else f"its parts say {begins} rows, there are {len(rows)}"


def _outside(values: pa.ChunkedArray, least: object, greatest: object) -> str | None:
    """How values are not within bounds; null bounds say nothing."""
    found = pc.min_max(values).as_py()
    if found["min"] is None:
        return None
    try:
        is_within = (least is None or least <= found["min"]) and (
            greatest is None or found["max"] <= greatest
        )
    except TypeError:
        is_within = False
    return None if is_within else f"from {least} to {greatest}, it is from {found['min']} to {found['max']}"


def appends_of(table: str, rows: pa.Table) -> Iterator[tuple[str, Linked]]:
    """The appends of rows with their links, each with its writer."""
    place = pc.add(pc.multiply(rows["writer_epoch"], ROUNDS_PER_EPOCH), rows["round"])
    stamped = pa.table({"writer": rows["writer"], "place": place})
    order = pc.sort_indices(stamped, sort_keys=[("writer", "ascending"), ("place", "ascending")])
    writers, places = stamped["writer"].take(order).to_pylist(), stamped["place"].take(order).to_pylist()
    begins = 0
    while begins < len(rows):
        ends = min(begins + _APPENDS_ROWS, len(rows))
        while ends < len(rows) and (writers[ends], places[ends]) == (writers[ends - 1], places[ends - 1]):
            ends += 1
        part = rows.take(order.slice(begins, ends - begins))
        columns = {
            name: part[name].to_pylist() for name in part.column_names if part[name].null_count < len(part)
        }
        first = begins
        for row in range(begins + 1, ends + 1):
            if row == ends or (writers[row], places[row]) != (writers[first], places[first]):
                at = slice(first - begins, row - begins)
                values = {name: found[at] for name, found in columns.items()}
                yield writers[first], _linked(table, places[first], values, row - first)
                first = row
        begins = ends


def _linked(table: str, place: int, values: Mapping[str, list[Any]], rows: int) -> Linked:
    order = row_order([values[name] for name in SORTED_BY.get(table, ()) if name in values], rows)
    in_order = {name: [of_column[row] for row in order] for name, of_column in values.items()}
    links = in_order.pop(LINK, [None])
    is_at_first = links[0] is not None and links.count(None) == rows - 1
    return Linked(place, in_order, links[0] if is_at_first else None)


# The ledger ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found of a ledger at a cut: its `heads` with their `root`, and counts of all tables.

    `anchors`: with how many it was compared; with none a cut end and an older copy put back are not checked.
    """

    found: list[Found]
    heads: tuple[Head, ...]
    appends: int
    anchors: int

    @property
    def root(self) -> str:
        return root_of(self.heads)


def verify_ledger(
    path: str,
    anchors: Sequence[Anchor],
    *,
    as_of: str | None,
    now_ms: int,
    tables: Collection[str] = TABLE_BY_NAME,
) -> Verified:
    """Compare all rows that count at a cut with their links, and these with anchors; of tables those of these names.

    Raises what opening the ledger raises where it is none.
    """
    copy = copy_at(path)
    if as_of is None and copy is not None:
        as_of = copy.cut
    opened_tables = OpenedTables.of(path, tables)
    at = DeltaSnapshot(opened_tables) if as_of is None else DeltaLedger(path).as_of(as_of, now_ms=now_ms)
    left, stays = _left_if_readable(at)
    verified: dict[str, TableVerified] = {}
    for table in tables:
        until = None if as_of is None else {one.writer: one.place for one in at.cut.of_table(table)}
        done = verify_table(at.version(table), table, until=until, left=left.get(table, {}))
        done.found += _damaged_log(table_uri(path, table), table)
        if table in stays and done.stay != stays[table]:
            words = "rows that stay of what has left into an archive are not those that stayed"
            done.found.append(Found(table, Finding.ALTERED, words))
        verified[table] = done
    found = [one for done in verified.values() for one in done.found]
    ends = at.cut if as_of is not None else None
    ledger_id = opened_tables.ledger_id
    found += [one for anchor in anchors for one in _compared(anchor, ledger_id, verified, left, ends)]
    if not found:
        found += _projections(at, tables)
    return Verified(
        found,
        tuple(sorted(head for done in verified.values() for head in done.heads)),
        sum(done.appends for done in verified.values()),
        len(anchors),
    )


def _left_if_readable(at: DeltaSnapshot) -> tuple[dict[str, dict[str, Head]], dict[str, str]]:
    """Nothing where what says so cannot be read: then that is found of its file."""
    try:
        return _left(at)
    except BaseException as error:
        if not (is_of_a_library(error) or isinstance(error, (LedgerUnavailableError, ValueError))):
            raise
        return {}, {}


def _left(at: DeltaSnapshot) -> tuple[dict[str, dict[str, Head]], dict[str, str]]:
    """By table and writer the last append whose rows have left; and by table the hash of those that stay."""
    rows = at.rows(OPERATIONS.name, [("kind", "in", (FactsArchived.kind, FactsLeft.kind))])
    begun = unended(rows)
    left: dict[str, dict[str, Head]] = {}
    stays: dict[str, str] = {}
    for number, period in enumerate(archived_periods(rows), 1):
        is_begun = begun is not None and begun[1] == period
        for name in LEAVING:
            if is_begun and not _has_carried(at.version(name), number):
                continue
            ends = (end for end in period.ends if end.fact_table == name)
            left[name] = {
                end.writer: Head(name, end.writer, end.writer_epoch, end.round, end.link) for end in ends
            }
            stays.pop(name, None)
    for row in rows:
        if row["kind"] == FactsLeft.kind and begun is None:
            stays = dict(FactsLeft.of_row(row).stay)
    return left, stays


def _has_carried(opened: DeltaTable, number: int) -> bool:
    return any(
        name.startswith(f"carried-{number:06d}-") for name in opened.get_add_actions()["path"].to_pylist()
    )


def _damaged_log(uri: str, table: str) -> Iterator[Found]:
    for damage in damages_of(uri):
        if damage.rows is None:
            yield Found(table, Finding.UNREADABLE, str(damage))


def _compared(
    anchor: Anchor,
    ledger_id: str,
    tables: Mapping[str, TableVerified],
    left: Mapping[str, Mapping[str, Head]],
    ends: Cut | None,
) -> Iterator[Found]:
    """What the ledger lacks of the heads of an anchor, or has otherwise; behind a cut nothing is compared."""
    if anchor.ledger_id != ledger_id:
        words = f"{anchor.place} is of ledger {anchor.ledger_id}, this is {ledger_id}"
        yield Found("writers", Finding.OTHER_LEDGER, words)
        return
    last = None if ends is None else {(one.table, one.writer): one.place for one in ends.last}
    for head in anchor.heads:
        if head.table not in tables:
            continue
        if last is not None and head.place > last.get((head.table, head.writer), -1):
            continue
        archived = left.get(head.table, {}).get(head.writer)
        if archived is not None and head.place < archived.place:
            continue
        where = (head.writer, head.epoch, head.round)
        link = tables[head.table].links.get((head.writer, head.place))
        if archived is not None and head.place == archived.place:
            link = archived.link
        since = f"{anchor.place} has it since {instant(anchor.at_ms)}"
        if link is None:
            words = f"{since}: the end was cut off, or an older copy put in place of the ledger"
            yield Found(head.table, Finding.MISSING, words, *where)
        elif link != head.link:
            yield Found(head.table, Finding.REPLACED, f"{since}, with other rows or after others", *where)


def _projections(at: DeltaSnapshot, tables: Collection[str]) -> Iterator[Found]:
    for one in audit_projections(at, tables):
        if one.status is ProjectionStatus.DIFFERS:
            words = "answers by it would not be those of the facts; maintain --rebuild makes it again"
            yield Found(one.table, Finding.PROJECTION, words)
