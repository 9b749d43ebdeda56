"""Some of the histories that `make soak` plays by the dozen: each is refused, or comes to its right end."""

import pytest

from tests.support.mischief import meddle


@pytest.mark.parametrize(
    ("seed", "what"),
    [
        ("42", "written at east before audit: orders: orders partition 0: an application has written"),
        ("18", "set to the end at west before hand_over: not every group continues at west"),
        ("12", "read on, and recorded before promote: done"),
    ],
)
def test_what_happens_between_two_processes_is_found_by_the_next_one(seed: str, what: str) -> None:
    assert meddle(seed).startswith(what)
