"""Starts by projections of tables answer what reading all of them answers, and do not read all of them.

MIRROR_LEDGER_SEED repeats a run.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from ledger.errors import LedgerUnavailableError
from ledger.facts.last_rows import GRAINS, NOTHING, Split
from ledger.facts.rows import flow_position
from ledger.facts.tables import STAMP, TABLE_BY_NAME, TABLES
from ledger.store import merging, projections
from ledger.store.behind import file_stamps
from ledger.store.catalog import query
from ledger.store.delta_tables import opened_at, table_uri
from ledger.store.last_rows import LastRowsReader
from ledger.store.maintenance import TableUpkeep, Upkeep, maintain
from ledger.store.merging import Merge, data_files
from ledger.store.projections import Block, Projection
from ledger.store.relations import filtered_rows, last_recorded_at_ms, newest_rows
from ledger.store.snapshots import open_ledger
from ledger.store.sql import run_query
from ledger.store.state import DeltaLedgerState
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import append, copied_to, row

SEEDS = [int(os.environ["MIRROR_LEDGER_SEED"])] if "MIRROR_LEDGER_SEED" in os.environ else [1]
STEPS = 39
NOW_MS = 1_766_390_400_000
FLOWS = ("a", "b")
STAMPED = {column.name for column in STAMP}
KINDS = (
    *(("copied", None),) * 6,
    ("started", "earliest"),
    ("superseded", "resync"),
    ("unpaired", "accepted"),
    ("adopted", None),
)


@dataclass
class Model:
    """Appends of several writers, merges and projections; what is asked is asked of all rows as well."""

    path: str
    rng: random.Random
    clock: FakeClock
    rounds: Counter[str] = field(default_factory=Counter)
    epochs: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)

    def step(self) -> None:
        self.clock.now_s += self.rng.choice((0.1, 30.0))
        steps = {self.append: 12, self.claim: 2, self.merge: 3, self.project: 5, self.harm: 1}
        self.rng.choices(list(steps), list(steps.values()))[0]()

    def stamp(self, writer: str) -> dict[str, Any]:
        self.rounds[writer] += 1
        late_ms = self.rng.choice((0, 0, 0, 5_000))
        return {
            "writer": writer,
            "writer_epoch": 1 + self.epochs[writer],
            "round": self.rounds[writer],
            "recorded_at_ms": self.clock.now_ms() - late_ms,
        }

    def append(self) -> None:
        table = self.rng.choice(["offset_syncs", "offset_syncs", *GRAINS])
        one = self.rng.choice(FLOWS)
        stamp = self.stamp(f"flow:{one}" if table in ("offset_syncs", "writers") else f"recorder:{one}")
        append(self.path, table, [self.row(table, one, stamp) for _ in range(self.rng.randint(1, 4))])

    def row(self, table: str, one: str, stamp: dict[str, Any]) -> dict[str, object]:
        some = self.rng.randint(0, 2)
        if table == "offset_syncs":
            kind, cause = self.rng.choice(KINDS)
            ends = sorted(self.rng.sample(range(100), 2))
            places = {"source_start": ends[0], "source_end": ends[1], "target_end": ends[1], "records": some}
            ids = {"source_topic": "t", "source_topic_id": f"s{some}", "target_topic_id": f"t{some}"}
            return row(table, **stamp, flow=one, source_cluster=one, kind=kind, cause=cause, **ids, **places)
        if table == "writers":
            event = "claimed" if stamp["round"] == 0 else "alive"
            host = {"host": "h:1:1", "source_cluster": one, "source_cluster_id": f"id-{one}"}
            return row(table, **stamp, event=event, flow=one, config_hash=str(stamp["writer_epoch"]), **host)
        number = self.rng.randint(0, 99)
        if table == "checkpoints":
            return row(table, **stamp, cluster=one, group_id="g", topic=f"t{some}", committed_offset=number)
        if table == "share_offsets":
            return row(table, **stamp, cluster=one, group_id="g", topic=f"t{some}", start_offset=number)
        return row(table, **stamp, cluster=one, topic=f"t{some}", topic_id=f"s{some}", high_watermark=number)

    def claim(self) -> None:
        writer = f"flow:{self.rng.choice(FLOWS)}"
        self.epochs[writer] += 1
        self.rounds[writer] = -1
        append(self.path, "writers", [self.row("writers", writer[-1], self.stamp(writer))])

    def merge(self) -> None:
        table = self.rng.choice(list(GRAINS))
        files = data_files(DeltaTable(table_uri(self.path, table)))
        if len(files) > 1:
            upkeep = TableUpkeep(self.path, table, self.clock, keep_hours=1)
            merge = Merge(tuple(self.rng.sample(files, self.rng.randint(2, len(files)))), None)
            done = upkeep.committed(Upkeep(table, len(files)), merge, upkeep.written(merge))
            self.done["merges"] += done.written

    def project(self) -> None:
        project(self.path, self.rng.choice(list(GRAINS)), self.clock)

    def harm(self) -> None:
        """A projection that says nothing, until it is built again."""
        if found := blocks(self.path, self.rng.choice(list(GRAINS))):
            self.rng.choice(found).write_bytes(b"no block")

    def check(self) -> None:
        state = DeltaLedgerState(open_ledger(self.path))
        for one in FLOWS:
            check_answers(self.path, state, one)
        for table in GRAINS:
            opened = opened_at(table_uri(self.path, table))
            projected = Projection(self.path, table).read(opened, lambda _: True, is_now=True)
            files = file_stamps(opened)
            left_out = len(files) - len(Split.of(files, projected.noted if projected else NOTHING).read)
            self.done["files left out"] += left_out


def check_answers(path: str, state: DeltaLedgerState, one: str) -> None:
    """Held against queries over all rows."""
    snapshot = open_ledger(path).now()
    rows = run_query(query("flow_positions"), {"flow": one}, snapshot).to_pylist()
    assert state.positions(one) == [flow_position(found) for found in rows]
    grain = ("topic", "topic_id", "partition")
    names = [name for name in TABLE_BY_NAME["high_watermarks"].column_names if name not in STAMPED]
    ends = newest_rows(snapshot.relation("high_watermarks"), [("cluster", "=", one)], grain, names)
    assert by_topic(state.last_high_watermarks(one)) == {end["topic"]: end["high_watermark"] for end in ends}
    of_group = ("group_id", "topic", "partition")
    names = [name for name in TABLE_BY_NAME["checkpoints"].column_names if name not in STAMPED]
    commits = newest_rows(snapshot.relation("checkpoints"), [("cluster", "=", one)], of_group, names)
    found = {commit.topic: commit.committed_offset for commit in state.last_checkpoints(one)}
    assert found == {commit["topic"]: commit["committed_offset"] for commit in commits}
    names = [name for name in TABLE_BY_NAME["share_offsets"].column_names if name not in STAMPED]
    shared = newest_rows(snapshot.relation("share_offsets"), [("cluster", "=", one)], of_group, names)
    offsets = {offset.topic: offset.start_offset for offset in state.last_share_offsets(one)}
    assert offsets == {offset["topic"]: offset["start_offset"] for offset in shared}
    claims = filtered_rows(snapshot.relation("writers"), [("writer", "=", f"flow:{one}")])
    claim = state.last_claim(f"flow:{one}")
    assert (claim is None, state.has_run(one)) == (not claims, bool(claims))
    if claim is not None:
        epoch = max(row["writer_epoch"] for row in claims)
        assert (claim.epoch, claim.config_hash) == (epoch, str(epoch))
        times = [last_recorded_at_ms(snapshot.relation(table.name), f"flow:{one}") for table in TABLES]
        assert claim.last_recorded_at_ms == max(at_ms for at_ms in times if at_ms is not None)
    adopted = [
        row for row in filtered_rows(snapshot.relation("offset_syncs"), []) if row["target_topic_id"] == "t1"
    ]
    wanted = [row for row in adopted if row["kind"] in ("adopted", "superseded")]
    assert sum(map(len, state.adoptions({"t1"}))) == len(wanted)


def by_topic(ends: Any) -> dict[str, int]:
    return {end.topic: end.high_watermark for end in ends}


def project(path: str, table: str, clock: FakeClock) -> bool:
    opened = opened_at(table_uri(path, table))
    return Projection(path, table).extend_when_due(opened, now_ms=clock.now_ms(), least_rows=1)


def blocks(path: str, table: str) -> list[Path]:
    return sorted(Path(table_uri(path, f"projections/{table}")).glob("block-*"))


def test_a_start_by_projections_answers_what_all_rows_answer(tmp_path: Path, empty_ledger: Path) -> None:
    for seed in SEEDS:
        path = copied_to(tmp_path / str(seed), empty_ledger)
        model = Model(path, random.Random(seed), FakeClock(NOW_MS / 1000))
        try:
            for number in range(STEPS):
                model.step()
                if number in (STEPS * 2 // 3, STEPS - 1):
                    model.check()
        except AssertionError as error:
            raise AssertionError(f"MIRROR_LEDGER_SEED={seed}: {error}") from error
        assert model.done["files left out"] > 5
        assert model.done["merges"]


def synced(path: str, first: int, last: int) -> None:
    """One append for each round: partition 0, and in the first round partition 1."""
    for number in range(first, last + 1):
        stamp = {"writer": "flow:a", "writer_epoch": 1, "round": number, "recorded_at_ms": NOW_MS + number}
        ids = {"source_topic": "t", "source_topic_id": "s", "target_topic_id": "d", "kind": "copied"}
        rows = [row("offset_syncs", **stamp, flow="a", **ids, source_end=number, source_partition=0)]
        if number == 1:
            rows.append({**rows[0], "source_partition": 1})
        append(path, "offset_syncs", rows)


def ends(path: str) -> dict[int, int]:
    """By partition where the flow stands, as a driver that starts is told."""
    state = DeltaLedgerState(open_ledger(path))
    return {position.partition: position.position.source_offset for position in state.positions("a")}


def clock() -> FakeClock:
    """An hour after all appends."""
    return FakeClock(NOW_MS / 1000 + 3_600)


FANOUT = 4
"""A third of the files that become one otherwise."""


@pytest.fixture(scope="module", autouse=True)
def _of_few_files() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(merging, "FANOUT", FANOUT)
        yield


@pytest.fixture(scope="module")
def merged_once(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> Path:
    """A ledger with one merged file, which is projected, and a small file of the next round; to be copied."""
    path = copied_to(tmp_path_factory.mktemp("merged"), empty_ledger)
    synced(path, 1, FANOUT)
    TableUpkeep(path, "offset_syncs", clock(), keep_hours=1).merge()
    assert project(path, "offset_syncs", clock())
    synced(path, FANOUT + 1, FANOUT + 1)
    return Path(path)


@pytest.fixture
def merged(merged_once: Path, tmp_path: Path) -> str:
    return copied_to(tmp_path, merged_once)


def merged_file(path: str) -> Path:
    (file,) = Path(table_uri(path, "offset_syncs")).glob("merged-*")
    return file


def test_what_is_projected_is_not_read_again(merged: str) -> None:
    merged_file(merged).write_bytes(b"nobody reads this")
    assert ends(merged) == {0: FANOUT + 1, 1: 1}
    state = DeltaLedgerState(open_ledger(merged))
    assert state.adoptions({"d"}) == []
    assert state.former_copies("c", {"t": "another"}) == []
    assert state.copied_by_others("a", {"s"}) == {}


def test_a_driver_reads_what_is_new_since_it_last_looked(merged: str) -> None:
    state = DeltaLedgerState(open_ledger(merged))
    state.positions("a")
    for file in Path(table_uri(merged, "offset_syncs")).glob("*.parquet"):
        file.write_bytes(b"nobody reads this again")
    synced(merged, FANOUT + 2, FANOUT + 2)
    assert {found.partition: found.position.source_offset for found in state.positions("a")} == {
        0: FANOUT + 2,
        1: 1,
    }


def test_rows_beside_what_is_projected_are_told_from_it(
    merged: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The projected rows and the new one come to lie in one file; once more nothing but its own is left out."""
    upkeep = TableUpkeep(merged, "offset_syncs", clock(), keep_hours=1)
    files = data_files(DeltaTable(table_uri(merged, "offset_syncs")))
    merge = Merge(tuple(files), None)
    assert upkeep.committed(Upkeep("offset_syncs", 2), merge, upkeep.written(merge)).written == 1
    with caplog.at_level("DEBUG", "ledger.store.last_rows"):
        found = LastRowsReader(merged).of("offset_syncs")
    assert not caplog.records, "what was noted accounts for the file, so its rows are not read as new ones"
    [block] = blocks(merged, "offset_syncs")
    assert (found.noted.rows, Block.read(block).noted.rows) == (FANOUT + 2, FANOUT + 1)
    assert ends(merged) == {0: FANOUT + 1, 1: 1}


def test_what_last_rows_do_not_tell_is_looked_up(merged: str) -> None:
    """Only all rows tell which partition has had rows of each kind, and by which writer epoch."""
    state = DeltaLedgerState(open_ledger(merged))
    assert len(state.recorded_syncs("a", "t", 0)) == FANOUT + 1
    assert state.recorded_syncs("a", "t", 2) == []
    assert GRAINS["offset_syncs"].decides(["flow", "kind"])
    assert not GRAINS["offset_syncs"].decides(["flow", "round"])


def say(block: Path, changed: dict[str, Any]) -> None:
    """Have a block say something else of its rows."""
    rows, key = pq.read_table(block), b"mirrorLedger.block"
    said = json.loads(pq.read_metadata(block).metadata[key]) | changed
    with pq.ParquetWriter(block, rows.schema) as writer:
        writer.add_key_value_metadata({key: json.dumps(said).encode()})
        writer.write_table(rows)


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": 3},
        {"rows": -1},
        {"rows": None},
        {"until": {"flow:a": [1]}},
        {"until": {"flow:a": [1, 99, NOW_MS + 99]}},
        {"until": {}},
        {"table_id": "of another table"},
        {"form": 99},
        None,
    ],
    ids=str,
)
def test_a_projection_that_says_nothing_right_is_passed_over(
    merged: str, changed: dict[str, Any] | None
) -> None:
    """All files are read: so the answer is right, and once one of them is not readable there is none."""
    [block] = blocks(merged, "offset_syncs")
    if changed is None:
        block.write_bytes(b"no block")
    else:
        say(block, changed)
    assert ends(merged) == {0: FANOUT + 1, 1: 1}
    merged_file(merged).write_bytes(b"")
    with pytest.raises(LedgerUnavailableError):
        ends(merged)


@pytest.mark.parametrize("table", ["share_offsets", "writers"])
def test_of_claims_and_share_offsets_the_last_ones_are_projected(
    tmp_path: Path, empty_ledger: Path, table: str
) -> None:
    path = copied_to(tmp_path, empty_ledger)
    writer = {"share_offsets": "recorder:a", "writers": "flow:a"}[table]
    model = Model(path, random.Random(1), clock())
    for _ in range(3):
        for _ in range(4):
            append(path, table, [model.row(table, "a", model.stamp(writer)) for _ in range(2)])
        assert project(path, table, clock())
    append(path, table, [model.row(table, "a", model.stamp(writer))])
    assert sum(len(pq.read_table(block)) for block in blocks(path, table)) < 12
    check_answers(path, DeltaLedgerState(open_ledger(path)), "a")


def test_an_older_copy_of_a_table_is_noticed(merged: str) -> None:
    """Rows that were projected are gone, and others have taken their places."""
    older = DeltaTable(table_uri(merged, "offset_syncs"))
    older.restore(older.version() - 3)
    assert ends(merged) == {0: FANOUT - 1, 1: 1}
    synced(merged, FANOUT + 2, FANOUT + 3)
    assert ends(merged) == {0: FANOUT + 3, 1: 1}


def test_maintenance_keeps_what_starts_read(
    tmp_path: Path, empty_ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projections, "LEAST_ROWS", FANOUT)
    path = copied_to(tmp_path, empty_ledger)
    upkeep, another = (TableUpkeep(path, "offset_syncs", clock(), keep_hours=1) for _ in range(2))
    synced(path, 1, FANOUT - 2)
    assert not upkeep.project_when_due()
    synced(path, FANOUT - 1, FANOUT)
    maintain(upkeep)
    assert len(blocks(path, "offset_syncs")) == 1
    assert not upkeep.project_when_due()
    assert not another.project_when_due(), "somebody else has done it"
    assert ends(path) == {0: FANOUT, 1: 1}
    assert not TableUpkeep(path, "operations", clock(), keep_hours=1).project_when_due()
