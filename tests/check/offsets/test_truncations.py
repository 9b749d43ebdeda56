"""Where the source lost its end, as rows and recorders tell, and which commits may be older than that."""

from dataclasses import replace

import pytest

from ledger.clock import MARGIN_MS
from ledger.facts.syncs import Gap, GapCause, OffsetSync, SyncCause, SyncKind
from tests.support.algebra.translation import SeenEnd, Truncation, truncations_of
from tests.support.histories import copied, lost, superseded


@pytest.mark.parametrize(
    ("made_after_ms", "may_be_older"), [(None, True), (5_000 + MARGIN_MS, True), (5_001 + MARGIN_MS, False)]
)
def test_without_an_epoch_a_commit_may_be_older_than_a_truncation(
    made_after_ms: int | None, may_be_older: bool
) -> None:
    assert Truncation(80, 5_000).may_be_after(made_after_ms) is may_be_older


def of_epoch(epoch: int | None, sync: OffsetSync) -> OffsetSync:
    return replace(sync, source_leader_epoch=epoch)


@pytest.mark.parametrize(
    ("rows", "cuts"),
    [
        (
            [(3, copied(0, 40, 0)), (3, copied(0, 20, 0)), (5, copied(20, 30, 20)), (5, copied(30, 50, 30))],
            {(20, 2)},
        ),
        ([(3, copied(0, 40, 0)), (5, copied(40, 50, 40))], set()),
        ([(None, copied(0, 40, 0)), (5, copied(0, 50, 0))], set()),
        ([(3, lost(0, 40, 0)), (5, copied(0, 50, 0))], set()),
        ([(3, replace(copied(0, 40, 0), kind=SyncKind.ADOPTED)), (5, copied(39, 50, 40))], {(39, 1)}),
        ([(5, replace(copied(0, 40, 0), kind=SyncKind.ADOPTED)), (3, copied(0, 40, 40))], set()),
        ([(3, superseded(7, 9, 0, cause=SyncCause.SOURCE_TRUNCATED))], {(7, 0)}),
    ],
)
def test_leader_epochs_tell_of_a_truncation_that_no_driver_met(
    rows: list[tuple[int | None, OffsetSync]], cuts: set[tuple[int, int]]
) -> None:
    """The second of each cut is the row by which it is known first."""
    found = truncations_of((of_epoch(epoch, row), at) for at, (epoch, row) in enumerate(rows))
    assert {(cut.source_start, cut.recorded_at_ms) for cut in found} == cuts


@pytest.mark.parametrize(
    ("seen", "rows", "cuts"),
    [
        (SeenEnd(3, 25), [copied(20, 30, 20), copied(30, 50, 30)], {(20, 1)}),
        (SeenEnd(3, 20), [copied(20, 50, 20)], set()),  # another leader, nothing lost
        (SeenEnd(5, 90), [copied(20, 50, 20)], set()),  # of the epoch itself
        (SeenEnd(3, 31), [copied(20, 50, 20, Gap(20, 30, GapCause.COMPACTED))], {(20, 1)}),
        (SeenEnd(3, 30), [copied(20, 50, 20, Gap(20, 30, GapCause.COMPACTED))], set()),
        (SeenEnd(3, 21), [copied(20, 50, 20, Gap(20, 30, GapCause.ABORTED))], {(20, 1)}),
        (SeenEnd(3, 90), [replace(copied(20, 50, 20), kind=SyncKind.ADOPTED)], set()),
        (SeenEnd(3, 90), [lost(20, 50, 20)], set()),
    ],
)
def test_the_ends_that_recorders_saw_tell_of_what_was_never_copied(
    seen: SeenEnd, rows: list[OffsetSync], cuts: set[tuple[int, int]]
) -> None:
    """Rows of leader epoch 5 follow one of epoch 3 up to 20."""
    known = [(of_epoch(3, copied(0, 20, 0)), 0), *((of_epoch(5, row), at) for at, row in enumerate(rows, 1))]
    found = truncations_of(known, [seen])
    assert {(cut.source_start, cut.recorded_at_ms) for cut in found} == cuts
