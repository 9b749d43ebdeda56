"""A cut counts the same rows for ever: whatever is appended, merged or removed, and on any copy of the ledger."""

import os
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

from ledger.answers.elsewhere import for_duckdb, sealed
from ledger.doctor.probes import LedgerProbe
from ledger.errors import UsageError
from ledger.facts.cuts import ClockStep, Cut, LastAppend
from ledger.store import catalog
from ledger.store.delta_tables import create_tables, table_uri
from ledger.store.snapshots import DeltaSnapshot, open_ledger
from tests.support.histories import examples
from tests.support.ledger_rows import append, copied_to, row
from tests.support.pasted_texts import without_views

APPENDED = ("offset_syncs", "operations", "topics")
WRITERS = ("flow:f", "flow:g", "recorder:e", "operator")
NOW_MS = 1_000_000
SEED = int(os.environ.get("MIRROR_LEDGER_SEED", "11"))


@dataclass(slots=True)
class Appended:
    """What was appended, in the order of each writer: table, place of the append, time, and what tells the row."""

    path: str
    stamps: list[tuple[str, str, int, int, int, int]] = field(default_factory=list)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)

    def some(self, rng: random.Random, count: int) -> None:
        """Rounds of several writers whose clocks differ, step back and skip; epochs end now and then."""
        for _ in range(count):
            writer, table = rng.choice(WRITERS), rng.choice(APPENDED)
            epoch, number = self.places.get(writer, (1, 0))
            place = (epoch + 1, 0) if rng.random() < 0.1 else (epoch, number + rng.randint(1, 3))
            self.places[writer] = place
            at_ms = 1000 + 10 * len(self.stamps) + rng.randint(-60, 60)
            rows = []
            for _ in range(rng.randint(1, 3)):
                mark = len(self.stamps)
                self.stamps.append((table, writer, *place, at_ms, mark))
                stamp = {
                    "writer": writer,
                    "writer_epoch": place[0],
                    "round": place[1],
                    "recorded_at_ms": at_ms,
                }
                rows.append(row(table, **stamp, **told(table, mark)))
            append(self.path, table, rows)

    def by(self, at_ms: int) -> Mapping[str, set[int]]:
        """Per table the rows of each writer before its first that was recorded later."""
        found: dict[str, set[int]] = {table: set() for table in APPENDED}
        for table in APPENDED:
            for writer in WRITERS:
                mine = [stamp for stamp in self.stamps if stamp[:2] == (table, writer)]
                late = min((stamp[2:4] for stamp in mine if stamp[4] > at_ms), default=(1 << 40, 0))
                found[table] |= {stamp[5] for stamp in mine if stamp[2:4] < late}
        return found


def told(table: str, mark: int) -> dict[str, object]:
    """What tells a row from all others."""
    return {MARKS[table]: str(mark) if table == "operations" else mark}


MARKS = {"offset_syncs": "source_start", "operations": "operation_id", "topics": "partitions"}


def marks_of(at: DeltaSnapshot) -> dict[str, set[int]]:
    found = {table: [int(one[MARKS[table]]) for one in at.rows(table, [])] for table in APPENDED}
    assert all(len(marks) == len(set(marks)) for marks in found.values()), "no row twice"
    return {table: set(marks) for table, marks in found.items()}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Appended:
    """A ledger of several writers with clocks of their own, for tests to copy."""
    path = str(tmp_path_factory.mktemp("recorded") / "ledger")
    create_tables(path, now_ms=1)
    made = Appended(path)
    print(f"MIRROR_LEDGER_SEED={SEED}")
    made.some(random.Random(SEED), 45)
    return made


@pytest.fixture
def copied(recorded: Appended, tmp_path: Path) -> Appended:
    path = copied_to(tmp_path, Path(recorded.path))
    return Appended(path, list(recorded.stamps), dict(recorded.places))


def test_a_time_means_the_same_for_every_table_and_writer(recorded: Appended) -> None:
    ledger = open_ledger(recorded.path)
    earliest = min(stamp[4] for stamp in recorded.stamps)
    latest = max(stamp[4] for stamp in recorded.stamps)
    counted = set()
    for at_ms in [*range(earliest, latest, 151), latest, latest + 49]:
        found = marks_of(ledger.at_time(at_ms, now_ms=NOW_MS))
        assert found == recorded.by(at_ms), at_ms
        counted.add(sum(map(len, found.values())))
    assert len(counted) > 5
    assert max(counted) == len(recorded.stamps)


def test_clocks_that_stepped_back_are_found(recorded: Appended) -> None:
    """Each append that says an earlier time than the one before of its writer in the table, with both times."""
    expected = set()
    for table in APPENDED:
        for writer in WRITERS:
            times = {one[2:4]: one[4] for one in sorted(recorded.stamps) if one[:2] == (table, writer)}
            for before, place in pairwise(sorted(times)):
                if times[place] < times[before]:
                    expected.add(ClockStep(table, writer, *place, times[place], times[before]))
    found = LedgerProbe(recorded.path).clock_steps()
    assert len(found) == len(expected) > 1
    assert set(found) == expected


def merged(path: str) -> None:
    for table in APPENDED:
        DeltaTable(table_uri(path, table)).optimize.compact()


def sorted_anew(path: str) -> None:
    for table, column in (
        ("offset_syncs", "source_start"),
        ("operations", "writer"),
        ("topics", "partitions"),
    ):
        DeltaTable(table_uri(path, table)).optimize.z_order([column])


def cleaned(path: str) -> None:
    """Merged, and nothing is left of what was before: neither files nor log entries."""
    merged(path)
    for table in APPENDED:
        opened = DeltaTable(table_uri(path, table))
        opened.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        opened.create_checkpoint()
        log = Path(table_uri(path, table)) / "_delta_log"
        for entry in log.glob("*.json"):
            if int(entry.stem) < opened.version():
                entry.unlink()


def moved(path: str) -> None:
    shutil.move(path, f"{path}-elsewhere")
    shutil.copytree(f"{path}-elsewhere", path)


def cleaned_and_moved(path: str) -> None:
    cleaned(path)
    moved(path)


@pytest.mark.parametrize(
    "maintain", examples(check=[cleaned_and_moved], soak=[merged, sorted_anew, cleaned, moved])
)
def test_a_token_answers_the_same_after(copied: Appended, maintain: Callable[[str], None]) -> None:
    rng = random.Random(SEED)
    tokens = {}
    for at_ms in (1200, 1500):
        at = open_ledger(copied.path).at_time(at_ms, now_ms=NOW_MS)
        tokens[at.cut.token] = copied.by(at_ms)
    now = open_ledger(copied.path).now()
    tokens[now.cut.token] = marks_of(now)
    copied.some(rng, 10)
    maintain(copied.path)
    copied.some(rng, 5)
    ledger = open_ledger(copied.path)
    for token, expected in tokens.items():
        at = ledger.as_of(token, now_ms=NOW_MS)
        assert marks_of(at) == expected
        assert by_statement(at) == by_pasted_views(at) == expected
        assert at.cut.token == token
        assert at.last_recorded_at_ms() == max(s[4] for s in copied.stamps if s[5] in expected[s[0]])
    assert len({sum(map(len, marks.values())) for marks in tokens.values()}) == 3
    assert marks_of(ledger.now()) != expected


SELECTED = {
    "offset_syncs": "select source_start from offset_syncs",
    "operations": "select cast(operation_id as bigint) from operations",
    "topics": "select partitions from topics",
}


def by_statement(at: DeltaSnapshot) -> dict[str, set[int]]:
    """As `mirror-ledger sql` reads it."""
    with sealed(at, (), {}) as ledger:
        return {table: values(next(ledger.answers(text))) for table, text in SELECTED.items()}


def by_pasted_views(at: DeltaSnapshot) -> dict[str, set[int]]:
    """As another DuckDB reads what `mirror-ledger views` prints of tables."""
    with duckdb.connect() as connection:
        connection.execute(without_views(for_duckdb(at), set(catalog.view_names())))
        return {table: values(connection.sql(text).to_arrow_table()) for table, text in SELECTED.items()}


def values(found: Any) -> set[int]:
    return set(found.column(0).to_pylist())


def test_what_a_cut_does_not_name_is_empty(recorded: Appended) -> None:
    cut = open_ledger(recorded.path).now().cut
    some = [one for one in cut.last if one.table != "topics" and one.writer != "flow:g"]
    found = marks_of(open_ledger(recorded.path).at(Cut.of(cut.ledger_id, some)))
    kept = {stamp[5] for stamp in recorded.stamps if stamp[1] != "flow:g" and stamp[0] != "topics"}
    assert set.union(*found.values()) == kept
    assert found["topics"] == set()


def test_a_cut_of_another_ledger_is_refused(recorded: Appended, tmp_path: Path) -> None:
    token = open_ledger(recorded.path).now().cut.token
    create_tables(str(tmp_path / "other"), now_ms=1)
    with pytest.raises(UsageError, match=r"of another ledger .* nothing was read"):
        open_ledger(str(tmp_path / "other")).as_of(token, now_ms=NOW_MS)


def test_a_cut_that_a_restored_ledger_has_not_come_to_is_refused(copied: Appended, tmp_path: Path) -> None:
    """And one that it has come to again on another way."""
    (tmp_path / "kept").mkdir()
    kept = copied_to(tmp_path / "kept", Path(copied.path))
    copied.some(random.Random(SEED), 10)
    token = open_ledger(copied.path).now().cut.token
    with pytest.raises(
        UsageError, match=r"does not hold: it was brought back to a time before; nothing was read"
    ):
        open_ledger(kept).as_of(token, now_ms=NOW_MS)
    last = open_ledger(copied.path).now().cut.last
    for one in last:
        if one.table in APPENDED:
            append(kept, one.table, [again(one)])
    with pytest.raises(UsageError, match=r"went another way since; nothing was read"):
        open_ledger(kept).as_of(token, now_ms=NOW_MS)


def again(one: LastAppend) -> dict[str, object]:
    stamp = {"writer": one.writer, "writer_epoch": one.epoch, "round": one.round}
    return row(one.table, **stamp, recorded_at_ms=one.recorded_at_ms + 1)


def test_a_cut_of_tables_that_are_not_known_is_refused(recorded: Appended) -> None:
    ledger_id = open_ledger(recorded.path).now().cut.ledger_id
    cut = Cut.of(ledger_id, [LastAppend("plan_lines", "recorder:e", 1, 1, 1)])
    with pytest.raises(UsageError, match="names plan_lines, which is no table of a ledger; nothing was read"):
        open_ledger(recorded.path).at(cut)
