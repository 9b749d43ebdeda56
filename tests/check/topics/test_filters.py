"""Which records a filter keeps: every rule, its edges, and what is not text."""

import pytest

from ledger.topics.naming import KEEP_ALL, Header, RecordFilter

NOT_TEXT = b"\xff\xfeorder-1"


def keeps(
    rules: RecordFilter, *, key: bytes | None = b"k", headers: tuple[Header, ...] = (), at_ms: int = 0
) -> bool:
    return rules.keeps_time(at_ms) and rules.keeps_key(key) and rules.keeps_headers(headers)


@pytest.mark.parametrize("key", [None, b"", b"k", NOT_TEXT])
def test_the_default_keeps_everything(key: bytes | None) -> None:
    assert KEEP_ALL.keeps_all
    assert keeps(KEEP_ALL, key=key, headers=((b"h", None),), at_ms=-1)


@pytest.mark.parametrize(
    ("key", "included", "excluded"),
    [
        (b"order-1", True, False),
        (b"order-", True, False),
        (b"my order-1", False, True),
        (b"order-1\n2", True, False),
        ("order-ü".encode(), True, False),
        (NOT_TEXT, False, True),
        (b"", False, True),
        (None, False, True),
    ],
)
def test_keys_match_as_whole_text_and_what_is_none_matches_nothing(
    key: bytes | None, included: bool, excluded: bool
) -> None:
    assert keeps(RecordFilter(include_keys=("order-.*",)), key=key) is included
    assert keeps(RecordFilter(exclude_keys=("order-.*",)), key=key) is excluded


def test_one_pattern_of_several_is_enough_and_exclusion_wins() -> None:
    rules = RecordFilter(include_keys=("a.*", "b.*"), exclude_keys=("ab", "bb"))
    assert [keeps(rules, key=key) for key in (b"aa", b"ba", b"ab", b"bb", b"c")] == [
        *(True, True, False, False, False)
    ]


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        ((), True),
        (((b"origin", b"probe"),), False),
        (((b"origin", b"probes"),), True),
        (((b"Origin", b"probe"),), True),
        (((b"origin", b"app"), (b"origin", b"probe")), False),
        (((b"origin", None),), True),
        (((b"origin", b"\xff"),), True),
        (((b"other", b"probe"),), True),
    ],
)
def test_any_header_of_the_name_that_matches_leaves_the_record_out(
    headers: tuple[Header, ...], kept: bool
) -> None:
    assert keeps(RecordFilter(exclude_headers=(("origin", "probe|test"),)), headers=headers) is kept


def test_every_excluded_header_counts() -> None:
    rules = RecordFilter(exclude_headers=(("a", "1"), ("b", "2")))
    assert not keeps(rules, headers=((b"b", b"2"),))
    assert keeps(rules, headers=((b"a", b"2"), (b"b", b"1")))


@pytest.mark.parametrize(
    ("at_ms", "kept"), [(-1, False), (9, False), (10, True), (19, True), (20, False), (21, False)]
)
def test_times_are_half_open(at_ms: int, kept: bool) -> None:
    assert keeps(RecordFilter(from_ms=10, until_ms=20), at_ms=at_ms) is kept


def test_rules_are_all_to_be_passed() -> None:
    rules = RecordFilter(include_keys=("a",), exclude_headers=(("h", "x"),), from_ms=5)
    assert keeps(rules, key=b"a", at_ms=5)
    assert not keeps(rules, key=b"b", at_ms=5)
    assert not keeps(rules, key=b"a", at_ms=4)
    assert not keeps(rules, key=b"a", at_ms=5, headers=((b"h", b"x"),))
