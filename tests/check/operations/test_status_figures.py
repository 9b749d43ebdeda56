"""Figures of a flow by its lag, and by what a failover would lose."""

from dataclasses import replace

import pytest

from ledger.domain.objectives import Objective
from ledger.operations.figures.failover_loss import LossForecast
from ledger.operations.figures.status_figures import figures_of
from ledger.operations.flow_lag import Lag, LagState

LAG = Lag(
    state=LagState.BEHIND,
    partitions=2,
    unknown_partitions=0,
    overdue_partitions=0,
    records=7,
    bytes=None,
    seconds=3.5,
    seconds_bound="at_most",
    measured_at_ms=1,
    age_seconds=1.0,
    last_known_records=None,
    last_known_at_ms=None,
)
LOSS = LossForecast(partitions=2, unknown=0, records=7, estimate=2, milliseconds=4_500)
KEYS = [
    *(Objective.MAX_LAG_RECORDS, Objective.MAX_LAG_SECONDS),
    *(Objective.MAX_LOSS_RECORDS, Objective.MAX_LOSS_SECONDS),
]
Known = tuple[float | None, bool]


def figures(lag: Lag, loss: LossForecast = LOSS) -> list[Known]:
    found = list(figures_of("f", lag, loss))
    assert [(figure.objective, figure.of) for figure in found] == [(key, "f") for key in KEYS]
    return [(figure.value, figure.is_at_least) for figure in found]


def test_what_is_known_is_as_it_was_measured() -> None:
    assert figures(LAG) == [(7, False), (3.5, False), (9, False), (4.5, False)]


@pytest.mark.parametrize(
    ("lag", "expected"),
    [
        (
            replace(LAG, state=LagState.CAUGHT_UP, records=None, seconds=None, seconds_bound=None),
            [(0, False)] * 2,
        ),
        (replace(LAG, state=LagState.UNKNOWN), [(7, True), (3.5, True)]),
        (replace(LAG, state=LagState.UNKNOWN, records=None, seconds=None), [(None, True), (None, True)]),
        (replace(LAG, seconds_bound="at_least"), [(7, False), (3.5, True)]),
        (replace(LAG, seconds=None, seconds_bound=None), [(7, False), (None, True)]),
    ],
)
def test_lag_of_which_a_part_is_unknown_is_at_least_what_is_known(lag: Lag, expected: list[Known]) -> None:
    assert figures(lag)[:2] == expected


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (replace(LOSS, estimate=None), [(7, True), (4.5, False)]),
        (replace(LOSS, milliseconds=None), [(9, False), (None, False)]),
        (LossForecast(2, 1, None, None, None), [(None, True), (None, False)]),
    ],
)
def test_a_loss_that_nobody_can_tell_is_unknown(loss: LossForecast, expected: list[Known]) -> None:
    assert figures(LAG, loss)[2:] == expected


def test_a_flow_whose_topics_have_all_ended_loses_nothing() -> None:
    ended = replace(LAG, state=LagState.CAUGHT_UP, partitions=0)
    nothing = LossForecast(0, 0, None, None, None)
    assert figures(ended, nothing) == [(0, False)] * 4
    assert figures(replace(ended, state=LagState.UNKNOWN), nothing)[2] == (None, True)
