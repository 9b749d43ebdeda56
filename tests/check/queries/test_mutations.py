"""Every query is changed in one place at a time, and each change must be caught by the query's cases."""

import pytest

from ledger import catalog
from ledger.catalog import Query
from tests.support.cases import cases_of, has_cases
from tests.support.query_mutants import ONE_IN, Bench, uncaught

QUERIES = [query for query in catalog.queries().values() if has_cases(query.name)]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_every_mutant_is_caught(query: Query) -> None:
    benches = [Bench.of(query, case) for case in cases_of(query.name)]
    assert all(bench.is_met_by(query.sql) for bench in benches)
    assert uncaught(query, benches, one_in=ONE_IN.get(query.name, 1)) == []
