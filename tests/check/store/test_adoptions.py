"""What was adopted at a topic: the same from real Delta as from the memory ledger."""

from dataclasses import replace
from pathlib import Path

import pytest

from ledger.facts.state import LedgerState
from ledger.facts.syncs import SyncCause, SyncKind
from tests.support.ledgers import STORES, state_on
from tests.support.offset_syncs import ALSO_HELD, EAST_TO_WEST, ELSEWHERE, HELD, LOST, sync

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


@pytest.fixture(params=STORES)
def state(request: pytest.FixtureRequest, tmp_path: Path, empty_ledger: Path) -> LedgerState:
    return state_on(request.param, ROWS, tmp_path, empty_ledger)


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
