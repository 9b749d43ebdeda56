"""What a mirror is to keep to, and what of it is not met: the allowed lag, loss, time and repeats.

A figure that nobody knows is not met: of an objective that is held to be met somebody has to know that it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ledger.domain.words.count_words import counted
from ledger.domain.words.time_words import duration


class Objective(StrEnum):
    """The keys of `[objectives]`."""

    MAX_LAG_RECORDS = "max_lag_records"
    MAX_LAG_SECONDS = "max_lag_seconds"
    MAX_LOSS_RECORDS = "max_loss_records"
    MAX_LOSS_SECONDS = "max_loss_seconds"
    MAX_DOWNTIME_SECONDS = "max_downtime_seconds"
    MAX_REPEATS_PER_GROUP = "max_repeats_per_group"


_WHAT: Mapping[Objective, tuple[str, str | None]] = {
    Objective.MAX_LAG_RECORDS: ("lag", "record"),
    Objective.MAX_LAG_SECONDS: ("lag", None),
    Objective.MAX_LOSS_RECORDS: ("what a failover would lose", "record"),
    Objective.MAX_LOSS_SECONDS: ("since when a failover would lose records", None),
    Objective.MAX_DOWNTIME_SECONDS: ("downtime", None),
    Objective.MAX_REPEATS_PER_GROUP: ("what is repeated", "record"),
}
"""In words, and what is counted; None: a time."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What there is, or would be, of one objective; `value` None: nobody knows.

    `of`: the flow, pair or group that it is of. `is_at_least`: it may be more, so it tells only that it is too much.
    """

    objective: Objective
    value: float | None
    of: str
    is_at_least: bool = False


Objectives = Mapping[Objective, float]
"""By objective the most that is allowed; one that is not there allows anything."""


def objections(objectives: Objectives, figures: Iterable[Figure]) -> list[tuple[str, str]]:
    """A code and words for each figure that does not keep to its objective, in the order of the figures.

    The code is `OBJECTIVE_exceeded` or `OBJECTIVE_unknown`. What no figure is given of is not judged.
    """
    found = []
    for figure in figures:
        allowed = objectives.get(figure.objective)
        if allowed is None:
            continue
        if figure.value is not None and figure.value > allowed:
            found.append((f"{figure.objective}_exceeded", _exceeded(figure, figure.value, allowed)))
        elif figure.value is None or figure.is_at_least:
            found.append((f"{figure.objective}_unknown", _unknown(figure, allowed)))
    return found


def _exceeded(figure: Figure, value: float, allowed: float) -> str:
    what, _ = _WHAT[figure.objective]
    bound = "at least " if figure.is_at_least else ""
    return f"{figure.of}: {what} is {bound}{_amount(figure, value)}, {_allows(figure, allowed)}"


def _unknown(figure: Figure, allowed: float) -> str:
    what, _ = _WHAT[figure.objective]
    known = "" if figure.value is None else f" beyond {_amount(figure, figure.value)}"
    return f"{figure.of}: {what} is unknown{known}, {_allows(figure, allowed)}: it counts as not met"


def _allows(figure: Figure, allowed: float) -> str:
    return f"{figure.objective} allows {_amount(figure, allowed)}"


def _amount(figure: Figure, value: float) -> str:
    _, unit = _WHAT[figure.objective]
    return duration(value) if unit is None else counted(int(value), unit)
