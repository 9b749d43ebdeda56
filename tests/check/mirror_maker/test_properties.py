"""Properties as Java reads them: what is expected is what `java.util.Properties` says of the same bytes."""

import pytest

from ledger.errors import InvalidValueError
from ledger.mirror_maker.properties import Property, read_properties


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("a = b ", "a", "b "),
        ("a: b", "a", "b"),
        ("a b c", "a", "b c"),
        ("a\t=\tb", "a", "b"),
        ("a", "a", ""),
        ("a =", "a", ""),
        ("a==b", "a", "=b"),
        ("a : = b", "a", "= b"),
        (r"a\=b = c", "a=b", "c"),
        (r"a\ b = c", "a b", "c"),
        (r"a\:b:c", "a:b", "c"),
        (r"a = x\\.y", "a", r"x\.y"),
        (r"a = x\.y", "a", "x.y"),
        (r"a = \t\n\z", "a", "\t\nz"),
        (r"a = \u0041\u00e4", "a", "A\u00e4"),
        (r"a = \ud83d\ude00", "a", "\U0001f600"),
        ("a = b # no comment", "a", "b # no comment"),
        ("a->b.topics = x", "a->b.topics", "x"),
        ("a -> b.topics = x", "a", "-> b.topics = x"),
        ('"a": "",', '"a"', '"",'),
        ("  \f a = b", "a", "b"),
        ("a = b\\\n   c\\\n\td", "a", "bcd"),
        ("a = b\\\n# c", "a", "b# c"),
        ("a = b\\\\\nc = d", "a", "b\\"),
        ("a = b\\", "a", "b"),
        ("a = b\\\r\n  c", "a", "bc"),
    ],
)
def test_a_line_is_read_as_java_reads_it(text: str, key: str, value: str) -> None:
    assert read_properties(text.encode())[0] == Property(key, value, 1)


def test_lines_without_a_property_are_left_out_and_others_keep_their_numbers() -> None:
    text = "# one\n\n   ! two\na = b\\\n c\n\nd = e"
    assert read_properties(text.encode()) == [Property("a", "bc", 4), Property("d", "e", 7)]


def test_repeated_keys_stay_in_order() -> None:
    assert [one.value for one in read_properties(b"a = 1\na = 2\r a = 3")] == ["1", "2", "3"]


def test_bytes_are_iso_8859_1() -> None:
    assert read_properties("a = \u00e4".encode())[0].value == "\u00c3\u00a4"


@pytest.mark.parametrize("digits", [r"\u12", r"\u12g4", r"\u"])
def test_a_broken_code_is_refused_as_java_does(digits: str) -> None:
    with pytest.raises(InvalidValueError, match="line 2"):
        read_properties(f"b = c\na = {digits}".encode())
