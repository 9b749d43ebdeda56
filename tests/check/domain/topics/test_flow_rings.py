"""Which flows lead back to where they start."""

from collections.abc import Sequence

import pytest

from ledger.domain.topics.flow_rings import FlowEdge, is_in_ring, may_overlap


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
