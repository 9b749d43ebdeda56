"""What a time, an operation and a token name of a ledger on Delta, and what is refused."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ledger.errors import PreconditionError, SetupError, UsageError
from ledger.facts.cuts import LastAppend
from ledger.facts.tables import FORMAT_PROPERTY, LEDGER_FORMAT, TABLE_BY_NAME, TABLES, Table
from ledger.facts.ways import Direction
from ledger.offsets.between_clusters import Chosen, translate_offset
from ledger.store import catalog
from ledger.store.delta_tables import arrow_schema, create_tables, table_uri
from ledger.store.snapshots import DeltaLedger, open_ledger, parse_time
from ledger.store.sql import run_query
from tests.support.ledger_rows import append, copied_to, row

BEGAN_MS, CLAIMED_MS, FIRST_MS, STOPPED_MS, SECOND_MS = 1000, 2000, 3000, 3500, 4000
NOW_MS = 50_000


def append_sync(path: str, at_ms: int, source_start: int) -> None:
    """The next round of the flow's driver."""
    sync = row(
        "offset_syncs",
        writer="flow:f",
        writer_epoch=1,
        round=source_start // 10 + 1,
        recorded_at_ms=at_ms,
        flow="f",
        source_topic="t",
        source_topic_id="T",
        target_topic="x",
        source_cluster="e",
        target_cluster="w",
        kind="copied",
        source_start=source_start,
        source_end=source_start + 10,
        target_start=source_start + 5,
        target_end=source_start + 15,
    )
    append(path, "offset_syncs", [sync])


def append_operation(path: str, at_ms: int, operation_id: str, number: int = 1, **content: object) -> None:
    operation = row(
        "operations",
        writer="operator",
        round=number,
        operation_id=operation_id,
        recorded_at_ms=at_ms,
        content=json.dumps(content),
    )
    append(path, "operations", [operation])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of a flow, for tests to copy."""
    path = str(tmp_path_factory.mktemp("recorded") / "ledger")
    create_tables(path, now_ms=BEGAN_MS)
    stamp = {"writer": "flow:f", "writer_epoch": 1, "recorded_at_ms": CLAIMED_MS}
    claim = row("writers", **stamp, flow="f", source_cluster="e", target_cluster="w", event="claimed")
    append(path, "writers", [claim])
    append_sync(path, FIRST_MS, 0)
    append_operation(path, STOPPED_MS, "op-1")
    append_sync(path, SECOND_MS, 10)
    return Path(path)


@pytest.fixture
def ledger(tmp_path: Path, recorded: Path) -> DeltaLedger:
    folder = tmp_path / "a folder"
    folder.mkdir()
    return open_ledger(copied_to(folder, recorded))


def syncs_at(ledger: DeltaLedger, as_of: str | None) -> int:
    return len(ledger.as_of(as_of, now_ms=NOW_MS).rows("offset_syncs", []))


def test_now_is_the_default(ledger: DeltaLedger) -> None:
    assert syncs_at(ledger, None) == 2
    assert ledger.now().cut.last == (
        LastAppend("offset_syncs", "flow:f", 1, 2, SECOND_MS),
        LastAppend("operations", "operator", 0, 1, STOPPED_MS),
        LastAppend("writers", "flow:f", 1, 0, CLAIMED_MS),
    )


@pytest.mark.parametrize(
    ("as_of", "syncs"),
    [
        ("2000", 0),
        ("2999", 0),
        ("3000", 1),
        ("3999", 1),
        ("4000", 2),
        ("60000", 2),
        ("1970-01-01T00:00:03.999Z", 1),
        ("1970-01-01T01:00:04+01:00", 2),
        ("op-1", 1),
    ],
)
def test_a_time_counts_what_was_recorded_by_then(ledger: DeltaLedger, as_of: str, syncs: int) -> None:
    assert syncs_at(ledger, as_of) == syncs


def test_a_token_counts_what_it_says_and_answers_again(ledger: DeltaLedger) -> None:
    before = ledger.as_of("3999", now_ms=NOW_MS)
    append_sync(ledger.path, 5000, 20)
    again = ledger.as_of(before.cut.token, now_ms=NOW_MS)
    assert again.cut == before.cut
    way, orders = Direction("e", "w"), Chosen(topic="t", partition=0, flow="f")
    [row] = translate_offset(again, way, orders, 15).to_pylist()
    assert (row["target_offset"], row["status"]) == (15, "ahead")
    [now] = translate_offset(ledger.now(), way, orders, 15).to_pylist()
    assert (now["target_offset"], now["status"]) == (20, "exact")


def test_an_operation_is_dated_by_its_first_row(ledger: DeltaLedger) -> None:
    append_operation(ledger.path, 9000, "op-1", 2)
    assert syncs_at(ledger, "op-1") == 1


def test_an_operation_that_says_its_cut_is_read_at_that_cut(ledger: DeltaLedger) -> None:
    token = ledger.as_of("3999", now_ms=NOW_MS).cut.token
    append_operation(ledger.path, 9000, "op-2", 2, cut=token)
    assert syncs_at(ledger, "op-2") == 1


def test_merged_files_change_no_answer(ledger: DeltaLedger) -> None:
    DeltaTable(table_uri(ledger.path, "offset_syncs")).optimize.compact()
    assert (syncs_at(ledger, "4000"), syncs_at(ledger, "3999")) == (2, 1)
    answer = run_query(catalog.query("flow_status"), {"flow": "f"}, ledger.now())
    assert answer.column("records").to_pylist() == [0]
    assert answer.column("source_end").to_pylist() == [20]


def test_a_late_row_hides_what_its_writer_recorded_after_it(ledger: DeltaLedger) -> None:
    append_sync(ledger.path, 9000, 20)
    append_sync(ledger.path, 5000, 30)
    append_operation(ledger.path, 8000, "op-3", 2)
    at = ledger.as_of("8999", now_ms=NOW_MS)
    assert len(at.rows("offset_syncs", [])) == 2
    assert len(at.rows("operations", [])) == 2, "another writer's clock says nothing about these"
    assert syncs_at(ledger, "9000") == 4


def test_what_a_writer_with_a_fast_clock_recorded_can_be_asked_for(ledger: DeltaLedger) -> None:
    append_operation(ledger.path, 80_000, "op-3", 2)
    assert syncs_at(ledger, "80000") == syncs_at(ledger, "op-3") == 2
    with pytest.raises(UsageError, match="has not come yet"):
        syncs_at(ledger, "80001")


@pytest.mark.parametrize(
    ("as_of", "message"),
    [
        ("60001", r"--as-of 1970-01-01T00:01:00.001.* has not come yet: it is 1970-01-01T00:00:50.000"),
        ("99999999999999999", "--as-of 99999999999999999 ms since the epoch has not come yet"),
        ("1999", "the ledger begins at 1970-01-01T00:00:02.000"),
        ("1970-01-01T00:00:03", "needs an offset or Z"),
        ("1970-01-01", r"needs an offset or Z \(as in 1970-01-01T00:00:00Z\)"),
        ("1970-13-01T00:00:03Z", "no operation of this ledger"),
        ("op-2", "no operation of this ledger"),
        ("v2.nonsense", "is no cut token"),
    ],
)
def test_what_names_no_cut_is_refused(ledger: DeltaLedger, as_of: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        ledger.as_of(as_of, now_ms=NOW_MS)
    assert str(refused.value).endswith("nothing was read")


def test_a_path_without_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"is not a ledger .* nothing was read"):
        open_ledger(str(tmp_path / "nowhere"))


def test_other_tables_are_no_ledger(tmp_path: Path) -> None:
    for table in TABLES:
        write_deltalake(table_uri(str(tmp_path), table.name), pa.table({"a": [1]}))
    with pytest.raises(SetupError, match="is not a ledger"):
        open_ledger(str(tmp_path))


def make_ledger(path: str, version: str, tables: Sequence[Table] = TABLES) -> None:
    for table in tables:
        DeltaTable.create(
            table_uri(path, table.name),
            arrow_schema(table),
            configuration={FORMAT_PROPERTY: version},
            raise_if_key_not_exists=False,
        )


@pytest.mark.fault(43)
@pytest.mark.parametrize("found", ["2", "4", "0", "1.5", "one"])
def test_a_ledger_of_another_format_is_refused_for_reading_and_writing(tmp_path: Path, found: str) -> None:
    make_ledger(str(tmp_path), found, TABLES[:3])
    refusal = f"ledger of format {found}, this program knows format 3 alone; nothing was read or written"
    with pytest.raises(PreconditionError, match=refusal) as refused:
        open_ledger(str(tmp_path))
    assert refused.value.exit_code == 5
    with pytest.raises(PreconditionError, match=refusal):
        create_tables(str(tmp_path), now_ms=BEGAN_MS)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(table.name for table in TABLES[:3])
    assert {DeltaTable(table_uri(str(tmp_path), table.name)).version() for table in TABLES[:3]} == {0}


def test_a_ledger_whose_creation_was_interrupted_is_completed_and_opened(tmp_path: Path) -> None:
    make_ledger(str(tmp_path), str(LEDGER_FORMAT), TABLES[:3])
    assert create_tables(str(tmp_path), now_ms=BEGAN_MS) == [table.name for table in TABLES[3:]]
    assert open_ledger(str(tmp_path)).now().cut.last == ()


def test_what_is_meant_as_a_time() -> None:
    assert parse_time("1700000000123") == 1700000000123
    assert parse_time("2023-11-14T22:13:20.123Z") == 1700000000123
    assert parse_time("2023-11-14 23:13:20.123+01:00") == 1700000000123
    assert parse_time("plan-2023-11-14") is None


def test_an_empty_table_has_its_columns(ledger: DeltaLedger) -> None:
    relation = ledger.now().relation("checkpoints")
    assert isinstance(relation, pa.Table)
    assert relation.schema == arrow_schema(TABLE_BY_NAME["checkpoints"])
