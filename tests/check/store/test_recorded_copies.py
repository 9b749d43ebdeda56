"""What was adopted, was copied from lives that are gone, and is copied by other flows: alike on Delta and in memory."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from ledger.facts.rows import FlowIdentity
from ledger.facts.state import LedgerState
from ledger.facts.syncs import OffsetSync, PartitionPair, SyncCause, SyncKind
from ledger.mirror.starts import OtherFlows
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.ledger_rows import append, copied_to
from tests.support.offset_syncs import ALSO_HELD, EAST_TO_WEST, ELSEWHERE, HELD, LOST, stamped, sync

Recorded: TypeAlias = Callable[..., LedgerState]
"""The state of a ledger that holds offset syncs, each given with its flow and round."""


@pytest.fixture(params=["delta", "memory"])
def recorded(request: pytest.FixtureRequest, tmp_path: Path, empty_ledger: Path) -> Recorded:
    def state(*given: tuple[FlowIdentity, int, OffsetSync]) -> LedgerState:
        rows = [stamped(*one) for one in given]
        if request.param == "memory":
            ledger = MemoryLedger()
            ledger.append("offset_syncs", rows)
            return MemoryLedgerState(ledger)
        path = copied_to(tmp_path, empty_ledger)
        append(path, "offset_syncs", rows)
        return DeltaLedgerState(open_ledger(path))

    return state


# -- Adopted ---------------------------------------------------------------------------------------

TAKEN_OVER = sync((0, 9), 5, kind=SyncKind.ADOPTED)
WENT_BACK = replace(sync((3, 9), 8, kind=SyncKind.SUPERSEDED), cause=SyncCause.TARGET_TRUNCATED)
SEEN_AT_SOURCE = replace(
    sync((7, 9), 0, origin=HELD, target=LOST, kind=SyncKind.SUPERSEDED), cause=SyncCause.SOURCE_TRUNCATED
)
ADOPTED = [
    (EAST_TO_WEST, 2, WENT_BACK),
    (EAST_TO_WEST, 1, TAKEN_OVER),
    (EAST_TO_WEST, 1, sync((9, 12), 14)),
    (ELSEWHERE, 1, replace(TAKEN_OVER, target=ALSO_HELD)),
    (ELSEWHERE, 3, SEEN_AT_SOURCE),
    (ELSEWHERE, 4, replace(SEEN_AT_SOURCE, cause=SyncCause.RESYNC)),
]


@pytest.fixture
def adopted(recorded: Recorded) -> LedgerState:
    return recorded(*ADOPTED)


def test_what_was_adopted_and_what_went_back_is_told_oldest_first(adopted: LedgerState) -> None:
    histories = adopted.adoptions({HELD.topic_id})
    assert sorted([[found.kind, found.cause] for found in history] for history in histories) == [
        [[SyncKind.ADOPTED, None], [SyncKind.SUPERSEDED, SyncCause.TARGET_TRUNCATED]],
        [[SyncKind.SUPERSEDED, SyncCause.SOURCE_TRUNCATED]],
    ]


def test_other_topics_are_left_out(adopted: LedgerState) -> None:
    [[found]] = adopted.adoptions({ALSO_HELD.topic_id, "nobody"})
    assert found.target == ALSO_HELD
    assert adopted.adoptions({"nobody"}) == []
    assert adopted.adoptions(set()) == []


# -- Copied from incarnations that are gone --------------------------------------------------------

LIVING = replace(LOST, topic_id="living")
OTHER = replace(LOST, topic="payments", topic_id="also-lost")
LAST_TAKEN_BACK = replace(sync((3, 9), 5), kind=SyncKind.SUPERSEDED, cause=SyncCause.TARGET_TRUNCATED)

FORMER = [
    (EAST_TO_WEST, 1, sync((0, 5), 0)),
    (EAST_TO_WEST, 2, sync((5, 9), 5)),
    (EAST_TO_WEST, 2, sync((0, 7), 9, origin=LIVING)),
    (EAST_TO_WEST, 2, sync((0, 2), 0, origin=OTHER)),
    (ELSEWHERE, 1, sync((0, 3), 40)),
    (EAST_TO_WEST, 3, LAST_TAKEN_BACK),
]


@pytest.fixture
def held(recorded: Recorded) -> LedgerState:
    return recorded(*FORMER)


def test_living_incarnations_other_topics_and_other_clusters_are_left_out(held: LedgerState) -> None:
    [found] = held.former_copies("east", {"orders": "living"})
    assert (found.source_topic, found.target_cluster) == ("orders", "west")
    assert {one.source.topic_id for one in found.syncs} == {"lost"}


def test_what_was_taken_back_does_not_count(held: LedgerState) -> None:
    [found] = held.former_copies("east", {"orders": "living"})
    assert [(one.source_start, one.source_end) for one in found.syncs] == [(0, 3)]


def test_every_topic_asked_for_is_answered(held: LedgerState) -> None:
    found = held.former_copies("east", {"orders": "living", "payments": "new"})
    assert sorted(copy.source_topic for copy in found) == ["orders", "payments"]
    assert held.former_copies("east", {"orders": "lost"}) != []
    assert held.former_copies("west", {"orders": "living"}) == []


# -- Copied by other flows -------------------------------------------------------------------------

SECOND = replace(LOST, partition=1)
TAKEN_BACK = replace(sync((0, 9), 0), kind=SyncKind.SUPERSEDED, cause=SyncCause.SOURCE_TRUNCATED)
BEGUN = replace(sync((0, 0), 0, origin=SECOND), kind=SyncKind.STARTED, cause=SyncCause.EARLIEST)
ANOTHER = FlowIdentity("another", "east", "west")
KEY = ("lost", 0, "at-b")


def test_a_map_that_holds_records_is_a_copy_of_that_flow(recorded: Recorded) -> None:
    found = recorded(
        (EAST_TO_WEST, 1, sync((0, 5), 0)),
        (EAST_TO_WEST, 2, sync((5, 9), 5, kind=SyncKind.ADOPTED)),
        (EAST_TO_WEST, 2, sync((0, 5), 0, origin=replace(LOST, topic_id="other"))),
        (ELSEWHERE, 1, sync((0, 5), 0, target=ALSO_HELD)),
        (ELSEWHERE, 1, BEGUN),
    )
    assert found.copied_by_others("renamed", ["lost"]) == {
        KEY: "east-to-west",
        ("lost", 0, "at-c"): "south-to-west",
    }
    assert found.copied_by_others("east-to-west", ["lost"]) == {("lost", 0, "at-c"): "south-to-west"}
    assert found.copied_by_others("renamed", []) == {}


def test_what_was_superseded_is_no_copy(recorded: Recorded) -> None:
    rows = (EAST_TO_WEST, 1, sync((0, 9), 0)), (EAST_TO_WEST, 2, TAKEN_BACK)
    assert recorded(*rows).copied_by_others("renamed", ["lost"]) == {}


def test_of_several_flows_the_first_by_name_is_told(recorded: Recorded) -> None:
    rows = [(identity, 1, sync((0, 9), 0)) for identity in (EAST_TO_WEST, ANOTHER)]
    assert recorded(*rows).copied_by_others("renamed", ["lost"]) == {KEY: "another"}


def test_a_partition_is_told_with_what_says_that_another_flow_copies_it(recorded: Recorded) -> None:
    held = recorded((EAST_TO_WEST, 1, sync((0, 9), 0)))
    look = OtherFlows(
        "renamed", held, lambda topic: frozenset({"twin"}) if topic == "payments" else frozenset()
    )
    known, elsewhere = PartitionPair(LOST, HELD), PartitionPair(LOST, ALSO_HELD)
    configured = PartitionPair(replace(LOST, topic="payments", topic_id="P"), replace(HELD, topic="payments"))
    assert look([known, elsewhere, configured]) == {
        ("lost", 0): (
            "flow east-to-west has copied orders partition 0 to orders, as the ledger has it: flow renamed would copy "
            "all of it once more"
        ),
        ("P", 0): (
            "the configuration lets flow twin copy payments to payments, too: every record would be there twice"
        ),
    }
