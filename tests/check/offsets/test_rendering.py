"""Answers as text."""

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import UsageError
from ledger.offsets.rendering import RENDERERS, render_csv, render_json, render_kafka_reset
from ledger.offsets.statuses import TranslationStatus
from tests.support.hostile_names import HOSTILE, UNWRITABLE

TRANSLATION = pa.table(
    {
        "flow": ["f"] * 6,
        "group_id": ["g1", 'comma, and "quote"', "g3", "line\nbreak", None, "g6"],
        "target_topic": ["x", "x", None, "x", "x", "y"],
        "target_topic_id": ["X", "X", None, "X", "X", "Y"],
        "target_partition": pa.array([0, 11, None, 0, 0, 2], pa.int32()),
        "target_offset": [100, 0, None, 5, 6, 2**40],
        "status": ["exact", "at_end", "no_map", "exact", "exact", "truncated"],
        "absence": pa.array([None] * 6, pa.string()),
    }
)


PLACE: dict[str, object] = {"group_id": "g", "target_topic": "x", "target_topic_id": "X"}
PLACE |= {"target_partition": 0, "target_offset": 7, "status": "exact", "absence": None}


def test_kafka_reset_has_no_header_and_quotes_as_the_tool_reads() -> None:
    reset = render_kafka_reset(TRANSLATION)
    assert reset.csv == 'g1,x,0,100\n"comma, and ""quote""",x,11,0\ng6,y,2,1099511627776\n'


def test_what_the_tool_cannot_hold_is_left_out_and_named() -> None:
    reset = render_kafka_reset(TRANSLATION)
    assert reset.left_out.column("group_id").to_pylist() == ["g3", None]
    assert reset.unwritable.column("group_id").to_pylist() == ["line\nbreak"]
    assert reset.left_out.schema == reset.unwritable.schema == TRANSLATION.schema


def translation_of(status: str, absence: str | None = None) -> pa.Table:
    offset = None if status in NEVER else 7
    row = {"group_id": "g", "target_topic": "x", "target_topic_id": "X", "target_partition": 0}
    return pa.Table.from_pylist([{**row, "target_offset": offset, "status": status, "absence": absence}])


NEVER = ("no_map", "other_incarnation", "other_target_incarnation")
BY_NAME = ("lost", "expired_on_target", "ahead", "gone", "hidden", "no_commit")
ALWAYS = (
    *("no_commit_empty", "before_first", "unplaced", "extras", "others"),
    *("truncated", "rewound", "exact", "at_end"),
)


def test_the_file_holds_what_is_accepted_by_name_and_never_what_has_no_offset() -> None:
    statuses = list(TranslationStatus)
    assert sorted((*NEVER, *BY_NAME, *ALWAYS)) == sorted(statuses)
    for status in statuses:
        plain, accepted = (render_kafka_reset(translation_of(status), named) for named in ((), (status,)))
        assert bool(plain.csv) == (status in ALWAYS), status
        assert bool(accepted.csv) == (status not in NEVER), status
        others = [name for name in statuses if name != status]
        assert render_kafka_reset(translation_of(status), others).csv == plain.csv


def test_a_commit_that_is_gone_is_to_be_accepted_as_such_whatever_its_place() -> None:
    lost = translation_of("lost", "gone")
    assert [render_kafka_reset(lost, named).csv for named in (("lost",), ("gone",), ("lost", "hidden"))] == [
        ""
    ] * 3
    assert render_kafka_reset(lost, ("lost", "gone")).csv == "g,x,0,7\n"
    assert render_kafka_reset(translation_of("before_first", "hidden")).left_out.num_rows == 1


def test_the_topics_of_the_file_are_named_with_their_ids() -> None:
    topics = render_kafka_reset(TRANSLATION).topics
    assert topics.to_pylist() == [
        {"target_topic": "x", "target_topic_id": "X"},
        {"target_topic": "y", "target_topic_id": "Y"},
    ]


@pytest.mark.parametrize("name", [*HOSTILE, *UNWRITABLE])
def test_a_line_holds_any_name_that_the_tool_can_be_given(name: str) -> None:
    reset = render_kafka_reset(pa.Table.from_pylist([PLACE | {"group_id": name}]))
    assert list(csv.reader(io.StringIO(reset.csv, newline=""))) == (
        [[name, "x", "0", "7"]] if name in HOSTILE else []
    )
    assert (reset.csv.count("\n"), reset.unwritable.num_rows) == ((1, 0) if name in HOSTILE else (0, 1))


@pytest.mark.parametrize(
    "place",
    [
        {"target_topic": ""},
        {"target_topic": "a,b"},
        {"target_topic": "a\nb"},
        {"target_topic": "\u00fc"},
        {"target_topic": "x" * 250},
        {"target_partition": -1},
        {"target_offset": -1},
    ],
)
def test_a_place_that_kafka_cannot_have_is_in_no_file(place: dict[str, object]) -> None:
    """The tool drops the whole file for one line with it."""
    reset = render_kafka_reset(pa.Table.from_pylist([PLACE, PLACE | place]))
    assert (reset.csv, reset.unwritable.num_rows, reset.left_out.num_rows) == ("g,x,0,7\n", 1, 0)
    assert reset.topics.num_rows == 1


@settings(print_blob=True, deadline=None)
@given(st.lists(st.lists(st.none() | st.text(), min_size=2, max_size=2)))
def test_every_value_comes_back_from_csv_and_json(rows: list[list[str | None]]) -> None:
    answer = pa.Table.from_pylist(
        [dict(zip("ab", row, strict=True)) for row in rows],
        schema=pa.schema({"a": pa.string(), "b": pa.string()}),
    )
    read = list(csv.reader(io.StringIO(render_csv(answer), newline="")))
    assert read == [["a", "b"], *([value or "" for value in row] for row in rows)]
    text = render_json(answer)
    assert json.loads(text) == answer.to_pylist()
    assert all(line.isprintable() for line in text.split("\n"))


def test_an_empty_text_is_told_from_null_in_csv() -> None:
    answer = pa.table({"group_id": ["", None], "n": [1, 2]})
    assert render_csv(answer) == 'group_id,n\n"",1\n,2\n'


def test_json_has_every_value_that_a_statement_may_compute() -> None:
    answer = pa.table(
        {
            "time": [datetime(2026, 11, 1, 12, tzinfo=UTC)],
            "day": [date(2026, 11, 1)],
            "price": [Decimal("1.50")],
            "bytes": [b"\x00\xff"],
            "nan": [float("nan")],
            "far": [[float("inf"), 1.5]],
        }
    )
    assert json.loads(render_json(answer), parse_constant=str.upper) == [
        {
            "time": "2026-11-01T12:00:00+00:00",
            "day": "2026-11-01",
            "price": "1.50",
            "bytes": "00ff",
            "nan": "nan",
            "far": ["inf", 1.5],
        }
    ]


@pytest.mark.parametrize("form", RENDERERS)
def test_times_that_no_calendar_has_are_refused_by_name(form: str) -> None:
    answer = pa.table({"a": [1], "far": pa.array([2**62], pa.timestamp("us"))})
    with pytest.raises(UsageError, match="'far' has values that cannot be printed"):
        RENDERERS[form](answer)


def test_columns_of_one_name_are_refused_where_one_would_hide_the_other() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(UsageError, match="several columns are named 'a'"):
        render_json(twice)
    assert render_csv(twice) == "a,a\n1,2\n"


def test_nothing_to_reset() -> None:
    reset = render_kafka_reset(TRANSLATION.slice(0, 0))
    assert (reset.csv, reset.left_out.num_rows) == ("", 0)


def test_json_is_objects_keyed_by_column() -> None:
    assert json.loads(render_json(TRANSLATION)) == TRANSLATION.to_pylist()


def test_csv_has_a_header_and_empty_fields_for_null() -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv(TRANSLATION))))
    assert rows[2] == {
        "flow": "f",
        "group_id": "g3",
        "target_topic": "",
        "target_topic_id": "",
        "target_partition": "",
        "target_offset": "",
        "status": "no_map",
        "absence": "",
    }


def test_renderers_by_name() -> None:
    assert set(RENDERERS) == {"table", "json", "csv"}
