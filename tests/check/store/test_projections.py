"""Projections on disk: answers are the same with them, without, with stale and with damaged ones; and they are used."""

import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from ledger.clock import HOUR_MS
from ledger.facts.last_rows import Noted
from ledger.store import catalog, merging, narrowed, projections, spans, sql
from ledger.store.behind import Behind, file_stamps
from ledger.store.delta_tables import opened_at, table_uri
from ledger.store.maintenance import TableUpkeep, maintain
from ledger.store.merging import SORTED_BY, data_files
from ledger.store.projection_audit import audit_projections
from ledger.store.projections import PROJECTED, Block, Projection
from ledger.store.snapshots import DeltaLedger
from tests.benchmarks import long_ledgers
from tests.benchmarks.long_ledgers import (
    BEGAN_MS,
    FILLED,
    ROUND_MS,
    Length,
    write_ledger,
)
from tests.benchmarks.long_projections import project_table
from tests.support.fakes import FakeClock
from tests.support.histories import examples
from tests.support.ledgers import rewrite_block
from tests.support.projected_ledgers import (
    ASKED,
    LENGTH,
    WRITERS,
    Grown,
    require_narrowed,
    require_same,
)

pytestmark = pytest.mark.long
ENDED_S = (BEGAN_MS + LENGTH.rounds * ROUND_MS) / 1000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its rounds lie in one file of each table."""
    path = tmp_path_factory.mktemp("written") / "ledger"
    write_ledger(str(path), LENGTH)
    for table in FILLED:
        assert maintain(TableUpkeep(str(path), table, FakeClock(ENDED_S), keep_hours=1)).written == 1
    return path


@pytest.fixture
def grown(written: Path, tmp_path: Path) -> Grown:
    path = str(shutil.copytree(written, tmp_path / "ledger"))
    return Grown(path, FakeClock(ENDED_S))


def test_answers_are_the_same_without_with_and_behind_a_projection(grown: Grown) -> None:
    require_same(grown.now(), is_narrowed=False)
    grown.extend()
    grown.append(2)
    require_same(grown.now(), asked=examples(check=4, soak=len(ASKED)))


def test_rows_with_many_gaps_are_answered_by_spans_of_them_where_there_is_no_projection(
    grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = catalog.query(ASKED[0][0]), ASKED[0][1]
    monkeypatch.setattr(narrowed, "MANY_GAPS", 1)
    for most_opened in (0, 2_000):
        monkeypatch.setattr(spans, "MOST_OPENED", most_opened)
        require_same_syncs(grown)
    at = grown.at_round(LENGTH.rounds // 2)
    assert narrowed.run_query(*question, at).equals(sql.run_query(*question, at))


def test_blocks_become_larger_ones_and_cuts_of_the_past_are_answered_by_those_of_then(
    grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projections, "FANOUT", 2)
    monkeypatch.setattr(projections, "LAST_FANOUT", 3)
    monkeypatch.setattr(merging, "_COMMITS_PER_CHECKPOINT", 4)
    ends = []
    for _ in range(3):
        grown.extend(WRITERS)
        ends.append(grown.rounds)
        grown.append(2)
    for table, active in (("offset_syncs", 2), ("high_watermarks", 1)):
        folder = Path(table_uri(grown.path, f"projections/{table}"))
        assert len(DeltaTable(str(folder)).file_uris()) == active
        assert len(grown.files(table)) == 4, "three blocks, and what became of as many as become one"
        assert (folder / "_delta_log" / "_last_checkpoint").is_file()
    require_same(grown.now())
    for end in random.Random(7).sample(ends, examples(check=1, soak=3)):
        require_same(grown.at_round(end + random.Random(end).randint(0, 1)), asked=examples(check=2, soak=4))
    require_narrowed(grown.at_round(LENGTH.rounds // 2), is_narrowed=False)
    assert grown.now().cut == DeltaLedger(grown.path).at(grown.now().cut).cut


def test_the_cut_is_that_of_all_rows(grown: Grown) -> None:
    every = grown.now().cut
    grown.extend()
    assert grown.now().cut == every
    grown.append(1)
    with_more = grown.now().cut
    for table in PROJECTED:
        Projection(grown.path, table).drop()
    assert grown.now().cut == with_more != every


def test_the_audit_finds_what_a_projection_says_otherwise_than_the_facts(
    grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projections, "FANOUT", 2)
    then = grown.rounds
    for _ in range(2):
        grown.extend()
        grown.append(1)
    assert {one.table: one.status for one in audit_projections(grown.now())} == {
        table: "not_used" if table == "share_offsets" else "same" for table in PROJECTED
    }
    [past] = audit_projections(grown.at_round(then), ["offset_syncs"])
    assert (past.differing, past.projected, past.rows) == (0, then * 6, then * 6)
    for table, column in (("offset_syncs", "records"), ("high_watermarks", "high_watermark")):
        for file in grown.files(table):
            changed = pq.read_table(file)
            place = changed.column_names.index(column)
            wrong = pa.array([value and value - 1 for value in changed[column].to_pylist()], pa.int64())
            rewrite_block(file, changed.set_column(place, changed.schema.field(column), wrong))
    found = audit_projections(grown.now(), ["offset_syncs", "high_watermarks"])
    assert [one.status for one in found] == ["differs", "differs"]


def test_of_two_that_extend_at_once_one_is_left(grown: Grown) -> None:
    opened = opened_at(table_uri(grown.path, "offset_syncs"))
    first, second = (Projection(grown.path, "offset_syncs") for _ in range(2))
    assert first.extend_when_due(opened, now_ms=grown.clock.now_ms(), least_rows=1)
    assert not second.extend_when_due(opened, now_ms=grown.clock.now_ms(), least_rows=1)
    require_same_syncs(grown)
    stale = Block.read(grown.files("offset_syncs")[0])
    assert stale.previous is None
    second._put(  # as one that had read the chain before the other one wrote its block
        Block.read(copy_of(grown.files("offset_syncs")[0])), [second._rows([stale])], [], grown.clock.now_ms()
    )
    require_same_syncs(grown)


def require_same_syncs(grown: Grown) -> None:
    name, params = ASKED[0]
    query, at = catalog.query(name), grown.now()
    assert "offset_syncs" in narrowed.for_question(at, query, params)
    assert narrowed.run_query(query, params, at).equals(sql.run_query(query, params, at))


def copy_of(file: Path) -> Path:
    rows, _, rest = file.name.partition("r-")
    other = file.with_name(f"{rows}r-another-{rest}")
    other.write_bytes(file.read_bytes())
    return other


@pytest.mark.parametrize(
    "harm", examples(check=["cut", "log"], soak=["cut", "removed", "log", "other table"])
)
def test_what_is_damaged_is_not_used_and_is_built_again(grown: Grown, harm: str) -> None:
    grown.extend(("offset_syncs", "checkpoints", "high_watermarks"))
    for table in ("offset_syncs", "checkpoints"):
        file = grown.files(table)[0]
        if harm == "cut":
            file.write_bytes(file.read_bytes()[:-100])
        elif harm == "removed":
            file.unlink()
        elif harm == "log":
            (file.parent / "_delta_log" / f"{1:020}.json").write_text("{")
        else:
            other = "checkpoints" if table == "offset_syncs" else "high_watermarks"
            file.write_bytes(grown.files(other)[0].read_bytes())
    require_same(grown.now(), is_narrowed=False)
    grown.append(1)
    for table in ("offset_syncs", "checkpoints"):
        TableUpkeep(grown.path, table, grown.clock, keep_hours=1).rebuild()
    require_narrowed(grown.now())


def test_blocks_of_a_later_program_are_left_alone(grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(projections, "_FORM", 2)
        grown.extend(("offset_syncs", "checkpoints"))
    require_same(grown.now(), is_narrowed=False)
    grown.append(1)
    opened = opened_at(table_uri(grown.path, "offset_syncs"))
    assert not Projection(grown.path, "offset_syncs").extend_when_due(opened, now_ms=1, least_rows=1)
    assert len(grown.files("offset_syncs")) == 1


def test_a_commit_that_somebody_else_was_faster_with_leaves_nothing(
    grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = ("offset_syncs", "checkpoints")
    grown.extend(read)
    grown.append(1)
    stale = DeltaTable(table_uri(grown.path, "projections/offset_syncs"))
    grown.extend(read)
    grown.append(1)
    monkeypatch.setattr(Projection, "_table", lambda _self: stale)
    files = grown.files("offset_syncs")
    opened = opened_at(table_uri(grown.path, "offset_syncs"))
    assert not Projection(grown.path, "offset_syncs").extend_when_due(opened, now_ms=1, least_rows=1)
    assert grown.files("offset_syncs") == files
    require_same(grown.now())


def test_a_file_without_a_commit_is_nothing(grown: Grown) -> None:
    grown.extend(("offset_syncs", "checkpoints"))
    copy_of(grown.files("offset_syncs")[0])
    grown.append(1)
    require_same(grown.at_round(grown.rounds))


def test_it_is_extended_when_answers_would_read_much_and_not_before(
    grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep = TableUpkeep(grown.path, "offset_syncs", grown.clock, keep_hours=1)
    assert not upkeep.project_when_due()
    monkeypatch.setattr(projections, "LEAST_ROWS", 50)
    assert not TableUpkeep(grown.path, "topics", grown.clock, keep_hours=1).project_when_due()
    assert upkeep.project_when_due()
    assert not upkeep.project_when_due()


def test_last_rows_become_a_block_where_there_are_as_many_as_one_has(
    grown: Grown, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown.extend(("offset_syncs", "high_watermarks"))
    assert Block.read(grown.files("high_watermarks")[0]).kept == 2 * LENGTH.partitions
    monkeypatch.setattr(projections, "LEAST_ROWS", 1)
    upkeep = TableUpkeep(grown.path, "high_watermarks", grown.clock, keep_hours=1)
    grown.append(1)
    assert not upkeep.project_when_due(), "one cluster was read: half as many"
    assert TableUpkeep(grown.path, "offset_syncs", grown.clock, keep_hours=1).project_when_due()
    grown.append(1)
    assert upkeep.project_when_due()


@pytest.mark.parametrize(
    "more",
    examples(check=["x2"], soak=["", "x2", "xone", "x2xtransactional"]),
    ids=lambda more: more or "one way",
)
def test_a_generated_projection_is_the_one_that_maintenance_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    monkeypatch.setattr(projections, "LEAST_ROWS", 1_000)
    monkeypatch.setattr(projections, "FANOUT", 2)
    monkeypatch.setattr(projections, "LAST_FANOUT", 2)
    monkeypatch.setattr(long_ledgers, "_SMALL_FILES", 5)
    monkeypatch.setattr(long_ledgers, "side_by_side", partial(ThreadPoolExecutor, max_workers=1))
    length = Length.parsed("1300x3x40g2" + more)
    made, generated = str(tmp_path / "made"), str(tmp_path / "generated")
    write_ledger(made, length)
    shutil.copytree(made, generated)
    for table in FILLED:
        opened = opened_at(table_uri(made, table))
        require_as_merged(opened, table)
        assert Projection(made, table).extend_when_due(opened, now_ms=length.end_ms)
        project_table(generated, length, length.end_ms, table)
        expected, found = (blocks_of(path, table) for path in (made, generated))
        assert len(found) == 3, "two of hours, and what they became"
        assert expected[:3] == found
        rows_until = [rows for rows, *_ in expected[3:]]
        assert set(rows_until) <= {length.rows(table, range(1, 1_301))}, "what is not worth a block yet"
        folder = Path(table_uri(generated, f"projections/{table}"))
        active = [Path(uri).name for uri in DeltaTable(str(folder)).file_uris()]
        assert [Block.read(folder / name).tier for name in active] == [1]


def blocks_of(path: str, table: str) -> list[tuple[object, ...]]:
    """What blocks of a projection say, in the order of what they stand for: rows have no order in a block."""
    found = map(Block.read, Path(table_uri(path, f"projections/{table}")).glob("block-*.parquet"))
    blocks = sorted(found, key=lambda block: (block.noted.rows, block.tier))
    rows_until = {block.name: block.noted.rows for block in blocks}
    return [
        (
            block.noted.rows,
            block.noted,
            block.tier,
            block.appended_ms,
            block.table_id,
            rows_until[block.last],
            block.previous and rows_until[block.previous],
            sorted(map(repr, pq.read_table(block.file).to_pylist())),
        )
        for block in blocks
    ]


def require_as_merged(opened: DeltaTable, table: str) -> None:
    """The large file of a table is sorted as a merge sorts it, and the log says of it what a merge says."""
    large = max(data_files(opened), key=lambda file: file.rows or 0)
    rows = pq.read_table(Path(opened.table_uri.removeprefix("file://")) / large.path)
    order = (*SORTED_BY[table], "writer", "writer_epoch", "round")
    assert rows.equals(rows.sort_by([(name, "ascending") for name in order]))
    times = pc.min_max(rows["recorded_at_ms"]).as_py()
    assert (large.rows, large.first_ms, large.last_ms) == (len(rows), times["min"], times["max"])
    (stamps,) = (one for one in file_stamps(opened) if one.name == large.path)
    writers = sorted(set(rows["writer"].to_pylist()))
    assert (stamps.writers, stamps.last_epoch) == ((writers[0], writers[-1]), 1)
    assert stamps.last_round == pc.max(rows["round"]).as_py()


@pytest.mark.parametrize("seed", range(20))
def test_a_part_ends_where_it_has_all_rows_up_to_a_place_of_each_writer(seed: int) -> None:
    rng = random.Random(seed)
    rows = []
    for writer in ("a", "b", "c")[: rng.randint(1, 3)]:
        at_ms = rng.randint(0, 5) * HOUR_MS
        for number in range(rng.randint(1, 40)):
            at_ms += rng.randint(0, HOUR_MS)
            back_ms = rng.choice((0,) * 9 + (2 * HOUR_MS,))
            rows.append((writer, 1 + number // 15, number, max(at_ms - back_ms, 0)))
    least = rng.randint(1, 30)
    with duckdb.connect() as connection:
        connection.execute(
            "create table behind (writer text, writer_epoch int8, round int8, recorded_at_ms int8)"
        )
        connection.executemany("insert into behind values (?, ?, ?, ?)", rows)
        parts = Behind(connection, Noted.of(len(rows), {})).parts(least)
    hours = {at_ms // HOUR_MS for *_, at_ms in rows}
    expected = list[int]()
    for until_ms in sorted((hour + 1) * HOUR_MS - 1 for hour in hours):
        until = [row for row in rows if row[-1] <= until_ms]
        later = [row for row in rows if row[-1] > until_ms]
        is_prefix = all(row[:3] < other[:3] for row in until for other in later if row[0] == other[0])
        since = [row for row in until if not expected or row[-1] > expected[-1]]
        if not later or (is_prefix and len(since) >= least):
            expected.append(until_ms)
    assert parts == expected
