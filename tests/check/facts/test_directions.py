"""Which direction holds: of all changes that are about a topic the last one counts."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ledger.facts.direction import (
    Demoted,
    DirectionChange,
    Directions,
    HeldBack,
    Promoted,
    WayBackOpened,
    WayBackTopic,
)
from tests.support.ledger_rows import row

WEST_OVER_EAST: dict[str, Any] = {"cluster": "west", "cluster_id": "W", "former": "east", "former_id": "E"}


def promoted(*topics: str) -> Promoted:
    """West over east; without topics the whole pair."""
    return Promoted(**WEST_OVER_EAST, topics=topics or None)


def demoted(*topics: str) -> Demoted:
    """The same, taken back."""
    return Demoted(**WEST_OVER_EAST, topics=topics or None)


def directions(*changes: DirectionChange | WayBackOpened) -> Directions:
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


WHOLE: dict[str, Any] = {**WEST_OVER_EAST, "topics": ("orders",), "later": True, "left_out": ("refunds",)}


@pytest.mark.parametrize(
    ("topic", "is_promoted"), [("orders", True), ("refunds", False), ("it came later", True), ("", True)]
)
def test_a_promotion_by_name_may_be_about_what_comes_later_too_but_not_about_what_it_leaves_out(
    topic: str, is_promoted: bool
) -> None:
    found = directions(Promoted(**WHOLE))
    assert (found.promotion("east", "west", topic) is not None) == is_promoted
    assert found.promotions("east", "west", None).keys() == {"", "orders", "refunds"}
    back = directions(Promoted(**WHOLE), Demoted(**WHOLE))
    assert set(back.promotions("east", "west", None).values()) == {None}


def test_what_a_promotion_leaves_out_stands_by_its_own_rows() -> None:
    found = directions(promoted("refunds"), Promoted(**WHOLE), Demoted(**WHOLE))
    assert found.promotion("east", "west", "refunds") is not None
    assert found.promotion("east", "west", "orders") is None


@pytest.mark.parametrize(
    ("topic", "forward", "back"),
    [
        ("orders", HeldBack.PROMOTED, None),
        ("it came later", HeldBack.PROMOTED, None),
        ("refunds", None, HeldBack.OPPOSITE_HOLDS),
    ],
)
def test_what_comes_later_goes_the_way_of_the_named_topics(
    topic: str, forward: HeldBack | None, back: HeldBack | None
) -> None:
    """A topic that somebody creates where applications left is not copied; one that they create now comes back."""
    found = replace(directions(Promoted(**WHOLE)), started={"forward": 1})
    held = [
        found.held_back("forward", "back", source="east", target="west", topic=topic),
        found.held_back("back", "forward", source="west", target="east", topic=topic),
    ]
    assert held == [forward, back]


def test_rows_say_of_later_topics_only_where_there_is_something_to_say() -> None:
    assert promoted("orders").content().keys() == {*WEST_OVER_EAST, "topics"}
    assert Promoted(**WHOLE).content().keys() == {*WEST_OVER_EAST, "topics", "later", "left_out"}
    assert Promoted.of_content(Promoted(**WHOLE).content()) == Promoted(**WHOLE)


def test_whether_applications_may_ever_have_written_is_not_taken_back() -> None:
    found = directions(Promoted(**WHOLE), demoted())
    ever = [found.was_ever_promoted("west", topic) for topic in ("orders", "refunds", "it came later")]
    assert ever == [True, False, True]
    assert not found.was_ever_promoted("east", "orders")


EAST_OVER_WEST: dict[str, Any] = {"cluster": "east", "cluster_id": "E", "former": "west", "former_id": "W"}
HOME, HOME_AGAIN = Promoted(**EAST_OVER_WEST, topics=None), Demoted(**EAST_OVER_WEST, topics=None)
OPENED = WayBackOpened(
    cluster="east",
    cluster_id="E",
    promoted="west",
    promoted_id="W",
    topics=(WayBackTopic(topic="orders", topic_id="T"),),
)


@pytest.mark.parametrize(
    ("changes", "begins_at"),
    [
        ((promoted(),), None),
        ((promoted(), OPENED), "o1"),
        ((promoted(), OPENED, OPENED), "o2"),  # twice: the later cut
        ((OPENED, promoted()), None),  # of an earlier way home
        ((promoted(), OPENED, HOME, demoted()), None),  # applications are home
        ((promoted(), OPENED, HOME, demoted(), promoted()), None),  # lost again, and nothing decided
        ((promoted(), OPENED, HOME, demoted(), promoted(), HOME_AGAIN, OPENED), "o6"),
        ((promoted(), replace(OPENED, topics=())), None),
    ],
)
def test_the_way_back_begins_at_what_was_decided_since_the_last_promotion(
    changes: tuple[DirectionChange | WayBackOpened, ...], begins_at: str | None
) -> None:
    assert directions(*changes).kept_ends("west", "east", "orders") == begins_at


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ((), None),
        ((promoted(),), "west"),
        ((promoted(), HOME), "east"),
        ((promoted(), HOME, demoted()), "east"),
        ((HOME, promoted()), "west"),  # by a failover: nobody could demote what was lost
        ((HOME, promoted(), HOME_AGAIN), "west"),
        ((HOME, promoted(), demoted()), "east"),
    ],
)
def test_applications_are_where_the_last_promotion_brought_them(
    changes: tuple[DirectionChange | WayBackOpened, ...], at: str | None
) -> None:
    found = directions(*changes)
    assert found.are_applications_at("west", "east", "orders") is (at == "west")
    assert found.are_applications_at("east", "west", "orders") is (at == "east")
