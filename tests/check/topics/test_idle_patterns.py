"""Patterns that do nothing."""

import pytest

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
        (("west\\.orders",), []),  # spelt out, it is meant
        (("west[.]orders",), ["west[.]orders"]),
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
                (SelectionRefusal.EXCLUDED, "orders-eu"),
                (SelectionRefusal.RESERVED, "__offsets"),
                (SelectionRefusal.MIRRORED_BACK, "west.orders"),
            ),
            "topics has 'west.*|__.*|orders-.*': nothing of east is mirrored because of it, for orders-eu is "
            "excluded, __offsets begins as names of tools' topics do, "
            "west.orders has the name of a copy from the target",
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
