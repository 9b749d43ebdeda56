"""Somebody meddles with an apply while nobody carries it out: nothing is lost or skipped by it."""

import random

import pytest

from tests.support.changing_histories import meddle

_HISTORIES = 40


@pytest.mark.parametrize("number", range(_HISTORIES))
def test_whatever_happens_between_two_processes_nothing_is_lost_by_it(number: int) -> None:
    seed = f"{number}-{random.SystemRandom().randrange(1_000_000)}"
    print(f"seed {seed}")  # pytest shows it where it fails
    print(meddle(seed))


@pytest.mark.parametrize(
    ("seed", "what"),
    [
        ("18", "set to the end at west before hand_over: not every group continues at west"),
        ("12", "read on, and recorded before promote: done"),
    ],
)
def test_what_happens_between_two_processes_is_found_by_the_next_one(seed: str, what: str) -> None:
    assert meddle(seed).startswith(what)
