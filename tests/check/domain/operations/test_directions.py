"""Which direction holds: of all changes that are about a topic the last one counts."""

import json
from typing import Any

import pytest

from ledger.domain.operations.directions import Demoted, DirectionChange, Directions, Promoted
from tests.support.ledger_rows import row

WEST_OVER_EAST: dict[str, Any] = {"cluster": "west", "cluster_id": "W", "former": "east", "former_id": "E"}


def promoted(*topics: str) -> Promoted:
    """West over east; without topics the whole pair."""
    return Promoted(**WEST_OVER_EAST, topics=topics or None)


def demoted(*topics: str) -> Demoted:
    """The same, taken back."""
    return Demoted(**WEST_OVER_EAST, topics=topics or None)


def directions(*changes: DirectionChange) -> Directions:
    rows = [
        row(
            "operations",
            kind=str(change.kind),
            content=json.dumps(change.content()),
            operation_id=f"o{number}",
            operator="anna",
            reason="a fire",
            recorded_at_ms=1000,
        )
        for number, change in enumerate(changes)
    ]
    return Directions.of_rows(rows)


@pytest.mark.parametrize(
    ("changes", "last"),
    [
        ((), None),
        ((promoted(),), "o0"),
        ((promoted("orders"),), "o0"),
        ((promoted("orders", "users"),), "o0"),
        ((promoted("users"),), None),
        ((promoted(), demoted()), None),
        ((promoted(), demoted("orders")), None),
        ((promoted(), demoted("users")), "o0"),
        ((promoted("orders"), demoted()), None),
        ((promoted(), demoted(), promoted("orders")), "o2"),
        ((promoted(), promoted("orders")), "o1"),
        ((demoted(),), None),
    ],
)
def test_the_last_change_about_a_topic_counts(changes: tuple[DirectionChange, ...], last: str | None) -> None:
    found = directions(*changes).promotion("east", "west", "orders")
    assert (found and found.rsplit(" ", 1)[-1]) == last


@pytest.mark.parametrize(("source", "target"), [("west", "east"), ("north", "west"), ("east", "north")])
def test_flows_of_other_pairs_and_the_way_back_are_not_held(source: str, target: str) -> None:
    assert directions(promoted()).promotion(source, target, "orders") is None


def test_it_is_said_who_promoted_it_and_why() -> None:
    words = directions(promoted()).promotion("east", "west", "orders")
    assert words is not None
    assert all(part in words for part in ("anna", "a fire", "o0"))


@pytest.mark.parametrize(
    ("changes", "topics", "promoted_ones"),
    [
        ((), None, {"": False}),
        ((promoted(),), None, {"": True}),
        ((promoted("orders"),), None, {"": False, "orders": True}),
        ((promoted(), demoted("orders")), None, {"": True, "orders": False}),
        ((promoted("orders"), promoted()), None, {"": True, "orders": True}),
        ((promoted("orders"), demoted()), None, {"": False, "orders": False}),
        ((promoted("orders"),), ("orders", "users"), {"orders": True, "users": False}),
    ],
)
def test_topics_that_nobody_has_named_are_one(
    changes: tuple[DirectionChange, ...], topics: tuple[str, ...] | None, promoted_ones: dict[str, bool]
) -> None:
    found = directions(*changes).promotions("east", "west", topics)
    assert {topic: made_by is not None for topic, made_by in found.items()} == promoted_ones
