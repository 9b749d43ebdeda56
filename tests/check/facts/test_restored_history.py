"""Which copies of a topic that is gone go back to it, and from where."""

from ledger.facts.history import FormerCopy, returning_ranges
from ledger.facts.syncs import OffsetSync, SyncKind, TopicPartition
from tests.support.former_copies import ALSO_HELD, HELD, sync

NOWHERE: frozenset[str] = frozenset()


def copied(*syncs: OffsetSync, cluster: str = "b") -> FormerCopy:
    return FormerCopy("orders", cluster, syncs)


def returning(*copies: FormerCopy, elsewhere: frozenset[str] = NOWHERE) -> tuple[tuple[int, int], ...]:
    return returning_ranges(copies, held=HELD, elsewhere=elsewhere)


def test_nothing_returns_where_nothing_was_copied() -> None:
    assert returning() == ()


def test_what_lies_together_returns_together_also_over_gaps_of_the_origin() -> None:
    first = sync((0, 10), 100, gaps=[(3, 5)])
    assert returning(copied(first, sync((10, 14), 108))) == ((100, 112),)


def test_records_of_others_between_do_not_return() -> None:
    assert returning(copied(sync((0, 10), 100), sync((10, 12), 115))) == ((100, 110), (115, 117))


def test_several_lost_incarnations_return_in_the_order_of_where_they_lie() -> None:
    older = TopicPartition("orders", "older", 0)
    assert returning(copied(sync((0, 5), 50)), copied(sync((0, 5), 10, origin=older))) == (
        *((10, 15), (50, 55)),
    )


def test_other_partitions_and_incarnations_of_the_holder_do_not_count() -> None:
    beside = TopicPartition("orders", "at-b", 1)
    assert returning(copied(sync((0, 5), 0, target=beside), sync((5, 9), 0, target=ALSO_HELD))) == ()


def test_what_cannot_be_paired_does_not_return() -> None:
    assert (
        returning(copied(sync((0, 5), 0, kind=SyncKind.UNPAIRED), sync((5, 5), 5, kind=SyncKind.STARTED)))
        == ()
    )


def test_what_comes_back_from_elsewhere_first_does_not_come_back_again() -> None:
    here = copied(sync((0, 10), 100), sync((12, 20), 110))
    there = copied(sync((2, 5), 0, target=ALSO_HELD), sync((8, 14), 3, target=ALSO_HELD), cluster="c")
    assert returning(here, there) == ((100, 118),)
    assert returning(here, there, elsewhere=frozenset({"c"})) == ((100, 102), (105, 108), (112, 118))
    assert returning(here, there, elsewhere=frozenset({"d"})) == ((100, 118),)


def test_what_elsewhere_holds_of_another_partition_takes_nothing_away() -> None:
    other = TopicPartition("orders", "lost", 1)
    there = copied(sync((0, 10), 0, origin=other, target=ALSO_HELD), cluster="c")
    assert returning(copied(sync((0, 10), 100)), there, elsewhere=frozenset({"c"})) == ((100, 110),)
