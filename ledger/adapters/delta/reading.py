"""The ledger on Delta, read without a JVM: which version of each table an answer comes from, and its rows.

A time T means, per table, the last version such that its rows and all earlier rows were recorded at or before
T. Every append says in its commit when it was recorded (`recorded_at_ms`); other commits (the creation of a
table aside, maintenance) change no rows and belong to the append before them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from ledger.adapters.arrow_schema import arrow_schema
from ledger.adapters.delta.tables import RECORDED_AT, check_table, missing_columns, table_uri
from ledger.adapters.duck.engine import ParquetFiles, Relation
from ledger.adapters.duck.rows import Filter, filtered_rows, last_recorded_at_ms
from ledger.domain.cuts import Cut, is_token
from ledger.domain.recorded_operations import in_order
from ledger.errors import InvalidValueError, UsageError
from ledger.schema import ADDED_COLUMNS, TABLE_BY_NAME, TABLES

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DIGITS = re.compile(r"\d+")
_GLOB = re.compile(r"[*?\[\]]")
_CLOCKS_APART_MS = 10_000
"""Clocks of a reader and of writers may differ so much before a time counts as one to come."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table; `recorded_at_ms` None: it says nothing about when."""

    version: int
    recorded_at_ms: int | None


@dataclass(frozen=True, slots=True)
class DeltaSnapshot:
    """The tables of a ledger at one cut."""

    path: str
    cut: Cut

    def relation(self, table: str) -> Relation:
        return relation_of(DeltaTable(table_uri(self.path, table), version=self.cut.versions[table]), table)

    def lacking(self, table: str) -> frozenset[str]:
        """Columns that this version of a table has not gained yet."""
        opened = DeltaTable(table_uri(self.path, table), version=self.cut.versions[table])
        return frozenset(column.name for column in missing_columns(opened, table))

    def rows(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        """The rows of a table that pass all filters, each writer's in the order of recording."""
        found = filtered_rows(self.relation(table), filters)
        return in_order(found)

    def last_recorded_at_ms(self) -> int:
        """When the last row of the cut was recorded, 0 when there is none."""
        found = (last_recorded_at_ms(self.relation(table.name)) for table in TABLES)
        return max((at_ms for at_ms in found if at_ms is not None), default=0)


@dataclass(frozen=True, slots=True)
class DeltaLedger:
    """A path that was found to hold a ledger."""

    path: str

    def at(self, cut: Cut) -> DeltaSnapshot:
        """The tables at a cut, after a check that this ledger has those versions."""
        latest = self.latest().versions
        if set(cut.versions) != set(latest):
            raise UsageError(f"a cut pins {', '.join(sorted(latest))}, got {cut.token}; nothing was read")
        if beyond := [name for name, version in cut.pins if version > latest[name]]:
            raise UsageError(
                f"the cut {cut.token} is not of this ledger: {', '.join(beyond)} has not come so far; "
                "nothing was read"
            )
        return DeltaSnapshot(self.path, cut)

    def now(self) -> DeltaSnapshot:
        return DeltaSnapshot(self.path, self.latest())

    def latest(self) -> Cut:
        return Cut.of({table.name: self._open(table.name).version() for table in TABLES})

    def resolve(self, as_of: str | None, *, now_ms: int) -> Cut:
        """The cut that `--as-of` names: none (latest), a cut token, a time, or an operation id."""
        if as_of is None:
            return self.latest()
        if is_token(as_of):
            return self.at(_parse_token(as_of)).cut
        at_ms = parse_time(as_of)
        return self.cut_at(self._operation_time(as_of) if at_ms is None else at_ms, now_ms=now_ms)

    def cut_at(self, at_ms: int, *, now_ms: int) -> Cut:
        """The cut at a time, in milliseconds since the epoch.

        Refused is a time that neither this machine's clock nor the ledger has come to: what will be recorded until
        then would change the answer.
        """
        commits = {table.name: _commits(self._open(table.name)) for table in TABLES}
        if at_ms > max(now_ms + _CLOCKS_APART_MS, *map(_last_recorded_at_ms, commits.values())):
            raise UsageError(
                f"--as-of {_iso(at_ms)} has not come yet: it is {_iso(now_ms)} by the clock of this machine; "
                "nothing was read"
            )
        began_ms = max(_created_at_ms(table_commits) for table_commits in commits.values())
        if at_ms < began_ms:
            raise UsageError(
                f"the ledger begins at {_iso(began_ms)}, asked for {_iso(at_ms)}; nothing was read"
            )
        return Cut.of({name: version_at(found, at_ms) for name, found in commits.items()})

    def _operation_time(self, operation_id: str) -> int:
        operations = relation_of(self._open("operations"), "operations")
        rows = filtered_rows(operations, [("operation_id", "=", operation_id)])
        if not rows:
            raise UsageError(
                f"{operation_id!r} is no cut token, no time (ISO-8601 with an offset, or milliseconds since "
                "the epoch) and no operation of this ledger; nothing was read"
            )
        return min(int(row["recorded_at_ms"]) for row in rows)

    def _open(self, table: str) -> DeltaTable:
        return DeltaTable(table_uri(self.path, table))


def open_ledger(path: str) -> DeltaLedger:
    """The ledger at `path`, after a check that it is one that this program can read."""
    for table in TABLES:
        check_table(path, table.name)
    return DeltaLedger(path)


def version_at(commits: Sequence[Commit], at_ms: int) -> int:
    """The last version before the first commit that was recorded after `at_ms`."""
    version = commits[0].version
    for commit in commits:
        if commit.recorded_at_ms is not None and commit.recorded_at_ms > at_ms:
            break
        version = commit.version
    return version


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


def recorded_at_ms(entry: Mapping[str, object]) -> int | None:
    """When a commit was recorded, from its history entry: Spark's `userMetadata`, or a key of its own."""
    if isinstance(own := entry.get(RECORDED_AT), str | int):
        return int(own)
    try:
        metadata = json.loads(str(entry.get("userMetadata")))
    except ValueError:
        return None
    stated = metadata.get(RECORDED_AT) if isinstance(metadata, dict) else None
    return stated if isinstance(stated, int) else None


def _parse_token(token: str) -> Cut:
    try:
        return Cut.parse(token)
    except InvalidValueError as error:
        raise UsageError(f"{error}; nothing was read") from error


def _commits(table: DeltaTable) -> list[Commit]:
    history = sorted(table.history(), key=lambda entry: int(entry["version"]))
    commits = [Commit(int(entry["version"]), recorded_at_ms(entry)) for entry in history]
    if commits[0].recorded_at_ms is None:
        commits[0] = Commit(commits[0].version, int(history[0]["timestamp"]))
    return commits


def _created_at_ms(commits: Sequence[Commit]) -> int:
    created = commits[0].recorded_at_ms
    assert created is not None, "_commits fills the first one in"
    return created


def _last_recorded_at_ms(commits: Sequence[Commit]) -> int:
    return max(commit.recorded_at_ms for commit in commits if commit.recorded_at_ms is not None)


def relation_of(table: DeltaTable, name: str) -> Relation:
    """The rows of a table of the ledger, as DuckDB reads them."""
    uris = [unquote(uri.removeprefix("file://")) for uri in table.file_uris()]
    if not uris:
        return arrow_schema(TABLE_BY_NAME[name]).empty_table()
    if all(Path(uri).is_absolute() and not _GLOB.search(uri) for uri in uris):
        added = {
            column.name: column.type
            for column in TABLE_BY_NAME[name].columns
            if column.name in ADDED_COLUMNS.get(name, ())
        }
        return ParquetFiles(tuple(uris), TABLE_BY_NAME[name].column_names, added)
    return _with_columns(table, name)


def _with_columns(table: DeltaTable, name: str) -> pa.Table:
    """The rows through deltalake: for stores and paths that DuckDB would not read as they are written."""
    schema = arrow_schema(TABLE_BY_NAME[name])
    lacking = [column.name for column in missing_columns(table, name)]
    found = table.to_pyarrow_table(columns=[column for column in schema.names if column not in lacking])
    for column in lacking:
        found = found.append_column(schema.field(column), pa.nulls(len(found), schema.field(column).type))
    return found.select(schema.names)


def _iso(at_ms: int) -> str:
    """ISO-8601; a number that is no date within the calendar stays one."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, tz=UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        return f"{at_ms} ms since the epoch"
