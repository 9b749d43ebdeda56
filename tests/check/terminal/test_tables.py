"""Tables for people: every value is there, times are times, and no line is wider than asked for."""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.store import catalog
from ledger.store.delta_tables import arrow_type
from ledger.terminal import NARROWEST, render_table

AT_MS = 1_763_801_053_123


def translation(*rows: tuple[str, int, str]) -> pa.Table:
    """Answers as wide as those of `offset_translation`: group, partition, status."""
    return pa.table(
        {
            "flow": ["east-to-west"] * len(rows),
            "group_id": [group for group, *_ in rows],
            "source_topic": ["orders"] * len(rows),
            "source_partition": [partition for _, partition, _ in rows],
            "committed_offset": [partition * 1000 for _, partition, _ in rows],
            "target_topic": ["east.orders"] * len(rows),
            "target_topic_id": ["x" * 22] * len(rows),
            "target_offset": [partition * 900 for _, partition, _ in rows],
            "status": [status for *_, status in rows],
            "absence": pa.array([None] * len(rows), pa.string()),
            "absent_since_ms": pa.array([None] * len(rows), pa.int64()),
        }
    )


TWO = translation(("billing", 0, "exact"), ("search", 11, "no_commit_empty"))


def test_without_a_width_there_is_a_line_for_each_row_with_every_column() -> None:
    header, _, *rows = render_table(TWO).splitlines()
    assert header.split() == [*TWO.column_names[:-1], "absent_since"]
    assert [row.split()[1:4] for row in rows] == [["billing", "orders", "0"], ["search", "orders", "11"]]
    assert rows[0].split()[-2:] == ["-", "-"]


def test_what_is_alike_is_said_once_and_columns_without_a_value_are_named() -> None:
    text = render_table(TWO, 80)
    caption, _, table = text.partition("without a value in any row: absence, absent_since\n")
    assert "in all rows: flow east-to-west, source_topic orders" in caption
    assert "target_topic east.orders" in caption
    assert [row.split() for row in table.splitlines()[-2:]] == [
        ["billing", "0", "0", "0", "exact"],
        ["search", "11", "11000", "9900", "no_commit_empty"],
    ]
    assert max(map(len, text.splitlines())) <= 80


def test_a_table_that_fits_is_as_it_is() -> None:
    assert render_table(TWO, 200) == render_table(TWO)


def test_one_row_is_a_list_of_its_columns() -> None:
    lines = render_table(TWO.slice(0, 1), 80).splitlines()
    assert [line.split() for line in lines[:2]] == [["flow", "east-to-west"], ["group_id", "billing"]]
    assert lines[-1].split() == ["absent_since", "-"]
    assert len(lines) == TWO.num_columns


def test_no_row_is_told() -> None:
    assert render_table(TWO.slice(0, 0), 80) == "no rows\n"


def test_rows_that_are_all_alike_are_counted() -> None:
    alike = translation(("billing", 0, "exact"), ("billing", 0, "exact"))
    assert render_table(alike, 80).splitlines()[-1] == "2 rows, all alike"


def test_long_values_are_folded() -> None:
    long = pa.table({"left": ["a" * 100, "c"], "right": ["b" * 100, "d"]})
    text = render_table(long, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert (text.count("a"), text.count("b")) == (100, 100)
    assert "left" in text.splitlines()[0]


def test_where_columns_would_be_too_narrow_each_row_is_a_paragraph() -> None:
    many = pa.table({f"name_{number}": ["a" * 30, "b" * 30] for number in range(8)})
    paragraphs = render_table(many, 80).strip().split("\n\n")
    assert [paragraph.count("name_") for paragraph in paragraphs] == [8, 8]
    assert (paragraphs[0].count("a" * 30), paragraphs[1].count("b" * 30)) == (8, 8)


def test_times_are_times_and_durations_seconds() -> None:
    answer = pa.table({"recorded_at_ms": [AT_MS, None], "lag_ms": [1_234_567, 0], "records": [5, 6]})
    header, _, first, second = render_table(answer).splitlines()
    assert header.split() == ["recorded_at", "lag_s", "records"]
    assert first.split() == ["2025-11-22", "08:44:13Z", "1,234.567", "5"]
    assert second.split() == ["-", "0.000", "6"]


def test_what_only_has_the_name_of_a_time_is_shown_as_it_is() -> None:
    """In SQL of one's own columns have the names, types and values that somebody gives them."""
    answer = pa.table({"since_ms": [2**62], "read_at_ms": ["soon"], "lag_ms": ["long"], "until_ms": [-1]})
    header, _, row = render_table(answer).splitlines()
    assert header.split() == ["since", "read_at_ms", "lag_ms", "until"]
    assert row.split() == [str(2**62), "ms", "soon", "long", "-1", "ms"]


def test_every_column_of_a_query_in_milliseconds_is_an_instant_or_a_lag() -> None:
    names = {column.name for query in catalog.queries().values() for column in query.columns}
    durations = {
        "age_ms",
        "at_risk_ms",
        "cluster_spread_ms",
        "lag_ms",
        "longest_pause_ms",
        "precision_ms",
        "spread_ms",
        "unseen_ms",
    }
    in_ms = sorted(name for name in names - durations if name.endswith("_ms"))
    assert "since_ms" in in_ms
    header, *_ = render_table(pa.table({name: [AT_MS] for name in in_ms})).splitlines()
    assert header.split() == [name.removesuffix("_ms") for name in in_ms]


def test_brackets_and_names_of_signs_are_text_and_an_empty_text_is_shown() -> None:
    text = render_table(pa.table({"group_id": ["[bold]:smile:", ""], "metadata": [None, "x"]}))
    assert "[bold]:smile:" in text
    assert text.splitlines()[-1].split() == ['""', "x"]


@pytest.mark.parametrize("name", ["\x1b[2J\x1b]0;title\x07", "\x9b31m", "a\u202eb", "line\nbreak", "\x7f"])
def test_what_a_terminal_would_obey_reaches_it_as_text(name: str) -> None:
    printed = render_table(pa.table({"group_id": [name, "plain \u00fc"]}))
    assert printed.replace("\n", "").isprintable()
    assert name.encode("unicode_escape").decode() in printed
    assert "plain \u00fc" in printed


WORDS = st.text(st.sampled_from("XYZ-."), min_size=1, max_size=120)
TABLES = st.integers(1, 14).flatmap(
    lambda width: st.lists(st.lists(WORDS, min_size=width, max_size=width), min_size=1, max_size=4)
)


@settings(print_blob=True, deadline=None, max_examples=100)
@given(TABLES, st.integers(40, 200))
def test_every_value_is_there_and_no_line_is_too_wide(rows: list[list[str]], width: int) -> None:
    columns = {f"column_{number}": list(cells) for number, cells in enumerate(zip(*rows, strict=True))}
    text = render_table(pa.table(columns), width)
    assert max(map(len, text.splitlines())) <= max(width, NARROWEST)
    told = Counter(character for character in text if character in "XYZ")
    shown = [cells if len(set(cells)) > 1 else cells[:1] for cells in columns.values()]
    assert told >= Counter(c for cells in shown for cell in cells for c in cell if c in "XYZ")
    assert text.count("column_") >= len(columns)


def test_a_sentence_is_folded_where_its_words_end() -> None:
    sentence = "east does not answer: no broker of it could be reached, and nobody knows since when exactly"
    found = {f"column_{number}": [f"{number}{'x' * 20}", f"{number}{'y' * 20}"] for number in range(8)}
    text = render_table(pa.table({**found, "message": [sentence, f"{sentence}!"]}), 80)
    assert sentence in " ".join(text.split()), "an empty line parts rows, a blank parts words"


@pytest.mark.parametrize("name", sorted(catalog.queries()))
def test_answers_of_every_query_fit_80_characters(name: str) -> None:
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in catalog.query(name).columns])
    rows = [{field.name: _value(field, number) for field in schema} for number in range(3)]
    text = render_table(pa.Table.from_pylist(rows, schema=schema), 80)
    assert max(map(len, text.splitlines())) <= 80
    for field in schema:
        assert field.name.split("_")[0] in text


def _value(field: pa.Field, number: int) -> object:
    if pa.types.is_boolean(field.type):
        return number == 1
    if pa.types.is_integer(field.type):
        return AT_MS + number if field.name.endswith("_ms") else 7_000_000 + number
    return float(number) if pa.types.is_floating(field.type) else f"a-value-of-{field.name}-{number}"
