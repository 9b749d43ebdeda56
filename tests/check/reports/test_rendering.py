"""Answers as text."""

import csv
import io
import json

import pyarrow as pa
import pytest

from ledger.reports.rendering import RENDERERS, render_csv, render_json, render_kafka_reset, render_table

TRANSLATION = pa.table(
    {
        "flow": ["f"] * 6,
        "group_id": ["g1", 'comma, and "quote"', "g3", "line\nbreak", None, "g6"],
        "target_topic": ["x", "x", None, "x", "x", "y"],
        "target_partition": pa.array([0, 11, None, 0, 0, 2], pa.int32()),
        "target_offset": [100, 0, None, 5, 6, 2**40],
        "status": ["exact", "gap", "no_map", "exact", "exact", "ahead"],
    }
)


def test_kafka_reset_has_no_header_and_quotes_as_the_tool_reads() -> None:
    reset = render_kafka_reset(TRANSLATION)
    assert reset.csv == 'g1,x,0,100\n"comma, and ""quote""",x,11,0\ng6,y,2,1099511627776\n'


def test_what_the_tool_cannot_hold_is_left_out_and_named() -> None:
    left_out = render_kafka_reset(TRANSLATION).left_out
    assert left_out.column("group_id").to_pylist() == ["g3", "line\nbreak", None]
    assert left_out.schema == TRANSLATION.schema


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
        "target_partition": "",
        "target_offset": "",
        "status": "no_map",
    }


def test_a_table_shows_every_value() -> None:
    lines = render_table(TRANSLATION.slice(2, 1)).splitlines()
    assert lines[1].split() == TRANSLATION.column_names
    assert lines[3].split() == ["f", "g3", "-", "-", "-", "no_map"]


def test_a_narrow_table_folds_and_does_not_cut() -> None:
    long = pa.table({"left": ["a" * 100], "right": ["b" * 100]})
    text = render_table(long, width=80)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert (text.count("a"), text.count("b")) == (100, 100)


def test_square_brackets_are_text() -> None:
    assert "[bold]" in render_table(pa.table({"group_id": ["[bold]"]}))


def test_renderers_by_name() -> None:
    assert set(RENDERERS) == {"table", "json", "csv"}


@pytest.mark.parametrize("name", ["\x1b[2J\x1b]0;title\x07", "\x9b31m", "a\u202eb", "line\nbreak", "\x7f"])
def test_what_a_terminal_would_obey_reaches_it_as_text(name: str) -> None:
    printed = render_table(pa.table({"group_id": [name, "plain \u00fc"]}))
    assert printed.replace("\n", "").isprintable()
    assert name.encode("unicode_escape").decode() in printed
    assert "plain \u00fc" in printed
