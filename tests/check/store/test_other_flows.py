"""Which flow copies a partition to a target topic already: the same from real Delta as from the memory ledger."""

from dataclasses import replace
from pathlib import Path

import pytest

from ledger.facts.rows import FlowIdentity
from ledger.facts.state import LedgerState
from ledger.facts.syncs import OffsetSync, PartitionPair, SyncCause, SyncKind
from ledger.mirror.starts import OtherFlows
from tests.support.ledgers import STORES, state_on
from tests.support.offset_syncs import ALSO_HELD, EAST_TO_WEST, ELSEWHERE, HELD, LOST, sync

SECOND = replace(LOST, partition=1)
UNDOABLE = replace(sync((0, 9), 0), kind=SyncKind.SUPERSEDED, cause=SyncCause.SOURCE_TRUNCATED)
BEGUN = replace(sync((0, 0), 0, origin=SECOND), kind=SyncKind.STARTED, cause=SyncCause.EARLIEST)
ANOTHER = FlowIdentity("another", "east", "west")
KEY = ("lost", 0, "at-b")


def state(
    store: str, folder: Path, empty_ledger: Path, *recorded: tuple[FlowIdentity, int, OffsetSync]
) -> LedgerState:
    return state_on(store, recorded, folder, empty_ledger)


@pytest.mark.parametrize("store", STORES)
def test_a_map_that_holds_records_is_a_copy_of_that_flow(
    store: str, tmp_path: Path, empty_ledger: Path
) -> None:
    found = state(
        store,
        tmp_path,
        empty_ledger,
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


@pytest.mark.parametrize("store", STORES)
def test_what_was_superseded_is_no_copy(store: str, tmp_path: Path, empty_ledger: Path) -> None:
    recorded = (EAST_TO_WEST, 1, sync((0, 9), 0)), (EAST_TO_WEST, 2, UNDOABLE)
    assert state(store, tmp_path, empty_ledger, *recorded).copied_by_others("renamed", ["lost"]) == {}


@pytest.mark.parametrize("store", STORES)
def test_of_several_flows_the_first_by_name_is_told(store: str, tmp_path: Path, empty_ledger: Path) -> None:
    recorded = [(identity, 1, sync((0, 9), 0)) for identity in (EAST_TO_WEST, ANOTHER)]
    assert state(store, tmp_path, empty_ledger, *recorded).copied_by_others("renamed", ["lost"]) == {
        KEY: "another"
    }


def test_a_partition_is_told_with_what_says_that_another_flow_copies_it(
    tmp_path: Path, empty_ledger: Path
) -> None:
    held = state("memory", tmp_path, empty_ledger, (EAST_TO_WEST, 1, sync((0, 9), 0)))
    look = OtherFlows(
        "renamed", held, lambda topic: frozenset({"twin"}) if topic == "payments" else frozenset()
    )
    recorded, elsewhere = PartitionPair(LOST, HELD), PartitionPair(LOST, ALSO_HELD)
    configured = PartitionPair(replace(LOST, topic="payments", topic_id="P"), replace(HELD, topic="payments"))
    assert look([recorded, elsewhere, configured]) == {
        ("lost", 0): (
            "flow east-to-west has copied orders partition 0 to orders, as the ledger has it: flow renamed would copy "
            "all of it once more"
        ),
        ("P", 0): (
            "the configuration lets flow twin copy payments to payments, too: every record would be there twice"
        ),
    }
