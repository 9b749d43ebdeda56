"""What each group would read again, compared with what is allowed.

It is exact where commits stand still. What a group has read since its commits were recorded last nobody knows: it is
read again as well, so then it is at least so much.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.domain.objectives import Figure, Objective, Objectives, objections
from ledger.domain.words.count_words import counted
from ledger.domain.words.time_words import duration, instant
from ledger.errors import PreconditionError
from ledger.operations.groups.outcomes import repeated_of

Row = Mapping[str, Any]
"""An answer of `group_translation`."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class CommitsRead:
    """When somebody recorded the groups of a cluster last (None: nobody ever did), and how long before it was lost.

    `unseen_seconds` None: no instant was asked about.
    """

    at_ms: int | None
    unseen_seconds: float | None

    def is_fresh(self, fresh_seconds: float) -> bool:
        return (
            self.at_ms is not None
            and self.unseen_seconds is not None
            and self.unseen_seconds <= fresh_seconds
        )


def repeat_figures(
    answers: Iterable[Row], read: CommitsRead | None = None, *, fresh_seconds: float = 0.0
) -> Iterator[Figure]:
    """Of each group its records behind the places that it has read; unknown where it is of one of its partitions.

    `read` None: the commits stand still. Where they were not recorded lately there may be more.
    """
    is_open = read is not None and not read.is_fresh(fresh_seconds)
    repeated: dict[str, list[int | None]] = defaultdict(list)
    for row in answers:
        if row["group_id"] is not None:
            repeated[row["group_id"]].append(row["repeated"])
    for group, found in sorted(repeated.items()):
        total = None if None in found else sum(number for number in found if number is not None)
        value = (total or None) if is_open else total
        yield Figure(Objective.MAX_REPEATS_PER_GROUP, value, f"group {group!r}", is_at_least=is_open)


def repeat_forecast(places: Sequence[Row], read: CommitsRead | None) -> dict[str, Any]:
    """Of all groups together, None where a part is unknown. `read` None: groups are stopped, and read again then."""
    return {
        "repeated": repeated_of(places),
        "repeated_bound": None if read is None else "at_least",
        "commits_read_at_ms": None if read is None else read.at_ms,
        "commits_unseen_seconds": None if read is None else read.unseen_seconds,
    }


def repeat_words(forecast: Row) -> str:
    """How many records are read again; forecasts of earlier versions of the program have no more than the number."""
    repeated = forecast["repeated"]
    if repeated is None:
        return "an unknown number of records"
    bound = "" if forecast.get("repeated_bound") is None else "at least "
    return f"{bound}{counted(repeated, 'record')}"


def commits_age(forecast: Row) -> str:
    """In brackets, what these are counted from; empty where commits are read again before groups move."""
    if forecast.get("repeated_bound") is None:
        return ""
    at_ms, unseen = forecast["commits_read_at_ms"], forecast["commits_unseen_seconds"]
    if at_ms is None:
        return " (commits were never recorded)"
    before = "" if unseen is None else f", {duration(unseen)} unseen"
    return f" (commits last recorded {instant(at_ms)}{before})"


def require_few_repeats(answers: Sequence[Row], allowed: Objectives, *, way: tuple[str, str]) -> None:
    """Raise `PreconditionError` where groups would read more again than is allowed, with the places that make most."""
    found = [
        f"{words} ({'; '.join(_most(answers, figure.of))})"
        for figure in repeat_figures(answers)
        for _, words in objections(allowed, [figure])
    ]
    if found:
        listed = "\n  ".join(found)
        raise PreconditionError(
            f"groups would read records again, no offset was set:\n  {listed}\nWhere the status is extras, records "
            f"that are at {way[1]} alone lie unread in front: mirror-ledger query one_sided_records --param "
            f"from_cluster={way[0]} --param to_cluster={way[1]}. To set offsets all the same: --despite-objectives"
        )


def _most(answers: Iterable[Row], group: str) -> list[str]:
    rows = [row for row in answers if f"group {row['group_id']!r}" == group and row["repeated"] != 0]
    rows.sort(key=lambda row: (row["repeated"] is not None, -(row["repeated"] or 0)))
    named = [
        f"{row['target_topic'] or row['source_topic']} partition {row['source_partition']}: "
        f"{'unknown' if row['repeated'] is None else counted(row['repeated'], 'record')}, status {row['status']}"
        for row in rows[:_NAMED]
    ]
    return named if len(rows) <= _NAMED else [*named, f"and {len(rows) - _NAMED} more"]
