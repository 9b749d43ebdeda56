"""Each file of each table damaged in each way, and every command that reads: a right answer, or the file's name."""

from pathlib import Path

import pytest

from ledger.store.delta_tables import create_tables
from tests.support.damaged_ledgers import FILES, READING, TABLES, WAYS, copy_of, without_ages, written


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("where", FILES)
def test_every_command_answers_rightly_or_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str, where: str
) -> None:
    (tmp_path / "new").mkdir()
    create_tables(str(tmp_path / "new" / "ledger"), now_ms=1)
    whole = written(tmp_path, tmp_path / "new" / "ledger", capsys)
    right = {name: whole.command(*words) for name, words in READING.items()}
    for way, damage in WAYS.items():
        if (where, way) == ("last entry", "missing"):
            continue  # as if it had never been written
        damaged = copy_of(whole, tmp_path / way)
        file = FILES[where](Path(damaged.path, table))
        damage(file)
        for name, words in READING.items():
            done = damaged.command(*words)
            if done.code == right[name].code:
                assert without_ages(done.out) == without_ages(right[name].out), (way, name, done)
            else:
                assert done.code == 1, (way, name, done)
                assert str(file) in done.err, (way, name, done)
