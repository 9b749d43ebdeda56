"""The ledger on Delta, read without a JVM: which rows an answer comes from.

Rows at a cut are those of the newest version of each table that the cut counts. So no version has to be kept:
merging files, removing old ones and shortening the Delta log change no answer.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from ledger.errors import InvalidValueError, UsageError
from ledger.facts.archived import FactsArchived, archived_periods
from ledger.facts.cuts import Cut, LastAppend, is_token
from ledger.facts.operations import recorded_cut
from ledger.facts.tables import (
    OPERATIONS,
    TABLE_BY_NAME,
    TABLES,
    Filter,
    in_order,
)
from ledger.store.appends import AppendTimes, appends_named, appends_until, recorded_span
from ledger.store.damage import reported
from ledger.store.delta_tables import (
    arrow_rows,
    arrow_schema,
    in_schema,
    open_table,
    table_uri,
)
from ledger.store.kept import KeptOperations
from ledger.store.ledger_copy import LedgerCopy, copy_at
from ledger.store.projections import PROJECTED, Projection
from ledger.store.relations import (
    filtered_rows,
    last_appends,
    last_recorded_at_ms,
    relation_of,
    row_count,
)
from ledger.store.sql import CutRows, ParquetFiles, Relation, connected, register

# Snapshots ----------------------------------------------------------------------------------------


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DIGITS = re.compile(r"[0-9]{1,18}")
_CLOCKS_APART_MS = 10_000
"""Clocks of a reader and of writers may differ so much before a time counts as one to come."""
_IDENTIFIED_BY = "writers"


@dataclass(frozen=True)
class OpenedTables:
    """Tables of a ledger, each at its newest version when it was opened: once, all of them together.

    `of` raises unless this program can read what it opens.
    """

    path: str
    _by_name: dict[str, DeltaTable]
    _relations: dict[str, "pa.Table | ParquetFiles"] = field(default_factory=dict)
    _last_ms: dict[tuple[str, str], int | None] = field(default_factory=dict)
    _copy: LedgerCopy | None = None

    @classmethod
    def of(cls, path: str, names: Collection[str] = TABLE_BY_NAME) -> "OpenedTables":
        """Those of these names; another one is opened when somebody asks for it."""
        copy = copy_at(path)
        opened = {table: open_table(path, table, copy) for table in TABLE_BY_NAME if table in names}
        return cls(path, opened, _copy=copy)

    def table(self, name: str) -> DeltaTable:
        if name not in self._by_name:
            self._by_name[name] = open_table(self.path, name, self._copy)
        return self._by_name[name]

    def copied_version(self, name: str) -> int | None:
        """The version of a table that the copy names, which is read; None: this is no copy."""
        return None if self._copy is None else self._copy.tables[name].version

    def relation(self, table: str) -> "pa.Table | ParquetFiles":
        if table not in self._relations:
            uri = table_uri(self.path, table)
            with reported(f"{uri} cannot be read", uri):
                self._relations[table] = relation_of(self.table(table), table)
        return self._relations[table]

    @cached_property
    def cut(self) -> Cut:
        """All that the tables had when they were opened: of every table and writer the last append."""
        found = (self._last_appends(table.name) for table in TABLES)
        return Cut.of(self.ledger_id, (append for appends in found for append in appends))

    def _last_appends(self, table: str) -> list[LastAppend]:
        known = Projection(self.path, table).last_appends(self.table(table)) if table in PROJECTED else None
        return last_appends(table, self.relation(table)) if known is None else known

    def last_recorded_at_ms(self, table: str, writer: str) -> int | None:
        """When the writer recorded last in a table; None: never."""
        key = table, writer
        if key not in self._last_ms:
            uri = table_uri(self.path, table)
            with reported(f"{uri} cannot be read", uri):
                self._last_ms[key] = AppendTimes(table, writer).last_ms(self.table(table))
        return self._last_ms[key]

    @property
    def ledger_id(self) -> str:
        """What tells one ledger from another, and is the same for its copies: the id of the table `writers`."""
        return str(self._identifying.metadata().id)

    @property
    def created_at_ms(self) -> int:
        """When it was created, by the clock of who did."""
        return int(self._identifying.metadata().created_time)

    @cached_property
    def recorded_spans(self) -> list[tuple[int, int]]:
        """Of each table that has rows, when the first and the last of them was recorded."""
        found = (recorded_span(table.name, self.table(table.name)) for table in TABLES)
        return [span for span in found if span is not None]

    @property
    def began_at_ms(self) -> int:
        """Before that it answers nothing: it had neither been created, nor had it a row of an older ledger."""
        return min([self.created_at_ms, *(first_ms for first_ms, _ in self.recorded_spans)])

    @property
    def _identifying(self) -> DeltaTable:
        return self.table(_IDENTIFIED_BY)


class DeltaSnapshot:
    """The tables of a ledger at one cut: all rows that the opened tables have, or those that a cut counts.

    `until_ms`: per table that the cut names when the latest of its rows was recorded.
    """

    def __init__(
        self,
        opened: OpenedTables,
        counted: Cut | None = None,
        until_ms: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._opened = opened
        self._counted = counted
        self._until_ms = until_ms
        self._operations = KeptOperations()

    @property
    def path(self) -> str:
        return self._opened.path

    @property
    def began_at_ms(self) -> int:
        """When the ledger begins, whatever the cut."""
        return self._opened.began_at_ms

    @property
    def cut(self) -> Cut:
        """What the rows come to: of every table and writer the last append."""
        return self._opened.cut if self._counted is None else self._counted

    def relation(self, table: str) -> Relation:
        """The rows of a table that count; of `operations` also those that say what has left the ledger: that is so at
        every cut of it, whenever it left."""
        found = self.counted_relation(table)
        if table != OPERATIONS.name or self._counted is None or not len(left := self.left_since):
            return found
        with connected() as connection:
            register(connection, "counted", found)
            rows = connection.table("counted").to_arrow_table()
        schema = arrow_schema(TABLE_BY_NAME[table])
        return pa.concat_tables([in_schema(rows, schema), left])

    @cached_property
    def left_since(self) -> pa.Table:
        """Rows of `operations` behind the cut that say what has left the ledger."""
        last = {one.writer: (one.epoch, one.round) for one in self.cut.of_table(OPERATIONS.name)}
        rows = left_rows(self._opened)
        since = [
            row for row in rows if (row["writer_epoch"], row["round"]) > last.get(row["writer"], (-1, 0))
        ]
        return arrow_rows(OPERATIONS, since)

    def counted_relation(self, table: str) -> Relation:
        """The rows of a table that the cut counts, and no others."""
        rows = self._opened.relation(table)
        if self._counted is None:
            return rows
        if last := self._counted.of_table(table):
            return CutRows(rows, last, self._until_ms[table])
        return arrow_schema(TABLE_BY_NAME[table]).empty_table()

    def version(self, table: str) -> DeltaTable:
        """The version of a table that is read, of which a cut may count some rows."""
        return self._opened.table(table)

    def copied_version(self, table: str) -> int | None:
        """The version of a table that the copy of a ledger names, whatever lies behind it; None: this is no copy."""
        return self._opened.copied_version(table)

    def counted(self, table: str) -> tuple[tuple[LastAppend, ...], int] | None:
        """Of each writer the last append that counts, and when the latest row of these was recorded; None: all do."""
        if self._counted is None:
            return None
        return tuple(self._counted.of_table(table)), self._until_ms.get(table, 0)

    @cached_property
    def last_left(self) -> FactsArchived | None:
        """The last period whose facts have left the ledger; None: none has."""
        return next(reversed(archived_periods_of(self._opened)), None)

    def count(self, table: str) -> int:
        """How many rows of a table count."""
        return row_count(self.counted_relation(table))

    def rows(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        """The rows of a table that pass all filters, each writer's in the order of recording."""
        relation = self.relation(table)
        is_kept = table == OPERATIONS.name
        return in_order(
            self._operations.of(relation, filters) if is_kept else filtered_rows(relation, filters)
        )

    def last_recorded_in(self, table: str, writer: str) -> int | None:
        """When the writer appended last to the table; None: never."""
        if self._counted is not None:
            return last_recorded_at_ms(self.relation(table), writer)
        return self._opened.last_recorded_at_ms(table, writer)

    def last_recorded_at_ms(self, writer: str | None = None) -> int:
        """When the last row of the cut, or of a writer in it, was recorded; 0 when there is none."""
        if self._counted is not None:
            found = (last_recorded_at_ms(self.relation(table.name), writer) for table in TABLES)
            return max(filter(None, found), default=0)
        if writer is None:
            return max((last_ms for _, last_ms in self._opened.recorded_spans), default=0)
        by_writer = (self._opened.last_recorded_at_ms(table.name, writer) for table in TABLES)
        return max(filter(None, by_writer), default=0)


@dataclass(frozen=True, slots=True)
class DeltaLedger:
    """A path at which a ledger is expected whenever it is read; each method raises where there is none."""

    path: str

    def now(self, tables: Collection[str] = TABLE_BY_NAME) -> DeltaSnapshot:
        """All that is recorded by now; who needs some of the tables only names them, and no other is opened."""
        return DeltaSnapshot(OpenedTables.of(self.path, tables))

    def at(self, cut: Cut) -> DeltaSnapshot:
        """The tables at a cut, after a check that it is one of this ledger and of this history of it, and its facts
        have not left."""
        opened = OpenedTables.of(self.path)
        if cut.ledger_id == opened.ledger_id:
            _require_kept(opened, cut)
        return DeltaSnapshot(opened, cut, _checked(opened, cut))

    def as_of(self, as_of: str | None, *, now_ms: int) -> DeltaSnapshot:
        """The tables at what `--as-of` names: none (now), a cut token, a time, or an operation id."""
        if as_of is None:
            return self.now()
        if is_token(as_of):
            return self.at(_parse_token(as_of))
        at_ms = parse_time(as_of)
        return self._at_operation(as_of, now_ms) if at_ms is None else self.at_time(at_ms, now_ms=now_ms)

    def at_time(self, at_ms: int, *, now_ms: int) -> DeltaSnapshot:
        """The tables as they were at a time, in milliseconds since the epoch: per table and writer the appends up to
        the last one such that it and all before it were recorded by then.

        Refused is a time that neither this machine's clock nor the ledger has come to: what will be recorded until
        then would change the answer.
        """
        opened = OpenedTables.of(self.path)
        spans = opened.recorded_spans
        if at_ms > max([now_ms + _CLOCKS_APART_MS, *(last_ms for _, last_ms in spans)]):
            raise UsageError(
                f"--as-of {_iso(at_ms)} has not come yet: it is {_iso(now_ms)} by the clock of this machine; "
                "nothing was read"
            )
        if at_ms < (began_ms := opened.began_at_ms):
            raise UsageError(
                f"the ledger begins at {_iso(began_ms)}, asked for {_iso(at_ms)}; nothing was read"
            )
        last = {
            table.name: appends_until(opened.path, table.name, opened.table(table.name), at_ms)
            for table in TABLES
        }
        cut = Cut.of(opened.ledger_id, (append for appends in last.values() for append in appends))
        _require_kept(opened, cut)
        return DeltaSnapshot(opened, cut, dict.fromkeys(last, at_ms))

    def _at_operation(self, operation_id: str, now_ms: int) -> DeltaSnapshot:
        rows = self.now().rows("operations", [("operation_id", "=", operation_id)])
        if not rows:
            raise UsageError(
                f"{operation_id!r} is no cut token, no time (ISO-8601 with an offset, or milliseconds since "
                "the epoch) and no operation of this ledger; nothing was read"
            )
        token = recorded_cut(rows)
        if token is not None:
            return self.at(_parse_token(token))
        return self.at_time(min(int(row["recorded_at_ms"]) for row in rows), now_ms=now_ms)


def open_ledger(path: str) -> DeltaLedger:
    """The ledger at `path`, after a check that it is one that this program can read and write."""
    OpenedTables.of(path)
    return DeltaLedger(path)


def archived_periods_of(opened: OpenedTables) -> list[FactsArchived]:
    """The periods whose facts have left a ledger, or are about to."""
    return archived_periods(left_rows(opened))


def left_rows(opened: OpenedTables) -> list[dict[str, Any]]:
    """What says so, as rows of `operations`."""
    return DeltaSnapshot(opened).rows(OPERATIONS.name, [("kind", "=", str(FactsArchived.kind))])


def _require_kept(opened: OpenedTables, cut: Cut) -> None:
    """Raise `UsageError` where facts that a cut counts alone, and not all later ones, have left into an archive."""
    asked = {(append.table, append.writer): (append.epoch, append.round) for append in cut.last}
    for period in archived_periods_of(opened):
        if any(
            asked.get((end.fact_table, end.writer), (-1, 0)) < (end.writer_epoch, end.round)
            for end in period.ends
        ):
            raise UsageError(
                f"facts from before {_iso(period.until_ms)} have left the ledger, and this is asked as of before; "
                f"nothing was read. The archive has them: set [ledger] path to {period.archive}"
            )


def _checked(opened: OpenedTables, cut: Cut) -> dict[str, int]:
    """Per table that the cut names when the latest of its rows was recorded.

    Raises `UsageError` when the ledger does not hold the appends that the cut names.
    """
    if cut.ledger_id != opened.ledger_id:
        raise UsageError(
            f"the cut is of another ledger ({cut.ledger_id}; this one is {opened.ledger_id}); nothing was read"
        )
    if strange := sorted({append.table for append in cut.last} - TABLE_BY_NAME.keys()):
        raise UsageError(
            f"the cut names {', '.join(strange)}, which is no table of a ledger; nothing was read"
        )
    until_ms = {}
    for table in sorted({append.table for append in cut.last}):
        last = cut.of_table(table)
        named = appends_named(opened.path, table, opened.table(table), last)
        for append, (found_at_ms, _) in zip(last, named, strict=True):
            _check_append(append, found_at_ms)
        until_ms[table] = max(at_ms or 0 for _, at_ms in named)
    return until_ms


def _check_append(append: LastAppend, found_at_ms: int | None) -> None:
    named = f"round {append.round} of {append.writer}, epoch {append.epoch}, in {append.table}"
    if found_at_ms is None:
        raise UsageError(
            f"the cut names {named}, which this ledger does not hold: it was brought back to a time before; "
            "nothing was read"
        )
    if found_at_ms != append.recorded_at_ms:
        raise UsageError(
            f"the cut names {named}, recorded at {_iso(append.recorded_at_ms)}; here that was recorded at "
            f"{_iso(found_at_ms)}: the ledger was brought back to a time before and went another way since; "
            "nothing was read"
        )


def parse_time(text: str) -> int | None:
    """Milliseconds since the epoch of a time as people write it; None when it is not meant as a time."""
    if _DIGITS.fullmatch(text):
        return int(text)
    if not _DATE.match(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        example = f"{moment.isoformat()}Z"
        raise UsageError(f"a time needs an offset or Z (as in {example}), got {text!r}; nothing was read")
    return round(moment.timestamp() * 1000)


def _parse_token(token: str) -> Cut:
    try:
        return Cut.parse(token)
    except InvalidValueError as error:
        raise UsageError(f"{error}; nothing was read") from error


def _iso(at_ms: int) -> str:
    """ISO-8601; a number that is no date within the calendar stays one."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, tz=UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        return f"{at_ms} ms since the epoch"
