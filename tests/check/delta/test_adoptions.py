"""What was adopted at a topic: the same from real Delta as from the memory ledger."""

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
from ledger.domain.facts import SyncCause, SyncKind
from ledger.ports import LedgerState
from ledger.schema import TABLE_BY_NAME
from tests.check.delta.test_former_copies import EAST_TO_WEST, ELSEWHERE, stamped
from tests.check.domain.test_returning import ALSO_HELD, HELD, LOST, sync

TAKEN_OVER = sync((0, 9), 5, kind=SyncKind.ADOPTED)
WENT_BACK = replace(sync((3, 9), 8, kind=SyncKind.SUPERSEDED), cause=SyncCause.TARGET_TRUNCATED)
SEEN_AT_SOURCE = replace(
    sync((7, 9), 0, origin=HELD, target=LOST, kind=SyncKind.SUPERSEDED), cause=SyncCause.SOURCE_TRUNCATED
)
ROWS = [
    (EAST_TO_WEST, 2, WENT_BACK),
    (EAST_TO_WEST, 1, TAKEN_OVER),
    (EAST_TO_WEST, 1, sync((9, 12), 14)),
    (ELSEWHERE, 1, replace(TAKEN_OVER, target=ALSO_HELD)),
    (ELSEWHERE, 3, SEEN_AT_SOURCE),
    (ELSEWHERE, 4, replace(SEEN_AT_SOURCE, cause=SyncCause.RESYNC)),
]


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


def test_what_was_adopted_and_what_went_back_is_told_oldest_first(state: LedgerState) -> None:
    histories = state.adoptions({HELD.topic_id})
    assert sorted([[found.kind, found.cause] for found in history] for history in histories) == [
        [[SyncKind.ADOPTED, None], [SyncKind.SUPERSEDED, SyncCause.TARGET_TRUNCATED]],
        [[SyncKind.SUPERSEDED, SyncCause.SOURCE_TRUNCATED]],
    ]


def test_other_topics_are_left_out(state: LedgerState) -> None:
    [[found]] = state.adoptions({ALSO_HELD.topic_id, "nobody"})
    assert found.target == ALSO_HELD
    assert state.adoptions({"nobody"}) == []
    assert state.adoptions(set()) == []
