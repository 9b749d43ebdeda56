"""Answers as text: for people, for programs, and for Kafka's own tool."""

import csv
import io
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from rich import box
from rich.console import Console
from rich.table import Table

from ledger.domain.offsets import TranslationStatus
from ledger.domain.translation import UncommittedStatus

NARROWEST = 80
_WIDEST = 10_000
_NULL = "-"
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


def render_table(answer: pa.Table, width: int | None = None) -> str:
    """Columns under their names, as wide as they need; within a `width`, long values are folded, never cut."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for field in answer.schema:
        table.add_column(field.name, justify=_justification(field.type), overflow="fold")
    for row in answer.to_pylist():
        table.add_row(*(_cell(value) for value in row.values()))
    return _printed(table, _WIDEST if width is None else max(width, NARROWEST))


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
    holds = [_fits_a_line(row) and _odd(row) <= set(accepted) for row in rows]
    lines = [[row[name] for name in _RESET_COLUMNS] for row, fits in zip(rows, holds, strict=True) if fits]
    held = pa.array(holds, pa.bool_())
    topics = translation.filter(held).group_by(["target_topic", "target_topic_id"]).aggregate([])
    return KafkaReset(
        csv=_csv(lines),
        left_out=translation.filter(pc.invert(held)),
        topics=topics.sort_by([("target_topic", "ascending"), ("target_topic_id", "ascending")]),
    )


RENDERERS: Mapping[str, Callable[[pa.Table], str]] = {
    "table": render_table,
    "json": render_json,
    "csv": render_csv,
}


def _fits_a_line(row: Mapping[str, object]) -> bool:
    values = [row[name] for name in _RESET_COLUMNS]
    return None not in values and not any(break_ in str(row["group_id"]) for break_ in "\r\n")


def _odd(row: Mapping[str, object]) -> set[object]:
    """What is to be accepted about a row: its status, and that its commit is not there any more."""
    return {row["status"], row["absence"]} & set(ACCEPTABLE)


def _csv(lines: list[list[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _cell(value: object) -> str:
    return _NULL if value is None else shown(str(value))


def shown(text: str) -> str:
    """The text as a terminal may have it: what is not printable is escaped, for anybody may name a group."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _justification(type_: pa.DataType) -> Literal["left", "right"]:
    return "right" if pa.types.is_integer(type_) or pa.types.is_floating(type_) else "left"


def _printed(table: Table, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()
