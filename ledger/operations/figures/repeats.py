"""What each group would read again, compared with what is allowed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ledger.domain.objectives import Figure, Objective, Objectives, objections
from ledger.domain.words.count_words import counted
from ledger.errors import PreconditionError

Row = Mapping[str, Any]
"""An answer of `group_translation`."""
_NAMED = 3


def repeat_figures(answers: Iterable[Row]) -> Iterator[Figure]:
    """Of each group its records behind the places that it has read; unknown where it is of one of its partitions."""
    repeated: dict[str, list[int | None]] = defaultdict(list)
    for row in answers:
        if row["group_id"] is not None:
            repeated[row["group_id"]].append(row["repeated"])
    for group, found in sorted(repeated.items()):
        total = None if None in found else sum(number for number in found if number is not None)
        yield Figure(Objective.MAX_REPEATS_PER_GROUP, total, f"group {group!r}")


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
