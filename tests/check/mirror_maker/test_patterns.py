"""Lists of names and expressions: they select in Python what they select in Java."""

import re

import pytest

from ledger.mirror_maker.patterns import parts_of, pattern_list
from ledger.topics.naming import matches_any


@pytest.mark.parametrize(
    ("text", "taken", "left"),
    [
        ("orders, payments", ["orders", "payments"], ["order", "orders2"]),
        ("orders.v1", ["orders.v1", "ordersxv1"], ["orders.v2"]),
        (r"orders\.v1", ["orders.v1"], ["ordersxv1"]),
        ("a|b,c", ["a", "b", "c"], ["ab"]),
        ("(a,b)c", ["ac", "bc"], ["a", "b"]),
        ("x{2}", ["xx"], ["x", "xxx"]),
        (r"\Qa.b\E.*", ["a.b", "a.bc"], ["axb"]),
        (r"\p{Alpha}+", ["abc"], ["a1"]),
        (r"[\p{Digit}_]+", ["1_"], ["a"]),
        (r"\P{Digit}", ["a"], ["1"]),
        ("(?<x>a)\\k<x>", ["aa"], ["a"]),
        (r"^orders$", ["orders"], ["x.orders"]),
        (r"(?!test)\w+", ["orders"], ["test1"]),
        ("(?i)Orders, Payments", ["ORDERS", "PAYMENTS", "payments"], []),
        ("", [], ["orders"]),
        (" , ", [], ["orders"]),
        ("orders,", ["orders"], ["x"]),
        ("[^.]*", ["a"], ["a.b"]),
        ("a*+b", ["aab"], ["aa"]),
    ],
)
def test_a_list_selects_the_same_names(text: str, taken: list[str], left: list[str]) -> None:
    found = pattern_list(text)
    assert found.refused is None
    assert [name for name in taken if not matches_any(found.patterns, name)] == []
    assert [name for name in left if matches_any(found.patterns, name)] == []
    for pattern in found.patterns:
        re.compile(pattern)


def test_parentheses_around_a_comma_are_one_expression() -> None:
    found = pattern_list("(orders,payments)")
    assert found.patterns == ("(orders|payments)",)


@pytest.mark.parametrize("text", [r"\p{Script=Greek}", "[a-z&&[^b]]", r"\R"])
def test_what_python_cannot_say_is_refused(text: str) -> None:
    assert pattern_list(text).patterns == ()
    assert "Python has no equal" in str(pattern_list(text).refused)


@pytest.mark.parametrize("text", ["x{1,3}", "(", "*"])
def test_what_java_refuses_is_refused(text: str) -> None:
    found = pattern_list(text)
    assert (found.patterns, "is no expression" in str(found.refused)) == ((), True)


def test_parts() -> None:
    assert parts_of(" a ,b,, c, ") == ["a", "b", "c"]
