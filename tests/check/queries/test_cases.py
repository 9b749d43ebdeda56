"""Every query gives the answers that its cases expect, on DuckDB."""

from itertools import pairwise

import pytest

from ledger.facts.tables import TABLES
from ledger.store import catalog
from ledger.store.catalog import Query
from ledger.store.sql import run_query
from tests.support.cases import Case, cases_of, has_cases

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
