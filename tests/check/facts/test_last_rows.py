"""Last rows by what was noted of them are those of all rows, whatever clocks, merges and other writers do.

MIRROR_LEDGER_SEED repeats a run.
"""

import os
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ledger.errors import InvalidValueError
from ledger.facts.last_rows import (
    GRAINS,
    NOTHING,
    FileStamps,
    LastPlace,
    Noted,
    Split,
)
from tests.simulation.ledger.last_rows import MemoryLastRows, last_of_each, read_last_rows

SEEDS = [int(os.environ["MIRROR_LEDGER_SEED"])] if "MIRROR_LEDGER_SEED" in os.environ else range(1, 41)
TABLE = "high_watermarks"
WRITERS = ("recorder:east", "recorder:west", "recorder:north")
Row = dict[str, Any]


@dataclass
class Model:
    """A table of small files that are appended and merged; some processes noted its last rows and kept them."""

    rng: random.Random
    skews_ms: Mapping[str, int]
    files: dict[str, list[Row]] = field(default_factory=dict)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    kept: list[MemoryLastRows] = field(default_factory=list)
    now_ms: int = 1_000_000
    made: int = 0
    done: Counter[str] = field(default_factory=Counter)

    def step(self) -> None:
        self.now_ms += self.rng.choice((0, 5, 500, 40_000))
        self.rng.choice((self.append, self.append, self.append, self.claim, self.merge, self.note))()

    def append(self) -> None:
        """Stamped before it is committed: others come in between."""
        writer = self.rng.choice(WRITERS)
        epoch, number = self.places.get(writer, (1, 0))
        self.places[writer] = epoch, number + 1
        at_ms = self.now_ms + self.skews_ms[writer] - self.rng.choice((0, 0, 20, 1_000))
        topics = self.rng.sample("abcdef", self.rng.randint(1, 3))
        self.add([self.row(writer, epoch, number + 1, at_ms, topic) for topic in topics])

    def row(self, writer: str, epoch: int, number: int, at_ms: int, topic: str) -> Row:
        stamp = {"writer": writer, "writer_epoch": epoch, "round": number, "recorded_at_ms": at_ms}
        place = {"cluster": writer, "topic": topic, "topic_id": topic, "partition": 0}
        return {**stamp, **place, "high_watermark": self.made}

    def add(self, rows: list[Row]) -> None:
        self.made += 1
        self.files[str(self.made)] = rows

    def claim(self) -> None:
        writer = self.rng.choice(WRITERS)
        epoch, _ = self.places.get(writer, (0, 0))
        self.places[writer] = epoch + 1, 0

    def merge(self) -> None:
        if len(self.files) > 1:
            chosen = self.rng.sample(sorted(self.files), self.rng.randint(2, min(6, len(self.files))))
            self.add([row for name in chosen for row in self.files.pop(name)])

    def note(self) -> None:
        """By whatever was noted before; it is of use only later, or never."""
        known = self.rng.choice([None, *self.kept])
        found = read_last_rows(TABLE, self.files, known)
        noted = Noted.of(found.noted.rows, found.noted.until, now_ms=self.now_ms)
        self.kept.append(replace(found, noted=noted))

    def check(self) -> None:
        every = [row for rows in self.files.values() for row in rows]
        expected = newest(every)
        for known in self.kept:
            found = read_last_rows(TABLE, self.files, known)
            assert newest(found.last) == expected
            assert found.noted.rows == len(every)
            assert {writer: at.place for writer, at in found.noted.until.items()} == furthest(every)
            self.done["short" if found.read < len(every) else "full"] += 1


def newest(rows: Any) -> dict[tuple[str, str], int]:
    """By cluster and topic the mark of the row recorded last; of one append no topic has two."""
    found: dict[tuple[str, str], int] = {}
    for row in sorted(rows, key=lambda row: (row["writer"], row["writer_epoch"], row["round"])):
        found[row["cluster"], row["topic"]] = row["high_watermark"]
    return found


def furthest(rows: list[Row]) -> dict[str, int]:
    places: dict[str, int] = {}
    for row in rows:
        place = (row["writer_epoch"] << 32) + row["round"]
        places[row["writer"]] = max(place, places.get(row["writer"], 0))
    return places


def test_a_short_read_finds_what_a_full_one_finds() -> None:
    done: Counter[str] = Counter()
    for seed in SEEDS:
        rng = random.Random(seed)
        skew_ms = rng.choice((0, 3_000, 3_600_000))
        model = Model(rng, {writer: rng.randint(-skew_ms, skew_ms) for writer in WRITERS}, done=done)
        try:
            for number in range(60):
                model.step()
                if number % 6 == 5:
                    model.check()
        except AssertionError as error:
            raise AssertionError(f"MIRROR_LEDGER_SEED={seed}: {error}") from error
    if len(SEEDS) > 1:
        assert done["short"] > 500
        assert done["full"] > 100, "clocks were wrong, and it was noticed"


AT = LastPlace(2, 7, 500_000)
NOTED = Noted(100, {"w": AT, "v": LastPlace(9, 1, 499_000)}, settled_ms=490_000)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (FileStamps("f", 3, ("w", "w"), 2, 7, 999_999), True),
        (FileStamps("f", 3, ("w", "w"), 2, 8, 1), False),
        (FileStamps("f", 3, ("w", "w"), 3, 0, 1), False),
        (FileStamps("f", 3, ("w", "w"), 1, 9_999, 1), True),
        (FileStamps("f", 3, ("u", "u"), 1, 1, 1), False),
        (FileStamps("f", 3, ("v", "w"), 1, 1, 490_000), True),
        (FileStamps("f", 3, ("v", "w"), 1, 1, 490_001), False),
        (FileStamps("f", 3, last_ms=490_000), True),
        (FileStamps("f", 3), False),
        (FileStamps("f", None, ("w", "w"), 2, 7, 1), False),
    ],
)
def test_which_files_seem_to_have_been_there(file: FileStamps, *, expected: bool) -> None:
    assert file.seems_noted(NOTED) is expected


def test_rows_that_were_left_out_are_counted() -> None:
    """S1: of 100 rows noted 97 lie in files that are left out, so three lie in those that are read."""
    files = [FileStamps("old", 97, ("w", "w"), 1, 5, 1), FileStamps("new", 9, ("w", "w"), 2, 9, 1)]
    split = Split.of(files, NOTED)
    assert ([file.path for file in split.read], split.left_out_rows) == (["new"], 97)
    assert split.misses_nothing(NOTED, noted_rows_read=3)
    assert not split.misses_nothing(NOTED, noted_rows_read=2)
    assert not split.misses_nothing(NOTED, noted_rows_read=4)
    assert Split.of(files, NOTHING) == Split(tuple(files), 0)


def test_of_an_append_all_rows_of_a_combination_are_last() -> None:
    rows = [
        {"writer": "w", "writer_epoch": epoch, "round": number, "event": "alive", "flow": "f", "host": host}
        for epoch, number, host in ((1, 9, "a"), (1, 10, "b"), (1, 10, "c"), (1, 2, "d"), (2, 0, "e"))
    ]
    assert [row["host"] for row in last_of_each(rows, GRAINS["writers"])] == ["b", "c", "e"]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="no table has 1 rows"):
        Noted(1, NOTED.until, 0)
    with pytest.raises(InvalidValueError, match="no table has"):
        Noted(1, {"w": LastPlace(-1, 0, 0)}, 0)
