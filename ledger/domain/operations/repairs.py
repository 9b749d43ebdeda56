"""What was given up of a ledger whose files were damaged."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

from ledger.domain.operations.content import OperationContent
from ledger.domain.operations.kinds import OperationKind


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A damaged file, and in `words` how it was.

    `rows`: the least and greatest values that the log has of its rows; None: the log had none, or it was an entry of
    the log: nobody knows which rows it named.
    """

    file: str
    words: str
    rows: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class LedgerRepaired(OperationContent):
    """Of one table the damaged files, which are read no more."""

    kind: ClassVar = OperationKind.LEDGER_REPAIRED
    table: str
    given_up: Sequence[GivenUp]

    def content(self) -> dict[str, object]:
        return {"table": self.table, "given_up": [asdict(one) for one in self.given_up]}

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        found = [GivenUp(one["file"], one["words"], one["rows"]) for one in content["given_up"]]
        return cls(content["table"], found)
