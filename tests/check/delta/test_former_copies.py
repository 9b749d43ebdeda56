"""What was copied from incarnations that are gone: the same from real Delta as from the memory ledger."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from ledger.adapters.arrow_schema import arrow_schema
from ledger.adapters.delta.reading import open_ledger
from ledger.adapters.delta.state import DeltaLedgerState
from ledger.adapters.delta.tables import create_tables, table_uri
from ledger.adapters.memory.fact_log import MemoryLedgerState
from ledger.adapters.memory.tables import MemoryLedger
from ledger.domain.facts import OffsetSync, SyncCause, SyncKind
from ledger.mirror.sync_rows import FlowIdentity, sync_row
from ledger.ports import LedgerState
from ledger.schema import TABLE_BY_NAME
from tests.check.domain.test_returning import LOST, sync

EAST_TO_WEST = FlowIdentity("east-to-west", "east", "west")
ELSEWHERE = FlowIdentity("south-to-west", "south", "west")
LIVING = replace(LOST, topic_id="living")
OTHER = replace(LOST, topic="payments", topic_id="also-lost")
TAKEN_BACK = replace(sync((3, 9), 5), kind=SyncKind.SUPERSEDED, cause=SyncCause.TARGET_TRUNCATED)

ROWS = [
    (EAST_TO_WEST, 1, sync((0, 5), 0)),
    (EAST_TO_WEST, 2, sync((5, 9), 5)),
    (EAST_TO_WEST, 2, sync((0, 7), 9, origin=LIVING)),
    (EAST_TO_WEST, 2, sync((0, 2), 0, origin=OTHER)),
    (ELSEWHERE, 1, sync((0, 3), 40)),
    (EAST_TO_WEST, 3, TAKEN_BACK),
]


def stamped(identity: FlowIdentity, round_number: int, found: OffsetSync) -> dict[str, object]:
    stamp = {
        "writer": f"flow:{identity.flow}",
        "writer_epoch": 1,
        "round": round_number,
        "recorded_at_ms": round_number,
    }
    return {**stamp, **sync_row(identity, found)}


@pytest.fixture(params=["delta", "memory"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> LedgerState:
    rows = [stamped(*row) for row in ROWS]
    if request.param == "memory":
        ledger = MemoryLedger()
        ledger.append("offset_syncs", rows)
        return MemoryLedgerState(ledger)
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=1)
    data = pa.Table.from_pylist(rows, schema=arrow_schema(TABLE_BY_NAME["offset_syncs"]))
    write_deltalake(table_uri(path, "offset_syncs"), data, mode="append")
    return DeltaLedgerState(open_ledger(path))


def test_living_incarnations_other_topics_and_other_clusters_are_left_out(state: LedgerState) -> None:
    [found] = state.former_copies("east", {"orders": "living"})
    assert (found.source_topic, found.target_cluster) == ("orders", "west")
    assert {held.source.topic_id for held in found.syncs} == {"lost"}


def test_what_was_taken_back_does_not_count(state: LedgerState) -> None:
    [found] = state.former_copies("east", {"orders": "living"})
    assert [(held.source_start, held.source_end) for held in found.syncs] == [(0, 3)]


def test_every_topic_asked_for_is_answered(state: LedgerState) -> None:
    found = state.former_copies("east", {"orders": "living", "payments": "new"})
    assert sorted(copy.source_topic for copy in found) == ["orders", "payments"]
    assert state.former_copies("east", {"orders": "lost"}) != []
    assert state.former_copies("west", {"orders": "living"}) == []
