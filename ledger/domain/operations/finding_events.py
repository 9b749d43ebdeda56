"""Findings as they are recorded: raised, cleared, and which of them are open."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from ledger.domain.operations.content import OperationContent, Row
from ledger.domain.operations.kinds import OperationKind
from ledger.domain.operations.order import in_order

FindingKey = tuple[str, str | None, int | None]
"""Name, topic and partition of a finding (`mirror.findings`)."""

_ONLY_OF_CLUSTERS = ("cluster", "since_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfFinding(OperationContent):
    """What is said of one finding."""

    finding: str
    topic: str | None
    partition: int | None

    @property
    def key(self) -> FindingKey:
        return self.finding, self.topic, self.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRaised(_OfFinding):
    """Something that needs attention. `cluster` (alias) and `since_ms` are given for clusters that do not answer."""

    kind: ClassVar = OperationKind.FINDING_RAISED
    message: str
    next: str | None = None
    cluster: str | None = None
    since_ms: int | None = None

    def content(self) -> dict[str, object]:
        said = OperationContent.content(self)
        return {
            name: value for name, value in said.items() if value is not None or name not in _ONLY_OF_CLUSTERS
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingCleared(_OfFinding):
    """A finding holds no longer."""

    kind: ClassVar = OperationKind.FINDING_CLEARED

    @classmethod
    def of_key(cls, key: FindingKey) -> Self:
        finding, topic, partition = key
        return cls(finding=finding, topic=topic, partition=partition)


FINDING_KINDS = (OperationKind.FINDING_RAISED, OperationKind.FINDING_CLEARED)


def open_findings(rows: Sequence[Row]) -> frozenset[FindingKey]:
    """Findings raised and not cleared since, from rows of `FINDING_KINDS`."""
    left: set[FindingKey] = set()
    for row in in_order(rows):
        if row["kind"] == FindingRaised.kind:
            left.add(FindingRaised.of_row(row).key)
        else:
            left.discard(FindingCleared.of_row(row).key)
    return frozenset(left)
