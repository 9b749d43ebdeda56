"""Operation logs of tests: of operators, and of a driver that has claimed a flow."""

from collections.abc import Callable
from itertools import count

from ledger.clock import Clock
from ledger.facts.roles import writer_of
from ledger.facts.state import FactLog
from ledger.facts.tables import WRITERS, Row
from ledger.store.session import FLOW_TABLES, ClaimedOperations, OperatorOperations, WriterSession
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.ledger_rows import row


def numbered() -> Callable[[], str]:
    """Operation ids that tell the order, for stories that are to be the same every time."""
    numbers = count(1)
    return lambda: f"operation-{next(numbers)}"


def operators(ledger: MemoryLedger, clock: Clock) -> OperatorOperations:
    return OperatorOperations(MemoryFactLog(ledger, clock), operator="memory", new_id=numbered())


def claimed(fact_log: FactLog, flow: str, *, operator: str = "driver") -> ClaimedOperations:
    """The log of a driver that claims the flow now."""
    log = ClaimedOperations(operator=operator, new_id=numbered())
    log.begin(WriterSession.claimed(fact_log, writer_of(flow), FLOW_TABLES, claim_of(flow)))
    return log


def claim_of(flow: str) -> Row:
    """A row of `writers` without its stamp."""
    stamp = {"writer", "writer_epoch", "round", "recorded_at_ms"}
    whole = row(WRITERS.name, event="claimed", flow=flow, host="test:1:1")
    return {name: value for name, value in whole.items() if name not in stamp}
