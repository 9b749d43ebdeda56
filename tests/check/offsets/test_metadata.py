"""Metadata of a commit is kept where both logs run in step behind it, and left out where offsets in it would lie."""

from typing import Any

import pytest

from ledger.facts.syncs import Gap, GapCause, OffsetSync, RecordedSync, SyncKind, TopicPartition
from ledger.offsets.metadata import metadata_in_step

SOURCE, TARGET = TopicPartition("orders", "S", 0), TopicPartition("east.orders", "T", 0)
Stretch = tuple[int, int, int]


def row(stretch: Stretch, *gaps: tuple[int, int], round: int = 1) -> RecordedSync:
    start, end, target = stretch
    holes = sum(until - since for since, until in gaps)
    sync = OffsetSync(
        source=SOURCE,
        target=TARGET,
        source_leader_epoch=0,
        source_start=start,
        source_end=end,
        target_start=target,
        target_end=target + end - start - holes,
        first_sequence=0,
        gaps=tuple(Gap(since, until, GapCause.CONTROL) for since, until in gaps),
        kind=SyncKind.COPIED,
        cause=None,
        first_timestamp_ms=None,
        last_timestamp_ms=None,
        records=end - start - holes,
    )
    return RecordedSync(1, round, sync)


def kept(rows: list[RecordedSync], offset: int, target: int | None, metadata: str | None = "+1,+13") -> Any:
    answer = {
        "group_id": "g",
        "source_topic": "orders",
        "source_partition": 0,
        "target_topic": "east.orders",
        "target_topic_id": "T",
        "committed_offset": offset,
        "target_offset": target,
        "metadata": metadata,
    }
    [found] = metadata_in_step([answer], [lambda *at: rows if at == ("orders", 0) else [], lambda *_at: []])
    return found["metadata"]


@pytest.mark.parametrize(
    ("rows", "offset", "target", "is_kept"),
    [
        ([row((0, 40, 0))], 20, 20, True),
        ([row((0, 40, 0)), row((40, 60, 40), round=2)], 20, 20, True),
        ([row((0, 40, 0), (10, 11)), row((40, 60, 39), round=2)], 20, 19, True),  # all gaps lie before it
        ([row((0, 40, 0), (30, 31))], 20, 20, False),
        ([row((0, 40, 0)), row((40, 60, 40), (59, 60), round=2)], 20, 20, False),
        ([row((0, 40, 0)), row((40, 60, 43), round=2)], 20, 20, False),  # others wrote between
        ([row((0, 40, 0), (20, 21)), row((40, 60, 40), round=2)], 10, 10, False),  # the two would cancel out
        ([row((0, 40, 0))], 20, 15, False),  # it is repeated from an earlier record
        ([row((0, 40, 0))], 40, 40, True),
        ([row((0, 40, 0))], 40, 39, False),
        ([row((0, 40, 0))], 50, 40, False),  # what lies between is not copied yet
        ([], 20, 20, False),
    ],
)
def test_it_is_kept_where_nothing_shifts_behind_the_commit(
    rows: list[RecordedSync], offset: int, target: int, is_kept: bool
) -> None:
    assert kept(rows, offset, target) == ("+1,+13" if is_kept else None)


def test_what_has_no_metadata_or_no_place_is_left_as_it_is() -> None:
    assert kept([row((0, 40, 0), (30, 31))], 20, 20, "") == ""
    assert kept([row((0, 40, 0), (30, 31))], 20, 20, None) is None
    assert kept([row((0, 40, 0), (30, 31))], 20, None) == "+1,+13"


@pytest.mark.parametrize("metadata", ["\0", " ", "\0\0"])
def test_what_says_nothing_is_kept_everywhere(metadata: str) -> None:
    assert kept([row((0, 40, 0), (30, 31))], 20, 20, metadata) == metadata
