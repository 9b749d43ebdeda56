"""The SQL and the algebra state the same rules: translation and the expansion of offset syncs."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger import catalog
from ledger.adapters.duck.engine import connect, run_query
from ledger.domain.offsets import OffsetMap, Segment, Translation, Unmapped
from tests.domain.ledgers import History, histories
from tests.queries.generated import FLOW, group_of, ledger_of, offsets

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
        segments = connection.sql("select source_start, source_end, target_start from segments").fetchall()
        gaps = connection.sql(
            "select source_start, source_end, target_start, kind, cause from gaps"
        ).fetchall()
    assert sorted(Segment(*row) for row in segments) == list(offset_map.segments)
    assert sorted(gaps) == [_as_row(stretch) for stretch in offset_map.unmapped]


def _as_row(stretch: Unmapped) -> tuple[int, int, int, str, str]:
    return (
        stretch.source_start,
        stretch.source_end,
        stretch.target_start,
        stretch.kind.value,
        stretch.cause.value,
    )
