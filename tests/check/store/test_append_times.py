"""What the log of a table and few files tell is what a scan tells: its newest version, when a writer last appended."""

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ledger.store.appends import AppendTimes
from ledger.store.behind import file_stamps
from ledger.store.delta_tables import STATISTICS, create_tables, newest_version, table_uri
from ledger.store.maintenance import TableUpkeep, Upkeep
from ledger.store.merging import Merge, data_files
from ledger.store.relations import last_recorded_at_ms, last_recorded_of_each, relation_of
from ledger.store.sql import ParquetFiles
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import append, copied_to, row

# -- Appends ---------------------------------------------------------------------------------------
# MIRROR_LEDGER_SEED repeats a run.

TABLE = "high_watermarks"
SEED = int(os.environ.get("MIRROR_LEDGER_SEED", "1"))
WRITERS = ("recorder:a", "recorder:b", "recorder:c")
SAID_OF = (("writer",), ("cluster",), ("recorded_at_ms",), STATISTICS)
"""Columns of which the log has statistics, from one change to the next; at first it has those of the last."""
NOBODY = "recorder:bb"
"""A name between those of others."""
STEPS = 24
NOW_MS = 1_766_390_400_000


@pytest.fixture
def path(tmp_path: Path, empty_ledger: Path) -> str:
    return copied_to(tmp_path, empty_ledger)


def opened(path: str) -> DeltaTable:
    return DeltaTable(table_uri(path, TABLE))


def appended(path: str, *recorded: tuple[str, int]) -> None:
    """One file with a row for each writer and time."""
    append(path, TABLE, [row(TABLE, writer=writer, recorded_at_ms=at_ms) for writer, at_ms in recorded])


def merged(path: str, count: int | None = None, rng: random.Random | None = None) -> None:
    """Some files become one; all where no number is given."""
    files = data_files(opened(path))
    chosen = files if count is None or rng is None else rng.sample(files, count)
    upkeep = TableUpkeep(path, TABLE, FakeClock(NOW_MS / 1000), keep_hours=1)
    merge = Merge(tuple(chosen), None)
    assert upkeep.committed(Upkeep(TABLE, len(files)), merge, upkeep.written(merge)).written


def with_statistics(path: str, *columns: str) -> None:
    """From now on the log says the least and the greatest value of these columns."""
    opened(path).alter.set_table_properties({"delta.dataSkippingStatsColumns": ",".join(columns)})


def scanned(path: str, writer: str) -> int | None:
    return last_recorded_at_ms(relation_of(opened(path), TABLE), writer)


def spoiled(path: str) -> None:
    """No file of the table can be read any more."""
    for file in opened(path).file_uris():
        Path(file.removeprefix("file://")).write_bytes(b"nobody reads this")


def test_it_is_what_all_files_tell(path: str) -> None:
    """Appends of one writer and of several, by clocks that go back, merged and not, with statistics and without."""
    rng, now_ms, seen = random.Random(SEED), NOW_MS, Counter[str]()
    kept = {writer: AppendTimes(TABLE, writer) for writer in (*WRITERS, NOBODY)}
    for step in range(STEPS):
        now_ms += 1_000
        writers = rng.sample(WRITERS, rng.choice((1, 1, 2)))
        appended(path, *((writer, now_ms - rng.choice((0, 0, 5_000))) for writer in writers))
        if step % 5 == 4:
            with_statistics(path, *SAID_OF[step // 5 % len(SAID_OF)])
        if step % 6 == 5:
            merged(path, rng.randint(2, 4), rng)
        if step % 6 in (3, 5):
            table = opened(path)
            seen.update(said(table))
            for writer, times in kept.items():
                expected = scanned(path, writer)
                assert times.last_ms(table) == expected, f"MIRROR_LEDGER_SEED={SEED}"
                assert AppendTimes(TABLE, writer).last_ms(table) == expected, f"MIRROR_LEDGER_SEED={SEED}"
    assert {"one writer", "several writers", "no writer", "no time"} <= set(seen)
    assert kept[NOBODY].last_ms(opened(path)) is None


def said(table: DeltaTable) -> list[str]:
    """What the log says of each file."""
    files = file_stamps(table)
    writers = [file.writers for file in files]
    return [
        *(
            "no writer" if of is None else "one writer" if of[0] == of[1] else "several writers"
            for of in writers
        ),
        *("no time" for file in files if file.last_ms is None),
    ]


def test_files_of_one_writer_are_not_read(path: str) -> None:
    appended(path, ("recorder:a", 5))
    appended(path, ("recorder:a", 7))
    appended(path, ("recorder:b", 9))
    appended(path, ("recorder:c", 8))
    spoiled(path)
    found = {writer: AppendTimes(TABLE, writer).last_ms(opened(path)) for writer in (*WRITERS, NOBODY)}
    assert found == {"recorder:a": 7, "recorder:b": 9, "recorder:c": 8, NOBODY: None}


def test_a_file_of_several_writers_is_read_once_and_only_where_it_may_tell_more(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[str]()

    def counted(files: ParquetFiles, writer: str) -> dict[str, int]:
        read.extend(files.paths)
        return last_recorded_of_each(files, writer)

    monkeypatch.setattr("ledger.store.appends.last_recorded_of_each", counted)
    appended(path, ("recorder:a", 5), ("recorder:c", 6))
    appended(path, ("recorder:a", 7))
    times = {writer: AppendTimes(TABLE, writer) for writer in (*WRITERS, NOBODY, "recorder:d")}
    table = opened(path)
    assert (times["recorder:a"].last_ms(table), read) == (7, []), "it has nothing later"
    assert (times["recorder:d"].last_ms(table), read) == (None, []), "it has nothing of such a name"
    assert (times["recorder:c"].last_ms(table), len(read)) == (6, 1)
    assert (times[NOBODY].last_ms(table), len(read)) == (None, 2)
    appended(path, ("recorder:b", 8))
    table = opened(path)
    assert [times[writer].last_ms(table) for writer in (*WRITERS, NOBODY)] == [7, 8, 6, None]
    assert len(read) == 2, "what it told is kept"
    merged(path)
    table = opened(path)
    assert [times[writer].last_ms(table) for writer in (*WRITERS, NOBODY)] == [7, 8, 6, None]
    assert len(read) == 6, "another file has taken the place of all"


def test_rows_that_are_gone_tell_nothing(path: str) -> None:
    """An older copy of the table has taken its place."""
    times = AppendTimes(TABLE, "recorder:b")
    appended(path, ("recorder:b", 5))
    version = opened(path).version()
    appended(path, ("recorder:a", 7), ("recorder:b", 8), ("recorder:c", 9))
    assert times.last_ms(opened(path)) == 8
    opened(path).restore(version)
    assert times.last_ms(opened(path)) == scanned(path, "recorder:b") == 5


def test_files_whose_names_duckdb_would_not_read_as_they_are_tell_the_same(
    tmp_path: Path, empty_ledger: Path
) -> None:
    path = copied_to(tmp_path / "led*gers", empty_ledger)
    appended(path, ("recorder:a", 5), ("recorder:b", 8), ("recorder:c", 9))
    assert AppendTimes(TABLE, "recorder:b").last_ms(opened(path)) == 8


# -- Versions --------------------------------------------------------------------------------------

CHECKPOINTS = "checkpoints"


@pytest.fixture
def fresh_path(tmp_path: Path) -> str:
    fresh_path = str(tmp_path / "ledger")
    create_tables(fresh_path, now_ms=1)
    return fresh_path


def newest(fresh_path: str) -> DeltaTable:
    found = newest_version(fresh_path, CHECKPOINTS)
    assert found is not None
    return found


def test_a_table_is_opened_once_per_version(fresh_path: str) -> None:
    first = newest(fresh_path)
    assert newest(fresh_path) is first
    append(fresh_path, CHECKPOINTS, [row(CHECKPOINTS)])
    second = newest(fresh_path)
    assert (first.version(), second.version()) == (0, 1)
    assert newest(fresh_path) is second
    append(fresh_path, CHECKPOINTS, [row(CHECKPOINTS)])
    append(fresh_path, CHECKPOINTS, [row(CHECKPOINTS)])
    assert newest(fresh_path).version() == 3


def test_another_table_in_its_place_is_opened_though_it_has_the_same_version(fresh_path: str) -> None:
    before = newest(fresh_path).metadata().id
    shutil.rmtree(fresh_path)
    create_tables(fresh_path, now_ms=1)
    assert newest(fresh_path).metadata().id != before


def test_a_table_that_is_away_is_not_taken_from_memory(fresh_path: str) -> None:
    newest(fresh_path)
    shutil.move(fresh_path, fresh_path + ".away")
    with pytest.raises(TableNotFoundError):
        newest(fresh_path)
    shutil.move(fresh_path + ".away", fresh_path)
    assert newest(fresh_path).version() == 0


def test_an_entry_of_the_log_that_was_cleaned_away_tells_nothing(fresh_path: str) -> None:
    append(fresh_path, CHECKPOINTS, [row(CHECKPOINTS)])
    assert newest(fresh_path).version() == 1
    DeltaTable(table_uri(fresh_path, CHECKPOINTS)).create_checkpoint()
    for entry in Path(table_uri(fresh_path, CHECKPOINTS), "_delta_log").glob("*.json"):
        entry.unlink()
    first, second = newest(fresh_path), newest(fresh_path)
    assert (first.version(), second.version()) == (1, 1)
    assert first is not second
