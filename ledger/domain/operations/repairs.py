"""What was given up of a ledger whose files were damaged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ledger.domain.operations.content import OperationContent
from ledger.domain.operations.kinds import OperationKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRepaired(OperationContent):
    """Of one table the damaged files, which are read no more: `file`, `words` (how it was), `rows` of each.

    `rows`: the least and greatest values that the log has of the rows of a file; None: the log had none, or it was an
    entry of the log: nobody knows which rows it named.
    """

    kind: ClassVar = OperationKind.LEDGER_REPAIRED
    table: str
    given_up: Sequence[Mapping[str, Any]]
