"""The check of a failover must see every way in which one can go wrong."""

import pytest

from ledger.sandbox.reading import PlacedRecord, Record
from ledger.sandbox.resumption import compare

AT = ("orders", 0)


def placed(*serials: int) -> list[PlacedRecord]:
    return [PlacedRecord(serial, Record(None, b"%d" % serial, (), serial), 1) for serial in serials]


@pytest.mark.parametrize(
    ("survivors", "read", "resumed", "skipped", "repeated", "in_order"),
    [
        ((0, 1, 2, 3), (0, 1), (2, 3), 0, 0, True),
        ((0, 1, 2, 3), (), (0, 1, 2, 3), 0, 0, True),
        ((0, 1, 2, 3), (0, 1, 2, 3), (), 0, 0, True),
        ((1, 3), (0, 1), (3,), 0, 0, True),  # compaction took 0 and 2 meanwhile
        ((0, 1, 2, 3), (0, 1), (3,), 1, 0, True),
        ((0, 1, 2, 3), (0, 1), (1, 2, 3), 0, 1, True),
        ((0, 1, 2, 3), (0, 1), (2, 2, 3), 0, 1, True),
        ((0, 1, 2, 3), (0, 1), (3, 2), 0, 0, False),
        ((0, 1, 2, 3), (0, 1), (2, 9), 1, 1, True),
        ((0, 1, 2, 3), (0, 1), (), 2, 0, True),
    ],
)
def test_differences_are_counted(
    survivors: tuple[int, ...],
    read: tuple[int, ...],
    resumed: tuple[int, ...],
    skipped: int,
    repeated: int,
    in_order: bool,
) -> None:
    (found,) = compare("g", {AT: placed(*survivors)}, {AT: placed(*read)}, {AT: placed(*resumed)})
    assert (found.skipped, found.repeated, found.is_in_order) == (skipped, repeated, in_order)
    assert found.is_exact == (skipped == 0 and repeated == 0 and in_order)


def test_a_partition_that_was_not_resumed_is_skipped() -> None:
    (found,) = compare("g", {AT: placed(0, 1)}, {AT: placed(0)}, {})
    assert (found.expected, found.read_on_target, found.skipped) == (1, 0, 1)


def test_the_message_has_the_numbers() -> None:
    (found,) = compare("g", {AT: placed(0, 1, 2)}, {AT: placed(0)}, {AT: placed(2, 1, 1)})
    assert str(found) == (
        "g on orders partition 0: 2 records were unread, 3 were read on the target, 0 skipped, 1 repeated, out of order"
    )
