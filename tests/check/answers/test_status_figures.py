"""Figures of a flow by its lag, and by what a failover would lose."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ledger.answers.lag import Lag, LagState, figures_of
from ledger.changeover.losses import losses
from ledger.config.values import Objective
from tests.support.seen_pairs import LAGGING

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
KEYS = [
    *(Objective.MAX_LAG_RECORDS, Objective.MAX_LAG_SECONDS),
    *(Objective.MAX_LOSS_RECORDS, Objective.MAX_LOSS_SECONDS),
]
Known = tuple[float | None, bool]


def figures(lag: Lag, *rows: Mapping[str, Any]) -> list[Known]:
    found = list(figures_of("f", lag, losses(rows), fresh_seconds=60.0))
    assert [(figure.objective, figure.of) for figure in found] == [(key, "f") for key in KEYS]
    return [(figure.value, figure.is_at_least) for figure in found]


def test_what_is_known_is_as_it_was_measured() -> None:
    assert figures(LAG, LAGGING) == [(7, False), (3.5, False), (21, False), (5.0, False)]


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


def test_a_flow_whose_topics_have_all_ended_loses_nothing() -> None:
    ended = replace(LAG, state=LagState.CAUGHT_UP, partitions=0)
    assert figures(ended) == [(0, False)] * 4
    assert figures(replace(ended, state=LagState.UNKNOWN))[2] == (None, True)
