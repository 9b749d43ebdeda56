"""Many random lives of two clusters: the query and the algebra place every group alike."""

import os
import random

import pytest

from tests.support.group_cases import SIDES, answers, by_the_algebra, lives_of

SEED = int(os.environ.get("MIRROR_LEDGER_SEED", random.randrange(2**32)))
LEDGERS = 60


@pytest.mark.parametrize("number", range(LEDGERS))
def test_sql_places_groups_as_the_algebra(number: int) -> None:
    print(f"MIRROR_LEDGER_SEED={SEED + number}")
    lives = lives_of(SEED + number)
    for here in SIDES:
        found = answers(lives, here)
        for at, expected in by_the_algebra(lives, here).items():
            assert found[at] == expected, (here, at)
