"""Which copies are the only ones left of what a source had: what it lost less what came back, or is elsewhere."""

import json

import pytest

from ledger.changeover.deficits import deficit
from ledger.config.values import FlowConfig
from ledger.facts.deficits import DecidedDeficits, DeficitsDecided, ReturnedRange
from ledger.facts.syncs import OffsetRange, OffsetSync, PartitionPair, SyncCause, TopicPartition
from tests.support.histories import copied, superseded, unpaired

FLOW = FlowConfig(name="east-to-west", source="east", target="west", topics=("orders",))
PAIR = PartitionPair(TopicPartition("orders", "E", 0), TopicPartition("orders", "W", 0))
LOST = superseded(6, 10, 10, SyncCause.SOURCE_TRUNCATED)
RETURNING = superseded(6, 10, 10, SyncCause.RETURNING)


@pytest.mark.parametrize(
    ("rows", "start", "decided", "expected"),
    [
        ([], 0, [], ()),
        ([copied(0, 10, 0)], 0, [], ()),
        ([copied(0, 10, 0), RETURNING], 0, [], ((6, 10),)),
        ([copied(0, 10, 0), RETURNING], 8, [], ((8, 10),)),
        ([copied(0, 10, 0), RETURNING], 0, [(6, 9)], ((9, 10),)),
        ([copied(0, 10, 0), superseded(6, 10, 10)], 0, [], ()),
        ([copied(0, 10, 0), RETURNING, superseded(7, 7, 8, SyncCause.TARGET_TRUNCATED)], 0, [], ((6, 8),)),
        ([copied(0, 10, 0), RETURNING, unpaired(6, 10, 2)], 0, [], ((6, 12),)),
        ([copied(0, 10, 0), unpaired(10, 10, 2), copied(10, 12, 12)], 0, [], ()),
        ([copied(0, 10, 0), LOST, copied(6, 8, 10)], 0, [], ((6, 10),)),
    ],
    ids=[
        "nothing copied",
        "none",
        "lost",
        "read before",
        "decided",
        "resync",
        "the copies too",
        "tail",
        "paired since",
        "newer",
    ],
)
def test_the_only_copies_of_what_a_source_has_lost(
    rows: list[OffsetSync], start: int, decided: list[OffsetRange], expected: tuple[OffsetRange, ...]
) -> None:
    found = deficit(FLOW, PAIR, rows, start, decided)
    assert (() if found is None else found.ranges) == expected
    if found is not None:
        assert found.unpaired == (2 if rows[-1].kind == "unpaired" else 0)


def test_what_others_brought_is_lacking_behind_what_was_copied_last() -> None:
    others: list[OffsetRange] = [(2, 4), (8, 14), (20, 22)]
    found = deficit(FLOW, PAIR, [copied(0, 10, 0), RETURNING], 0, [(21, 22)], others)
    assert found is not None
    assert (found.ranges, found.brought, found.unpaired) == (((6, 14), (20, 21)), 5, 0)
    assert (
        "lacks 4 records that east-to-west had copied and 5 records that other clusters brought"
        in found.words
    )
    nothing_copied = deficit(FLOW, PAIR, [], 3, [], others)
    assert nothing_copied is not None
    assert (nothing_copied.ranges, nothing_copied.copied_to) == (((3, 4), (8, 14), (20, 22)), 0)


def test_what_returns_is_decided_for_one_cluster() -> None:
    def row(policy: str, start: int, end: int) -> dict[str, object]:
        decided = DeficitsDecided(
            cluster="east",
            cluster_id=None,
            topic="orders",
            topic_id="E",
            holder="west",
            holder_id=None,
            held_topic="orders",
            held_topic_id="W",
            policy=policy,
            ranges=(ReturnedRange(partition=0, return_start=start, return_end=end),),
        )
        return {"content": json.dumps(decided.content())}

    decided = DecidedDeficits.of_rows([row("return", 6, 9), row("keep", 9, 10)])
    assert decided.returning("east", PAIR.target) == ((6, 9),)
    assert decided.known("east", PAIR.target) == ((6, 10),)
    assert (decided.kept("east", "W"), decided.kept("east", "E")) == ({0: (9, 10)}, {})
    assert decided.returning("north", PAIR.target) == decided.returning("east", PAIR.source) == ()
