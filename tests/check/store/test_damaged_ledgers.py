"""Damaged and removed files of a ledger: who reads answers rightly or names the file; audits miss rows."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from ledger.clock import SystemClock
from ledger.facts.tables import Row
from ledger.store import answers
from ledger.store.delta_tables import create_tables
from ledger.store.log import DeltaFactLog
from ledger.store.session import FLOW_TABLES, RECORDER_TABLES, WriterSession
from ledger.store.snapshots import DeltaLedger
from tests.support.damaged_ledgers import FILES, READING, TABLES, WAYS, copy_of, without_ages, written
from tests.support.histories import examples
from tests.support.ledger_rows import claim_row, copied_to, row, watermark
from tests.support.ledgers import claim_of
from tests.support.operated import Operated

# -- Damaged ---------------------------------------------------------------------------------------

_GIVEN_UP = {
    "first rows": "missing",
    "entry behind the checkpoint": "empty",
    "last entry": "cut",
    "checkpoint": "zeroed",
}
_ASKED = ("status --check", "between", "plans")


@pytest.fixture
def whole(tmp_path: Path, capsys: pytest.CaptureFixture[str], empty_ledger: Path) -> Operated:
    return written(tmp_path, empty_ledger, capsys)


def test_no_damage_of_a_file_is_a_traceback_or_a_wrong_answer(whole: Operated, tmp_path: Path) -> None:
    """`make soak` asks every command about every damage of every table; here it is every other damage, and of some of
    these a table alone is asked."""
    right = {name: whole.command(*READING[name]) for name in ("sql", *_ASKED)}
    tables, asked = itertools.cycle(TABLES), itertools.cycle(_ASKED)
    every_other = itertools.islice(itertools.product(FILES.items(), WAYS.items()), 0, None, 2)
    for number, ((where, file_of), (way, damage)) in enumerate(every_other):
        if (where, way) == ("last entry", "missing"):
            continue  # as if it had never been written
        table = next(tables)
        damaged = copy_of(whole, tmp_path / f"{where} {way}")
        file = file_of(Path(damaged.path, table))
        damage(file)
        for name in ("sql", *([] if number % 3 else [next(asked)])):
            done = damaged.command(*READING[name])
            words = (where, way, table, name, done)
            if done.code == right[name].code:
                assert without_ages(done.out) == without_ages(right[name].out), words
            else:
                assert (done.code, len(done.err.splitlines())) == (1, 1), words
                assert str(file) in done.err, words
                assert "Put it back from a copy of the ledger's folder" in done.err, words


@pytest.mark.parametrize("table", examples(check=["operations"], soak=["checkpoints", "operations"]))
def test_a_repair_goes_on_without_what_is_damaged_and_says_what_that_was(
    whole: Operated, tmp_path: Path, table: str
) -> None:
    damaged = copy_of(whole, tmp_path / "damaged")
    rows = len(DeltaTable(f"{damaged.path}/{table}").to_pyarrow_table())
    files = {name: FILES[name](Path(damaged.path, table)) for name in _GIVEN_UP}
    for name, file in files.items():
        WAYS[_GIVEN_UP[name]](file)
    shown = damaged.command("maintain", "--repair", "--dry-run")
    assert (shown.code, len(shown.out.splitlines())) == (0, len(files)), shown
    assert damaged.command("sql", "select 1 from operations").code == 1, "a dry run changes nothing"
    assert damaged.command("maintain", "--repair").err.startswith("error: --repair gives up facts: say why")
    done = damaged.command("maintain", "--repair", "--reason", "the disk failed")
    assert done.code == 0, done
    assert all(str(file) in done.out for file in files.values())
    assert damaged.command("maintain", "--repair", "--reason", "again").err.startswith("nothing is damaged")

    for name in ("status --check", "between", "plan"):
        assert damaged.command(*READING[name]).code == whole.command(*READING[name]).code
    kept = DeltaTable(f"{damaged.path}/{table}").to_pyarrow_table().to_pylist()
    repaired = [row for row in _rows(damaged, "operations") if row["kind"] == "ledger_repaired"]
    assert [(row["reason"], json.loads(row["content"])["table"]) for row in repaired] == [
        ("the disk failed", table)
    ]
    told = json.loads(repaired[0]["content"])["given_up"]
    assert {one["file"] for one in told} == {
        str(file.relative_to(Path(damaged.path, table))) for file in files.values()
    }
    lost = sum(one["rows"]["numRecords"] for one in told if one["rows"])
    assert lost == 1
    assert len(kept) == rows - lost - len(
        [one for one in told if one["rows"] is None and "json" in one["file"]]
    ) + (table == "operations")
    damaged.copied({("orders", 9): 10})
    assert damaged.operation("pause") in {row["operation_id"] for row in _rows(damaged, "operations")}


def _rows(of: Operated, table: str) -> list[dict[str, Any]]:
    return list(DeltaTable(f"{of.path}/{table}").to_pyarrow_table().to_pylist())


# -- Removed ---------------------------------------------------------------------------------------

_STAMP = ("writer", "writer_epoch", "round", "recorded_at_ms")


def offset_sync(start: int, end: int, kind: str = "copied") -> Row:
    sides = {"source_start": start, "source_end": end, "target_start": start, "target_end": end}
    said = {"kind": kind, "cause": "earliest" if kind == "started" else None}
    made = row("offset_syncs", flow="f", source_topic_id="T", target_topic_id="X", **sides, **said)
    return {name: value for name, value in made.items() if name not in _STAMP}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger to which a flow and a recorder have appended in two epochs, as they always do; to be copied."""
    path, clock = str(tmp_path_factory.mktemp("told") / "ledger"), SystemClock()
    create_tables(path, now_ms=clock.now_ms())
    log = DeltaFactLog(path, clock)
    for epoch in range(2):
        with (
            WriterSession.claimed(log, "flow:f", FLOW_TABLES, claim_of("f")) as flow,
            WriterSession.claimed(log, "recorder:east", RECORDER_TABLES, claim_row("host:1:1")) as recorder,
        ):
            if epoch == 0:
                flow.append("offset_syncs", [offset_sync(0, 0, "started")])
            for start in range(epoch * 30, epoch * 30 + 30, 10):
                flow.append("offset_syncs", [offset_sync(start, start + 10)])
                recorder.append("high_watermarks", [watermark(start + 10)])
            flow.alive()
    return Path(path)


def broken(path: str) -> set[str]:
    rows = answers.audit_rows(DeltaLedger(path).as_of(None, now_ms=SystemClock().now_ms()))
    return {name.removeprefix("audit_").partition("_")[0] for name, found in rows.items() if found}


@pytest.mark.parametrize(
    ("table", "removed", "audits"),
    [
        ("offset_syncs", "source_start = -1", set()),
        ("offset_syncs", "kind = 'started'", {"l8"}),
        ("offset_syncs", "source_start < 20", {"l8"}),
        ("offset_syncs", "source_start >= 20 and source_start < 30", {"l1", "l8"}),
        ("offset_syncs", "writer_epoch = 1", {"l8"}),
        ("offset_syncs", "source_start >= 0", {"l8"}),
        ("writers", "event = 'claimed' and flow is not null and writer_epoch = 2", {"l8"}),
        ("writers", "event = 'alive' and writer_epoch = 1", {"l8"}),
        ("high_watermarks", "writer_epoch = 1 and high_watermark = 30", {"l8"}),
    ],
)
def test_what_was_removed_is_missed(
    told: Path, tmp_path: Path, table: str, removed: str, audits: set[str]
) -> None:
    path = copied_to(tmp_path, told)
    opened = DeltaTable(f"{path}/{table}")
    opened.alter.set_table_properties({"delta.appendOnly": "false"})
    DeltaTable(f"{path}/{table}").delete(removed)
    assert broken(path) == audits
