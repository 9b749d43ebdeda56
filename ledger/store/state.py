"""What is read of the newest ledger: rows of each table, opened again at every read; no JVM, no time travel."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from ledger.facts.last_rows import GRAINS
from ledger.facts.rows import flow_position
from ledger.facts.state import LedgerState
from ledger.facts.syncs import FlowPosition
from ledger.facts.tables import (
    OFFSET_SYNCS,
    OPERATIONS,
    STAMP,
    TABLE_BY_NAME,
    TABLES,
    WRITERS,
    Filter,
    in_order,
)
from ledger.store import narrowed
from ledger.store.appends import AppendTimes
from ledger.store.catalog import Query, Value, query, tables_of
from ledger.store.damage import reported
from ledger.store.delta_tables import last_append, newest_version, table_id, table_uri
from ledger.store.kept import KeptAnswers, KeptOperations, Row, Version
from ledger.store.last_rows import LastRowsReader
from ledger.store.relations import filtered_rows, newest_rows, relation_of
from ledger.store.snapshots import DeltaLedger, DeltaSnapshot, open_ledger
from ledger.store.sql import Relation, run_query

# Newest rows --------------------------------------------------------------------------------------
# Rows of the newest version of each table, opened again at every read: no JVM, no time travel.


_SEARCHED_FIRST = OFFSET_SYNCS.name
"""Most starts ask it for what is not there: adoptions, copies of former topics, other flows' copies."""
_STAMP_NAMES = {column.name for column in STAMP}


class DeltaRows:
    """Implements `RowSource`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._operations = KeptOperations()
        self._answers = KeptAnswers()
        self._append_times: dict[tuple[str, str], AppendTimes] = {}
        self._appended: dict[tuple[str, str], tuple[Version, int | None]] = {}
        """By table and writer as of which of its appends, and when that was recorded."""
        self._last_rows = LastRowsReader(path)

    def rows(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        with self._reporting_unreadable(table):
            return self._answered(
                [table], f"{table} {filters}", lambda: in_order(self._passing(table, filters))
            )

    def newest(self, table: str, filters: Sequence[Filter], grain: Sequence[str]) -> list[dict[str, Any]]:
        columns = [name for name in TABLE_BY_NAME[table].column_names if name not in _STAMP_NAMES]
        with self._reporting_unreadable(table):
            is_noted = _decides(table, filters, grain) and not GRAINS[table].left_out
            relation = self._last_rows.of(table).last if is_noted else self.relation(table)
            return newest_rows(relation, filters, grain, columns)

    def claims(self, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        if not _decides(WRITERS.name, filters):
            return self.rows(WRITERS.name, filters)
        with self._reporting_unreadable(WRITERS.name):
            return self._answered(
                [WRITERS.name],
                f"claims {filters}",
                lambda: in_order(filtered_rows(self._last_rows.of(WRITERS.name).last, filters)),
                writer=_only_writer(filters),
            )

    def last_recorded_at_ms(self, writer: str) -> int | None:
        appended = []
        for table in TABLES:
            with self._reporting_unreadable(table.name):
                appended.append(self._appended_ms(table.name, writer))
        return max((at_ms for at_ms in appended if at_ms is not None), default=None)

    def answer_by_last_rows(self, asked: Query, params: Mapping[str, Value]) -> list[dict[str, Any]]:
        """What a query of the catalog answers that asks for last rows only. Raises as `rows`."""
        with self._reporting_unreadable():
            return self._answered(
                sorted(tables_of(asked.reads)),
                f"{asked.name} {params}",
                lambda: run_query(asked, params, _LastRows(self._last_rows)).to_pylist(),
            )

    def _answered(
        self,
        tables: Collection[str],
        question: str,
        answer: Callable[[], list[Row]],
        *,
        writer: str | None = None,
    ) -> list[Row]:
        """`writer`: whose rows alone are asked about; they stay the same while others append."""
        return self._answers.of(question, tuple(self._version(table, writer) for table in tables), answer)

    def _version(self, table: str, writer: str | None) -> Version:
        """What an answer from a table is as of; where one writer alone is asked about, that one's last append."""
        if writer is not None:
            return last_append(self._path, table, writer)
        opened = newest_version(self._path, table)
        return table_id(opened), opened.version()

    def relation(self, table: str) -> Relation:
        """The rows of a table, whose files are read when somebody asks for them: raises what deltalake does."""
        return relation_of(newest_version(self._path, table), table)

    def _passing(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        if table == _SEARCHED_FIRST and _decides(table, filters) and not self._is_any(table, filters):
            return []
        relation = self.relation(table)
        if table == OPERATIONS.name:
            return self._operations.of(relation, filters)
        return filtered_rows(relation, filters)

    def _is_any(self, table: str, filters: Sequence[Filter]) -> bool:
        return bool(filtered_rows(self._last_rows.of(table).last, filters))

    def _appended_ms(self, table: str, writer: str) -> int | None:
        version = self._version(table, writer)
        known = self._appended.get((table, writer))
        if known is None or known[0] != version:
            known = self._appended[table, writer] = version, self._read_appended_ms(table, writer)
        return known[1]

    def _read_appended_ms(self, table: str, writer: str) -> int | None:
        times = self._append_times.setdefault((table, writer), AppendTimes(table, writer))
        opened = newest_version(self._path, table)
        if times.asked_of(opened) and table in GRAINS and (noted := self._last_rows.noted(table)) is not None:
            last = noted.until.get(writer)
            return None if last is None else last.latest_ms
        return times.last_ms(opened)

    def _reporting_unreadable(self, table: str | None = None) -> AbstractContextManager[None]:
        if table is None:
            return reported(
                f"the ledger at {self._path} cannot be read",
                *(table_uri(self._path, one.name) for one in TABLES),
            )
        uri = table_uri(self._path, table)
        return reported(f"the ledger's table {uri} cannot be read", uri)


def _only_writer(filters: Sequence[Filter]) -> str | None:
    return next(
        (str(value) for column, comparison, value in filters if (column, comparison) == ("writer", "=")), None
    )


def _decides(table: str, filters: Sequence[Filter], grain: Sequence[str] = ()) -> bool:
    """Whether the last rows of a table are enough for what is asked."""
    columns = {column for column, _, _ in filters}.union(grain)
    return table in GRAINS and GRAINS[table].decides(columns)


@dataclass(frozen=True, slots=True)
class _LastRows:
    """The last rows of each table for a query."""

    reader: LastRowsReader

    def relation(self, table: str) -> Relation:
        return self.reader.of(table).last


# Ledger state -------------------------------------------------------------------------------------
# The latest state of the ledger, as drivers need it: no JVM, no time travel.


class DeltaLedgerState(LedgerState):
    """Implements `LedgerState`."""

    def __init__(self, ledger: DeltaLedger) -> None:
        self._rows = DeltaRows(ledger.path)
        super().__init__(self._rows)

    def positions(self, flow: str) -> list[FlowPosition]:
        found = self._rows.answer_by_last_rows(query("flow_positions"), {"flow": flow})
        return [flow_position(row) for row in found]


_following = WeakValueDictionary[str, DeltaLedgerState]()
_beginning = threading.Lock()


def followed_state(path: str) -> DeltaLedgerState:
    """The state of a ledger for who follows it, one for all of this process that do: what one has read others know.

    Raises `SetupError` and `PreconditionError` unless the ledger is one that this program can read and write.
    """
    ledger = open_ledger(path)
    with _beginning:
        state = _following.get(path)
        if state is None:
            state = _following[path] = DeltaLedgerState(ledger)
        return state


# State at a cut -----------------------------------------------------------------------------------
# What the newest rows came to at a cut: the same rules over the rows that count there.


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """Implements `RowSource` for one snapshot."""

    at: DeltaSnapshot

    def rows(self, table: str, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        return self.at.rows(table, filters)

    def newest(self, table: str, filters: Sequence[Filter], grain: Sequence[str]) -> list[dict[str, Any]]:
        columns = [name for name in TABLE_BY_NAME[table].column_names if name not in _STAMP_NAMES]
        kept = narrowed.kept_rows(self.at, table)
        return newest_rows(self.at.relation(table) if kept is None else kept, filters, grain, columns)

    def claims(self, filters: Sequence[Filter]) -> list[dict[str, Any]]:
        kept = narrowed.kept_rows(self.at, WRITERS.name)
        return self.rows(WRITERS.name, filters) if kept is None else in_order(filtered_rows(kept, filters))

    def last_recorded_at_ms(self, writer: str) -> int | None:
        return self.at.last_recorded_at_ms(writer) or None


class SnapshotState(DeltaLedgerState):
    """Implements `LedgerState` for one snapshot."""

    def __init__(self, at: DeltaSnapshot) -> None:
        self._at = at
        self._answers = KeptAnswers()
        LedgerState.__init__(self, SnapshotRows(at))

    def positions(self, flow: str) -> list[FlowPosition]:
        found = self._answers.of(
            flow,
            (),
            lambda: narrowed.run_query(query("flow_positions"), {"flow": flow}, self._at).to_pylist(),
        )
        return [flow_position(row) for row in found]
