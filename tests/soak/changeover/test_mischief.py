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
