"""Facts of whole closed periods leave the ledger into an archive, where `[ledger] keep_facts_days` says so.

A period ends with a UTC day. All tables as of its end are put into an archive (`archiving`), compared there with the
ledger, and an operation says which rows these are. Then of each table that grows with every round a version follows
without the files of the period, and with what stays of them (`carried`): made as a merge is, so neither is the guard
against changes turned off (`delta.appendOnly`) nor is anybody shut out. What has died in between is continued.

`ledger/PROTOCOL.md`, "Periods that leave", says why so.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deltalake import DeltaTable

from ledger.clock import DAY_MS
from ledger.errors import LedgerUnavailableError, UnsafeError
from ledger.facts.archived import ArchivedEnd, ArchivedTable, FactsArchived, FactsLeft, unended
from ledger.facts.cuts import Cut
from ledger.facts.operations import Why
from ledger.facts.state import OperationLog
from ledger.facts.tables import OPERATIONS, TABLE_BY_NAME, place_of
from ledger.store.archiving import archive_tables, require_whole, root_of
from ledger.store.carried import BESIDE, LEAVING, carried
from ledger.store.comparing import compare_copy
from ledger.store.copying import opened_at_one_instant
from ledger.store.damage import reported
from ledger.store.delta_tables import arrow_schema, table_uri
from ledger.store.heads import heads_at
from ledger.store.maintenance import ARCHIVE, TableUpkeep
from ledger.store.merging import DataFile, TableFolder, WrittenFile, data_files
from ledger.store.snapshots import DeltaLedger, OpenedTables, archived_periods_of
from ledger.store.verifying import stay_of
from ledger.words import instant

_SHARE = 8
"""Facts leave when an eighth of the days that are kept is due: projections are made again each time."""
_ATTEMPTS = 5
_NAMED = re.compile(r"carried-(\d+)-")


class Stay(NamedTuple):
    """Of a table the files of a period, and the files of what stays of their rows, which no version names yet."""

    files: list[DataFile]
    written: list[WrittenFile]
    rows: int


@dataclass(frozen=True, slots=True)
class Left:
    """A period, and by table how many rows left the ledger now."""

    period: FactsArchived
    rows: Mapping[str, int]


def period_end(began_ms: int, *, keep_days: int, now_ms: int) -> int | None:
    """Until when facts are to leave that were recorded from `began_ms` on; None: not yet."""
    until_ms = (now_ms // DAY_MS - keep_days) * DAY_MS
    least_days = max(1, keep_days // _SHARE)
    return until_ms if until_ms - began_ms // DAY_MS * DAY_MS >= least_days * DAY_MS else None


class Leaving:
    """Of the ledger at a path, whose facts leave into archives below a place: `ARCHIVE/000001` and so on."""

    def __init__(
        self, path: str, archive: str, upkeeps: Sequence[TableUpkeep], operations: OperationLog
    ) -> None:
        self._path = path
        self._archive = archive.rstrip("/")
        self._upkeeps = {upkeep.table: upkeep for upkeep in upkeeps}
        self._operations = operations

    def periods(self) -> list[FactsArchived]:
        """Those that have left, or are about to."""
        return archived_periods_of(OpenedTables.of(self._path, (OPERATIONS.name,)))

    def due(self, *, keep_days: int, now_ms: int) -> int | None:
        """Until when facts are to leave now; None: nothing is to."""
        if periods := self.periods():
            return period_end(periods[-1].until_ms, keep_days=keep_days, now_ms=now_ms)
        began_ms = min(
            (first_ms for first_ms, _ in OpenedTables.of(self._path).recorded_spans), default=now_ms
        )
        return period_end(began_ms, keep_days=keep_days, now_ms=now_ms)

    def leave(self, *, keep_days: int, now_ms: int, why: Why, progress: Callable[[str], None]) -> list[Left]:
        """Let facts leave that are old enough, and end what a process had begun that died; returns what left now.

        Raises `LedgerUnavailableError` where a place cannot be read or written, `UnsafeError` and `DamagedLedgerError`
        where an archive is not what the ledger has: then nothing more leaves.
        """
        periods, begun = self.periods(), self._begun()
        done = [] if begun is None else [self._left(*begun, len(periods), {})]
        if (until_ms := self.due(keep_days=keep_days, now_ms=now_ms)) is not None:
            found = self._archived(until_ms, periods, now_ms, why, progress)
            if found is not None and (begun := self._begun()) is not None:
                done.append(self._left(*begun, len(periods) + 1, found))
        return done

    def _begun(self) -> tuple[str, FactsArchived] | None:
        """The period, with its operation id, that has an archive and has not left yet; None: there is none."""
        at = DeltaLedger(self._path).now((OPERATIONS.name,))
        return unended(at.rows(OPERATIONS.name, [("kind", "in", (FactsArchived.kind, FactsLeft.kind))]))

    # -- into the archive ------------------------------------------------------------------------

    def _archived(
        self,
        until_ms: int,
        former: Sequence[FactsArchived],
        now_ms: int,
        why: Why,
        progress: Callable[[str], None],
    ) -> dict[str, Stay] | None:
        """Put the rows up to a time into an archive and record that; returns what stays of them, written.

        None: days before it are not closed yet.
        """
        number = len(former) + 1
        to = f"{self._archive}/{number:06d}"
        opened = opened_at_one_instant(self._path)
        cut = DeltaLedger(self._path).at_time(until_ms - 1, now_ms=now_ms).cut
        files = {name: _before(table, until_ms) for name, table in opened.items()}
        if not self._is_closed(cut, files):
            progress(
                f"facts from before {instant(until_ms)} stay for now: rows of that day are still to be merged, or a "
                "clock went back across its end"
            )
            return None
        tables = {name: (table, files[name] or []) for name, table in opened.items()}
        archive_tables(
            self._path,
            to,
            tables,
            cut=cut.token,
            now_ms=now_ms,
            ledger_id=cut.ledger_id,
            left=DeltaLedger(self._path).at(cut).left_since,
            progress=progress,
        )
        copy, compared = compare_copy(self._path, to)
        if differing := [one.table for one in compared if one.differs]:
            raise UnsafeError(
                f"the archive {to} has other rows than the ledger, of {', '.join(differing)}; nothing left the ledger. "
                f"Empty {to}, and start it again"
            )
        stay = self._stay(opened, until_ms, number)
        rows = {name: sum(file.rows or 0 for file in of_table) for name, (_, of_table) in tables.items()}
        heads = heads_at(OpenedTables(self._path, dict(opened)), cut)
        links = {(one.table, one.writer, one.place): one.link for one in heads}
        period = FactsArchived(
            archive=to,
            from_ms=former[-1].until_ms if former else _from_ms(files),
            until_ms=until_ms,
            cut=cut.token,
            root=root_of(copy),
            tables=[
                ArchivedTable(
                    table=name,
                    files=len(of_table),
                    rows=rows[name],
                    stay=stay[name].rows if name in stay else rows[name],
                )
                for name, (_, of_table) in tables.items()
            ],
            ends=[
                ArchivedEnd(
                    fact_table=one.table,
                    writer=one.writer,
                    writer_epoch=one.epoch,
                    round=one.round,
                    link=links[one.table, one.writer, place_of(one.epoch, one.round)],
                )
                for one in cut.last
            ],
        )
        if len(self.periods()) != len(former):
            raise LedgerUnavailableError(
                f"another process has archived a period of {self._path} meanwhile; nothing left the ledger. "
                "Start it again"
            )
        self._operations.record_parts([period], why)
        return stay

    def _is_closed(self, cut: Cut, files: Mapping[str, list[DataFile] | None]) -> bool:
        """Whether the files have the rows of a cut and no others."""
        if None in files.values():
            return False
        at = DeltaLedger(self._path).at(cut)
        return all(
            at.count(name) == sum(file.rows or 0 for file in of_table or ())
            for name, of_table in files.items()
        )

    # -- out of the ledger -----------------------------------------------------------------------

    def _left(self, operation_id: str, period: FactsArchived, number: int, stay: Mapping[str, Stay]) -> Left:
        """Put what stays of a period in the place of its files, in each table where that has not been done."""
        left: dict[str, int] = {}
        for attempt in range(_ATTEMPTS):
            opened = opened_at_one_instant(self._path)
            waiting = {
                name: table for name, table in opened.items() if _is_waiting(name, table, period, number)
            }
            if not waiting:
                break
            if not attempt:
                require_whole(period.archive, period.root)
            if not waiting.keys() <= stay.keys():
                stay = self._stay(opened, period.until_ms, number)
            for name in waiting:
                if (found := stay.get(name)) is None:
                    continue
                _require_counted(period, name, found)
                if self._upkeeps[name].put_in_place(found.files, found.written, ARCHIVE):
                    left[name] = sum(file.rows or 0 for file in found.files) - found.rows
            stay = {}  # what was not put in place is found again: somebody has merged its files
        else:
            raise LedgerUnavailableError(
                f"other commits kept facts from leaving {', '.join(waiting)}; they stay for now. Start it again"
            )
        for name in LEAVING:
            self._upkeeps[name].rebuild_when_unusable()
        self._operations.record_parts(
            [FactsLeft(archive=period.archive, rows=left, stay=self._stays(period))],
            Why(operation_id=operation_id),
        )
        return Left(period, left)

    def _stays(self, period: FactsArchived) -> dict[str, str]:
        """By table a hash of the rows that are in the place of those that have left."""
        opened = opened_at_one_instant(self._path)
        return {
            name: found
            for name in LEAVING
            if name in opened and (found := stay_of(opened[name], name, period.places_of(name)))
        }

    def _stay(self, opened: Mapping[str, DeltaTable], until_ms: int, number: int) -> dict[str, Stay]:
        """What stays of the rows from before a time, written."""
        found: dict[str, Stay] = {}
        beside = {name: arrow_schema(TABLE_BY_NAME[name]).empty_table() for name in BESIDE}
        for name in LEAVING:
            if name not in opened or not (files := _before(opened[name], until_ms)):
                continue
            uri = table_uri(self._path, name)
            with (
                reported(f"what stays of {uri} was not found", uri, otherwise="nothing left the ledger"),
                carried(TableFolder(uri), name, [file.path for file in files], beside) as rows,
            ):
                found[name] = Stay(files, rows.written(f"carried-{number:06d}"), rows.count)
                if name in BESIDE:
                    beside[name] = rows.rows
        return found


def _is_waiting(name: str, table: DeltaTable, period: FactsArchived, number: int) -> bool:
    """Whether the table has files of the period as they were."""
    files = _before(table, period.until_ms) if name in LEAVING else []
    named = [_NAMED.match(file.path) for file in files or ()]
    return files is None or any(one is None or int(one[1]) < number for one in named)


def _require_counted(period: FactsArchived, name: str, found: Stay) -> None:
    """Raise where the archive does not have as many rows of a table as are about to leave it."""
    rows = sum(file.rows or 0 for file in found.files)
    archived = next((one.rows for one in period.tables if one.table == name), 0)
    if rows != archived:
        raise UnsafeError(
            f"{name} has {rows} rows from before {instant(period.until_ms)}, and the archive {period.archive} "
            f"{archived}; nothing of it left the ledger"
        )


def _before(table: DeltaTable, until_ms: int) -> list[DataFile] | None:
    """The files of rows from before a time; None: some have rows of both sides, or do not say from when theirs are."""
    found = []
    for file in data_files(table):
        if file.first_ms is None or file.last_ms is None or file.rows is None:
            return None
        if file.first_ms < until_ms:
            if file.last_ms >= until_ms:
                return None
            found.append(file)
    return found


def _from_ms(files: Mapping[str, list[DataFile] | None]) -> int:
    times = [file.first_ms for of_table in files.values() for file in of_table or ()]
    return min((at_ms for at_ms in times if at_ms is not None), default=0)
