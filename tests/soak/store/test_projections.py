"""A history of hours is projected in hours, and answered at cuts between and in them."""

import pytest

from ledger.store import projections
from ledger.store.projections import Block
from tests.benchmarks.long_ledgers import (
    Length,
    write_ledger,
)
from tests.support.fakes import FakeClock
from tests.support.projected_ledgers import ASKED, Grown, require_same

HOURS = Length(1_300, 3, is_both_ways=True)
"""Its first hour ends in round 560, the next one 720 rounds later."""


@pytest.fixture(scope="module")
def of_hours(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    path = str(tmp_path_factory.mktemp("hours") / "ledger")
    write_ledger(path, HOURS)
    grown = Grown(path, FakeClock(HOURS.end_ms / 1000), HOURS.rounds)
    with pytest.MonkeyPatch.context() as small:
        small.setattr(projections, "LEAST_ROWS", 1_000)
        small.setattr(projections, "FANOUT", 3)
        grown.extend()
    return grown


def test_a_history_is_projected_in_hours_and_answers_at_its_cuts_are_the_same(of_hours: Grown) -> None:
    files = of_hours.files("offset_syncs")
    each = 2 * HOURS.partitions
    rows = sorted(Block.read(file).noted.rows for file in files)
    assert rows == [each * rounds for rounds in (559, 1_279, 1_300, 1_300)]
    require_same(of_hours.at_round(1_100), asked=len(ASKED))
    for number in (559, 560, 1_279, 1_300):
        require_same(of_hours.at_round(number), asked=2)
    require_same(of_hours.at_round(40), is_narrowed=False)
