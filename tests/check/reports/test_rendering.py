"""Answers as text."""

import csv
import io
import json

import pyarrow as pa

from ledger.domain.offsets.offset_map import TranslationStatus
from ledger.domain.offsets.translation import UncommittedStatus
from ledger.reports.rendering import RENDERERS, render_csv, render_json, render_kafka_reset

TRANSLATION = pa.table(
    {
        "flow": ["f"] * 6,
        "group_id": ["g1", 'comma, and "quote"', "g3", "line\nbreak", None, "g6"],
        "target_topic": ["x", "x", None, "x", "x", "y"],
        "target_topic_id": ["X", "X", None, "X", "X", "Y"],
        "target_partition": pa.array([0, 11, None, 0, 0, 2], pa.int32()),
        "target_offset": [100, 0, None, 5, 6, 2**40],
        "status": ["exact", "gap", "no_map", "exact", "exact", "truncated"],
        "absence": pa.array([None] * 6, pa.string()),
    }
)


def test_kafka_reset_has_no_header_and_quotes_as_the_tool_reads() -> None:
    reset = render_kafka_reset(TRANSLATION)
    assert reset.csv == 'g1,x,0,100\n"comma, and ""quote""",x,11,0\ng6,y,2,1099511627776\n'


def test_what_the_tool_cannot_hold_is_left_out_and_named() -> None:
    left_out = render_kafka_reset(TRANSLATION).left_out
    assert left_out.column("group_id").to_pylist() == ["g3", "line\nbreak", None]
    assert left_out.schema == TRANSLATION.schema


def translation_of(status: str, absence: str | None = None) -> pa.Table:
    offset = None if status in NEVER else 7
    row = {"group_id": "g", "target_topic": "x", "target_topic_id": "X", "target_partition": 0}
    return pa.Table.from_pylist([{**row, "target_offset": offset, "status": status, "absence": absence}])


NEVER = ("no_map", "other_incarnation", "other_target_incarnation", "mirrored")
BY_NAME = ("lost", "expired_on_target", "not_yet_copied", "ahead", "gone", "hidden", "no_commit")
ALWAYS = ("no_commit_empty", "before_first", "truncated", "exact", "gap", "at_end")


def test_the_file_holds_what_is_accepted_by_name_and_never_what_has_no_offset() -> None:
    statuses = (*TranslationStatus, *UncommittedStatus)
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
