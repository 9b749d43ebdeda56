"""Flows that lead back to where they start."""

from collections.abc import Sequence

import pytest

from ledger.config.flows import is_in_ring, may_overlap, opposite_problems, ring_problems
from ledger.config.values import FlowConfig, TargetMode
from ledger.topics.naming import NamingKind


def flows(*directions: str, topics: Sequence[str] = ("orders",)) -> list[FlowConfig]:
    return [FlowConfig(name=way, source=way[0], target=way[1], topics=tuple(topics)) for way in directions]


def in_rings(found: list[FlowConfig]) -> list[str]:
    return [flow.name for flow in found if is_in_ring(flow, found)]


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
    assert in_rings(flows(*directions)) == found


def test_a_ring_needs_a_topic_that_all_of_it_may_carry() -> None:
    assert in_rings([*flows("ab"), *flows("ba", topics=["payments"])]) == []
    assert in_rings([*flows("ab"), *flows("ba", topics=["pay.*", "ord.*"])]) == ["ab", "ba"]


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


def opposites(**back: object) -> list[FlowConfig]:
    """Two flows that say `opposite` of each other; `back`: what one says otherwise."""
    there, here = flows("ab", "ba")
    return [
        there.model_copy(update={"topic_naming": NamingKind.IDENTITY, "opposite": "ba"}),
        here.model_copy(update={"topic_naming": NamingKind.IDENTITY, "opposite": "ab", **back}),
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
            {"topic_naming": NamingKind.PREFIX},
            "flows.ba.opposite: one direction takes over from the other where topics keep",
        ),
        (
            {"target_mode": TargetMode.SHARED},
            "flows.ba.opposite: both directions hold at any time where target_mode",
        ),
        ({"relay": True}, "flows.ba.opposite: a relaying flow would bring records back"),
        ({"name": "bb"}, "flows.ab.opposite: there is no flow 'ba'"),
    ],
)
def test_what_opposite_flows_may_not_be(back: dict[str, object], problem: str) -> None:
    assert any(found.startswith(problem) for found in opposite_problems(opposites(**back)))


def test_a_third_flow_that_leads_back_needs_sharing_all_the_same() -> None:
    ring = [flow.model_copy(update={"topic_naming": NamingKind.IDENTITY}) for flow in flows("bc", "ca")]
    assert sum(".target_mode: " in problem for problem in ring_problems([*opposites(), *ring])) == 3
