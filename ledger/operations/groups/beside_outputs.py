"""Commits of applications that write what they read: none may run ahead of its outputs where it continues.

A group that continues at its last commit takes all below it for done. Where the records that it wrote for that were
not copied, they are nowhere any more: it has to continue at an earlier commit, and write them again.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from ledger.operations.groups.outcomes import Row

NOT_COPIED = "outputs_not_copied"
"""What is accepted by name of a commit beside which no copied outputs are known."""
OutputsOfGroups = Mapping[str, Sequence[str]]
"""By group of a declared application the topics that it writes to, as they are called where it runs."""
NO_OUTPUTS: OutputsOfGroups = MappingProxyType({})


class OutputsStatus(StrEnum):
    """Of the commit that an answer is about: whether what it stands for was copied."""

    COPIED = "copied"
    EARLIER_COMMIT = "earlier_commit"  # of the group's last one (`last_committed_offset`) not all was
    NOT_COPIED = "not_copied"  # the answer is about the last commit: no earlier one is known to be better


_GRAIN = ("group_id", "source_topic", "source_partition", "target_topic", "target_partition")


def beside_outputs(
    answers: Sequence[Row], earlier: Sequence[Row], outputs: OutputsOfGroups
) -> list[dict[str, object]]:
    """The answers with columns `outputs` and `last_committed_offset`, null for groups of no declared application.

    `earlier`: answers about the commits of these groups as they stood when all that had been written was copied; of a
    group of which no such time is known it has none.
    """
    by_place = {_place(row): row for row in earlier}
    unset: dict[str, object] = {"outputs": None, "last_committed_offset": None}
    return [
        {**row, **unset}
        if row["group_id"] not in outputs or row["committed_offset"] is None
        else {**unset, **_judged(row, by_place.get(_place(row)))}
        for row in answers
    ]


def last_commit(answer: Row) -> int | None:
    """The group's last commit, whichever the answer is about."""
    last: int | None = answer.get("last_committed_offset")
    committed: int | None = answer["committed_offset"]
    return committed if last is None else last


def _place(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in _GRAIN)


def _judged(row: Row, then: Row | None) -> Row:
    """A group that was set back since stays there: below the commit of then all was copied.

    A commit that has no place, of an incarnation of its topic that is no more, says nothing of the last one.
    """
    if then is None or then["committed_offset"] is None or then["target_offset"] is None:
        return {**row, "outputs": OutputsStatus.NOT_COPIED}
    if then["committed_offset"] >= row["committed_offset"]:
        return {**row, "outputs": OutputsStatus.COPIED}
    return {
        **then,
        "absence": row["absence"],
        "absent_since_ms": row["absent_since_ms"],
        "repeated": _repeated(row, then),
        "outputs": OutputsStatus.EARLIER_COMMIT,
        "last_committed_offset": row["committed_offset"],
    }


def _repeated(row: Row, then: Row) -> int | None:
    """What lies between both places was read, and is read again; markers among it count as records."""
    known = (row["target_offset"], then["target_offset"], then.get("repeated"))
    if None in known:
        return None
    return int(then["repeated"]) + max(int(row["target_offset"]) - int(then["target_offset"]), 0)
