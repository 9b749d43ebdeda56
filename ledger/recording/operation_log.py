"""Rows of `operations`, and who stands behind each: a writer's claim, or the serial of operators.

What a driver does is stamped with its claim and its next round, so a driver that was taken over records
nothing any more. What operators ask for is stamped with one serial, whoever asks and wherever: of two that
ask at one moment each gets a number. So rows are in order without anybody's clock.
"""

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ledger.domain.operations.content import OperationContent
from ledger.domain.writer_roles import OPERATOR_WRITER
from ledger.ports.ledger import FactLog, OperationEntry, Row
from ledger.recording.writer_session import WriterSession
from ledger.schema import OPERATIONS


def random_id() -> str:
    return uuid.uuid4().hex


class _Operations(ABC):
    """Makes the rows; whoever inherits says how they are appended."""

    def __init__(self, *, operator: str, new_id: Callable[[], str] = random_id) -> None:
        self._operator = operator
        self._new_id = new_id

    def record(
        self, content: OperationContent, *, flow: str | None, reason: str | None, ticket: str | None = None
    ) -> str:
        return self.record_parts([content], flow=flow, reason=reason, ticket=ticket)

    def record_all(self, entries: Sequence[OperationEntry], *, flow: str | None) -> None:
        self._append([self._row(self._new_id(), content, flow, reason, None) for reason, content in entries])

    def record_parts(
        self,
        contents: Sequence[OperationContent],
        *,
        operation_id: str | None = None,
        flow: str | None,
        reason: str | None,
        ticket: str | None = None,
    ) -> str:
        operation_id = operation_id or self._new_id()
        self._append([self._row(operation_id, content, flow, reason, ticket) for content in contents])
        return operation_id

    @abstractmethod
    def _append(self, rows: Sequence[Row]) -> None:
        """All of them as one commit."""

    def _row(
        self,
        operation_id: str,
        content: OperationContent,
        flow: str | None,
        reason: str | None,
        ticket: str | None,
    ) -> Row:
        return {
            "operation_id": operation_id,
            "kind": str(content.kind),
            "flow": flow,
            "operator": self._operator,
            "reason": reason,
            "ticket": ticket,
            "content": json.dumps(content.content()),
        }


class ClaimedOperations(_Operations):
    """Implements `ports.OperationLog` for a writer. Until `begin` says in which session, nothing may be recorded.

    Safe to use from several threads, as the session is.
    """

    def __init__(self, *, operator: str, new_id: Callable[[], str] = random_id) -> None:
        super().__init__(operator=operator, new_id=new_id)
        self._session: WriterSession | None = None

    def begin(self, session: WriterSession) -> None:
        self._session = session

    def _append(self, rows: Sequence[Row]) -> None:
        assert self._session is not None, "an operation before the claim"
        self._session.append(OPERATIONS.name, rows)


class OperatorOperations(_Operations):
    """Implements `ports.OperationLog` for people: every append takes the next number of their serial."""

    def __init__(self, fact_log: FactLog, *, operator: str, new_id: Callable[[], str] = random_id) -> None:
        super().__init__(operator=operator, new_id=new_id)
        self._fact_log = fact_log

    def _append(self, rows: Sequence[Row]) -> None:
        self._fact_log.append_next(OPERATOR_WRITER, OPERATIONS.name, rows)
