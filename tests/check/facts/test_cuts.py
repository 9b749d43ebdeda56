"""Cut tokens."""

import base64
import json
import zlib
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import InvalidValueError
from ledger.facts.cuts import Cut, LastAppend

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
WRITERS = st.text(min_size=1, max_size=12)
PLACES = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1), st.integers(-(2**40), 2**50))
LASTS = st.dictionaries(st.tuples(NAMES, WRITERS), PLACES)
A_DAY = 17_280


@given(st.uuids(), LASTS)
def test_a_token_names_its_cut(ledger_id: object, last: dict[tuple[str, str], tuple[int, int, int]]) -> None:
    appends = [LastAppend(*key, *place) for key, place in last.items()]
    cut = Cut.of(str(ledger_id), appends)
    assert Cut.parse(cut.token) == cut
    assert sorted(cut.last) == sorted(appends)
    assert Cut.of(str(ledger_id), reversed(appends)).token == cut.token


def appends() -> Iterable[LastAppend]:
    """Of two flows both ways, each cluster's recorder, and operators."""
    tables = ["checkpoints", "high_watermarks", "operations", "topics", "writers"]
    for number, cluster in enumerate(("east", "west"), 1):
        yield from (
            LastAppend(table, f"recorder:{cluster}", 3, number * A_DAY, 1_790_000_000_000) for table in tables
        )
    for flow in ("east-to-west", "west-to-east"):
        for table in ("offset_syncs", "operations", "writers"):
            yield LastAppend(table, f"flow:{flow}", 12, 7 * A_DAY, 1_790_000_012_345)
    yield LastAppend("operations", "operator", 0, 41, 1_789_999_000_000)


def test_a_token_is_short_enough_to_be_pasted() -> None:
    assert len(Cut.of("0a6b2e3c-1d4f-4a5b-8c7d-9e8f7a6b5c4d", appends()).token) < 450


def test_a_token_can_be_read_without_this_program() -> None:
    token = Cut.of("L", [LastAppend("topics", "recorder:e", 2, 7, 1000)]).token
    packed = token.removeprefix("v2.") + "=" * (-len(token.removeprefix("v2.")) % 4)
    assert json.loads(zlib.decompress(base64.urlsafe_b64decode(packed))) == {
        "ledger": "L",
        "since_ms": 1000,
        "tables": {"topics": {"recorder:e": [2, 7, 0]}},
    }


def token_of(text: str) -> str:
    return "v2." + base64.urlsafe_b64encode(zlib.compress(text.encode())).decode().rstrip("=")


WHOLE = Cut.of("L", [LastAppend("topics", "recorder:e", 2, 7, 1000)]).token


@pytest.mark.parametrize(
    "token",
    [
        "",
        "topics=1",
        "v2.",
        "v2.nonsense",
        "v2.n\xf6",
        WHOLE[:-1],
        WHOLE[:-6],
        WHOLE + "AAAA",
        WHOLE.removeprefix("v2."),
        token_of("[]"),
        token_of("{}"),
        token_of('{"ledger":"L","since_ms":0,"tables":[]}'),
        token_of('{"ledger":"L","since_ms":0,"tables":{"topics":{"w":[1,2]}}}'),
        token_of('{"ledger":"L","since_ms":0,"tables":{"topics":{"w":[1,-2,0]}}}'),
        token_of('{"ledger":"L","since_ms":0,"tables":{"topics":{"w":[2147483648,2,0]}}}'),
        token_of('{"ledger":"L","since_ms":0,"tables":{"topics":{"w":[1,4294967296,0]}}}'),
        token_of('{"ledger":"L","since_ms":9223372036854775807,"tables":{"topics":{"w":[1,2,0]}}}'),
        token_of('{"ledger":"L","since_ms":1e999,"tables":{}}'),
        token_of('{"ledger":"L","since_ms":0,"tables":{"topics":{"\\ud800":[1,2,0]}}}'),
        token_of("[" * 100_000),
        token_of(" " * (1 << 21)),
    ],
)
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(InvalidValueError):
        Cut.parse(token)


ONE, TWO = LastAppend("a", "w", 1, 1, 1), LastAppend("b", "w", 1, 1, 1)


@pytest.mark.parametrize("last", [(TWO, ONE), (ONE, ONE), (LastAppend("a", "w", -1, 0, 0),)])
def test_what_is_no_cut(last: tuple[LastAppend, ...]) -> None:
    with pytest.raises(InvalidValueError):
        Cut("L", last)
