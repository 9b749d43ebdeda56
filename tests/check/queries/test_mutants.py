"""Each change of a query or a view is caught by cases: of a part of them here, of all where tests are long."""

import pytest

from ledger.store import catalog
from ledger.store.catalog import Query
from tests.support import query_mutants
from tests.support.cases import has_cases
from tests.support.query_mutants import VIEW_QUERIES, mutants, uncaught

pytestmark = pytest.mark.long

ONE_IN = 30
"""How few of a query's mutants are tried; the long tests try all."""
TRIED = [query for query in catalog.queries().values() if has_cases(query.name)]

BETWEEN = [view for view in catalog.names_between_clusters() if view not in query_mutants.WITHOUT_ALL_CASES]
VIEWS = [*catalog.view_names()[::4], *BETWEEN[::12]]
"""Of views a quarter, of those between clusters a twelfth: to try them is dear, and the long tests try all."""


@pytest.mark.parametrize("query", TRIED, ids=lambda query: query.name)
def test_mutants_of_queries_are_caught(query: Query) -> None:
    benches = query_mutants.query_benches_of(query.name)
    assert uncaught(query.name, query.sql, benches, one_in=ONE_IN) == []


@pytest.mark.parametrize("view", VIEWS)
def test_mutants_of_views_are_caught(view: str) -> None:
    assert query_mutants.uncaught_of(view, one_in=query_mutants.ONE_IN) == []


@pytest.mark.parametrize("query", VIEW_QUERIES, ids=lambda query: query.name)
def test_a_view_that_no_query_reads_meets_its_cases(query: Query) -> None:
    benches = query_mutants.query_benches_of(query.name)
    assert benches
    assert all(bench.is_met() for bench in benches)


@pytest.mark.parametrize(
    ("sql", "changed"),
    [
        (
            "over (partition by a.b, c order by d)",
            ["over (partition by c order by d)", "over (partition by a.b order by d)"],
        ),
        ("over (partition by b order by d)", ["over ( order by d)"]),
        ("where k in ('a', 'b')", ["where k in ('b')", "where k in ('a')"]),
        ("where k in ('a')", []),
        (
            "from a inner join b using (k, n)",
            ["from a inner join b using (n)", "from a inner join b using (k)"],
        ),
        ("from a inner join b using (k)", ["from a inner join b on true"]),
    ],
)
def test_a_column_or_a_value_is_left_out_at_a_time(sql: str, changed: list[str]) -> None:
    assert [mutant for _, mutant in mutants(sql)] == changed
