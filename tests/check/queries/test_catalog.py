"""The catalog: headers, parameters, unknown names, sizes of statements, views that are computed beforehand."""

import re
from collections.abc import Iterator

import duckdb
import pytest

from ledger.errors import InvalidValueError, UsageError
from ledger.offsets.statuses import TranslationStatus
from ledger.store import catalog
from ledger.store.catalog import Named, parse_query
from ledger.store.sql import COMPUTED_FOR_A_FLOW, COMPUTED_ONCE, connect
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.checkout import CHECKOUT
from tests.support.ledger_rows import row

# -- Names and headers -----------------------------------------------------------------------------

HEADER = """-- name:    example
-- answers: which?
-- grain:   flow, topic
-- reads:   segments
-- params:  flow string, at_ms bigint
-- columns: flow string,
--          topic string
-- status:  one, two
--
-- more: this is prose
select 1
"""


def test_a_header_is_read() -> None:
    query = parse_query(HEADER)
    assert (query.name, query.answers, query.grain, query.reads) == (
        "example",
        "which?",
        ("flow", "topic"),
        ("segments",),
    )
    assert query.params == (Named("flow", "string"), Named("at_ms", "bigint"))
    assert query.columns == (Named("flow", "string"), Named("topic", "string"))
    assert query.statuses == ("one", "two")


def test_no_parameters_and_no_status() -> None:
    text = HEADER.replace("flow string, at_ms bigint", "none").replace("-- status:  one, two\n", "")
    assert (parse_query(text).params, parse_query(text).statuses) == ((), ())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("-- grain:   flow, topic\n", "", "lacks grain"),
        ("at_ms bigint", "at_ms", "name type"),
        ("at_ms bigint", "at_ms number", "name type"),
    ],
)
def test_a_wrong_header_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        parse_query(HEADER.replace(old, new))


def test_a_translation_has_all_statuses_in_their_order() -> None:
    assert catalog.query("offset_translation").statuses == tuple(TranslationStatus)


def test_an_unknown_query_lists_the_known() -> None:
    with pytest.raises(UsageError, match=r"no query 'nonsense'; known: .*offset_translation"):
        catalog.query("nonsense")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"flow": "f"}, "takes flow, at_ms, got flow"),
        ({"flow": "f", "at_ms": 1, "more": 1}, "got at_ms, flow, more"),
        ({"flow": "f", "at_ms": "1"}, "at_ms of query example is a bigint, got '1'"),
        ({"flow": "f", "at_ms": True}, "is a bigint, got True"),
        ({"flow": None, "at_ms": 1}, "is a string, got None"),
        ({"flow": "f", "at_ms": 2**63}, "is a bigint, got 9223372036854775808"),
    ],
)
def test_parameters_are_checked(values: dict[str, catalog.Value], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_query(HEADER).check(values)


def test_an_optional_parameter_may_be_left_out_and_is_null_then() -> None:
    query = parse_query(HEADER.replace("at_ms bigint", "at_ms bigint?"))
    assert query.params == (Named("flow", "string"), Named("at_ms", "bigint", is_optional=True))
    assert query.stated_parameters == "flow, [at_ms]"
    query.check({"flow": "f"})
    query.check({"flow": "f", "at_ms": None})
    query.check({"flow": "f", "at_ms": 1})
    with pytest.raises(UsageError, match=r"takes flow, \[at_ms\], got at_ms"):
        query.check({"at_ms": 1})
    with pytest.raises(UsageError, match="is a bigint, got '1'"):
        query.check({"flow": "f", "at_ms": "1"})


def test_a_number_above_0_is_checked() -> None:
    query = parse_query(HEADER.replace("at_ms bigint", "at_ms bigint>0?"))
    assert query.params[1] == Named("at_ms", "bigint", is_optional=True, is_positive=True)
    query.check({"flow": "f", "at_ms": 1})
    query.check({"flow": "f"})
    with pytest.raises(
        UsageError, match="at_ms of query example is a bigint above 0, got 0; nothing was read"
    ):
        query.check({"flow": "f", "at_ms": 0})
    with pytest.raises(InvalidValueError, match="name type"):
        parse_query(HEADER.replace("flow string, at_ms", "flow string>0, at_ms"))


def test_the_largest_values_fit() -> None:
    parse_query(HEADER).check({"flow": "", "at_ms": 2**63 - 1})
    parse_query(HEADER).check({"flow": "", "at_ms": -(2**63)})


def test_audits_are_known_by_name() -> None:
    assert [query.name[:8] for query in catalog.queries().values() if query.is_audit] == [
        f"audit_l{number}" for number in range(1, 9)
    ]


def test_what_relations_need_can_be_asked_of_an_iterator() -> None:
    assert catalog.tables_of(iter(["segments"])) == catalog.tables_of(["segments"]) == {"offset_syncs"}
    assert catalog.views_of(iter(["segments"])) == catalog.views_of(["segments"])
    assert list(catalog.views_of(iter(["segments"]))) == [
        "last_syncs",
        "supersessions",
        "effective_syncs",
        "sync_pieces",
        "segments",
    ]


def test_what_a_cte_reads_is_read_as_often_as_the_cte() -> None:
    reading = parse_query(
        HEADER.replace(
            "select 1\n",
            "with held as (\n    select a\n    from cut_offsets  -- join cut_offsets\n),\n\n"
            "both as (\n    select a\n    from held\n    union all (\n        select a\n        from held\n    )\n)\n\n"
            "select a\nfrom both inner join both as again using (a) inner join segments using (a)\n",
        )
    )
    times = catalog.times_read(reading)
    assert (times["cut_offsets"], times["segments"]) == (4, 1)
    assert {"held", "both"}.isdisjoint(times)


def test_a_recursion_reads_what_it_begins_with_once() -> None:
    walk = "with recursive walk as (\n    select a\n    from segments\n    union all\n    select a\n    from walk\n)\n"
    reading = parse_query(HEADER.replace("select 1\n", walk + "\nselect a\nfrom walk\n"))
    assert catalog.times_read(reading)["segments"] == 1


def test_every_cte_of_the_catalog_is_found() -> None:
    texts = [query.sql for query in catalog.queries().values()]
    texts += catalog.views_of((*catalog.view_names(), *catalog.names_between_clusters())).values()
    named = re.compile(r"^(?:with (?:recursive )?)?(\w+) as \($", re.MULTILINE)
    assert sum(bool(named.search(text)) for text in texts) > 20
    for text in texts:
        assert catalog.relations_read(text).keys().isdisjoint(named.findall(text)), text


# -- Sizes -----------------------------------------------------------------------------------------
# Counted are lines that hold SQL: not the header, other comments and empty lines.

MAXIMUM_LINES = 120
MAXIMUM_CTES = 7
FILES = sorted([*(CHECKOUT / "queries").glob("*.sql"), *(CHECKOUT / "ledger").rglob("*.sql")])
_STATEMENT_END = re.compile(r"(?<=;)\n")
_MADE = re.compile(r"create (?:or replace )?temporary \w+ (\w+)")
_CTE = re.compile(r"\b(\w+) as (?:materialized )?\(")


def test_statements_are_small() -> None:
    found = [problem for file in FILES for problem in size_problems(file.stem, file.read_text())]
    assert found == []


def size_problems(file: str, text: str) -> Iterator[str]:
    """What is too large of the statements of a file, by the name of what they make, else of the file."""
    code = re.sub(r"--.*", "", text)
    for statement in _STATEMENT_END.split(code):
        made = _MADE.search(statement)
        name = made[1] if made else file
        if (lines := sum(bool(line.strip()) for line in statement.splitlines())) > MAXIMUM_LINES:
            yield f"{name}: {lines} lines of SQL"
        if (ctes := len(_CTE.findall(statement))) > MAXIMUM_CTES:
            yield f"{name}: {ctes} CTEs"


def test_the_listing_sees_queries_views_and_what_engines_add() -> None:
    folders = {str(file.parent.relative_to(CHECKOUT)) for file in FILES}
    assert folders == {"queries", "ledger/views", "ledger/store", "ledger/answers", "ledger/reports"}


def statement(lines: int, ctes: int) -> str:
    """That many lines of SQL, between comments and empty ones."""
    names = [f"c{number} as (select 1)," for number in range(ctes)]
    return "\n\n".join(["-- header", *names, *["-- as (why)", "x  -- why"] * (lines - ctes - 1), "x"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (statement(120, 7), []),
        (statement(121, 7), ["file: 121 lines of SQL"]),
        (statement(120, 8), ["file: 8 CTEs"]),
        (f"create or replace temporary view small as\n{statement(119, 7)};\n{statement(120, 0)};\n", []),
        (
            f"create or replace temporary view one as\n{statement(120, 8)};\n"
            f"create temporary table two as\n{statement(9, 8)};\n",
            ["one: 121 lines of SQL", "one: 8 CTEs", "two: 8 CTEs"],
        ),
    ],
    ids=["largest", "a line too many", "a CTE too many", "each statement for itself", "names"],
)
def test_what_is_too_large_is_found(text: str, found: list[str]) -> None:
    assert list(size_problems("file", text)) == found


def test_every_file_of_views_is_read_in_its_order() -> None:
    """A view reads earlier ones; a file that is not listed would make none."""
    folder = CHECKOUT / "ledger" / "views"
    subjects = (*catalog.VIEW_SUBJECTS, *catalog.BETWEEN_SUBJECTS)
    of_files = [file.stem for file in folder.iterdir()]
    assert sorted(subjects) == sorted([*of_files, "causes"]), "that one is made of the list in Python"
    made: set[str] = set()
    names = (*catalog.view_names(), *catalog.names_between_clusters())
    for name in names:
        text = catalog.views_of([name])[name]
        later = set(names) - made
        assert not later & set(re.findall(r"\b(?:from|join) (\w+)", text)), name
        made.add(name)


# -- Views computed beforehand ---------------------------------------------------------------------


def test_they_are_views() -> None:
    assert set(catalog.view_names()) >= COMPUTED_ONCE | COMPUTED_FOR_A_FLOW


def test_queries_that_are_asked_about_no_flow_read_none() -> None:
    """Between clusters views are computed in their turn, those of a flow among them."""
    read = {
        query.name: COMPUTED_FOR_A_FLOW & set(catalog.views_of(query.reads))
        for query in catalog.queries().values()
        if "flow" not in query.parameter_names and not query.is_between_clusters
    }
    assert {name: views for name, views in read.items() if views} == {}


def test_with_a_flow_they_have_its_rows_alone_and_without_one_all() -> None:
    ledger = MemoryLedger()
    for flow in ("e->w", "e->n"):
        ledger.append("offset_syncs", [row("offset_syncs", flow=flow, kind="started")])
    at = ledger.at(ledger.latest())
    with connect(at, {}, ["current_maps"], "e->w") as of_one, connect(at, {}, ["current_maps"]) as of_all:
        assert flows_of(of_one) == ["e->w"]
        assert flows_of(of_all) == ["e->n", "e->w"]


def flows_of(connection: duckdb.DuckDBPyConnection) -> list[str]:
    rows = connection.execute("select flow from current_maps order by flow").fetchall()
    return [flow for (flow,) in rows]
