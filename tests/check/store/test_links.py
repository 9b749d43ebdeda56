"""Links of appends: made of the rows and the link before, over epochs, unknown outcomes and merges."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import LedgerUnavailableError, UnsafeError
from ledger.facts.links import content_of
from ledger.facts.state import WriterClaim
from ledger.facts.tables import TABLE_BY_NAME
from ledger.store import log as log_module
from ledger.store.delta_tables import arrow_schema, stored_schema, table_uri
from ledger.store.heads import KnownHeads, anchor_of, anchors_at, keep_heads
from ledger.store.links import Links
from ledger.store.log import AppendFailedError, DeltaFactLog
from ledger.store.maintenance import TableUpkeep, maintain
from ledger.store.merging import commit_rows
from ledger.store.snapshots import OpenedTables
from ledger.store.verifying import Verified, verify_ledger
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import TABLE, WRITER, claim, copied_to, watermark


def rows_of(path: str, table: str = TABLE) -> list[dict[str, Any]]:
    """As the files have them, each writer's in the order of recording, rows of an append as they lie."""
    files = (
        Path(path, table) / name
        for name in DeltaTable(f"{path}/{table}").get_add_actions()["path"].to_pylist()
    )
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(rows, key=lambda row: (row["writer"], row["writer_epoch"], row["round"]))


def link_by_hand(table: str, previous: str, rows: list[dict[str, Any]]) -> str:
    """As `PROTOCOL.md` says, in the words of the standard library."""
    rows = sorted(rows, key=lambda row: (row["cluster"], row["topic"], row["topic_id"], row["partition"]))
    columns = {
        name: [row[name] for row in rows]
        for name in sorted(rows[0])
        if name != "link" and any(row[name] is not None for row in rows)
    }
    content = json.dumps(columns, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()
    return "v1." + hashlib.sha256(f"{table}\n{previous}\n{digest}".encode()).hexdigest()


_VALUES = st.one_of(
    st.lists(st.none() | st.integers(0, 2), min_size=3, max_size=3),
    st.lists(st.none() | st.sampled_from(["", "a", '\u00fc"']), min_size=3, max_size=3),
    st.lists(st.sampled_from([0.0, -0.0, 1.5]), min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.lists(st.lists(st.fixed_dictionaries({"b": st.just(1), "a": st.just("x")})), min_size=3, max_size=3),
)


@given(st.dictionaries(st.sampled_from("abcd"), _VALUES))
def test_the_content_of_an_append_is_one_json_text(columns: dict[str, list[object]]) -> None:
    said = {name: values for name, values in columns.items() if any(one is not None for one in values)}
    text = json.dumps(said, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    assert content_of(columns) == hashlib.sha256(text.encode()).hexdigest()


def verified(path: str, **more: Any) -> Verified:
    return verify_ledger(path, more.pop("anchors", []), as_of=None, now_ms=0, tables=(TABLE,), **more)


@pytest.fixture
def path(tmp_path: Path, empty_ledger: Path) -> str:
    return copied_to(tmp_path, empty_ledger)


def two(number: int) -> list[dict[str, Any]]:
    """Not in the order in which a merge sorts them."""
    return [{**watermark(number), "topic": topic} for topic in ("\u00fc", "a")]


def test_links_are_as_the_protocol_says_over_epochs_and_merges(path: str) -> None:
    for epoch in (1, 2):
        log = DeltaFactLog(path, FakeClock())
        claimed = claim(log)
        for number in range(1, 8):
            log.append(claimed, TABLE, number, two(number))
        assert claimed.epoch == epoch
    maintain(TableUpkeep(path, TABLE, FakeClock(), keep_hours=1))
    rows, previous = rows_of(path), ""
    assert len(DeltaTable(f"{path}/{TABLE}").get_add_actions()["path"]) < 14
    for begins in range(0, len(rows), 2):
        of_append = rows[begins : begins + 2]
        [link] = [row["link"] for row in of_append if row["link"] is not None]
        assert link == link_by_hand(TABLE, previous, of_append)
        previous = link
    done = verified(path)
    assert (done.found, done.appends) == ([], 14)
    assert [head.link for head in done.heads] == [previous]


def test_an_unknown_outcome_is_read_back_before_the_next_link(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit was made, its answer lost, and the clock moved on before the append was tried again."""
    clock = FakeClock()
    log = DeltaFactLog(path, clock)
    claimed = claim(log)

    def lost(*arguments: Any, **more: Any) -> None:
        commit_rows(*arguments, **more)
        clock.now_s += 1
        raise OSError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(log_module, "commit_rows", lost)
        log.append(claimed, TABLE, 1, two(1))
    log.append(claimed, TABLE, 2, two(2))
    assert [row["round"] for row in rows_of(path)] == [1, 1, 2, 2]
    assert (verified(path).found, verified(path).appends) == ([], 2)


def test_who_was_not_committed_is_followed_by_nobody(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = DeltaFactLog(path, FakeClock())
    claimed = claim(log)
    log.append(claimed, TABLE, 1, two(1))

    def refused(*_: Any, **__: Any) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(log_module, "commit_rows", refused)
        patched.setattr(log_module._CONFLICT_RETRIES, "stop", lambda _state: True)
        with pytest.raises(AppendFailedError):
            log.append(claimed, TABLE, 2, two(2))
    log.append(claimed, TABLE, 3, two(3))
    assert (verified(path).found, verified(path).appends) == ([], 2)


def test_operators_follow_one_another_from_process_to_process(path: str) -> None:
    for number in (1, 2, 3):
        assert DeltaFactLog(path, FakeClock()).append_next("operator", TABLE, two(number)) == number
    assert (verified(path).found, verified(path).appends) == ([], 3)


@pytest.mark.parametrize("before", [0, 1], ids=["first", "behind another"])
def test_rows_without_a_link_are_found(path: str, before: int) -> None:
    log = DeltaFactLog(path, FakeClock())
    claimed = claim(log)
    for number in range(before):
        log.append(claimed, TABLE, number + 1, two(number))
    stranger = DeltaFactLog(path, FakeClock())
    stranger._links.linked = lambda *given: (  # type: ignore[method-assign]
        given[-1].append_column("link", pa.nulls(len(given[-1]), pa.string())),
        None,
    )
    stranger.append(WriterClaim(WRITER, 1), TABLE, before + 1, two(2))
    assert [one.status for one in verified(path).found] == ["unlinked"]


def test_an_anchor_is_extended_and_never_cut(path: str, tmp_path: Path) -> None:
    clock, anchor = FakeClock(), str(tmp_path / "anchor")
    log = DeltaFactLog(path, clock)
    claimed = claim(log)
    log.append(claimed, TABLE, 1, two(1))
    early = anchor_of(OpenedTables.of(path), now_ms=clock.now_ms())
    log.append(claimed, TABLE, 2, two(2))
    later = anchor_of(OpenedTables.of(path), now_ms=clock.now_ms())
    first = keep_heads(anchor, early)
    assert keep_heads(anchor, later) == first
    assert [one.heads for one in anchors_at(anchor)] == [later.heads]
    with pytest.raises(UnsafeError, match=f"lacks epoch 1 round 2 of {WRITER} in {TABLE}"):
        keep_heads(anchor, early)
    assert verified(path, anchors=anchors_at(anchor)).found == []


def test_of_files_that_were_read_before_heads_are_known(path: str) -> None:
    """Nothing reads them again; and what the log names no more counts no more."""
    log, known = DeltaFactLog(path, FakeClock()), KnownHeads()
    claimed = claim(log)

    def last_rounds() -> list[int]:
        heads = known.of(OpenedTables.of(path))
        return [one.round for one in heads if one.table == TABLE]

    for number in range(1, 8):
        log.append(claimed, TABLE, number, two(number))
        assert last_rounds() == [number]
    maintain(TableUpkeep(path, TABLE, FakeClock(), keep_hours=1))
    assert known.of(OpenedTables.of(path)) == verify_ledger(path, [], as_of=None, now_ms=0).heads
    for name in DeltaTable(f"{path}/{TABLE}").get_add_actions()["path"].to_pylist():
        Path(path, TABLE, name).unlink()
    log.append(claimed, TABLE, 8, two(8))
    assert last_rounds() == [8]
    newest = max(Path(path, TABLE, "_delta_log").glob("*.json"))
    newest.unlink()
    assert last_rounds() == [7]


def test_a_damaged_file_has_no_heads_and_is_named(path: str) -> None:
    log = DeltaFactLog(path, FakeClock())
    log.append(claim(log), TABLE, 1, two(1))
    [name] = DeltaTable(f"{path}/{TABLE}").get_add_actions()["path"].to_pylist()
    Path(path, TABLE, name).write_bytes(b"no rows")
    with pytest.raises(LedgerUnavailableError, match=f"{TABLE}/{name}"):
        KnownHeads().of(OpenedTables.of(path))


def test_an_append_without_rows_has_all_columns(empty_ledger: Path) -> None:
    """A claim's append to the tables of facts is such a one: an object store takes all columns or nothing."""
    table = TABLE_BY_NAME["high_watermarks"]
    opened = DeltaTable(table_uri(str(empty_ledger), table.name))
    rows, link = Links(str(empty_ledger)).linked(
        opened, table.name, "w", 0, arrow_schema(table).empty_table()
    )
    assert (rows.schema.names, link) == (stored_schema(table).names, None)


def test_a_filter_of_values_that_this_program_does_not_write_is_found(path: str) -> None:
    log = DeltaFactLog(path, FakeClock())
    log.append(claim(log), TABLE, 1, two(1))
    [entry] = (one for one in Path(path, TABLE, "_delta_log").glob("*.json") if '"add"' in one.read_text())
    [name] = DeltaTable(f"{path}/{TABLE}").get_add_actions()["path"].to_pylist()
    file = Path(path, TABLE, name)
    size = file.stat().st_size
    rows = pq.read_table(file)
    pq.write_table(rows, file, bloom_filter_options={"writer": True})
    entry.write_text(entry.read_text().replace(f'"size":{size}', f'"size":{file.stat().st_size}'))
    assert [one.status for one in verified(path).found] == ["hidden"]


def test_a_log_that_no_longer_says_whose_commit_it_is_is_found(path: str) -> None:
    log = DeltaFactLog(path, FakeClock())
    log.append(claim(log), TABLE, 1, two(1))
    [entry] = (one for one in Path(path, TABLE, "_delta_log").glob("*.json") if '"add"' in one.read_text())
    entry.write_text(entry.read_text().replace('"appId"', '"appIe"'))
    assert "unreadable" in [one.status for one in verified(path).found]
