"""Splits partitions over the tasks of a round by the work that each is expected to bring."""

from collections.abc import Mapping, Sequence

from ledger.mirror.task.assignments import Assignment

_MINIMUM_LOAD = 1


def split_by_load(
    assignments: Sequence[Assignment], loads: Mapping[tuple[str, int], int], *, tasks: int
) -> list[list[Assignment]]:
    """At most `tasks` lists, none empty: the heaviest partition goes to the lightest task so far.

    `loads`: bytes copied in the last round by (source topic id, partition). Ties go by order, so the
    split is the same for the same input.
    """
    shares: list[list[Assignment]] = [[] for _ in range(min(tasks, len(assignments)))]
    totals = [0] * len(shares)
    for assignment in sorted(assignments, key=lambda item: -_load(item, loads)):
        lightest = totals.index(min(totals))
        shares[lightest].append(assignment)
        totals[lightest] += _load(assignment, loads)
    return shares


def _load(assignment: Assignment, loads: Mapping[tuple[str, int], int]) -> int:
    return loads.get((assignment.source.topic_id, assignment.source.partition), 0) + _MINIMUM_LOAD
