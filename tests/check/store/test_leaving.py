"""Facts leave a ledger as whole closed periods, into archives with the same cuts, wherever the process dies."""

import getpass
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from ledger.clock import DAY_MS
from ledger.errors import DamagedLedgerError, PreconditionError, UsageError
from ledger.facts.archived import FactsArchived
from ledger.facts.operations import Why
from ledger.facts.tables import TABLES, Row
from ledger.store import catalog, narrowed
from ledger.store.archiving import root_of
from ledger.store.carried import LEAVING
from ledger.store.catalog import Value
from ledger.store.delta_tables import table_uri
from ledger.store.heads import anchor_of
from ledger.store.leaving import Leaving, Left, period_end
from ledger.store.ledger_copy import LedgerCopy, read_copy, write_copy
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import ARCHIVE, MAINTAINED_BY, TableUpkeep, maintain
from ledger.store.merging import WrittenFile, data_files, statistics_of
from ledger.store.places import Place
from ledger.store.projections import Projection
from ledger.store.session import FLOW_TABLES, RECORDER_TABLES, OperatorOperations
from ledger.store.snapshots import DeltaLedger, DeltaSnapshot, OpenedTables
from ledger.store.state import DeltaLedgerState
from ledger.store.verifying import verify_ledger
from tests.support.fakes import FakeClock
from tests.support.histories import examples
from tests.support.killed import Killed, killed_at
from tests.support.ledger_rows import copied_to, row
from tests.support.ledgers import claim_of

pytestmark = pytest.mark.long

FLOW, RECORDER = "flow:east-to-west", "recorder:east"
BEGAN_MS = 20_000 * DAY_MS
ROUNDS_A_DAY = 3
DAYS, KEEP_DAYS = 7, 3
FILLED = {name for name in LEAVING if name != "share_offsets"}
BETWEEN = {"from_cluster": "east", "to_cluster": "west"}
OF_FLOW = {"flow": "east-to-west"}
OF_ALL: Mapping[str, Value] = {}
CHEAP: tuple[tuple[str, Mapping[str, Value]], ...] = (
    ("flow_positions", OF_FLOW),
    ("flow_recording", OF_FLOW),
    ("cluster_groups", {"cluster": "east"}),
    ("audit_l1_tiling", OF_ALL),
    ("audit_l8_nothing_missing", OF_ALL),
)
ASKED: tuple[tuple[str, Mapping[str, Value]], ...] = (
    *CHEAP,
    ("offset_translation", BETWEEN),
    ("flow_status", OF_FLOW),
    ("replication_lag", {**OF_FLOW, "fresh_since_ms": 0}),
)


def without_stamp(whole: dict[str, object]) -> Row:
    return {
        name: value
        for name, value in whole.items()
        if name not in ("writer", "writer_epoch", "round", "recorded_at_ms")
    }


class Days:
    """A ledger of a flow and a recorder, round after round, four hours apart."""

    def __init__(self, path: str, clock: FakeClock) -> None:
        self.path, self.clock = path, clock
        clock.now_s = BEGAN_MS / 1000
        self.log = DeltaFactLog(path, clock)
        sides = {"source_cluster": "east", "target_cluster": "west"}
        self.flow = self.log.claim(FLOW, FLOW_TABLES, {**claim_of("east-to-west"), **sides})
        self.recorder = self.log.claim(
            RECORDER, RECORDER_TABLES, {**claim_of("x"), "flow": None, "source_cluster": "east"}
        )
        self.rounds = 0
        self.tokens: dict[int, str] = {}

    def live(self, days: int) -> None:
        """A cut is taken at the end of each day."""
        for _ in range(days * ROUNDS_A_DAY):
            self.clock.now_s += DAY_MS / 1000 / ROUNDS_A_DAY
            self.rounds += 1
            self.log.append(self.flow, "offset_syncs", self.rounds, [self._copied(one) for one in (0, 1)])
            self.log.append(self.recorder, "checkpoints", self.rounds, [self._committed()])
            self.log.append(self.recorder, "high_watermarks", self.rounds, [self._end(one) for one in (0, 1)])
            if self.rounds % ROUNDS_A_DAY == ROUNDS_A_DAY - 1:
                self.tokens[self.rounds // ROUNDS_A_DAY] = self.now().cut.token
        self.maintain()

    def maintain(self) -> None:
        for table in TABLES:
            maintain(TableUpkeep(self.path, table.name, self.clock, keep_hours=1))

    def now(self) -> DeltaSnapshot:
        return DeltaLedger(self.path).now()

    def at_day(self, day: int) -> DeltaSnapshot:
        return DeltaLedger(self.path).as_of(self.tokens[day], now_ms=self.clock.now_ms())

    def leave(self, archive: Path, *, keep_days: int = KEEP_DAYS) -> tuple[list[Left], list[str]]:
        said: list[str] = []
        done = self.leaving(archive).leave(
            keep_days=keep_days, now_ms=self.clock.now_ms(), why=Why("policy 7"), progress=said.append
        )
        return done, said

    def leaving(self, archive: Path) -> Leaving:
        upkeeps = [TableUpkeep(self.path, table.name, self.clock, keep_hours=1) for table in TABLES]
        return Leaving(
            self.path, str(archive), upkeeps, OperatorOperations(self.log, operator=getpass.getuser())
        )

    def periods(self) -> list[FactsArchived]:
        rows = self.now().rows("operations", [("kind", "=", "facts_archived")])
        return [FactsArchived.of_row(one) for one in rows]

    def _copied(self, partition: int) -> Row:
        before = max(self.rounds - 2, 0)
        start, there = before * 10, before * (10 - partition)
        is_first = self.rounds == 1
        gap = {"source_start": start + 9, "source_end": start + 10, "cause": "control"}
        return without_stamp(
            row(
                "offset_syncs",
                flow="east-to-west",
                source_cluster="east",
                target_cluster="west",
                source_topic="t",
                source_topic_id="T",
                source_partition=partition,
                source_leader_epoch=1,
                target_topic="t",
                target_topic_id="X",
                target_partition=partition,
                source_start=start,
                source_end=start if is_first else start + 10,
                target_start=there,
                target_end=there if is_first else there + 10 - partition,
                gaps=[gap] * (partition if not is_first else 0),
                kind="started" if is_first else "copied",
                cause="earliest" if is_first else None,
                records=0 if is_first else 10 - partition,
                bytes=0 if is_first else 100,
                producer_id=1,
                raw_batches=1,
            )
        )

    def _committed(self) -> Row:
        return without_stamp(
            row(
                "checkpoints",
                cluster="east",
                group_id=f"g{self.rounds % 3}",
                topic="t",
                topic_id="T",
                partition=self.rounds % 2,
                committed_offset=max(self.rounds * 10 - 25, 0),
                read_at_ms=self.clock.now_ms(),
            )
        )

    def _end(self, partition: int) -> Row:
        return without_stamp(
            row(
                "high_watermarks",
                cluster="east",
                topic="t",
                topic_id="T",
                partition=partition,
                log_start=0,
                last_stable=self.rounds * 10,
                high_watermark=self.rounds * 10,
                read_at_ms=self.clock.now_ms(),
            )
        )


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> Days:
    days = Days(copied_to(tmp_path_factory.mktemp("lived"), empty_ledger), FakeClock())
    days.live(DAYS)
    return days


@dataclass(frozen=True)
class WithArchive:
    """A ledger whose first period lies in an archive: `days` and what is there are only read."""

    days: Days
    left: Left
    archive: Path


@pytest.fixture(scope="module")
def archived(lived: Days, tmp_path_factory: pytest.TempPathFactory) -> WithArchive:
    folder = tmp_path_factory.mktemp("archived")
    days = copy_of(lived, folder / "ledger")
    for name in FILLED:
        TableUpkeep(days.path, name, days.clock, keep_hours=1).rebuild()
    [left], _ = days.leave(folder / "archive")
    return WithArchive(days, left, folder / "archive")


@pytest.fixture
def days(lived: Days, tmp_path: Path) -> Days:
    return copy_of(lived, tmp_path / "ledger")


@pytest.fixture
def later(archived: WithArchive, tmp_path: Path) -> Days:
    """The same to be written to; what has left lies where it lies."""
    return copy_of(archived.days, tmp_path / "ledger")


def copy_of(lived: Days, to: Path) -> Days:
    copied = object.__new__(Days)
    copied.path, copied.clock = str(shutil.copytree(lived.path, to)), FakeClock(lived.clock.now_s)
    copied.log = DeltaFactLog(copied.path, copied.clock)
    copied.flow, copied.recorder, copied.rounds = lived.flow, lived.recorder, lived.rounds
    copied.tokens = dict(lived.tokens)
    return copied


def answers(at: DeltaSnapshot) -> dict[str, list[Row]]:
    asked = examples(check=CHEAP, soak=ASKED)
    found: dict[str, list[Row]] = {}
    for params in {id(params): params for _, params in asked}.values():
        queries = [catalog.query(name) for name, of_name in asked if of_name is params]
        together = narrowed.run_queries(queries, params, at)
        found |= {name: rows.to_pylist() for name, rows in together.items()}
    assert all(rows for name, rows in found.items() if "audit" not in name)
    assert not any(rows for name, rows in found.items() if "audit" in name)
    return found


def rows_of(at: DeltaSnapshot) -> dict[str, list[dict[str, Any]]]:
    return {table.name: sorted(at.rows(table.name, []), key=repr) for table in TABLES}


def test_a_period_leaves_and_answers_are_what_they_were(lived: Days, archived: WithArchive) -> None:
    days, left = archived.days, archived.left
    rows = {table.name: lived.now().count(table.name) for table in TABLES}
    assert left.period.until_ms == BEGAN_MS + 4 * DAY_MS
    assert left.rows.keys() == FILLED
    assert answers(days.now()) == answers(lived.now())
    assert answers(days.at_day(6)) == answers(lived.at_day(6))
    counts = {table.name: days.now().count(table.name) for table in TABLES}
    for name, count_left in left.rows.items():
        assert counts[name] == rows[name] - count_left
    # Of the first four days of three rounds each partition keeps two rows, and one for each day.
    assert left.rows["offset_syncs"] >= 10
    assert counts["operations"] == rows["operations"] + 2
    assert days.leave(archived.archive)[0] == []


def test_what_left_is_in_an_archive_with_the_same_cuts(lived: Days, archived: WithArchive) -> None:
    days, left = archived.days, archived.left
    then = {day: rows_of(lived.at_day(day)) for day in (1, 2)}
    archive = DeltaLedger(str(archived.archive / "000001"))
    for day, rows in then.items():
        assert rows_of(archive.as_of(days.tokens[day], now_ms=0)) == rows
        with pytest.raises(UsageError, match=r"have left the ledger.*archive/000001"):
            days.at_day(day)
    with pytest.raises(UsageError, match="have left the ledger"):
        DeltaLedger(days.path).at_time(BEGAN_MS + 3 * DAY_MS, now_ms=days.clock.now_ms())
    assert DeltaLedger(days.path).at_time(BEGAN_MS + 4 * DAY_MS, now_ms=days.clock.now_ms()).cut.last
    [period] = days.periods()
    copy = read_copy(period.archive)
    assert copy is not None
    assert (copy.cut, root_of(copy)) == (period.cut, period.root)
    assert {one.table: one.rows for one in period.tables} == {
        table.name: archive.now().count(table.name) for table in TABLES
    }
    kept = {one.table: one.rows - one.stay for one in period.tables if one.rows > one.stay}
    assert kept == {name: count_left for name, count_left in left.rows.items() if count_left}
    [row_] = days.now().rows("operations", [("kind", "=", "facts_archived")])
    assert (row_["reason"], row_["operator"]) == ("policy 7", getpass.getuser())
    assert DeltaLedger(days.path).as_of(row_["operation_id"], now_ms=0).cut.token == period.cut


def test_the_guard_is_on_and_the_history_says_what_was_done(lived: Days, archived: WithArchive) -> None:
    days = archived.days
    for name in FILLED:
        former, table = (DeltaTable(table_uri(path, name)) for path in (lived.path, days.path))
        assert table.metadata().configuration == former.metadata().configuration
        assert table.metadata().configuration["delta.appendOnly"] == "true"
        assert table.metadata().id == former.metadata().id
        [said] = [one for one in table.history() if one.get(MAINTAINED_BY) == ARCHIVE]
        log = Path(table_uri(days.path, name), "_delta_log", f"{said['version']:020d}.json").read_text()
        actions = [json.loads(line) for line in log.splitlines()]
        assert {kind for action in actions for kind in action} == {"add", "remove", "commitInfo"}
        assert not any(
            one["dataChange"] for action in actions for one in action.values() if "dataChange" in one
        )


def test_a_row_that_stays_of_what_has_left_is_not_altered_unnoticed(later: Days) -> None:
    days = later
    [file, *_] = Path(days.path, "offset_syncs").glob("carried-*")
    with pq.ParquetFile(file) as opened:
        rows = opened.read()
    changed = rows.set_column(
        rows.column_names.index("bytes"), "bytes", pa.array([one + 1 for one in rows["bytes"].to_pylist()])
    )
    upkeep = TableUpkeep(days.path, "offset_syncs", days.clock, keep_hours=1)
    [former] = [one for one in data_files(DeltaTable(f"{days.path}/offset_syncs")) if one.path == file.name]
    pq.write_table(changed, file.with_name("merged-1.parquet"))
    size = file.with_name("merged-1.parquet").stat().st_size
    written = WrittenFile("merged-1.parquet", size, len(rows), statistics_of(rows))
    assert upkeep.put_in_place([former], [written])
    done = verify_ledger(days.path, [], as_of=None, now_ms=days.clock.now_ms())
    assert [(one.table, one.status) for one in done.found] == [("offset_syncs", "altered")]


def test_who_is_at_work_goes_on_and_period_after_period_leaves(
    lived: Days, later: Days, archived: WithArchive, tmp_path: Path
) -> None:
    """The chain of links continues, also for a process that has appended nothing so far; it is whole in archives."""
    days, archive = later, Path(shutil.copytree(archived.archive, tmp_path / "archive"))
    positions = DeltaLedgerState(DeltaLedger(lived.path)).positions("east-to-west")
    assert positions
    assert DeltaLedgerState(DeltaLedger(days.path)).positions("east-to-west") == positions
    anchor = anchor_of(OpenedTables.of(days.path), now_ms=days.clock.now_ms())
    days.log = DeltaFactLog(days.path, days.clock)
    days.live(2)
    before, then = answers(days.now()), rows_of(days.at_day(5))
    [left], _ = days.leave(archive)
    assert (left.period.archive, left.period.until_ms) == (f"{archive}/000002", BEGAN_MS + 6 * DAY_MS)
    assert answers(days.now()) == before
    assert rows_of(DeltaLedger(f"{archive}/000002").as_of(days.tokens[5], now_ms=0)) == then
    for path in (days.path, f"{archive}/000002"):
        with pytest.raises(UsageError, match="archive/000001"):
            DeltaLedger(path).as_of(days.tokens[2], now_ms=days.clock.now_ms())
    with pytest.raises(UsageError, match="archive/000002"):
        days.at_day(4)
    for path in (days.path, str(archive / "000001")):
        done = verify_ledger(path, [anchor], as_of=None, now_ms=days.clock.now_ms())
        assert done.found == []
        assert {head.table for head in done.heads} >= FILLED


ENDED_AT = examples(check=[170], soak=[*range(1, 1_000)])
"""Writes that end the process, as long as there is such a write; that of check is behind the archive."""


def test_what_dies_anywhere_is_ended_by_the_next_from_a_whole_archive(
    lived: Days, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, rows = answers(lived.now()), rows_of(lived.at_day(2))
    ended = refused = 0
    for write in ENDED_AT:
        place = tmp_path / str(write)
        days = copy_of(lived, place / "ledger")
        with killed_at(write, monkeypatch):
            try:
                days.leave(place / "archive")
            except Killed:
                pass
            else:
                break
        ended += 1
        assert answers(days.now()) == before, write
        if days.periods() and counts_of(days) == counts_of(lived):
            require_refused(days, place / "archive")
            refused += 1
        days.leave(place / "archive")
        assert answers(days.now()) == before, write
        [period] = days.periods()
        assert rows_of(DeltaLedger(period.archive).as_of(days.tokens[2], now_ms=0)) == rows
        stay = {one.table: one.stay for one in period.tables if one.table in LEAVING}
        at = DeltaLedger(days.path).as_of(period.cut, now_ms=0)
        assert {name: at.count(name) for name in LEAVING} == stay, write
        shutil.rmtree(place)
    assert ended > examples(check=0, soak=100)
    assert refused


def counts_of(days: Days) -> dict[str, int]:
    return {name: days.now().count(name) for name in LEAVING}


def require_refused(days: Days, archive: Path) -> None:
    """Nothing leaves for an archive that is damaged; it is whole again then."""
    before = rows_of(days.now())
    [period] = days.periods()
    broken = next(Path(period.archive, "offset_syncs").glob("*.parquet"))
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-1] + b"x")
    with pytest.raises(DamagedLedgerError, match=broken.name):
        days.leave(archive)
    assert rows_of(days.now()) == before
    broken.write_bytes(whole)


def test_nothing_leaves_before_days_are_closed(days: Days, tmp_path: Path) -> None:
    """A clock that went back across the end of the period: the next one has it."""
    days.clock.now_s -= 5 * DAY_MS / 1000
    days.rounds += 1
    days.log.append(days.flow, "offset_syncs", days.rounds, [days._copied(0)])
    days.clock.now_s += 5 * DAY_MS / 1000
    days.maintain()
    done, said = days.leave(tmp_path / "archive")
    assert (done, days.periods()) == ([], [])
    assert "stay for now" in said[-1]


def test_nothing_is_put_into_what_is_no_archive_of_this_ledger(
    days: Days, tmp_path: Path, empty_ledger: Path
) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    there = Path(shutil.copytree(empty_ledger, archive / "000001"))
    with pytest.raises(PreconditionError, match="lies a ledger, which is no archive"):
        days.leave(archive)
    shutil.rmtree(there)
    write_copy(Place(str(there)), LedgerCopy(ledger_id="another", origin="/elsewhere"))
    with pytest.raises(PreconditionError, match="another"):
        days.leave(archive)
    assert days.periods() == []


def test_projections_account_for_what_stays(archived: WithArchive) -> None:
    days = archived.days
    for name in FILLED:
        noted = Projection(days.path, name).noted(DeltaTable(table_uri(days.path, name)))
        assert noted is None or noted.rows == days.now().count(name)
    assert "offset_syncs" in narrowed.for_question(days.now(), catalog.query("offset_translation"), BETWEEN)


def test_holes_behind_what_left_are_missed(later: Days) -> None:
    days = later
    days.rounds += 2
    days.log.append(days.flow, "offset_syncs", days.rounds, [days._copied(0)])
    found = narrowed.run_query(catalog.query("audit_l8_nothing_missing"), {}, days.now()).to_pylist()
    assert [(one["status"], one["first_round"]) for one in found] == [("hole", days.rounds - 1)]


@pytest.mark.parametrize(
    ("kept", "days_gone", "leaves"),
    [(4, 4, None), (4, 5, 1), (4, 9, 5), (90, 100, None), (90, 101, 11), (8, 8, None), (8, 9, 1)],
)
def test_facts_leave_when_enough_days_are_due(kept: int, days_gone: int, leaves: int | None) -> None:
    now_ms = BEGAN_MS + days_gone * DAY_MS + 5
    expected = None if leaves is None else BEGAN_MS + leaves * DAY_MS
    assert period_end(BEGAN_MS + 7, keep_days=kept, now_ms=now_ms) == expected
