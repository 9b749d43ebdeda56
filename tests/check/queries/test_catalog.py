"""The catalog: headers, parameters, unknown names."""

import re

import pytest

from ledger.errors import InvalidValueError, UsageError
from ledger.store import catalog
from ledger.store.catalog import Named, parse_query

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
