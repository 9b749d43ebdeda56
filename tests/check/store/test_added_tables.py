"""A ledger from before a table was added: readers take it as empty, `init` and who appends to it add it."""

import errno
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

from ledger.answers.elsewhere import for_duckdb, for_spark, sealed
from ledger.errors import DamagedLedgerError, LedgerUnavailableError, SetupError, UsageError
from ledger.facts.tables import ADDED_COLUMNS, ADDED_TABLES, KEEP_SUPERSEDED_HOURS, TABLE_BY_NAME
from ledger.store import catalog, delta_tables
from ledger.store.delta_tables import (
    add_missing_columns,
    arrow_schema,
    create_tables,
    missing_columns,
    settle_properties,
    table_uri,
)
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import TableUpkeep, Upkeep, maintain
from ledger.store.session import RECORDER_TABLES
from ledger.store.snapshots import DeltaSnapshot, open_ledger
from ledger.store.sql import run_query
from ledger.store.state import DeltaLedgerState
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import append, copied_to, row
from tests.support.ledgers import ADDED, add_within_the_version, made_before, never_had
from tests.support.pasted_texts import without_views

OF_VERSION_2 = {"offset_syncs", "checkpoints", "high_watermarks", "topics", "writers", "operations"}
NOW_MS = 50_000
RECORDER = "recorder:e"
CLAIM = {
    name: value
    for name, value in row("writers", event="claimed", host="h:1:1").items()
    if name not in ("writer", "writer_epoch", "round", "recorded_at_ms", "shut_out")
}
SYNC = row(
    "offset_syncs",
    writer="flow:f",
    writer_epoch=1,
    round=1,
    recorded_at_ms=2_000,
    flow="f",
    source_topic="t",
    source_topic_id="T",
    target_topic_id="T",
)


def topic(number: int) -> dict[str, object]:
    stamp = {"writer": RECORDER, "writer_epoch": 1, "round": number, "recorded_at_ms": 3_000}
    return row(ADDED, **stamp, cluster="", topic="t", topic_id="T", event="observed", configuration="{}")


def test_tables_of_the_schema_version_are_in_every_ledger_of_it() -> None:
    """A table that is added now is in `ADDED_TABLES`, or ledgers that are there already are none any more."""
    assert TABLE_BY_NAME.keys() - ADDED_TABLES == OF_VERSION_2


@pytest.mark.parametrize(("name", "added"), ADDED_COLUMNS.items())
def test_a_column_of_whatever_type_is_added_to_a_table_without_it(
    tmp_path: Path, name: str, added: tuple[str, ...]
) -> None:
    schema = arrow_schema(TABLE_BY_NAME[name])
    for column in added:
        schema = schema.remove(schema.get_field_index(column))
    DeltaTable.create(table_uri(str(tmp_path), name), schema)
    add_missing_columns(str(tmp_path), name, now_ms=NOW_MS)
    assert missing_columns(DeltaTable(table_uri(str(tmp_path), name)), name) == []


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a row of a table that was always there."""
    path = made_before(tmp_path_factory.mktemp("older") / "ledger")
    append(path, "offset_syncs", [SYNC])
    return Path(path)


@pytest.fixture
def before(older: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    add_within_the_version(monkeypatch)
    return copied_to(tmp_path, older)


def drift(at: DeltaSnapshot) -> list[dict[str, Any]]:
    """What a query says that reads the table; `unknown` where it has no rows."""
    found: list[dict[str, Any]] = run_query(catalog.query("topic_drift"), {"flow": "f"}, at).to_pylist()
    return found


def test_readers_take_it_as_empty(before: str) -> None:
    at = open_ledger(before).now()
    assert {answer["status"] for answer in drift(at)} == {"unknown"}
    assert at.rows(ADDED, []) == []
    assert {one.table for one in at.cut.last} == {"offset_syncs"}
    assert at.last_recorded_at_ms() == 2_000
    for again in (at.cut.token, "2500"):
        assert drift(open_ledger(before).as_of(again, now_ms=NOW_MS)) == drift(at)
    with sealed(at, (), {}) as ledger:
        (answer,) = ledger.answers("select count(topic_id) as n from topics")
        assert answer is not None
        assert answer.to_pylist() == [{"n": 0}]
    assert not Path(table_uri(before, ADDED)).exists(), "who reads writes nothing"


def test_pasted_views_make_it_empty_and_name_no_folder_of_it(before: str) -> None:
    at = open_ledger(before).now()
    for text in (for_duckdb(at), for_spark(at)):
        assert table_uri(before, "offset_syncs") in text
        assert table_uri(before, ADDED) not in text
    with duckdb.connect() as connection:
        connection.execute(without_views(for_duckdb(at), set(catalog.view_names())))
        found = connection.sql("select * from topics").to_arrow_table()
        assert (found.num_rows, tuple(found.column_names)) == (0, TABLE_BY_NAME[ADDED].column_names)


def test_a_driver_and_a_recorder_take_it_as_empty(before: str) -> None:
    state = DeltaLedgerState(open_ledger(before))
    assert (state.last_topic_states("e"), state.deleted_topic_ids("e")) == ([], frozenset())
    append(before, "writers", [row("writers", writer=RECORDER, writer_epoch=1, recorded_at_ms=4_000)])
    last = state.last_claim(RECORDER)
    assert last is not None
    assert last.last_recorded_at_ms == 4_000


def test_maintenance_has_nothing_to_do_for_it(before: str) -> None:
    upkeep = TableUpkeep(before, ADDED, FakeClock(), keep_hours=KEEP_SUPERSEDED_HOURS)
    assert upkeep.planned() == Upkeep(ADDED, files=0, log_entries=None)
    assert maintain(upkeep) == Upkeep(ADDED, files=0)
    assert not Path(table_uri(before, ADDED)).exists()


def test_a_table_that_was_always_there_is_missed(before: str) -> None:
    state = DeltaLedgerState(open_ledger(before))
    Path(table_uri(before, "checkpoints")).rename(f"{before}-checkpoints")
    with pytest.raises(LedgerUnavailableError, match="checkpoints cannot be read"):
        state.last_checkpoints("e")
    with pytest.raises(SetupError, match=r"no table checkpoints of one\); nothing was read"):
        open_ledger(before)


def test_a_ledger_that_is_away_is_no_ledger_without_the_table(before: str) -> None:
    """Who takes a folder that is not mounted for an empty table records everything again."""
    state = DeltaLedgerState(open_ledger(before))
    upkeep = TableUpkeep(before, ADDED, FakeClock(), keep_hours=KEEP_SUPERSEDED_HOURS)
    Path(before).rename(f"{before}-away")
    reads = (lambda: state.last_topic_states("e"), lambda: state.positions("f"))
    for asked in (*reads, upkeep.due, upkeep.clean):
        with pytest.raises(LedgerUnavailableError):
            asked()
    with pytest.raises(SetupError, match="is not a ledger"):
        open_ledger(before)


def test_init_adds_it_once_and_like_the_others(before: str) -> None:
    assert create_tables(before, now_ms=5) == [ADDED]
    assert create_tables(before, now_ms=6) == []
    added, other = (DeltaTable(table_uri(before, name)) for name in (ADDED, "high_watermarks"))
    assert added.version() == 0
    assert added.metadata().configuration == other.metadata().configuration
    append(before, ADDED, [topic(1)])
    assert {answer["status"] for answer in drift(open_ledger(before).now())} != {"unknown"}


def test_a_table_whose_last_rows_are_projected_may_be_missing_as_well(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=1)
    never_had(path, "share_offsets")
    log, state = DeltaFactLog(path, FakeClock()), DeltaLedgerState(open_ledger(path))
    log.claim("flow:f", ["offset_syncs", "operations"], CLAIM)
    assert state.last_share_offsets("e") == []
    assert state.last_claim("flow:f") is not None, "every table is asked when the writer appended last"
    upkeep = TableUpkeep(path, "share_offsets", FakeClock(), keep_hours=KEEP_SUPERSEDED_HOURS)
    assert not upkeep.project_when_due()
    assert not Path(table_uri(path, "share_offsets")).exists()
    log.claim(RECORDER, RECORDER_TABLES, CLAIM)
    assert state.last_share_offsets("e") == []


def claim_it(path: str) -> None:
    log = DeltaFactLog(path, FakeClock())
    taken = log.claim(RECORDER, ["high_watermarks", ADDED], CLAIM)
    log.append(taken, ADDED, 1, [{name: value for name, value in topic(1).items() if name in OF_ROWS}])


def append_to_it(path: str) -> None:
    rows = [{name: value for name, value in topic(1).items() if name in OF_ROWS}]
    assert DeltaFactLog(path, FakeClock()).append_next("operator", ADDED, rows) == 1


OF_ROWS = TABLE_BY_NAME[ADDED].column_names[4:]


@pytest.mark.parametrize("appending", [claim_it, append_to_it])
def test_who_appends_to_it_adds_it(before: str, appending: Callable[[str], None]) -> None:
    DeltaFactLog(before, FakeClock()).claim("flow:f", ["offset_syncs", "operations"], CLAIM)
    assert not Path(table_uri(before, ADDED)).exists(), "a claim adds what it is about, and no more"
    appending(before)
    assert [one["topic"] for one in open_ledger(before).now().rows(ADDED, [])] == ["t"]


def test_of_several_that_add_it_at_once_one_does_and_all_find_it_done(
    before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All have seen that it is missing before one of them creates it. One creation, for it gives the table its id."""
    together, create, created = threading.Barrier(3, timeout=30), delta_tables._create, []

    def create_together(*arguments: Any) -> bool:
        together.wait()
        created.append(create(*arguments))
        return created[-1]

    monkeypatch.setattr(delta_tables, "_create", create_together)
    with ThreadPoolExecutor(3) as threads:
        list(
            threads.map(lambda now_ms: delta_tables.add_missing_table(before, ADDED, now_ms=now_ms), range(3))
        )
    assert sorted(created) == [False, False, True]
    assert DeltaTable(table_uri(before, ADDED)).version() == 0


def test_a_cut_that_names_it_is_refused_where_it_is_missing(before: str, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    kept = copied_to(tmp_path / "kept", Path(before))
    create_tables(before, now_ms=5)
    append(before, ADDED, [topic(1)])
    token = open_ledger(before).now().cut.token
    with pytest.raises(UsageError, match=r"in topics, which this ledger does not hold: .* nothing was read"):
        open_ledger(kept).as_of(token, now_ms=NOW_MS)


def test_a_table_that_the_ledger_has_had_is_missed_by_all_and_made_by_nobody(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=1)
    shutil.move(table_uri(path, "groups"), tmp_path / "groups")
    log = DeltaFactLog(path, FakeClock())
    for used in (
        lambda: open_ledger(path),
        lambda: create_tables(path, now_ms=2),
        lambda: log.claim(RECORDER, RECORDER_TABLES, CLAIM),
        lambda: TableUpkeep(path, "groups", FakeClock(), keep_hours=KEEP_SUPERSEDED_HOURS).planned(),
    ):
        with pytest.raises(
            DamagedLedgerError, match=f"had a table groups, and {path}/groups is missing.*Put that folder"
        ):
            used()
    shutil.move(tmp_path / "groups", table_uri(path, "groups"))
    assert create_tables(path, now_ms=3) == []
    log.claim(RECORDER, RECORDER_TABLES, CLAIM)


def test_a_ledger_whose_claims_are_gone_is_not_made_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=1)
    DeltaFactLog(path, FakeClock()).claim(RECORDER, ["high_watermarks"], CLAIM)
    shutil.rmtree(table_uri(path, "writers"))
    with pytest.raises(DamagedLedgerError, match="had a table writers"):
        create_tables(path, now_ms=2)
    assert not Path(path, "writers").exists()


def test_what_a_table_was_added_to_before_is_noted_by_its_upkeep(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=1)
    never_had(path, "groups")
    assert settle_properties(path, "writers", keep_hours=KEEP_SUPERSEDED_HOURS, now_ms=2)
    open_ledger(path)
    shutil.move(table_uri(path, "topics"), tmp_path / "topics")
    with pytest.raises(DamagedLedgerError, match="had a table topics"):
        open_ledger(path)


@pytest.mark.parametrize("name", ["a%20b", "a%2Fb", "a\\b", "a[1]", "a\nb"])
def test_a_folder_that_delta_reads_otherwise_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(SetupError, match=r"cannot have .* in its path"):
        create_tables(str(tmp_path / name / "ledger"), now_ms=1)
    with pytest.raises(SetupError, match=r"cannot have .* in its path"):
        open_ledger(str(tmp_path / name / "ledger"))
    assert [*tmp_path.rglob("*")] == [tmp_path / name]


def test_folders_above_a_ledger_are_made_by_nobody(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=f"{tmp_path}/volume is no folder.*mkdir -p {tmp_path}/volume"):
        create_tables(str(tmp_path / "volume" / "ledger"), now_ms=1)
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_this_user_may_not_read_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=1)

    def refused(place: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(place))

    shutil.move(table_uri(path, "writers"), tmp_path / "writers")  # who may do all is refused nothing
    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(
        SetupError, match=f"{path} cannot be read: this user may not do that there; nothing was read"
    ):
        open_ledger(path)
