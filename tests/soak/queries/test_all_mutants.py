"""Every mutant of the queries and views of which the quick tests try some."""

import pytest

from ledger import catalog
from tests.support import view_mutants
from tests.support.cases import cases_of
from tests.support.query_mutants import ONE_IN, Bench, uncaught


@pytest.mark.parametrize("name", sorted(ONE_IN))
def test_every_mutant_is_caught(name: str) -> None:
    sql = catalog.query(name).sql
    benches = [Bench.of(catalog.query(name), case) for case in cases_of(name)]
    assert uncaught(name, sql, benches, one_in=1) == []


@pytest.mark.parametrize("view", catalog.view_names())
def test_every_mutant_of_a_view_is_caught(view: str) -> None:
    benches = view_mutants.benches_of(view)
    assert benches
    assert all(bench.meets_its_case() for bench in benches)
    assert view_mutants.uncaught_of(view, one_in=1) == []
