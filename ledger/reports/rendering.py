"""Answers as text: for people, for programs, and for Kafka's own tool."""

import csv
import io
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ledger.domain.offsets.offset_map import TranslationStatus
from ledger.domain.offsets.translation import UncommittedStatus

_RESET_COLUMNS = ("group_id", "target_topic", "target_partition", "target_offset")
ACCEPTABLE: tuple[TranslationStatus | UncommittedStatus, ...] = (
    TranslationStatus.LOST,
    TranslationStatus.EXPIRED_ON_TARGET,
    TranslationStatus.NOT_YET_COPIED,
    TranslationStatus.AHEAD,
    TranslationStatus.GONE,
    TranslationStatus.HIDDEN,
    UncommittedStatus.NO_COMMIT,
)
"""Statuses with an offset that a reset file holds only when they are accepted by name: something was lost, may not be
what it seems, or a group begins where it never was. All others that have an offset land where nothing is skipped that
the target has."""


@dataclass(frozen=True, slots=True)
class KafkaReset:
    """What `kafka-consumer-groups --reset-offsets --from-file` reads, and the rows that are not in it.

    `topics`: names and topic ids of what the file is about. It cannot hold ids: compare them with the target's.
    """

    csv: str
    left_out: pa.Table
    topics: pa.Table


def render_json(answer: pa.Table) -> str:
    """An array of objects keyed by column."""
    return json.dumps(answer.to_pylist(), indent=2, ensure_ascii=False) + "\n"


def render_csv(answer: pa.Table) -> str:
    """A header and a line per row; null is an empty field."""
    return _csv([answer.column_names, *(list(row.values()) for row in answer.to_pylist())])


def render_kafka_reset(translation: pa.Table, accepted: Collection[str] = ()) -> KafkaReset:
    """Lines `group,topic,partition,offset` of the target, from the answer of `offset_translation`.

    Left out is what has no offset, and what is `ACCEPTABLE` and not `accepted`. The form is that for several groups:
    without a header, read line by line. So a row without a group is left out, and so is one whose group has a line
    break in its name.
    """
    rows = translation.to_pylist()
    holds = [_fits_a_line(row) and oddities(row) <= set(accepted) for row in rows]
    lines = [[row[name] for name in _RESET_COLUMNS] for row, fits in zip(rows, holds, strict=True) if fits]
    held = pa.array(holds, pa.bool_())
    topics = translation.filter(held).group_by(["target_topic", "target_topic_id"]).aggregate([])
    return KafkaReset(
        csv=_csv(lines),
        left_out=translation.filter(pc.invert(held)),
        topics=topics.sort_by([("target_topic", "ascending"), ("target_topic_id", "ascending")]),
    )


def render_table(answer: pa.Table, width: int | None = None) -> str:
    """A table for people, as `tables.render_table` has it."""
    from ledger.reports import tables  # it brings rich, which other forms would wait for

    return tables.render_table(answer, width)


RENDERERS: Mapping[str, Callable[[pa.Table], str]] = {
    "table": render_table,
    "json": render_json,
    "csv": render_csv,
}


def _fits_a_line(row: Mapping[str, object]) -> bool:
    values = [row[name] for name in _RESET_COLUMNS]
    return None not in values and not any(break_ in str(row["group_id"]) for break_ in "\r\n")


def oddities(row: Mapping[str, object]) -> set[str]:
    """What is to be accepted about a row: its status, and that its commit is not there any more."""
    return {str(status) for status in ACCEPTABLE if status in (row["status"], row["absence"])}


def _csv(lines: list[list[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
