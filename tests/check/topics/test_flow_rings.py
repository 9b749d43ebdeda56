"""Flows that lead back to where they start, and patterns that do nothing."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ledger.topics.flows import FlowEdge, is_in_ring, may_overlap, opposite_problems, ring_problems
from ledger.topics.naming import (
    IdlePattern,
    NamingKind,
    PatternKey,
    RenameRule,
    SelectionRefusal,
    TopicNaming,
    TopicSelection,
    idle_patterns,
)

# -- Rings -----------------------------------------------------------------------------------------


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


# -- Patterns --------------------------------------------------------------------------------------

TOPICS = {
    "orders": False,
    "orders-eu": False,
    "payments.eu": False,
    "west.orders": False,
    "__offsets": False,
    "of-the-broker": True,
}


def idle(selection: TopicSelection, topics: dict[str, bool] | None = None) -> list[tuple[str, str]]:
    listed = TOPICS if topics is None else topics
    return [(str(found.key), found.pattern) for found in idle_patterns(selection, selection.refusals(listed))]


def selecting(*patterns: str, exclude: tuple[str, ...] = (), rename: tuple[str, ...] = ()) -> TopicSelection:
    rules = tuple(RenameRule(match, "to") for match in rename)
    naming = TopicNaming(NamingKind.RENAME, rules=rules) if rules else TopicNaming(NamingKind.PREFIX, "east")
    return TopicSelection(patterns, exclude, ("west",), naming)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (("orders",), []),
        (("orders", "ordres"), ["ordres"]),
        (("ordres", "ordres"), ["ordres"]),
        (("order",), ["order"]),  # whole names count
        (("orders.*", "pay.*", "billing.*"), ["billing.*"]),
        (("payments.eu", "payments\\.eu", "payments\\.us"), ["payments\\.us"]),
        (("west\\.orders",), ["west\\.orders"]),
        (("__.*", "of-the-broker", "orders"), ["__.*", "of-the-broker"]),
        (("(west\\.)?orders",), []),  # one of two is enough
    ],
)
def test_a_pattern_that_selects_no_topic_is_idle(patterns: tuple[str, ...], expected: list[str]) -> None:
    assert idle(selecting(*patterns)) == [("topics", pattern) for pattern in expected]


def test_every_pattern_is_idle_where_there_is_no_topic() -> None:
    selection = selecting(".*", exclude=("a",), rename=("b",))
    assert idle(selection, {}) == [("topics", ".*"), ("exclude", "a")], (
        "and nothing of rules that name nothing"
    )


def test_an_exclusion_is_at_work_when_any_topic_matches_it() -> None:
    selection = selecting(".*", exclude=("orders-eu", "orders-us", "__offsets", "billing.*", "pay.*"))
    found = list(idle_patterns(selection, selection.refusals(TOPICS)))
    assert [(pattern.pattern, pattern.is_guard) for pattern in found] == [
        ("orders-us", False),
        ("billing.*", True),
    ]
    assert not IdlePattern(PatternKey.TOPICS, "billing.*").is_guard, "what is to be mirrored is missed"


def test_all_that_a_pattern_matches_may_be_excluded_or_without_a_name() -> None:
    assert idle(selecting("orders-eu", "payments.*", exclude=("orders-.*",))) == [("topics", "orders-eu")]
    selection = selecting("orders", "orders-eu", "payments.*", rename=("orders", "pay.*", "ordres", "west.*"))
    assert idle(selection) == [("topics", "orders-eu"), ("rename", "ordres"), ("rename", "west.*")]


@pytest.mark.parametrize(
    ("pattern", "left_out", "told"),
    [
        ("ordres", (), "topics has 'ordres': no topic of east that this principal is shown matches it"),
        (
            "west.*|__.*|orders-.*",
            (
                (SelectionRefusal.INTERNAL, "__offsets"),
                (SelectionRefusal.MIRRORED_BACK, "west.orders"),
                (SelectionRefusal.EXCLUDED, "orders-eu"),
            ),
            "topics has 'west.*|__.*|orders-.*': nothing of east is mirrored because of it, for __offsets is internal, "
            "west.orders has the name of a copy from the target, orders-eu is excluded",
        ),
    ],
)
def test_a_sentence_says_why(
    pattern: str, left_out: tuple[tuple[SelectionRefusal, str], ...], told: str
) -> None:
    selection = selecting(pattern, exclude=("orders-eu",))
    [found] = idle_patterns(selection, selection.refusals(TOPICS))
    assert found == IdlePattern(PatternKey.TOPICS, pattern, left_out)
    assert found.described("east") == told


def test_a_rule_is_told_with_what_it_matches() -> None:
    selection = selecting("orders", rename=("orders", "pay.*", "ordres"))
    told = [found.described("east") for found in idle_patterns(selection, selection.refusals(TOPICS))]
    assert told == [
        "rename has 'pay.*': nothing of east is mirrored because of it, for topics does not have payments.eu",
        "rename has 'ordres': no topic of east that this principal is shown matches it",
    ]


def test_a_topic_that_no_rule_names_says_so() -> None:
    selection = selecting("orders", "orders-eu", rename=("orders-eu",))
    [found] = idle_patterns(selection, selection.refusals(TOPICS))
    assert found.described("east").endswith("because of it, for no rename rule matches orders")
