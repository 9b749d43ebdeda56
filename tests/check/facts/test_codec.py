"""Dataclasses as JSON objects and rows, and back: what deviates, and what later programs have written."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import pytest

from ledger.facts.codec import LEFT_OUT, decode, encode, form, inline, key
from ledger.facts.syncs import Gap, GapCause, OffsetSync, SyncKind, TopicPartition


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Inner:
    left: int = 0
    right: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    name: str
    inner: Inner = field(metadata=inline(left="first"))
    parts: tuple[Inner, ...] = ()
    maybe: Inner | None = None
    by_colour: Mapping[Colour, Inner] = field(default_factory=dict)
    before: int = field(default=1, metadata=key("former"))
    seen: tuple[int, ...] | None = field(default=None, metadata=LEFT_OUT)
    sure: int = 2
    hexed: int = field(default=0, metadata=form(hex, lambda text: int(text, 16)))


WHOLE = Outer(
    name="n",
    inner=Inner(3, ("a",)),
    parts=(Inner(4),),
    maybe=Inner(5),
    by_colour={Colour.RED: Inner(6)},
    before=7,
    seen=(8,),
    sure=9,
    hexed=255,
)
WRITTEN = {
    "name": "n",
    "first": 3,
    "right": ["a"],
    "parts": [{"left": 4, "right": []}],
    "maybe": {"left": 5, "right": []},
    "by_colour": {"red": {"left": 6, "right": []}},
    "former": 7,
    "seen": [8],
    "sure": 9,
    "hexed": "0xff",
}


def test_what_is_written_is_read_again_in_the_order_of_the_fields() -> None:
    assert json.dumps(encode(WHOLE)) == json.dumps(WRITTEN)
    assert decode(Outer, json.loads(json.dumps(WRITTEN))) == WHOLE


def test_a_key_by_which_nothing_is_said_is_left_out() -> None:
    assert "seen" not in encode(Outer(name="n", inner=Inner()))
    assert decode(Outer, {**WRITTEN, "seen": None}).seen is None


def test_keys_of_later_programs_are_ignored_and_what_is_left_out_has_its_default() -> None:
    written = {name: value for name, value in WRITTEN.items() if name != "seen"}
    assert decode(Outer, {**written, "of_tomorrow": 1}) == replace(WHOLE, seen=None)


@pytest.mark.parametrize("missing", sorted(WRITTEN.keys() - {"seen"}))
def test_a_key_that_every_object_has_is_not_made_up(missing: str) -> None:
    with pytest.raises((KeyError, TypeError), match=missing):
        decode(Outer, {name: value for name, value in WRITTEN.items() if name != missing})


def test_a_row_of_an_offset_sync_has_plain_values_in_the_columns_of_both_sides() -> None:
    sync = OffsetSync(
        source=TopicPartition("t", "T", 1),
        target=TopicPartition("u", "U", 2),
        source_leader_epoch=None,
        source_start=3,
        source_end=5,
        target_start=6,
        target_end=7,
        first_sequence=8,
        kind=SyncKind.COPIED,
        cause=None,
        gaps=(Gap(4, 5, GapCause.CONTROL),),
    )
    row = encode(sync)
    assert [row[f"source_{name}"] for name in ("topic", "topic_id", "partition")] == ["t", "T", 1]
    assert [row[f"target_{name}"] for name in ("topic", "topic_id", "partition")] == ["u", "U", 2]
    assert row["gaps"] == [{"source_start": 4, "source_end": 5, "cause": "control"}]
    assert (type(row["kind"]), type(row["gaps"][0]["cause"])) == (str, str)
    assert decode(OffsetSync, row) == sync
