"""The SQL and the algebra state the same rules: what holds of offset syncs, and their expansion.

A query takes longer to be planned than to be answered, so several histories are the partitions of one ledger.
"""

from collections.abc import Sequence
from typing import Any

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.facts.history import Segment
from ledger.facts.rows import flow_position
from ledger.facts.syncs import OffsetSync, effective
from ledger.store import catalog
from ledger.store.sql import connect, run_query
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger, MemorySnapshot
from tests.support.algebra.maps import OffsetMap
from tests.support.algebra.stretches import Unmapped
from tests.support.histories import (
    FLOW,
    History,
    examples,
    histories,
    ledger_of_partitions,
)

PRINTED = settings(print_blob=True, deadline=None, max_examples=examples(check=4, soak=12))
PARTITIONS = 5
SEVERAL = st.lists(histories(), min_size=PARTITIONS, max_size=PARTITIONS)


def ledger_of(several: Sequence[History]) -> MemorySnapshot:
    return ledger_of_partitions([(history, None) for history in several])


def of_current(connection: duckdb.DuckDBPyConnection, columns: str, view: str) -> list[tuple[Any, ...]]:
    """Partition and columns of the rows about the target incarnation that the flow went to last."""
    return sorted(connection.sql(OF_CURRENT.format(columns, view)).fetchall())


OF_CURRENT = """
    select v.source_partition, {} from {} as v
    inner join current_maps as m on m.source_partition = v.source_partition
    where v.target_topic_id = m.target_topic_id
"""


@PRINTED
@given(SEVERAL)
def test_views_expand_as_the_algebra(several: list[History]) -> None:
    maps = [OffsetMap.from_syncs(FLOW, history.syncs) for history in several]
    with connect(ledger_of(several), {}, ("segments", "gaps", "current_maps")) as connection:
        segments = of_current(connection, "v.source_start, v.source_end, v.target_start", "segments")
        gaps = of_current(connection, "v.source_start, v.source_end, v.target_start, v.kind, v.cause", "gaps")
        ends = connection.sql(
            "select source_partition, source_start, source_end, target_end from current_maps"
        ).fetchall()
    assert [(number, Segment(*row)) for number, *row in segments] == [
        (number, segment) for number, found in enumerate(maps) for segment in found.segments
    ]
    assert gaps == [
        (number, *_as_row(stretch)) for number, found in enumerate(maps) for stretch in found.unmapped
    ]
    assert sorted(ends) == [
        (number, found.source_start, found.source_end, found.target_end) for number, found in enumerate(maps)
    ]


@PRINTED
@given(SEVERAL)
def test_effective_syncs_are_those_of_the_algebra(several: list[History]) -> None:
    with connect(ledger_of(several), {}, ("effective_syncs",)) as connection:
        found = connection.table("effective_syncs").to_arrow_table().to_pylist()
    expected = [
        (number, *_held(sync)) for number, history in enumerate(several) for sync in effective(history.syncs)
    ]
    assert sorted((row["source_partition"], *_said(row)) for row in found) == sorted(expected)


@PRINTED
@given(SEVERAL)
def test_a_flow_stands_where_its_history_ends(several: list[History]) -> None:
    rows = run_query(catalog.query("flow_positions"), {"flow": FLOW}, ledger_of(several)).to_pylist()
    told = ("source_partition", "source_end", "target_end", "next_sequence", "target_topic_id")
    assert sorted(tuple(row[name] for name in told) for row in rows) == [
        (number, history.source_end, history.target_end, history.sequence, history.target.topic_id)
        for number, history in enumerate(several)
    ]


@PRINTED
@given(SEVERAL)
def test_a_memory_ledger_has_the_same_positions(several: list[History]) -> None:
    ledger = MemoryLedger()
    ledger.append("offset_syncs", ledger_of(several).relation("offset_syncs").to_pylist())
    answered = run_query(catalog.query("flow_positions"), {"flow": FLOW}, ledger.at(ledger.latest()))
    positions = sorted(MemoryLedgerState(ledger).positions(FLOW), key=lambda position: position.partition)
    assert len(positions) == PARTITIONS
    assert positions == [flow_position(row) for row in answered.to_pylist()]


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
