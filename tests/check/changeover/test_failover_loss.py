"""The estimate of a loss: a range with its basis, as a whole and in words; unknown is never 0."""

from typing import Any

import pytest

from ledger.changeover.losses import loss_figures, loss_objectives, loss_words, losses, of_applications
from ledger.config.values import Objective
from ledger.facts.cut_offsets import Cut
from tests.support.loss_rows import COMPLETE, LAGGING, UNKNOWN, cut

NO_RATE = {**COMPLETE, "extra_estimate": None, "loss_at_most": None, "rate_per_second": None}


def test_a_partition_loses_what_lies_between_its_copies_and_its_end() -> None:
    [found] = losses([LAGGING])
    assert (found["copied_to"], found["known_end"], found["records"]) == (94, 110, 16)
    assert (found["at_least"], found["at_most"]) == (10, 21)
    assert (found["seconds"], found["seconds_bound"], found["precision_seconds"]) == (3.0, "at_most", 0.5)
    [first] = losses([{**LAGGING, "level_at_ms": None}])
    assert (first["seconds_bound"], first["precision_seconds"]) == ("at_least", None)


@pytest.mark.parametrize(("held", "at_least"), [(0, 16), (4, 16), (9, 11), (50, 0)])
def test_what_the_target_holds_now_may_be_of_it(held: int, at_least: int) -> None:
    """Four of it were settled: they are counted as copied already."""
    [found, other] = losses(
        [LAGGING, {**LAGGING, "source_partition": 7}], None, {("flow", "orders", 0): held}
    )
    assert (found["at_least"], found["records"], found["at_most"]) == (at_least, 16, 21)
    assert other["at_least"] == 10, "as it was recorded"


@pytest.mark.parametrize(
    ("read", "records", "estimate"),
    [
        (cut(120), 26, 0),
        (cut(100), 16, 0),
        (cut(120, is_live=False), 16, 5),
        (cut(120, topic_id="E2"), 16, 5),
        (cut(120, partition=1), 16, 5),
    ],
)
def test_what_the_cut_has_read_of_the_source_counts(read: Cut, records: int, estimate: int) -> None:
    [found] = losses([LAGGING], read)
    assert (found["records"], found["estimate"], found["at_most"]) == (records, estimate, records + estimate)
    assert found["at_least"] == records - 6
    assert (found["unseen_seconds"] == 0) is (estimate == 0)


def test_all_together_and_only_what_is_not_complete_by_itself() -> None:
    figures = loss_figures(losses([LAGGING, COMPLETE]))
    assert (figures["records_lost"], figures["records_estimated"], figures["seconds_lost"]) == (16, 5, 3.0)
    assert (figures["records_at_least"], figures["records_at_most"], figures["unseen_seconds"]) == (
        10,
        21,
        1.0,
    )
    assert [row["partition"] for row in figures["losses"]] == [0]
    assert loss_words(figures) == (
        "10 to 21 records not copied, the oldest for at most 3 s (to 0.500 s); at most 5 records came since the last "
        "reading (1970-01-01 00:00:04Z, 1 s unseen), at up to 5 a second as before"
    )
    assert loss_words(loss_figures(losses([COMPLETE]))) == (
        "all that is known of 1 partition is copied; last reading (1970-01-01 00:00:04Z, 1 s unseen)"
    )


def test_a_forecast_of_an_earlier_version_has_no_lower_end_of_its_own() -> None:
    figures = loss_figures(losses([LAGGING]))
    added = ("records_at_least", "records_at_most", "unseen_seconds", "records_per_second")
    before = {
        name: value for name, value in figures.items() if name not in (*added, "partitions_without_rate")
    }
    assert loss_words(before).startswith("16 to 21 records not copied, ")


def test_without_a_rate_there_is_no_upper_end() -> None:
    figures = loss_figures(losses([LAGGING, NO_RATE]))
    assert (figures["records_at_least"], figures["records_at_most"]) == (10, None)
    assert loss_words(figures).startswith("at least 10 records not copied, the oldest for at most 3 s")
    assert loss_words(figures).endswith(
        "; what was written after the last reading (1970-01-01 00:00:04Z, 1 s unseen) is unknown, no rate is known of "
        "1 partition"
    )


def test_what_is_unknown_of_one_partition_is_unknown_of_all() -> None:
    figures = loss_figures(losses([LAGGING, UNKNOWN]))
    for name in ("records_lost", "records_estimated", "records_at_least", "records_at_most", "seconds_lost"):
        assert figures[name] is None, name
    assert loss_words(figures) == "what is not copied is unknown of 1 partition"


def test_what_mirrors_wrote_behind_the_map_is_nobodys_loss() -> None:
    [found] = losses([LAGGING])
    assert loss_figures([of_applications(found, 0)])["losses"] == []
    figures = loss_figures([of_applications(found, 2)])
    assert (figures["records_lost"], figures["records_at_most"], figures["seconds_lost"]) == (2, 2, 3.0)


Known = tuple[float | None, bool]


def judged(*rows: dict[str, Any], fresh_seconds: float = 60.0) -> list[Known]:
    """Records, then seconds."""
    found = list(loss_objectives(losses(rows), of="f", fresh_seconds=fresh_seconds))
    assert [one.objective for one in found] == [Objective.MAX_LOSS_RECORDS, Objective.MAX_LOSS_SECONDS]
    return [(one.value, one.is_at_least) for one in found]


def test_objectives_are_compared_with_the_upper_end_and_up_to_now() -> None:
    assert judged(LAGGING, COMPLETE) == [(21, False), (5.0, False)]
    assert judged(COMPLETE) == [(0, False), (0.0, False)]
    assert judged({**LAGGING, "level_at_ms": None})[1] == (5.0, True)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([LAGGING, NO_RATE], [(10, True), (5.0, True)]),
        ([NO_RATE], [(None, True), (None, True)]),
        ([LAGGING, UNKNOWN], [(None, True), (None, True)]),
        (
            [{**LAGGING, "unseen_ms": None, "loss_at_most": None, "extra_estimate": None}],
            [(10, True), (5.0, True)],
        ),
        ([], [(None, True), (None, True)]),
    ],
)
def test_what_is_unknown_of_a_partition_is_not_known_to_be_met(
    rows: list[dict[str, Any]], expected: list[Known]
) -> None:
    assert judged(*rows) == expected


def test_a_rate_of_long_ago_says_nothing() -> None:
    assert judged(LAGGING, fresh_seconds=1.0)[0] == (21, False)
    assert judged(LAGGING, fresh_seconds=0.9)[0] == (10, True)
    assert judged(COMPLETE, fresh_seconds=0.9) == [(None, True), (None, True)], "nothing is known of now"
