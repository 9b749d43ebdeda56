"""Drills as they are recorded, and what tells groups of a drill from those of applications."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ledger.facts.operations import OperationContent, OperationKind
from ledger.facts.tables import Row
from ledger.facts.ways import Direction

# Groups of a drill --------------------------------------------------------------------------------
# An application may have named a group of its own `drill-...`: the name alone makes no group one of a drill.
# What a drill commits says so in its metadata.


_PREFIX = "drill-"
_METADATA = "drill of mirror-ledger: "


def drill_group(group: str) -> str:
    """The name under which the places of a group are committed."""
    return f"{_PREFIX}{group}"


def drill_metadata(operation_id: str) -> str:
    """What commits of a drill say."""
    return f"{_METADATA}{operation_id}"


def may_be_of_drill(group: str) -> bool:
    """By its name alone."""
    return group.startswith(_PREFIX)


def is_of_drill(group: str, metadata: Iterable[str | None], *, has_members: bool | None) -> bool:
    """Whether a group is what a drill made, or has left; `metadata`: of all its commits.

    A group with members is at work, and one without commits, or with one of somebody else, is somebody's.
    """
    of_commits = [one or "" for one in metadata]
    is_made = bool(of_commits) and all(one.startswith(_METADATA) for one in of_commits)
    return may_be_of_drill(group) and has_members is False and is_made


# What is recorded ---------------------------------------------------------------------------------


class DrillVerdict(StrEnum):
    """What a drill came to. The first that applies, in this order, is reported."""

    FAILED = "failed"  # a place is not there, holds another record, or could not be tried
    INCOMPLETE = "incomplete"  # the failover is blocked or loses something, or a place could not be compared
    PASSED = "passed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drilled(OperationContent):
    """Where groups would continue was tried: committed under other names at the target, read there, and removed.

    By `mirror-ledger drill`. `flow` of the row is null.

    Keys: `from_cluster`, `to_cluster` (aliases), `cut` (as of which groups were placed), `verdict` (`failed`,
    `incomplete`, `passed`), `groups` (by name, how many of its places came to what), `stuck` (why groups cannot move,
    to their names), `problems` (in words: what blocks the failover, what it loses, and places that are not as planned,
    some of them), `records_lost`, `records_at_least`, `records_at_most`,
    `seconds_lost` (of a failover then; null: unknown), `apply_seconds` (what an apply would take, estimated),
    `commit_seconds`, `read_seconds` (what the drill itself took; null: it did not come to that), `removed` (groups
    that an earlier drill had left).
    """

    kind: ClassVar = OperationKind.DRILLED
    from_cluster: str
    to_cluster: str
    cut: str
    verdict: str
    groups: Mapping[str, Mapping[str, int]]
    stuck: Mapping[str, Sequence[str]]
    problems: Sequence[str]
    records_lost: int | None
    records_at_least: int | None
    records_at_most: int | None
    seconds_lost: float | None
    apply_seconds: float
    commit_seconds: float | None
    read_seconds: float | None
    removed: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastDrill:
    """When a way between two clusters was drilled last, and what that came to."""

    at_ms: int
    verdict: str


def last_drill(rows: Iterable[Row], way: Direction) -> LastDrill | None:
    """From rows of `operations` in order; None: it never was."""
    found = None
    for row in rows:
        if row["kind"] == Drilled.kind:
            one = Drilled.of_row(row)
            if (one.from_cluster, one.to_cluster) == (way.source, way.target):
                found = LastDrill(at_ms=int(row["recorded_at_ms"]), verdict=one.verdict)
    return found
