"""The SQL and the algebra state the same rules: translation and the expansion of offset syncs."""

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger import catalog
from ledger.adapters.delta.state import flow_position
from ledger.adapters.duck.engine import connect, run_query
from ledger.adapters.memory.fact_log import MemoryLedgerState
from ledger.adapters.memory.tables import MemoryLedger
from ledger.domain.facts import OffsetSync
from ledger.domain.offsets import OffsetMap, Segment, Translation, Unmapped
from ledger.domain.supersession import effective
from tests.support.generated_ledgers import FLOW, group_of, ledger_of, offsets
from tests.support.histories import History, histories

PRINTED = settings(print_blob=True, derandomize=False, deadline=None, max_examples=60)
LOG_STARTS = st.one_of(st.none(), st.integers(0, 120))


def expected_answers(history: History, log_start: int | None) -> dict[str, Translation]:
    offset_map = OffsetMap.from_syncs(FLOW, history.syncs)
    return {group_of(offset): offset_map.translate(offset, log_start) for offset in offsets(history)}


def answers(table: pa.Table) -> dict[str, tuple[int, str]]:
    return {row["group_id"]: (row["target_offset"], row["status"]) for row in table.to_pylist()}


@PRINTED
@given(histories(), LOG_STARTS)
def test_sql_translates_every_offset_as_the_algebra(history: History, log_start: int | None) -> None:
    query = catalog.query("offset_translation")
    answered = answers(run_query(query, {"flow": FLOW}, ledger_of(history, log_start)))
    expected = expected_answers(history, log_start)
    assert answered == {group: (t.target_offset, t.status.value) for group, t in expected.items()}


@PRINTED
@given(histories())
def test_views_expand_as_the_algebra(history: History) -> None:
    offset_map = OffsetMap.from_syncs(FLOW, history.syncs)
    with connect(ledger_of(history, None), {}) as connection:
        segments = connection.sql(OF_CURRENT.format("source_start, source_end, target_start", "segments"))
        gaps = connection.sql(
            OF_CURRENT.format("source_start, source_end, target_start, kind, cause", "gaps")
        )
        ends = connection.sql("select source_start, source_end, target_end from current_maps").fetchall()
        assert sorted(Segment(*row) for row in segments.fetchall()) == list(offset_map.segments)
        assert sorted(gaps.fetchall()) == [_as_row(stretch) for stretch in offset_map.unmapped]
    assert ends == [(offset_map.source_start, offset_map.source_end, offset_map.target_end)]


OF_CURRENT = "select {} from {} where target_topic_id = (select target_topic_id from current_maps)"


@PRINTED
@given(histories())
def test_effective_syncs_are_those_of_the_algebra(history: History) -> None:
    with connect(ledger_of(history, None), {}) as connection:
        found = connection.table("effective_syncs").to_arrow_table().to_pylist()
    expected = [_held(sync) for sync in effective(history.syncs)]
    assert sorted(_said(row) for row in found) == sorted(expected)


@PRINTED
@given(histories())
def test_a_flow_stands_where_its_history_ends(history: History) -> None:
    rows = run_query(catalog.query("flow_positions"), {"flow": FLOW}, ledger_of(history, None)).to_pylist()
    assert [(row["source_end"], row["target_end"], row["next_sequence"]) for row in rows] == [
        (history.source_end, history.target_end, history.sequence)
    ]
    assert rows[0]["target_topic_id"] == history.target.topic_id


@PRINTED
@given(histories())
def test_a_memory_ledger_has_the_same_positions(history: History) -> None:
    ledger = MemoryLedger()
    ledger.append("offset_syncs", ledger_of(history, None).relation("offset_syncs").to_pylist())
    (position,) = MemoryLedgerState(ledger).positions(FLOW)
    answered = run_query(catalog.query("flow_positions"), {"flow": FLOW}, ledger.at(ledger.latest()))
    (row,) = answered.to_pylist()
    assert position == flow_position(row)


_PLAIN = ("source_start", "source_end", "target_start", "target_end", "kind", "records")


def _said(row: dict[str, Any]) -> tuple[object, ...]:
    gaps = [(gap["source_start"], gap["source_end"], gap["cause"]) for gap in row["gaps"]]
    return (*(row[name] for name in _PLAIN), row["target_topic_id"], row["cause"] or "", gaps)


def _held(sync: OffsetSync) -> tuple[object, ...]:
    gaps = [(gap.source_start, gap.source_end, gap.cause.value) for gap in sync.gaps]
    cause = "" if sync.cause is None else sync.cause.value
    plain = (str(value) if name == "kind" else value for name, value in _values(sync))
    return (*plain, sync.target.topic_id, cause, gaps)


def _values(sync: OffsetSync) -> list[tuple[str, object]]:
    return [(name, getattr(sync, name)) for name in _PLAIN]


def _as_row(stretch: Unmapped) -> tuple[int, int, int, str, str]:
    return (
        stretch.source_start,
        stretch.source_end,
        stretch.target_start,
        stretch.kind.value,
        stretch.cause.value,
    )
