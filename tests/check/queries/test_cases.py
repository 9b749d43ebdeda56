"""Every query gives the answers that its cases expect, on DuckDB, and each change of it is caught by cases."""

from itertools import pairwise

import pytest

from ledger.facts.tables import TABLES
from ledger.store import catalog
from ledger.store.catalog import Query
from ledger.store.sql import run_query
from tests.support import query_mutants
from tests.support.cases import Case, cases_of, has_cases
from tests.support.query_mutants import VIEW_QUERIES, mutants, uncaught

# -- Cases -----------------------------------------------------------------------------------------

QUERIES = list(catalog.queries().values())
WITH_CASES = [query for query in QUERIES if has_cases(query.name)]
RELATIONS = {*(table.name for table in TABLES), *catalog.view_names(), *catalog.names_between_clusters()}
CASES = [case for query in WITH_CASES for case in cases_of(query.name)]


def test_every_query_has_cases() -> None:
    assert WITH_CASES == QUERIES


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.query}: {case.title}")
def test_case(case: Case) -> None:
    """The rows, in columns of the header's names and types; no two rows are of one grain."""
    query = catalog.query(case.query)
    found, expected = run_query(query, case.params(query), case), case.expected(query)
    assert found.to_pylist() == expected.to_pylist()
    assert found.schema.equals(expected.schema)
    grain = [tuple(row[name] for name in query.grain) for row in found.to_pylist()]
    assert len(grain) == len(set(grain))


@pytest.mark.parametrize("query", WITH_CASES, ids=lambda query: query.name)
def test_every_status_occurs(query: Query) -> None:
    rows = [row for case in cases_of(query.name) for row in case.blocks["expect"]]
    seen = {row["status"] for row in rows if "status" in row}
    assert seen == set(query.statuses)


@pytest.mark.parametrize(
    "query", [query for query in QUERIES if query.is_audit], ids=lambda query: query.name
)
def test_an_audit_has_a_case_that_passes_and_one_that_does_not(query: Query) -> None:
    assert {bool(case.blocks["expect"]) for case in cases_of(query.name)} == {True, False}


@pytest.mark.parametrize("query", WITH_CASES, ids=lambda query: query.name)
def test_the_header_says_what_is_read(query: Query) -> None:
    body = query.sql.replace("\n", " ").split()
    read = {word for before, word in pairwise(body) if before in ("from", "join")}
    assert read & RELATIONS == set(query.reads)


# -- Mutants ---------------------------------------------------------------------------------------

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
