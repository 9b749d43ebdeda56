"""What happened to a flow as a whole, as it is recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ledger.domain.operations.content import OperationContent, Row
from ledger.domain.operations.kinds import OperationKind


@dataclass(frozen=True, slots=True)
class DriverStarting(OperationContent):
    """A process, as writers say it, is about to run the flow; the claim comes after Spark has started.

    `until_caught_up`: it ends when all that the source had then is copied; earlier versions do not say.
    """

    kind: ClassVar = OperationKind.DRIVER_STARTING
    host: str
    until_caught_up: bool = False


@dataclass(frozen=True, slots=True)
class PendingStart:
    """The process that began to run a flow, as writers say it, and when."""

    host: str
    at_ms: int

    @classmethod
    def of_row(cls, row: Row) -> "PendingStart":
        """The start that a row of `operations` holds."""
        return cls(DriverStarting.of_row(row).host, row["recorded_at_ms"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationChanged(OperationContent):
    """A flow continues with this configuration; `old_hash` and `changed` (keys) are None where they are unknown."""

    kind: ClassVar = OperationKind.CONFIGURATION_CHANGED
    old_hash: str | None
    new_hash: str
    changed: Sequence[str] | None
    configuration: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ScopeReduced(OperationContent):
    """Leaving out source topics is meant; by topic how far it had been copied, summed over partitions."""

    kind: ClassVar = OperationKind.SCOPE_REDUCED
    topics: Mapping[str, int]


def accepted_reductions(rows: Sequence[Row]) -> dict[str, int]:
    """By source topic how far it had been copied when leaving it out was last accepted, from rows in order."""
    accepted: dict[str, int] = {}
    for row in rows:
        accepted |= ScopeReduced.of_row(row).topics
    return accepted
