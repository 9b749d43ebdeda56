"""What `OperationLog` promises, whoever stands behind the rows and whoever keeps the ledger."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ledger.errors import ShutOutError
from ledger.facts.every_kind import content_of as content_of_row
from ledger.facts.operations import OperationKind, Why
from ledger.facts.state import OperationLog
from ledger.facts.tables import OPERATIONS, in_order
from ledger.store.session import ClaimedOperations, OperatorOperations
from tests.support.contracts.fact_log import Store, side_by_side
from tests.support.ledgers import claimed
from tests.support.operation_contents import content_of

FLOW, OPERATOR = "f", "memory"
FIRST, SECOND = content_of(OperationKind.OFFSETS_SET), content_of(OperationKind.OFFSETS_SET_RESULT)


@dataclass(frozen=True, slots=True)
class Operations:
    """A log of operations on a ledger with nothing in it; `another` is one of a process that starts now."""

    store: Store
    log: OperationLog
    another: Callable[[], OperationLog]

    def rows(self) -> Sequence[dict[str, Any]]:
        """All rows; those of one append as they were given."""
        return in_order(self.store.rows(OPERATIONS.name))

    def places(self) -> list[tuple[str, int]]:
        """Of each row its operation and its round."""
        return [(row["operation_id"], row["round"]) for row in self.rows()]


class OperationLogContract:
    """Whoever inherits has the fixture `operations`."""

    def test_a_row_has_the_kind_of_its_content_and_gives_the_content_back(
        self, operations: Operations
    ) -> None:
        contents = [content_of(kind) for kind in OperationKind]
        operations.log.record_all([("why", content) for content in contents], flow=FLOW)
        rows = operations.rows()
        assert [row["kind"] for row in rows] == list(OperationKind)
        assert [json.loads(row["content"]) for row in rows] == [content.content() for content in contents]
        assert [content_of_row(row) for row in rows] == contents

    def test_a_row_says_who_recorded_it_and_why(self, operations: Operations) -> None:
        operations.log.record_parts([FIRST], Why("why", "T-1"), flow=FLOW)
        [row] = operations.rows()
        told = (row["flow"], row["operator"], row["reason"], row["ticket"])
        assert told == (FLOW, OPERATOR, "why", "T-1")

    def test_what_is_not_told_is_null(self, operations: Operations) -> None:
        operations.log.record(FIRST, flow=None, reason=None)
        [row] = operations.rows()
        assert (row["flow"], row["reason"], row["ticket"]) == (None, None, None)

    def test_rows_of_one_operation_share_its_id_and_those_of_one_part_their_round(
        self, operations: Operations
    ) -> None:
        log = operations.log
        operation_id = log.record_parts([FIRST, FIRST], Why(), flow=FLOW)
        again = log.record_parts([SECOND], Why(operation_id=operation_id), flow=FLOW)
        other = log.record(FIRST, flow=FLOW, reason=None)
        assert again == operation_id != other
        assert operations.places() == [(operation_id, 1), (operation_id, 1), (operation_id, 2), (other, 3)]
        assert len({row["recorded_at_ms"] for row in operations.rows() if row["round"] == 1}) == 1

    def test_operations_that_are_recorded_together_are_each_its_own(self, operations: Operations) -> None:
        operations.log.record_all([("one", FIRST), ("two", SECOND), ("three", FIRST)], flow=None)
        rows = operations.rows()
        assert [(row["round"], row["reason"]) for row in rows] == [(1, "one"), (1, "two"), (1, "three")]
        assert len({row["operation_id"] for row in rows}) == 3


class OperatorOperationsContract(OperationLogContract):
    """The serial of operators: whoever asks, and wherever, gets the next number."""

    def test_processes_continue_each_others_serial(self, operations: Operations) -> None:
        for log in (operations.log, operations.another(), operations.log):
            log.record(FIRST, flow=FLOW, reason=None)
        assert [place for _, place in operations.places()] == [1, 2, 3]
        assert {(row["writer"], row["writer_epoch"]) for row in operations.rows()} == {("operator", 0)}


class SharedOperatorOperationsContract(OperatorOperationsContract):
    """What holds as well when several processes, here threads, ask at once."""

    def test_of_operators_that_ask_at_once_each_gets_a_place(self, operations: Operations) -> None:
        logs = [operations.another() for _ in range(4)]
        asked = side_by_side(4, lambda number: logs[number].record(FIRST, flow=FLOW, reason=f"{number}"))
        rows = operations.rows()
        assert sorted(row["round"] for row in rows) == [1, 2, 3, 4]
        assert {row["reason"]: row["operation_id"] for row in rows} == dict(zip("0123", asked, strict=True))


class ClaimedOperationsContract(OperationLogContract):
    """Operations of a writer that holds an epoch; `another` claims the next one."""

    def test_rows_are_stamped_with_the_claim(self, operations: Operations) -> None:
        operations.log.record(FIRST, flow=FLOW, reason=None)
        operations.another().record(FIRST, flow=FLOW, reason=None)
        stamps = [(row["writer"], row["writer_epoch"], row["round"]) for row in operations.rows()]
        assert stamps == [(f"flow:{FLOW}", 1, 1), (f"flow:{FLOW}", 2, 1)]

    def test_who_was_shut_out_records_nothing_any_more(self, operations: Operations) -> None:
        operations.log.record(FIRST, flow=FLOW, reason="before")
        operations.another()
        with pytest.raises(ShutOutError):
            operations.log.record(FIRST, flow=FLOW, reason="after")
        assert [row["reason"] for row in operations.rows()] == ["before"]

    def test_nothing_is_recorded_before_the_claim(self, operations: Operations) -> None:
        with pytest.raises(AssertionError, match="before the claim"):
            ClaimedOperations(operator=OPERATOR).record(FIRST, flow=FLOW, reason=None)
        assert operations.rows() == []


def claimed_operations(store: Store) -> Operations:
    """Of a driver that claims the flow now."""

    def begin() -> OperationLog:
        return claimed(store.log, FLOW, operator=OPERATOR)

    return Operations(store, begin(), begin)


def operator_operations(store: Store) -> Operations:
    """Of people who ask for something."""

    def ask() -> OperationLog:
        return OperatorOperations(store.log, operator=OPERATOR)

    return Operations(store, ask(), ask)
