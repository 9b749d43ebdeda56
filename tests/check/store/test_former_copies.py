"""What was copied from incarnations that are gone: the same from real Delta as from the memory ledger."""

from dataclasses import replace
from pathlib import Path

import pytest

from ledger.facts.state import LedgerState
from ledger.facts.syncs import SyncCause, SyncKind
from tests.support.ledgers import STORES, state_on
from tests.support.offset_syncs import EAST_TO_WEST, ELSEWHERE, LOST, sync

LIVING = replace(LOST, topic_id="living")
OTHER = replace(LOST, topic="payments", topic_id="also-lost")
UNDOABLE = replace(sync((3, 9), 5), kind=SyncKind.SUPERSEDED, cause=SyncCause.TARGET_TRUNCATED)

ROWS = [
    (EAST_TO_WEST, 1, sync((0, 5), 0)),
    (EAST_TO_WEST, 2, sync((5, 9), 5)),
    (EAST_TO_WEST, 2, sync((0, 7), 9, origin=LIVING)),
    (EAST_TO_WEST, 2, sync((0, 2), 0, origin=OTHER)),
    (ELSEWHERE, 1, sync((0, 3), 40)),
    (EAST_TO_WEST, 3, UNDOABLE),
]


@pytest.fixture(params=STORES)
def state(request: pytest.FixtureRequest, tmp_path: Path, empty_ledger: Path) -> LedgerState:
    return state_on(request.param, ROWS, tmp_path, empty_ledger)


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
