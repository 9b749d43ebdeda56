"""Every condition of a query or a view matters: without it, or turned, a case of a query that reads it fails."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from typing import Protocol

import duckdb

from ledger.store import catalog
from ledger.store.catalog import Query, parse_query
from ledger.store.sql import opened, register, register_params
from tests.support.cases import Case, cases_of
from tests.support.group_cases import QUERY, SEEDS, SIDES, lived_case

# -- Queries ---------------------------------------------------------------------------------------
# Mutants are texts in memory, run on DuckDB. One that no case can tell from the query is either a missing case
# or a condition that is not needed: write the query without it, or list it in `EQUIVALENT` with the reason.

EQUIVALENT: Mapping[str, frozenset[str]] = {
    "audit_l5_produce_before_record": frozenset(
        {
            # A claim that no reading is below has none to be compared with.
            "where o.lowest < o.target_end: < -> <=",
        }
    ),
    "failover_loss": frozenset(
        {
            # The difference of equal times is 0.
            "case when a.at_ms < e.measured_at_ms then 0 else a.at_ms - e.measured_at_ms end as age_ms,: < -> <=",
            "when a.at_ms < e.measured_at_ms then 0: < -> <=",
        }
    ),
    "covered_ends": frozenset(
        {
            # The difference of equal offsets is 0.
            "when e.high_watermark < m.target_end + coalesce(s.records, 0) then 0: < -> <=",
        }
    ),
    "cluster_commits": frozenset(
        {
            # A commit is not another offset than itself.
            "when c.age < a.age and coalesce(a.committed_offset <> c.committed_offset, true): < -> <=",
            # One look of a commit has age 1.
            "max(case when a.age = 1 and a.committed_offset is null then coalesce(a.absence, 'gone') end) as absence: "
            "max( -> min(",
        }
    ),
    "effective_syncs": frozenset(
        {
            # A row that starts at the cut was judged by the branch before.
            "else o.source_start < coalesce(c.cut, o.source_start + 1): < -> <=",
        }
    ),
    "current_maps": frozenset(
        # A map_number is of one flow, which is there so that a choice of flows reaches the tables.
        {"inner join sums as s using (flow, map_number);: using (flow, map_number) -> using (map_number)"}
    ),
    # It bounds what is read: commits on other topics are joined with nothing.
    "finished_groups": frozenset(
        {
            "inner join copied_topics as t on t.target_cluster = c.cluster and t.target_topic = c.topic: "
            "t.target_topic = c.topic -> true"
        }
    ),
    # A map_number is of one flow, which is there so that a choice of flows reaches the tables.
    "source_readings": frozenset(
        {
            "partition by flow, map_number: partition by flow, map_number -> partition by map_number",
            "inner join reads as r using (flow, map_number, read_order): "
            "using (flow, map_number, read_order) -> using (map_number, read_order)",
        }
    ),
    "reading_positions": frozenset(
        {"partition by flow, map_number: partition by flow, map_number -> partition by map_number"}
    ),
    "reading_levels": frozenset(
        {
            "partition by flow, map_number: partition by flow, map_number -> partition by map_number",
            "partition by flow, map_number, era: partition by flow, map_number, era -> partition by map_number, era",
            *(
                f"{function} over (partition by flow, map_number order by reading_order nulls last) as {name}: "
                "partition by flow, map_number -> partition by map_number"
                for function, name in (
                    ("lag(last_stable)", "previous_stable,"),
                    ("lag(seen_at_ms)", "previous_seen_ms"),
                )
            ),
            "min_by(e.seen_at_ms, e.reading_order) over (partition by e.flow, e.map_number, e.era) as first_seen_ms: "
            "partition by e.flow, e.map_number, e.era -> partition by e.map_number, e.era",
            # What is caught up is not told since when it is behind.
            "where e.last_stable > e.mirrored_end: > -> >=",
            "on w.flow = e.flow: w.flow = e.flow -> true",
            # What ends where the mirror stands says no more than that.
            "and w.source_end > e.mirrored_end: > -> >=",
        }
    ),
    "reading_lags": frozenset(
        {
            "partition by flow, map_number, what: partition by flow, map_number, what -> partition by map_number, what",
            "left join counted as c using (flow, map_number, reading_order);: "
            "using (flow, map_number, reading_order) -> using (map_number, reading_order)",
            "inner join known as w using (flow, map_number): using (flow, map_number) -> using (map_number)",
            # Of what was written no bytes are known.
            "partition by flow, map_number, what: partition by flow, map_number, what -> partition by flow, map_number",
        }
    ),
    # Where this is answered the two are equal.
    "supersessions": frozenset({"then min(o.target_topic_id): min( -> max("}),
    # A map_number is of one flow, which is there so that a choice of flows reaches the tables.
    "passed_stretches": frozenset(
        {
            "partition by flow, map_number, what: "
            "partition by flow, map_number, what -> partition by map_number, what"
        }
    ),
    "measured_positions": frozenset(
        {
            "inner join last_then as l using (flow, map_number, recorded_order): "
            "using (flow, map_number, recorded_order) -> using (map_number, recorded_order)",
            "inner join last_syncs as m using (flow, map_number): using (flow, map_number) -> using (map_number)",
        }
    ),
    # What ends where all is covered says no more than that.
    "uncovered_readings": frozenset({"and w.source_end > m.covered_end: > -> >="}),
    "measured_lags": frozenset(
        {
            # What ends where the mirror stands holds nothing behind it.
            "and w.source_end > s.mirrored_end: > -> >=",
            # One stretch at most reaches across a place.
            "max(case when w.source_start <= s.mirrored_end then w.source_end end) as passed_end: max( -> min(",
            # A map_number is of one flow, which is there so that a choice of flows reaches the tables.
            "on w.flow = s.flow: w.flow = s.flow -> true",
            "left join passed as w using (flow, map_number);: using (flow, map_number) -> using (map_number)",
        }
    ),
    # A log of an id, or a partition, that its topic never had is one that nothing refers to.
    "partition_ways": frozenset(
        {
            "on t.cluster = w.target_cluster: t.cluster = w.target_cluster -> true",
            "and t.topic = w.target_topic: t.topic = w.target_topic -> true",
            "on s.cluster = w.source_cluster: s.cluster = w.source_cluster -> true",
            "and s.topic = w.source_topic: s.topic = w.source_topic -> true",
        }
    ),
    # Stretches that follow each other say the same as one.
    "map_stretches": frozenset({"partition by map_number: partition by map_number -> "}),
    # What is empty is left out by all that read it.
    "old_stretches": frozenset({"where h.source_start < h.source_end: < -> <="}),
    "route_stretches": frozenset({"where source_start < sound_end;: < -> <="}),
    # Unpaired records of a link begin, and end, at places of their own.
    "link_unplaced_there": frozenset(
        "partition by k.link_number, u.source_start, u.target_start, u.target_end: "
        f"partition by k.link_number, u.source_start, u.target_start, u.target_end -> partition by {others}"
        for others in (
            "k.link_number, u.target_start, u.target_end",
            "k.link_number, u.source_start, u.target_end",
            "k.link_number, u.source_start, u.target_start",
        )
    ),
    "link_alone": frozenset(
        {
            # What the other side has come to is behind nothing.
            "where not o.is_inverse and c.source_end > o.source_end: c.source_end > o.source_end -> true",
            "where not o.is_inverse and c.source_end > o.source_end: > -> >=",
            # What only touches a stretch takes nothing from it.
            "and c.source_start < b.source_end: < -> <=",
            "and c.source_end > b.source_start: > -> >=",
            # What is empty is left out by all that read it.
            "where rest_start < rest_end;: < -> <=",
            # What both sides hold is alone at neither.
            "partition by link_number, is_there, source_start, source_end, shift: "
            "partition by link_number, is_there, source_start, source_end, shift -> "
            "partition by link_number, source_start, source_end, shift",
            # Copies at one distance do not overlap: where one begins, or ends, is its own.
            *(
                "partition by link_number, is_there, source_start, source_end, shift: "
                "partition by link_number, is_there, source_start, source_end, shift -> "
                f"partition by link_number, is_there, {others}"
                for others in ("source_end, shift", "source_start, shift")
            ),
        }
    ),
    "route_copies": frozenset(
        {
            # What only touches a stretch takes nothing from it.
            "and s.source_start < o.source_end: < -> <=",
            "and s.source_end > o.source_start: > -> >=",
        }
    ),
    "group_places": frozenset(
        {
            # What begins where the group has come to is not ahead by anything.
            "and x.piece_start < r.here_to: < -> <=",
        }
    ),
    # A pair has one class of others.
    "first_unreads": frozenset({"min(others_from) as others_from,: min( -> max("}),
    "place_counts": frozenset(
        {
            # Nothing is compared unless a time is asked about.
            "select c.pair_number, greatest(c.there_offset, p.log_start) as point: greatest( -> least(",
            "inner join pairs as p using (pair_number): using (pair_number) -> on true",
        }
    ),
    # It bounds what is read: what is caught up is not told since when it is behind.
    "partition_lags": frozenset({"where d.lag_records > 0: > -> >="}),
}
"""Query or view to mutants that give the same answers, each with its reason."""

_CONDITION = re.compile(r"(?<=\b)(on|and) (\w+\.\w+ (?:=|<|<=|>|>=|<>) \w+\.\w+)(?= |\n)")
_COMPARISON = re.compile(r"(?<= )(<=|>=|<>|<|>|=|is not null|is null)(?=[ \n)])")
_TURNED = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "=": "<>",
    "<>": "=",
    "is null": "is not null",
    "is not null": "is null",
}
_PARTITION = re.compile(r"partition by ((?:\w+\.)?\w+(?:, (?:\w+\.)?\w+)*)")
_USING = re.compile(r"using \((\w+(?:, \w+)*)\)")
_LIST = re.compile(r" in \(('\w+'(?:, '\w+')+)\)")
_WORD = re.compile(
    r"\b(left join|min\(|max\(|min_by\(|max_by\(|desc|asc|least\(|greatest\(|union all)(?=[ \n\w])"
)
_OTHER_WORD = {
    "left join": "inner join",
    "min(": "max(",
    "max(": "min(",
    "min_by(": "max_by(",
    "max_by(": "min_by(",
    "desc": "asc",
    "asc": "desc",
    "least(": "greatest(",
    "greatest(": "least(",
    "union all": "except",
}


def mutants(sql: str) -> Iterator[tuple[str, str]]:
    """Each mutant with a name: the line it changes, and how."""
    code = re.sub(r"--.*", lambda comment: " " * len(comment[0]), sql)
    for match in _CONDITION.finditer(code):
        yield _replaced(code, match.span(2), "true")
    for match in _COMPARISON.finditer(code):
        yield _replaced(code, match.span(), _TURNED[match[0]])
    for match in _WORD.finditer(code):
        yield _replaced(code, match.span(), _OTHER_WORD[match[0]])
    for match in _PARTITION.finditer(code):
        columns = match[1].split(", ")
        for others in _one_less(columns):
            yield _replaced(code, match.span(), f"partition by {', '.join(others)}" if others else "")
    for match in _USING.finditer(code):
        for others in _one_less(match[1].split(", ")):
            yield _replaced(code, match.span(), f"using ({', '.join(others)})" if others else "on true")
    for match in _LIST.finditer(code):
        for others in _one_less(match[1].split(", ")):
            yield _replaced(code, match.span(1), ", ".join(others))


def _one_less(members: Sequence[str]) -> Iterator[list[str]]:
    """The members without the first one, without the second one, and so on."""
    for left_out in range(len(members)):
        yield [member for number, member in enumerate(members) if number != left_out]


def _replaced(code: str, span: tuple[int, int], by: str) -> tuple[str, str]:
    start, end = span
    number = code.count("\n", 0, start) + 1
    line = code.splitlines()[number - 1].strip()
    return f"line {number}: {line}: {code[start:end]} -> {by}", code[:start] + by + code[end:]


def laid_out(query: Query, case: Case) -> duckdb.DuckDBPyConnection:
    """What a query reads of a case: tables, and the views that it needs, each as a table."""
    connection = _database().cursor()
    for table in catalog.tables_of(query.reads):
        register(connection, table, case.relation(table))
    for statement in catalog.views_of(query.reads).values():
        connection.execute(as_table(statement))
    register_params(connection, query.params, case.params(query))
    return connection


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Opened once; what cases lay out is temporary, and so seen on their own connections alone."""
    connection = opened()
    connection.execute("set threads = 1")
    connection.execute(
        "set memory_limit = '4GB'"
    )  # a mutant that joins everything with everything is refused
    connection.execute("set temp_directory = ''")
    return connection


def as_table(statement: str) -> str:
    """The statement of a view as one that computes it now."""
    return statement.replace("create or replace temporary view", "create or replace temporary table", 1)


class Trial(Protocol):
    """A case on which mutants are tried."""

    def is_met_by(self, sql: str) -> bool:
        """Whether a text gives the expected answer; one that is refused does not."""
        ...

    def is_met(self) -> bool:
        """Whether the case gives the expected answer as it is laid out: if not, it catches whatever is tried."""
        ...


def survivors(
    sql: str, trials: Sequence[Trial], *, one_in: int, but: Collection[str] = frozenset()
) -> Iterator[str]:
    """Names of the mutants of a text that meet every case; the case that caught the last one is tried first.

    `but`: what they change, of those that are not tried.
    """
    tried = list(trials)
    for name, mutant in islice(mutants(sql), 0, None, one_in):
        if _change(name) in but:
            continue
        caught_by = next((trial for trial in tried if not trial.is_met_by(mutant)), None)
        if caught_by is None:
            yield name
        else:
            assert caught_by.is_met(), f"what caught {name} catches everything: {caught_by}"
            tried.sort(key=lambda trial: trial is not caught_by)


def uncaught(name: str, sql: str, trials: Sequence[Trial], *, one_in: int) -> list[str]:
    """What is wrong about the mutants of a query or a view: those that meet every case, not said to be equivalent.

    Whether the equivalent ones meet every case still is found out where all mutants are tried.
    """
    equivalent = EQUIVALENT.get(name, frozenset())
    if one_in > 1:
        return list(survivors(sql, trials, one_in=one_in, but=equivalent))
    text_by_name = {mutant: _change(mutant) for mutant in survivors(sql, trials, one_in=one_in)}
    found = [mutant for mutant, text in text_by_name.items() if text not in equivalent]
    no_longer = equivalent - set(text_by_name.values())
    return found + [f"caught, no longer equivalent: {text}" for text in sorted(no_longer)]


def _change(name: str) -> str:
    """What a mutant changes, in whichever line that is now."""
    return name.split(": ", 1)[1]


# -- Queries of views that no query of the catalog reads -------------------------------------------

CURRENT_MAPS = parse_query("""-- name:    current_maps
-- answers: from where to where do maps reach, in the target that they went to last?
-- grain:   flow, source_topic, source_topic_id, source_partition
-- reads:   current_maps
-- columns: flow string, source_topic string, source_topic_id string, source_partition int, target_topic string,
--          target_topic_id string, source_start bigint, source_end bigint, target_end bigint
select
    flow, source_topic, source_topic_id, source_partition,
    target_topic, target_topic_id, source_start, source_end, target_end
from current_maps
order by flow, source_topic, source_topic_id, source_partition
""")

GROUP_MOVES = parse_query("""-- name:    group_moves
-- answers: which moves of groups are recorded?
-- grain:   operation_id, group_id, to_topic, to_partition, moved_at_ms, from_cluster, from_topic, from_partition
-- reads:   group_moves
-- columns: group_id string, from_cluster string, from_topic string, from_topic_id string, from_partition int,
--          left_offset bigint, left_leader_epoch int, left_made_after_ms bigint,
--          to_cluster string, to_topic string, to_topic_id string, to_partition int, arrived_offset bigint,
--          moved_at_ms bigint, operation_id string, kind string, move_order bigint, seen_order bigint
select *
from group_moves
order by operation_id, group_id, to_topic, to_partition, moved_at_ms, from_cluster, from_topic, from_partition
""")

DECIDED_EXTRAS = parse_query("""-- name:    decided_extras
-- answers: what was decided last about which extras?
-- grain:   cluster, topic, topic_id, partition, extra_start
-- reads:   decided_extras
-- columns: cluster string, topic string, topic_id string, partition int, extra_start bigint, extra_end bigint,
--          policy string
select *
from decided_extras
order by cluster, topic, topic_id, partition, extra_start
""")

COMMITTED_TOPICS = parse_query("""-- name:    committed_topics
-- answers: which groups have committed themselves on which topics?
-- grain:   cluster, topic, group_id
-- reads:   committed_topics
-- columns: cluster string, topic string, group_id string, is_present int
select *
from committed_topics
order by cluster, topic, group_id
""")

CLUSTER_COMMITS = parse_query("""-- name:    cluster_commits
-- answers: what have groups committed, and since when is it known?
-- grain:   cluster, group_id, topic, partition
-- reads:   cluster_commits
-- columns: cluster string, group_id string, topic string, topic_id string, partition int, committed_offset bigint,
--          first_read_ms bigint, made_after_ms bigint, absence string, absent_since_ms bigint
select
    cluster, group_id, topic, topic_id, partition, committed_offset,
    first_read_ms, made_after_ms, absence, absent_since_ms
from cluster_commits
order by cluster, group_id, topic, partition
""")

SOURCE_TRUNCATIONS = parse_query("""-- name:    source_truncations
-- answers: from which offsets on did the source of a map lose its end, and when was that recorded?
-- grain:   flow, source_topic, source_topic_id, source_partition, source_start
-- reads:   last_syncs, source_truncations
-- columns: flow string, source_topic string, source_topic_id string, source_partition int, source_start bigint,
--          recorded_at_ms bigint
select l.flow, l.source_topic, l.source_topic_id, l.source_partition, t.source_start, t.recorded_at_ms
from source_truncations as t
inner join last_syncs as l on l.map_number = t.map_number
order by l.flow, l.source_topic, l.source_topic_id, l.source_partition, t.source_start
""")

ENDED_TARGETS = parse_query("""-- name:    ended_targets
-- answers: which maps lead to a topic that is gone, or lives again?
-- grain:   flow, source_topic, source_topic_id, source_partition
-- reads:   ended_targets, last_syncs
-- columns: flow string, source_topic string, source_topic_id string, source_partition int
select l.flow, l.source_topic, l.source_topic_id, l.source_partition
from ended_targets as t
inner join last_syncs as l on l.map_number = t.map_number
order by l.flow, l.source_topic, l.source_topic_id, l.source_partition
""")

SUPERSESSIONS = parse_query("""-- name:    supersessions
-- answers: from where on is what a partition had recorded by a round no copy any more, at the source and at the target?
-- grain:   flow, source_topic, source_topic_id, source_partition, recorded_order
-- reads:   supersessions
-- columns: flow string, source_topic string, source_topic_id string, source_partition int, recorded_order bigint,
--          source_cut bigint, target_cut bigint
select flow, source_topic, source_topic_id, source_partition, recorded_order, source_cut, target_cut
from supersessions
order by flow, source_topic, source_topic_id, source_partition, recorded_order
""")

VIEW_QUERIES = (
    *(CURRENT_MAPS, GROUP_MOVES, DECIDED_EXTRAS, COMMITTED_TOPICS, CLUSTER_COMMITS),
    *(SOURCE_TRUNCATIONS, ENDED_TARGETS, SUPERSESSIONS),
)


# -- Views -----------------------------------------------------------------------------------------
# Views are tables here, computed once for each case. A mutant that gives the same rows as its view can change no
# answer; where it gives others, what reads the view is computed again.

ONE_IN = 60
"""How few of a view's mutants the quick tests try; the long ones try all."""
WITHOUT_ALL_CASES = frozenset(
    {
        "doubted_rows",
        "map_limits",
        "map_stretches",
        "voided_rows",
        "map_doubts",
        "routes",
        "route_copies",
        "route_doubts",
        "log_mirror_writes",
        "map_claims",
        "pair_ranges",
        "log_epochs",
        "log_cuts",
        "asked_groups",
        "swept_ranges",
        "there_ranges",
        "range_reads",
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
