"""Upkeep of real Delta tables: no row changes, whoever else is at work, and whenever it ends."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from shutil import copytree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from ledger.clock import DAY_MS
from ledger.errors import LedgerUnavailableError, MirrorLedgerError, UnsafeError
from ledger.facts.tables import OFFSET_SYNCS
from ledger.store import delta_tables, merging
from ledger.store import log as fact_log
from ledger.store.delta_tables import stored_schema, table_uri, upkeep_properties
from ledger.store.heads import anchor_heads, anchors_at
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import MAINTAINED_BY, BackgroundMaintenance, TableUpkeep, Upkeep, maintain
from ledger.store.merging import data_files, write_merged
from ledger.store.snapshots import open_ledger
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import TABLE, append, claim, copied_to, row, watermark
from tests.support.ledgers import Maintained
from tests.support.tampering import verified
from tests.support.waiting import eventually

pytestmark = pytest.mark.long

FANOUT = 4
"""A third of the files that become one otherwise."""


@pytest.fixture(autouse=True)
def _of_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "FANOUT", FANOUT)


@pytest.fixture
def ledger(tmp_path: Path, empty_ledger: Path) -> Maintained:
    clock = FakeClock(time.time())
    path = copied_to(tmp_path, empty_ledger)
    log = DeltaFactLog(path, clock)
    return Maintained(path, clock, log, claim(log))


def upto(last: int) -> list[int]:
    return list(range(1, last + 1))


def test_small_files_become_one_and_every_row_stays(ledger: Maintained) -> None:
    ledger.append(FANOUT)
    before = open_ledger(ledger.path).now().rows(TABLE, [])
    done = maintain(ledger.upkeep())
    assert (done.files, done.merged, done.written, done.given_up) == (FANOUT, FANOUT, 1, 0)
    (merged,) = data_files(ledger.opened())
    assert (merged.rows, merged.day is not None) == (FANOUT, True)
    assert open_ledger(ledger.path).now().rows(TABLE, []) == before
    assert maintain(ledger.upkeep()).merged == 0


def test_rows_with_long_lists_of_gaps_are_merged_as_others(
    ledger: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little a merge may take otherwise: DuckDB works on two thousand rows at once, with all their gaps."""
    monkeypatch.setattr(merging, "MEMORY_BYTES", 32 << 20)
    table, rows, gaps = DeltaTable(table_uri(ledger.path, "offset_syncs")), 2_400 // FANOUT, 800
    schema = stored_schema(OFFSET_SYNCS)
    field = schema.field("gaps")
    places = pa.array(range(rows * gaps), pa.int64())
    of_rows = pa.StructArray.from_arrays(
        [places, places, pa.repeat("control", rows * gaps)], fields=list(field.type.value_type)
    )
    lists = pa.ListArray.from_arrays(pa.array(range(0, (rows + 1) * gaps, gaps), pa.int32()), of_rows)
    [one] = pa.Table.from_pylist([row("offset_syncs", kind="copied")], schema=schema).to_batches()
    wide = pa.Table.from_batches([one] * rows)
    wide = wide.set_column(schema.get_field_index("gaps"), field, lists.cast(field.type))
    for _ in range(FANOUT):
        write_deltalake(table, wide, mode="append")
    assert maintain(ledger.upkeep("offset_syncs")).merged == FANOUT
    [merged] = data_files(DeltaTable(table_uri(ledger.path, "offset_syncs")))
    read = pq.read_table(Path(ledger.path) / "offset_syncs" / merged.path)
    assert (read.num_rows, {len(one) for one in read["gaps"]}) == (rows * FANOUT, {gaps})


def test_a_merge_says_that_it_changes_no_data(ledger: Maintained) -> None:
    ledger.append(FANOUT)
    maintain(ledger.upkeep())
    (commit,) = ledger.opened().history(1)
    assert commit[MAINTAINED_BY] == "merge"
    (entry,) = ledger.folder.glob(f"_delta_log/*{ledger.opened().version()}.json")
    assert entry.read_text().count('"dataChange":false') == FANOUT + 1
    assert '"dataChange":true' not in entry.read_text()


def test_rows_of_an_append_stay_in_their_order(ledger: Maintained) -> None:
    """Findings raised and cleared in one append mean something else the other way round."""
    for number in range(1, FANOUT + 1):
        rows = [
            row("operations", writer="flow:f", writer_epoch=1, round=number, recorded_at_ms=5, kind=kind)
            for kind in ("z", "m", "a", "z")
        ]
        append(ledger.path, "operations", rows)
    assert maintain(ledger.upkeep("operations")).merged == FANOUT
    kinds = [one["kind"] for one in open_ledger(ledger.path).now().rows("operations", [])]
    assert kinds == ["z", "m", "a", "z"] * FANOUT


def test_rows_are_sorted_by_what_they_are_about(ledger: Maintained) -> None:
    for number in range(1, FANOUT + 1):
        rows = [
            {**watermark(number), "topic": topic, "partition": partition}
            for topic in ("b", "a")
            for partition in (1, 0)
        ]
        ledger.log.append(ledger.claimed, TABLE, number, rows)
    maintain(ledger.upkeep())
    (file,) = ledger.opened().file_uris()
    rows = pq.read_table(file, columns=["topic", "partition", "round"]).to_pylist()
    places = [(one["topic"], one["partition"], one["round"]) for one in rows]
    assert len(places) == 4 * FANOUT
    assert places == sorted(places)


def test_days_lie_in_files_of_their_own(ledger: Maintained) -> None:
    """Also where something else has mixed them: Delta's own optimize."""
    ledger.append(2)
    ledger.clock.now_s += DAY_MS / 1000
    ledger.append(2)
    ledger.opened().optimize.compact()
    assert [file.is_mixed for file in data_files(ledger.opened())] == [True]
    done = maintain(ledger.upkeep())
    assert (done.merged, done.written) == (1, 2)
    first, second = sorted(file.day or 0 for file in data_files(ledger.opened()))
    assert second == first + 1
    assert ledger.offsets() == upto(4)


def test_a_cut_from_before_answers_the_same_after_merging_and_cleaning(ledger: Maintained) -> None:
    ledger.append(FANOUT)
    cut = open_ledger(ledger.path).now().cut
    before = open_ledger(ledger.path).at(cut).rows(TABLE, [])
    ledger.append(FANOUT)
    maintain(ledger.upkeep())
    ledger.later(1.5)
    done = maintain(ledger.upkeep())
    assert done.removed == 2 * FANOUT
    assert open_ledger(ledger.path).at(cut).rows(TABLE, []) == before
    assert ledger.offsets() == upto(2 * FANOUT)


def test_a_reader_that_opened_a_version_reads_it_for_as_long_as_superseded_files_stay(
    ledger: Maintained,
) -> None:
    ledger.append(FANOUT)
    opened = open_ledger(ledger.path).now()
    assert opened.cut.last
    maintain(ledger.upkeep())
    ledger.later(0.9)
    assert maintain(ledger.upkeep()).removed == 0
    assert [one["high_watermark"] for one in opened.rows(TABLE, [])] == upto(FANOUT)
    ledger.later(0.2)
    assert maintain(ledger.upkeep()).removed == FANOUT
    assert ledger.on_disk() == ledger.named()


def test_superseded_files_stay_as_long_as_is_configured(ledger: Maintained) -> None:
    ledger.append(FANOUT)
    maintain(ledger.upkeep(keep_hours=5))
    ledger.later(4.9)
    assert maintain(ledger.upkeep(keep_hours=5)).removed == 0
    ledger.later(0.2)
    assert maintain(ledger.upkeep(keep_hours=5)).removed == FANOUT


def test_entries_of_the_log_go_behind_a_checkpoint(
    ledger: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.store.maintenance.CHECKPOINT_AFTER_COMMITS", 6)
    ledger.append(7)
    log_folder = ledger.folder / "_delta_log"
    maintain(ledger.upkeep())
    assert len(list(log_folder.glob("*.checkpoint.parquet"))) == 1
    version = ledger.opened().version()
    ledger.later(1.5)
    done = maintain(ledger.upkeep())
    assert done.log_entries == version, "all before the checkpoint"
    ledger.append()
    assert ledger.offsets() == upto(8)
    claim(ledger.log, "host:2:2")
    with pytest.raises(MirrorLedgerError, match="shut out"):
        ledger.append()


def test_two_merges_of_the_same_files_are_committed_once(ledger: Maintained) -> None:
    ledger.append(FANOUT)
    one, other = ledger.upkeep(), ledger.upkeep()
    _, (merge,) = one.due()
    written = [upkeep.written(merge) for upkeep in (one, other)]
    done = [
        upkeep.committed(Upkeep(TABLE, FANOUT), merge, files)
        for upkeep, files in zip((one, other), written, strict=True)
    ]
    assert [(each.merged, each.given_up) for each in done] == [(FANOUT, 0), (0, 1)]
    assert ledger.offsets() == upto(FANOUT)


def test_of_two_merges_that_are_committed_at_one_moment_one_is(
    ledger: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one comes between what this one has read and its commit."""
    ledger.append(FANOUT)
    one, other = ledger.upkeep(), ledger.upkeep()
    _, (merge,) = one.due()
    written = {upkeep: upkeep.written(merge) for upkeep in (one, other)}
    put, first = TableUpkeep._put, list[Upkeep]()

    def put_after_the_other(self: TableUpkeep, *values: object) -> None:
        if self is one and not first:
            first.append(other.committed(Upkeep(TABLE, FANOUT), merge, written[other]))
        put(self, *values)  # type: ignore[arg-type]

    monkeypatch.setattr(TableUpkeep, "_put", put_after_the_other)
    second = one.committed(Upkeep(TABLE, FANOUT), merge, written[one])
    assert [(done.merged, done.given_up) for done in (*first, second)] == [(FANOUT, 0), (0, 1)]
    assert ledger.offsets() == upto(FANOUT)


def test_an_optimize_of_somebody_else_makes_a_merge_give_up(ledger: Maintained) -> None:
    ledger.append(FANOUT)
    upkeep = ledger.upkeep()
    _, (merge,) = upkeep.due()
    written = upkeep.written(merge)
    ledger.opened().optimize.compact()
    assert upkeep.committed(Upkeep(TABLE, FANOUT), merge, written).given_up == 1
    assert ledger.offsets() == upto(FANOUT)


def test_a_merge_whose_files_are_gone_is_given_up(ledger: Maintained) -> None:
    ledger.append(FANOUT)
    slow = ledger.upkeep()
    _, (merge,) = slow.due()
    maintain(ledger.upkeep())
    ledger.later(1.5)
    assert maintain(ledger.upkeep()).removed == FANOUT
    assert slow.written(merge) is None
    assert slow.committed(Upkeep(TABLE, FANOUT), merge, None).given_up == 1


def test_an_append_between_reading_and_committing_makes_the_merge_try_again(
    ledger: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append(FANOUT)
    puts = appending_before(monkeypatch, ledger, times=2)
    done = maintain(ledger.upkeep())
    assert (puts, done.merged, done.given_up) == ([1, 2, 3], FANOUT, 0)
    assert ledger.offsets() == upto(FANOUT + 2)


def test_a_merge_that_is_overtaken_again_and_again_is_left_for_later(
    ledger: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append(FANOUT)
    puts = appending_before(monkeypatch, ledger, times=100)
    done = ledger.upkeep().merge()
    assert (len(puts), done.merged, done.given_up) == (10, 0, 1)
    assert ledger.offsets() == upto(FANOUT + 10), "no append waits for a merge"


def appending_before(monkeypatch: pytest.MonkeyPatch, ledger: Maintained, *, times: int) -> list[int]:
    """An append comes between what a merge has read and its commit, so many times; returns the tries."""
    put, tries = TableUpkeep._put, list[int]()

    def overtaken(self: TableUpkeep, opened: DeltaTable, *merge: object) -> None:
        tries.append(len(tries) + 1)
        if len(tries) <= times:
            ledger.append()
        put(self, opened, *merge)  # type: ignore[arg-type]

    monkeypatch.setattr(TableUpkeep, "_put", overtaken)
    return tries


def test_a_commit_whose_answer_was_lost_is_found(ledger: Maintained, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.append(FANOUT)
    put = TableUpkeep._put

    def lost(self: TableUpkeep, *merge: object) -> None:
        put(self, *merge)  # type: ignore[arg-type]
        raise DeltaError("the answer was lost")

    monkeypatch.setattr(TableUpkeep, "_put", lost)
    done = maintain(ledger.upkeep())
    assert (done.merged, done.given_up) == (FANOUT, 0)
    assert ledger.offsets() == upto(FANOUT)


_BETWEEN_LOOKS_S = 0.02
"""Those that look again at once take the machine from the appender, mostly to find nothing due."""


def test_appends_and_merges_at_once(ledger: Maintained) -> None:
    """Two maintainers beside an appender: every append is there once, and none failed."""
    ended = threading.Event()
    merged = list[int]()

    def look_after() -> None:
        while not ended.wait(_BETWEEN_LOOKS_S):
            merged.append(ledger.upkeep().merge().merged)

    maintainers = [threading.Thread(target=look_after) for _ in range(2)]
    for thread in maintainers:
        thread.start()
    ledger.append(24)
    ended.set()
    for thread in maintainers:
        thread.join()
    assert ledger.offsets() == upto(24)
    assert sum(merged) > FANOUT, "progress"


def test_a_merge_that_lost_rows_is_not_committed(ledger: Maintained, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.append(FANOUT)
    monkeypatch.setattr("ledger.store.merging._days", lambda _connection: [0])
    with pytest.raises(MirrorLedgerError, match=f"hold {FANOUT} rows, 0 were written"):
        maintain(ledger.upkeep())
    assert ledger.offsets() == upto(FANOUT)


# Ends in the middle ------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from ledger.store import maintenance, merging
from ledger.clock import SystemClock
place, path, table, fanout = sys.argv[1:]
merging.FANOUT = int(fanout)
upkeep = maintenance.TableUpkeep(path, table, SystemClock(), keep_hours=1)
def killed(*_args, **_values):
    os.kill(os.getpid(), signal.SIGKILL)
if place == "before":
    upkeep._put = killed
elif place == "after":
    put = upkeep._put
    upkeep._put = lambda *merge: (put(*merge), killed())
else:
    upkeep._folder.delete = killed
maintenance.maintain(upkeep)
"""


@pytest.mark.parametrize("place", ["before", "after", "removing"])
def test_a_process_that_is_killed_leaves_a_table_that_is_whole(ledger: Maintained, place: str) -> None:
    ledger.append(FANOUT)
    if place == "removing":
        maintain(ledger.upkeep())
        ledger.later(1.5)
        ledger.append(FANOUT)
    asked = [place, ledger.path, TABLE, str(FANOUT)]
    died = subprocess.run([sys.executable, "-c", KILLED, *asked], check=False, timeout=120)
    assert died.returncode == -signal.SIGKILL
    appended = ledger.appended
    assert ledger.offsets() == upto(appended)
    if place == "before":
        assert len(ledger.on_disk() - ledger.named()) == 1, "a file that no version names"
    ledger.append(FANOUT)
    assert maintain(ledger.upkeep()).merged >= FANOUT
    assert ledger.offsets() == upto(appended + FANOUT)
    ledger.later(1.5)
    maintain(ledger.upkeep())
    assert len(ledger.on_disk() - ledger.named()) == (1 if place == "before" else 0)


def test_files_that_no_version_names_stay_for_long(ledger: Maintained) -> None:
    """A writer whose machine sleeps between its file and its commit commits when it wakes."""
    ledger.append(FANOUT)
    _, (merge,) = ledger.upkeep().due()
    (stray,) = write_merged(table_uri(ledger.path, TABLE), TABLE, merge)
    ledger.later(100)
    maintain(ledger.upkeep())
    assert stray.path in ledger.on_disk()
    ledger.later(700)
    maintain(ledger.upkeep())
    assert stray.path not in ledger.on_disk()
    assert ledger.offsets() == upto(FANOUT)


@pytest.mark.parametrize("slept_after", ["opening", "reading"])
def test_a_writer_that_stood_still_for_longer_than_the_log_goes_back_appends_once(
    ledger: Maintained, monkeypatch: pytest.MonkeyPatch, slept_after: str
) -> None:
    """Its machine slept between opening the table and the commit, whose version is in no log any more."""
    monkeypatch.setattr("ledger.store.maintenance.CHECKPOINT_AFTER_COMMITS", FANOUT)
    ledger.append(3)
    slept = ledger.opened()
    if slept_after == "reading":
        assert slept.transaction_version(ledger.claimed.writer) is not None
    for _ in range(2):
        other = claim(ledger.log, writer="recorder:west")
        for number in range(1, FANOUT + 1):
            ledger.log.append(other, TABLE, number, [watermark(100 + number)])
        maintain(ledger.upkeep())
    ledger.later(1.5)
    assert (maintain(ledger.upkeep()).log_entries or 0) > slept.version() + 1
    handles, opened = iter([slept]), delta_tables.opened_to_append
    monkeypatch.setattr(fact_log, "opened_to_append", lambda uri: next(handles, None) or opened(uri))
    ledger.append()
    assert next(handles, None) is None, "the handle was used"
    assert [offset for offset in ledger.offsets() if offset < 100] == upto(4)


# Stores, properties, threads -----------------------------------------------------------------------


def test_files_of_a_store_are_fetched_and_put_there(
    ledger: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append(FANOUT)
    upkeep = ledger.upkeep()
    monkeypatch.setattr(upkeep._folder, "_local", None)
    monkeypatch.setattr("ledger.store.merging.TableFolder", lambda _uri: upkeep._folder)
    done = maintain(upkeep)
    assert (done.merged, done.written, done.log_entries) == (FANOUT, 1, None)
    assert ledger.offsets() == upto(FANOUT)
    ledger.later(1.5)
    assert maintain(upkeep).removed == FANOUT
    assert ledger.on_disk() == ledger.named()


def test_a_ledger_of_an_earlier_program_gets_the_properties(ledger: Maintained) -> None:
    long_ago = dict.fromkeys(upkeep_properties(1), "interval 3650 days")
    long_ago["delta.dataSkippingStatsColumns"] = "cluster"
    ledger.opened().alter.set_table_properties(long_ago)
    maintain(ledger.upkeep(keep_hours=7))
    found = ledger.opened().metadata().configuration
    assert found["delta.logRetentionDuration"] == "interval 7 hours"
    assert found["delta.deletedFileRetentionDuration"] == "interval 8 hours"
    assert found["delta.appendOnly"] == "true"
    version = ledger.opened().version()
    maintain(ledger.upkeep(keep_hours=7))
    assert ledger.opened().version() == version, "nothing is set twice"
    ledger.append()
    assert ledger.offsets() == [1]


def test_a_dry_run_counts_and_changes_nothing(ledger: Maintained) -> None:
    ledger.append(FANOUT)
    maintain(ledger.upkeep())
    ledger.later(1.5)
    ledger.append(FANOUT)
    version, files = ledger.opened().version(), ledger.on_disk()
    planned = ledger.upkeep().planned()
    assert (planned.files, planned.merged, planned.removed) == (FANOUT + 1, FANOUT + 1, FANOUT)
    assert (ledger.opened().version(), ledger.on_disk()) == (version, files)
    done = maintain(ledger.upkeep())
    assert replace(done, written=0, written_bytes=0, log_entries=None) == planned


def test_a_table_that_cannot_be_read_is_told(ledger: Maintained) -> None:
    ledger.folder.rename(ledger.folder.with_name("away"))
    with pytest.raises(
        LedgerUnavailableError, match=rf"{TABLE} is missing, with all that was recorded in it"
    ):
        maintain(ledger.upkeep())


def test_beside_a_writer_files_stay_few_until_the_run_ends(ledger: Maintained) -> None:
    with BackgroundMaintenance([ledger.upkeep()], pass_s=0.01):
        ledger.append(3 * FANOUT)
        # When merges began decides what is left: up to two files of more than one row, and three of one.
        eventually(lambda: len(ledger.named()) < 2 * FANOUT, "few files")
    assert not [thread for thread in threading.enumerate() if thread.name == "maintenance"]
    assert ledger.offsets() == upto(3 * FANOUT)


def test_what_fails_is_told_once_and_tried_again(
    ledger: Maintained, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.append(FANOUT)
    away = ledger.folder.with_name("away")
    ledger.folder.rename(away)
    passes = list[str]()
    upkeeps: Sequence[TableUpkeep] = [told(ledger.upkeep(), passes.append)]
    with BackgroundMaintenance(upkeeps, pass_s=0.01):
        eventually(lambda: len(passes) >= 3, "three passes")
        away.rename(ledger.folder)
        eventually(lambda: len(ledger.named()) == 1, "a merge")
    assert caplog.text.count("is not maintained for now") == 1


def test_a_tail_that_is_cut_off_after_a_pass_is_found(
    ledger: Maintained, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    anchor, blocked, passes = tmp_path / "anchor", tmp_path / "blocked", list[float]()
    ledger.append(1)
    copytree(ledger.path, older := tmp_path / "older")
    ledger.append(1)
    blocked.touch()

    def anchoring() -> None:
        passes.append(time.monotonic())
        anchor_heads(ledger.path, str(blocked / "in a file" if len(passes) < 3 else anchor), now_ms=1)

    with BackgroundMaintenance([], anchoring=anchoring, pass_s=0.001, clean_s=0.05):
        eventually(lambda: len(passes) > 3, "heads at the anchor")
    assert caplog.text.count("the heads of the ledger's links are not written to the anchor for now") == 1
    assert all(later - former >= 0.05 for former, later in pairwise(passes))
    assert verified(Path(ledger.path), anchors_at(str(anchor)), now_ms=2) == []
    found = verified(older, anchors_at(str(anchor)), now_ms=2)
    assert any(one.startswith(TABLE) and one.endswith("missing") for one in found)
    with pytest.raises(UnsafeError, match="lacks epoch"):
        anchor_heads(str(older), str(anchor), now_ms=2)


def told(upkeep: TableUpkeep, tell: Callable[[str], None]) -> TableUpkeep:
    merge = upkeep.merge

    def merge_told(**values: Callable[[], bool]) -> Upkeep:
        tell("a pass")
        return merge(**values)

    upkeep.merge = merge_told  # type: ignore[method-assign]
    return upkeep


def test_what_nobody_foresaw_does_not_end_the_run(
    ledger: Maintained, caplog: pytest.LogCaptureFixture
) -> None:
    broken = ledger.upkeep()

    def fail(**_values: object) -> Upkeep:
        raise RuntimeError("not foreseen")

    broken.merge = fail  # type: ignore[method-assign]
    ledger.append(FANOUT)
    with BackgroundMaintenance([broken, ledger.upkeep()], pass_s=0.01):
        eventually(lambda: len(ledger.named()) == 1, "the table behind it is merged")
    assert "not foreseen" in caplog.text


def test_a_merge_under_way_is_the_last_one(ledger: Maintained) -> None:
    for day in range(3):
        ledger.clock.now_s += day * DAY_MS / 1000
        ledger.append(2)
    ledger.clock.now_s += 2 * DAY_MS / 1000
    asked = iter([False, True])
    done = ledger.upkeep().merge(ended=lambda: next(asked))
    assert (done.merged, len(ledger.upkeep().due()[1])) == (2, 2)
