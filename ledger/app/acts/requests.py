"""Requests that operators leave in the ledger, and the wait for their receipts."""

import time
from dataclasses import dataclass
from typing import Any

from ledger import catalog
from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import DeltaLedger, DeltaSnapshot, open_ledger
from ledger.adapters.system import SystemClock
from ledger.app import answers
from ledger.app.driver_roles import verdict_now
from ledger.app.flow_status import driver_of
from ledger.app.wiring import operator_operations
from ledger.config.mirror import MirrorConfig
from ledger.domain.operations.receipts import Receipt
from ledger.domain.operations.requests import Request, StopRequest
from ledger.domain.writer_roles import writer_of
from ledger.mirror.requests.known_flow import KnownFlow
from ledger.operations import flow_answers
from ledger.operations.driver_report import when_taken_up
from ledger.operations.receipts import wait_for_end, wait_for_receipt
from ledger.operations.requests import judge, require_complete
from ledger.schema import OPERATIONS, WRITERS


def request_stop(
    config: MirrorConfig, flow_name: str, *, reason: str | None, ticket: str | None = None
) -> str:
    """Leave a request in the ledger that a running driver of the flow sees; returns its operation id."""
    config.flow(flow_name)
    open_ledger(config.ledger.path)
    return operator_operations(config).record(StopRequest(), flow=flow_name, reason=reason, ticket=ticket)


@dataclass(frozen=True, slots=True)
class Requested:
    """A request compared with the ledger: what it does; no operation id: there was nothing to do."""

    operation_id: str | None
    words: str
    taken_up: str


def request(
    config: MirrorConfig, flow_name: str, ask: Request, *, reason: str | None, ticket: str | None
) -> Requested:
    """Leave a request in the ledger that the flow's driver answers with a receipt.

    Raises `UsageError` or `PreconditionError`, and records nothing, when it makes no sense as things stand.
    """
    require_complete(ask)
    flow = config.flow(flow_name)
    judged_by = (*catalog.query("flow_status").reads, WRITERS.name, OPERATIONS.name)
    at = DeltaLedger(config.ledger.path).now(catalog.tables_of(judged_by))
    answers.require_flow(config, at, flow_name)
    requests = flow_answers.requests_of(_operations_of(at, flow_name))
    status_rows = answers.run_query(at, "flow_status", {"flow": flow_name}).to_pylist()
    judged = judge(ask, KnownFlow.of(flow_name, status_rows, requests))
    driver = driver_of(at, flow, status_rows, at_ms=SystemClock().now_ms(), is_now=True)
    taken_up = when_taken_up(flow_name, driver)
    if not judged.is_needed:
        return Requested(None, judged.words, taken_up)
    operation_id = operator_operations(config).record(ask, flow=flow_name, reason=reason, ticket=ticket)
    return Requested(operation_id, judged.words, taken_up)


def await_receipt(config: MirrorConfig, flow_name: str, operation_id: str, *, seconds: float) -> Receipt:
    """The driver's receipt of a request that was done; raises when it was refused or none came in time."""
    ledger = DeltaLedger(config.ledger.path)

    def receipts() -> list[Receipt]:
        return flow_answers.receipts_of(_operations_of(ledger.now([OPERATIONS.name]), flow_name))

    return wait_for_receipt(operation_id, receipts, seconds=seconds, clock=SystemClock(), sleep=time.sleep)


def await_end(config: MirrorConfig, flow_name: str, *, seconds: float) -> str:
    """That no driver of the flow is at work any more, in words; raises when one still is by then."""
    flow, state = config.flow(flow_name), DeltaLedgerState(open_ledger(config.ledger.path))
    ended = wait_for_end(
        flow_name,
        lambda: verdict_now(flow, state.last_claim(writer_of(flow_name))),
        seconds=seconds,
        clock=SystemClock(),
        sleep=time.sleep,
    )
    return f"{flow_name}: no driver is at work ({ended.replace('_', ' ')})"


def _operations_of(at: DeltaSnapshot, flow_name: str) -> list[dict[str, Any]]:
    return at.rows(OPERATIONS.name, [("flow", "=", flow_name)])
