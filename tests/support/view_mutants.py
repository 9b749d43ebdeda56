"""A view with a change in one place: a case of a query that reads it, directly or through other views, must fail.

Views are tables here, computed once for each case. A mutant that gives the same rows as its view can change no
answer; where it gives others, what reads the view is computed again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import duckdb

from ledger.store import catalog
from ledger.store.catalog import Query
from tests.support.cases import Case, cases_of
from tests.support.lived_pairs import QUERY, SEEDS, SIDES, lived_case
from tests.support.query_mutants import as_table, laid_out, uncaught
from tests.support.view_queries import VIEW_QUERIES

ONE_IN = 60
"""How few of a view's mutants the quick tests try; the long ones try all."""
WITHOUT_ALL_CASES = frozenset(
    {
        "doubted_rows",
        "map_limits",
        "map_stretches",
        "voided_rows",
        "map_doubts",
        "direct_routes",
        "route_copies",
        "route_doubts",
        "route_mirror_writes",
        "map_claims",
        "pair_ranges",
        "log_epochs",
        "log_cuts",
        "asked_groups",
        "unclaimed_writes",
        "cut_points",
        "cut_stretches",
        "pair_blocks",
        "held_ranges",
        "layer_ranges",
        "pair_pieces",
        "ahead_pieces",
    }
)
"""Views between two clusters of which mutants are left that no case and no life notices. Take out what has none."""


@dataclass(frozen=True, eq=False)
class LaidOut:
    """A case: the tables that its query reads, and each view as a table, from when it is first tried."""

    query: Query
    case: Case

    @cached_property
    def views(self) -> Mapping[str, str]:
        """What makes each view that the query needs, in their order."""
        return catalog.views_of(self.query.reads)

    @property
    def is_laid_out(self) -> bool:
        return "connection" in vars(self)

    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        return laid_out(self.query, self.case)

    @cached_property
    def expected(self) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in self.case.expected(self.query).to_pylist()]

    @cached_property
    def is_met(self) -> bool:
        """Whether the query gives the expected answer with the views as they are."""
        return self.connection.execute(self.query.sql).fetchall() == self.expected

    def answer_beyond(self, view: str) -> list[tuple[object, ...]]:
        """The query's answer, with all views computed again that read this one, directly or through others."""
        for name, statement in self.views.items():
            if name != view and view in _read_by(name):
                self.connection.execute(as_table(statement))
        return self.connection.execute(self.query.sql).fetchall()


@dataclass(frozen=True, eq=False)
class QueryBench:
    """A case on which mutants of its query are tried."""

    laid: LaidOut

    def is_met_by(self, sql: str) -> bool:
        """Whether a text gives the expected answer; one that is refused does not."""
        try:
            return self.laid.connection.execute(sql).fetchall() == self.laid.expected
        except duckdb.Error:
            return False

    def is_met(self) -> bool:
        return self.laid.is_met


@dataclass(frozen=True, eq=False)
class ViewBench:
    """A case on which mutants of one view are tried; every trial leaves it as it was."""

    view: str
    laid: LaidOut

    def is_met_by(self, sql: str) -> bool:
        """Whether the query answers as expected with another statement for the view; one that is refused does not."""
        self.laid.connection.execute("begin")
        try:
            before = self._rows()
            self.laid.connection.execute(as_table(sql))
            return self._rows() == before or self.laid.answer_beyond(self.view) == self.laid.expected
        except duckdb.Error:
            return False
        finally:
            self.laid.connection.execute("rollback")

    def is_met(self) -> bool:
        return self.laid.is_met

    def meets_its_case(self) -> bool:
        """Whether the query answers as expected with the view as it is."""
        self.laid.connection.execute("begin")
        answer = self.laid.answer_beyond(self.view)
        self.laid.connection.execute("rollback")
        return answer == self.laid.expected

    def _rows(self) -> list[str]:
        return sorted(map(repr, self.laid.connection.execute(f"from {self.view}").fetchall()))


def query_benches_of(query: str) -> list[QueryBench]:
    """The cases of a query."""
    return [QueryBench(laid) for laid in _laid_out() if laid.query.name == query]


def benches_of(view: str) -> list[ViewBench]:
    """The cases of all queries that read the view; of one between clusters, those of generated lives too.

    Those that are laid out come first, then those of queries that need few views: what they catch is caught sooner.
    """
    lives = _lives() if view in catalog.names_between_clusters() else []
    cheapest_first = sorted(_laid_out(), key=lambda laid: (not laid.is_laid_out, len(laid.views)))
    return [ViewBench(view, laid) for laid in (*cheapest_first, *lives) if view in laid.views]


def uncaught_of(view: str, *, one_in: int) -> list[str]:
    """What is wrong about the mutants of a view, as `uncaught` says it."""
    return uncaught(view, catalog.views_of([view])[view], benches_of(view), one_in=one_in)


@cache
def _read_by(view: str) -> frozenset[str]:
    """A view, and all that it reads, directly or through others."""
    return frozenset(catalog.views_of([view]))


@cache
def _laid_out() -> list[LaidOut]:
    queries = [*catalog.queries().values(), *VIEW_QUERIES]
    return [LaidOut(query, case) for query in queries for case in cases_of(query.name)]


@cache
def _lives() -> list[LaidOut]:
    return [LaidOut(QUERY, lived_case(seed, here)) for seed in SEEDS for here in SIDES]
