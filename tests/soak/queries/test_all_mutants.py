"""Every mutant of the queries of which the quick tests try some."""

import pytest

from ledger import catalog
from tests.support.cases import cases_of
from tests.support.query_mutants import ONE_IN, Bench, uncaught


@pytest.mark.parametrize("name", sorted(ONE_IN))
def test_every_mutant_is_caught(name: str) -> None:
    query = catalog.query(name)
    assert uncaught(query, [Bench.of(query, case) for case in cases_of(name)], one_in=1) == []
