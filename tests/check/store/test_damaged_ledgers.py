"""A damaged file of a ledger: whoever reads answers rightly, or says which file it is and how to get it back."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.support.damaged_ledgers import FILES, READING, TABLES, WAYS, copy_of, without_ages, written
from tests.support.operated import Operated

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
    """`make soak` asks every command about every table."""
    right = {name: whole.command(*READING[name]) for name in ("sql", *_ASKED)}
    tables, asked = itertools.cycle(TABLES), itertools.cycle(_ASKED)
    for (where, file_of), (way, damage) in itertools.product(FILES.items(), WAYS.items()):
        if (where, way) == ("last entry", "missing"):
            continue  # as if it had never been written
        table = next(tables)
        damaged = copy_of(whole, tmp_path / f"{where} {way}")
        file = file_of(Path(damaged.path, table))
        damage(file)
        for name in ("sql", next(asked)):
            done = damaged.command(*READING[name])
            words = (where, way, table, name, done)
            if done.code == right[name].code:
                assert without_ages(done.out) == without_ages(right[name].out), words
            else:
                assert (done.code, len(done.err.splitlines())) == (1, 1), words
                assert str(file) in done.err, words
                assert "Put it back from a copy of the ledger's folder" in done.err, words


@pytest.mark.parametrize("table", ["checkpoints", "operations"])
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
