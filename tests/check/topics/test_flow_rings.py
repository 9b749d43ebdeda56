"""Which flows lead back to where they start."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ledger.topics.flows import FlowEdge, is_in_ring, may_overlap, opposite_problems, ring_problems


def edges(*directions: str, topics: Sequence[str] = ("orders",)) -> list[FlowEdge]:
    return [FlowEdge(way, way[0], way[1], tuple(topics)) for way in directions]


def in_rings(flows: list[FlowEdge]) -> list[str]:
    return [flow.name for flow in flows if is_in_ring(flow, flows)]


@pytest.mark.parametrize(
    ("directions", "found"),
    [
        (["ab"], []),
        (["ab", "bc"], []),
        (["ab", "ba"], ["ab", "ba"]),
        (["ab", "ba", "bc"], ["ab", "ba"]),
        (["ab", "bc", "ca", "da"], ["ab", "bc", "ca"]),
        (["ab", "ba", "bc", "cb", "ac", "ca"], ["ab", "ba", "bc", "cb", "ac", "ca"]),
    ],
)
def test_flows_of_a_ring_are_told_from_those_beside_it(directions: list[str], found: list[str]) -> None:
    assert in_rings(edges(*directions)) == found


def test_a_ring_needs_a_topic_that_all_of_it_may_carry() -> None:
    assert in_rings([*edges("ab"), *edges("ba", topics=["payments"])]) == []
    assert in_rings([*edges("ab"), *edges("ba", topics=["pay.*", "ord.*"])]) == ["ab", "ba"]


@pytest.mark.parametrize(
    ("left", "right", "overlap"),
    [
        (["orders"], ["orders"], True),
        (["orders"], ["payments"], False),
        (["orders", "payments"], ["payments"], True),
        (["orders"], ["or.*"], True),
        ([r"eu\.orders"], [r"eu\..*"], True),
        ([r"eu\.orders"], [r"us\..*"], False),
        (["a.*"], ["b.*"], True),
        (["eu.orders"], [r"eu\.orders"], True),
        (["eu.orders"], ["euxorders"], True),
    ],
)
def test_plain_names_are_tried_and_patterns_may_always_overlap(
    left: list[str], right: list[str], overlap: bool
) -> None:
    assert may_overlap(left, right) is overlap
    assert may_overlap(right, left) is overlap


def opposites(**back: object) -> list[FlowEdge]:
    """Two flows that say `opposite` of each other; `back`: what one says otherwise."""
    there, here = edges("ab", "ba")
    return [
        replace(there, keeps_names=True, opposite="ba"),
        replace(replace(here, keeps_names=True, opposite="ab"), **back),  # type: ignore[arg-type]
    ]


def test_opposite_flows_have_targets_of_their_own() -> None:
    assert list(opposite_problems(opposites())) == []
    assert list(ring_problems(opposites())) == []


@pytest.mark.parametrize(
    ("back", "problem"),
    [
        ({"opposite": None}, "flows.ab.opposite: flows.ba does not say opposite = 'ab'"),
        ({"source": "c"}, "flows.ab.opposite: flows.ba goes from 'c' to 'a', which is not the way back"),
        (
            {"keeps_names": False},
            "flows.ba.opposite: one direction takes over from the other where topics keep",
        ),
        ({"shares_target": True}, "flows.ba.opposite: both directions hold at any time where target_mode"),
        ({"relays": True}, "flows.ba.opposite: a relaying flow would bring records back"),
        ({"name": "bb"}, "flows.ab.opposite: there is no flow 'ba'"),
    ],
)
def test_what_opposite_flows_may_not_be(back: dict[str, object], problem: str) -> None:
    assert any(found.startswith(problem) for found in opposite_problems(opposites(**back)))


def test_a_third_flow_that_leads_back_needs_sharing_all_the_same() -> None:
    ring = [replace(edge, keeps_names=True) for edge in edges("bc", "ca")]
    assert sum(".target_mode: " in problem for problem in ring_problems([*opposites(), *ring])) == 3
