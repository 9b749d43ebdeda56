"""What an operation log appends: the row of each operation, and rows that belong together at once."""

import json

from ledger.adapters.memory.schedule import Schedule
from ledger.adapters.memory.tables import MemoryLedger
from ledger.domain.operations.kinds import OperationKind
from tests.support.operation_contents import content_of
from tests.support.operation_logs import operators

FIRST, SECOND = content_of(OperationKind.OFFSETS_SET), content_of(OperationKind.OFFSETS_SET_RESULT)


def test_a_row_has_the_kind_of_its_content() -> None:
    ledger = MemoryLedger()
    log = operators(ledger, Schedule())
    for kind in OperationKind:
        log.record(content_of(kind), flow="f", reason="why", ticket="T-1")
    rows = ledger.rows("operations")
    assert [row["kind"] for row in rows] == list(OperationKind)
    assert [json.loads(row["content"]) for row in rows] == [
        content_of(kind).content() for kind in OperationKind
    ]
    assert {(row["flow"], row["operator"], row["reason"], row["ticket"]) for row in rows} == {
        ("f", "memory", "why", "T-1")
    }


def test_rows_of_one_operation_share_its_id_and_those_of_one_part_their_round() -> None:
    ledger = MemoryLedger()
    log = operators(ledger, Schedule())
    operation_id = log.record_parts([FIRST, FIRST], flow="f", reason=None)
    again = log.record_parts([SECOND], operation_id=operation_id, flow="f", reason=None)
    other = log.record(FIRST, flow="f", reason=None)
    assert again == operation_id != other
    assert [(row["operation_id"], row["round"]) for row in ledger.rows("operations")] == [
        (operation_id, 1),
        (operation_id, 1),
        (operation_id, 2),
        (other, 3),
    ]


def test_operations_that_are_recorded_together_are_each_its_own() -> None:
    ledger = MemoryLedger()
    operators(ledger, Schedule()).record_all([("one", FIRST), ("two", SECOND)], flow=None)
    first, second = ledger.rows("operations")
    assert (first["round"], second["round"]) == (1, 1)
    assert (first["reason"], second["reason"]) == ("one", "two")
    assert first["operation_id"] != second["operation_id"]
