"""Many partitions in few words."""

from collections.abc import Sequence

import pytest

from ledger.words import by_topic, number_ranges, of_topic


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([], ""),
        ([4], "4"),
        ([1, 0], "0-1"),
        ([2, 0, 1, 1], "0-2"),
        ([0, 2, 3, 4, 9], "0, 2-4, 9"),
    ],
)
def test_neighbours_are_told_together(numbers: Sequence[int], words: str) -> None:
    assert number_ranges(numbers) == words


def test_partitions_are_told_by_topic() -> None:
    assert of_topic("orders", [1]) == "orders partition 1"
    assert of_topic("orders", [1, 0, 5]) == "orders partitions 0-1, 5"
    places = [("orders", 1), ("events", 0), ("orders", 0)]
    assert by_topic(places) == "events partition 0; orders partitions 0-1"
