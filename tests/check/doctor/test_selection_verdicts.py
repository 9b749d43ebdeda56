"""Verdicts on what a flow selects, and on patterns that do nothing."""

import pytest

from ledger.doctor.checks import Check, Verdict
from ledger.doctor.flow import selected_groups, selected_topics
from ledger.doctor.results import Unmeasured
from ledger.topics.naming import IdlePattern, NamePatterns, PatternKey

MISSPELT = IdlePattern(PatternKey.TOPICS, "ordres")
GUARD = IdlePattern(PatternKey.EXCLUDE, "test-.*")
NOT_KNOWN = Unmeasured("not told")


@pytest.mark.parametrize(
    ("topics", "idle", "verdict", "measured"),
    [
        (["a", "b"], [], Verdict.OK, "2 topics: a, b"),
        (["a"], [GUARD], Verdict.OK, "1 topic: a; nothing to exclude so far: test-.*"),
        (
            ["a"],
            [GUARD, MISSPELT],
            Verdict.WARNING,
            "1 topic: a; topics has 'ordres': no topic of east that this principal is shown matches it; "
            "nothing to exclude so far: test-.*",
        ),
        (
            [],
            [MISSPELT],
            Verdict.WARNING,
            "no topic; topics has 'ordres': no topic of east that this principal is shown matches it",
        ),
    ],
)
def test_topics(topics: list[str], idle: list[IdlePattern], verdict: Verdict, measured: str) -> None:
    found = selected_topics("flow f", "east", topics, idle)
    assert (found.check, found.verdict, found.measured) == (Check.SELECTED_TOPICS, verdict, measured)
    assert (found.advice is None) == (verdict is Verdict.OK)


@pytest.mark.parametrize(
    ("include", "exclude", "verdict", "measured"),
    [
        ((".*",), (), Verdict.OK, "2 groups: billing, orders"),
        (
            ("bil.*",),
            ("test-.*", "orders"),
            Verdict.OK,
            "1 group: billing; nothing to exclude so far: test-.*",
        ),
        (
            ("billing", "order"),
            ("ship", "orders"),
            Verdict.WARNING,
            "1 group: billing; groups has 'order': no group of east that this principal is shown matches it; "
            "groups_exclude has 'ship': no group of east that this principal is shown matches it",
        ),
        (
            ("orders",),
            ("orders",),
            Verdict.WARNING,
            "no group; groups has 'orders': no group of east that this principal is shown matches it",
        ),
    ],
)
def test_groups(include: tuple[str, ...], exclude: tuple[str, ...], verdict: Verdict, measured: str) -> None:
    found = selected_groups("flow f", "east", ["billing", "orders"], NamePatterns(include, exclude))
    assert (found.check, found.verdict, found.measured) == (Check.SELECTED_GROUPS, verdict, measured)


def test_a_source_without_groups_is_in_order_while_all_are_wanted() -> None:
    found = selected_groups("flow f", "east", [], NamePatterns((".*",)))
    assert (found.verdict, found.measured) == (Verdict.OK, "no group")


def test_what_was_not_told_is_unknown() -> None:
    assert selected_topics("flow f", "east", NOT_KNOWN, [MISSPELT]).verdict is Verdict.UNKNOWN
    assert selected_groups("flow f", "east", NOT_KNOWN, NamePatterns(("a",))).verdict is Verdict.UNKNOWN
