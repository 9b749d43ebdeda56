"""Cut tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.cuts import Cut
from ledger.errors import InvalidValueError

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)


@given(st.dictionaries(NAMES, st.integers(0, 2**40), min_size=1))
def test_a_token_names_its_cut(versions: dict[str, int]) -> None:
    cut = Cut.of(versions)
    assert Cut.parse(cut.token) == cut
    assert cut.versions == versions


def test_the_order_of_a_token_does_not_matter() -> None:
    assert Cut.parse("v1.b=2,a=1").token == "v1.a=1,b=2"


@pytest.mark.parametrize(
    "token",
    ["", "a=1", "v2.a=1", "v1.", "v1.a", "v1.a=", "v1.a=-1", "v1.a=01", "v1.a=1,a=1", "v1.a=1,", "v1.A=1"],
)
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(InvalidValueError):
        Cut.parse(token)


@pytest.mark.parametrize("pins", [(), (("a", -1),), (("b", 1), ("a", 1)), (("a", 1), ("a", 2))])
def test_what_is_no_cut(pins: tuple[tuple[str, int], ...]) -> None:
    with pytest.raises(InvalidValueError):
        Cut(pins)
