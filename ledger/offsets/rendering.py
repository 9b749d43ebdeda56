"""Answers as text: for people, for programs, and for Kafka's own tool."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ledger.plain_text import csv_of, csv_text, json_text, rows_of

_RESET_COLUMNS = ("group_id", "target_topic", "target_partition", "target_offset")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Names that Kafka has."""


@dataclass(frozen=True, slots=True)
class KafkaReset:
    """What `kafka-consumer-groups --reset-offsets --from-file` reads, and the rows that are not in it.

    `left_out`: without an offset, or not accepted; `unwritable`: the tool cannot be given the group or the place.
    `topics`: names and topic ids of what the file is about. It cannot hold ids: compare them with the target's.
    """

    csv: str
    left_out: pa.Table
    unwritable: pa.Table
    topics: pa.Table


def render_json(answer: pa.Table) -> str:
    """An array of objects keyed by column."""
    return json_text(rows_of(answer))


def render_csv(answer: pa.Table) -> str:
    """A header and a line per row; null is an empty field."""
    return csv_of(answer)


def render_kafka_reset(translation: pa.Table, accepted: Collection[str] = ()) -> KafkaReset:
    """Lines `group,topic,partition,offset` of the target, from a translation by one flow or between clusters.

    Left out is what has no offset, what is `ACCEPTABLE` and not `accepted`, and what the tool cannot be given. The form
    is that for several groups: without a header, read line by line.
    """
    import pyarrow.compute as pc  # every form would wait for these two

    from ledger.offsets.setting import oddities

    rows = translation.to_pylist()
    accepted_rows = [None not in _line(row) and oddities(row) <= set(accepted) for row in rows]
    is_accepted = pa.array(accepted_rows, pa.bool_())
    is_held = pc.and_(is_accepted, pa.array([_can_be_given(row) for row in rows], pa.bool_()))
    held = translation.filter(is_held)
    topics = held.group_by(["target_topic", "target_topic_id"]).aggregate([])
    return KafkaReset(
        csv=csv_text(map(_line, held.to_pylist())),
        left_out=translation.filter(pc.invert(is_accepted)),
        unwritable=translation.filter(pc.and_not(is_accepted, is_held)),
        topics=topics.sort_by([("target_topic", "ascending"), ("target_topic_id", "ascending")]),
    )


def render_table(answer: pa.Table, width: int | None = None) -> str:
    """A table for people, as `tables.render_table` has it."""
    from ledger import terminal as tables  # it brings rich, which other forms would wait for

    return tables.render_table(answer, width)


RENDERERS: Mapping[str, Callable[[pa.Table], str]] = {
    "table": render_table,
    "json": render_json,
    "csv": render_csv,
}


def _line(row: Mapping[str, Any]) -> list[Any]:
    return [row[name] for name in _RESET_COLUMNS]


def _can_be_given(row: Mapping[str, Any]) -> bool:
    """Whether the tool takes the line, and a command line the group: at one that it refuses it ends.

    Lines end at each line feed, quoted or not; it asks about members, and no broker answers of a group without a name;
    no argument of a process has a NUL.
    """
    group, topic, partition, offset = _line(row)
    if None in (group, topic, partition, offset):
        return False
    is_group = group != "" and not any(character in group for character in "\n\0")
    return is_group and _TOPIC.fullmatch(topic) is not None and min(partition, offset) >= 0
