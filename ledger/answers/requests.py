"""Requests that operators leave in the ledger, and the wait for their receipts."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ledger.answers import status
from ledger.answers.drivers import when_taken_up
from ledger.answers.flow_status import driver_of
from ledger.clock import Clock
from ledger.context import Context
from ledger.errors import PreconditionError, UnsafeError, UsageError
from ledger.facts.requests import AcceptForeign, Receipt, Request, StopRequest
from ledger.facts.roles import RoleVerdict, writer_of
from ledger.facts.tables import OPERATIONS, WRITERS, Row
from ledger.mirror.assignment import StopCause
from ledger.mirror.requests import Judgement, KnownFlow, judged, nothing
from ledger.roles import verdict_now
from ledger.store import answers, catalog
from ledger.store.snapshots import DeltaSnapshot, open_ledger
from ledger.words import counted

# Requests -----------------------------------------------------------------------------------------
# Requests to a flow's driver, compared with the ledger before they are recorded.
#
# What makes no sense is refused here, with the reason, because the driver that would refuse it may not be
# running. What has been done or asked for already is nothing to do.


def require_complete(ask: Request) -> None:
    """Raise `UsageError` where it names a partition of no topic, or an offset of no partition."""
    if ask.partition is not None and ask.topic is None:
        raise UsageError("--partition needs --topic; nothing was recorded")
    if ask.offset is not None and ask.partition is None:
        raise UsageError("--offset needs --partition; nothing was recorded")


def judge(ask: Request, flow: KnownFlow) -> Judgement:
    """What the request would do.

    Raises `UsageError` for a topic or partition that the ledger does not know, and `PreconditionError`
    for what cannot be done as things stand.
    """
    _require_known(ask, flow)
    for request in flow.requests.waiting:
        if ask == request.asked:
            return nothing(
                f"asked for already by operation {request.operation_id}, which waits for its receipt"
            )
    return judged(ask, flow)


def _require_known(ask: Request, flow: KnownFlow) -> None:
    if ask.topic is None:
        return
    topics = sorted({known.topic for known in flow.partitions})
    if ask.topic not in topics:
        raise UsageError(
            f"the ledger has no topic {ask.topic!r} of flow {flow.name}; it has {', '.join(topics) or 'none'}; "
            "nothing was recorded"
        )
    if not flow.concerned(ask):
        partitions = sorted({known.partition for known in flow.partitions if known.topic == ask.topic})
        raise UsageError(
            f"the ledger has no partition {ask.partition} of topic {ask.topic} of flow {flow.name}; it has "
            f"{', '.join(map(str, partitions))}; nothing was recorded"
        )


def request_stop(context: Context, flow_name: str) -> str:
    """Leave a request in the ledger that a running driver of the flow sees; returns its operation id."""
    context.config.flow(flow_name)
    open_ledger(context.config.ledger.path)
    return context.record(StopRequest(), flow=flow_name)


@dataclass(frozen=True, slots=True)
class Requested:
    """A request compared with the ledger: what it does; no operation id: there was nothing to do."""

    operation_id: str | None
    words: str
    taken_up: str


def request(context: Context, flow_name: str, ask: Request) -> Requested:
    """Leave a request in the ledger that the flow's driver answers with a receipt.

    Raises `UsageError` or `PreconditionError`, and records nothing, when it makes no sense as things stand.
    """
    require_complete(ask)
    flow = context.config.flow(flow_name)
    judged_by = (*catalog.query("flow_status").reads, WRITERS.name, OPERATIONS.name)
    at = context.ledger.now(catalog.tables_of(judged_by))
    answers.require_flow(context.config, at, flow_name)
    requests = status.requests_of(_operations_of(at, flow_name))
    status_rows = answers.run_query(at, "flow_status", {"flow": flow_name}).to_pylist()
    judged = judge(ask, KnownFlow.of(flow_name, status_rows, requests))
    driver = driver_of(at, flow, status_rows, at_ms=context.clock.now_ms(), is_now=True)
    taken_up = when_taken_up(flow_name, driver)
    if not judged.is_needed:
        return Requested(None, judged.words, taken_up)
    operation_id = context.record(ask, flow=flow_name)
    return Requested(operation_id, judged.words + _what_lies_there(ask, status_rows), taken_up)


def _what_lies_there(ask: Request, status_rows: Sequence[Row]) -> str:
    """Of records that are to be accepted how many a driver has seen, and what becomes of copies among them."""
    if not isinstance(ask, AcceptForeign):
        return ""
    seen = [
        row["stop_message"]
        for row in status_rows
        if row["source_topic"] == ask.topic
        and ask.partition in (None, row["source_partition"])
        and row["stop_cause"] == StopCause.FOREIGN_WRITE
    ]
    others = f" (and others in {counted(len(seen) - 1, 'more partition')})" if seen[1:] else ""
    there = f"; there: {seen[0]}{others}" if seen else ""
    return f"{there}; what the flow copies comes behind that: a record that it copies too is there twice"


# Receipts -----------------------------------------------------------------------------------------
# Waiting for a driver's answer to a request, or for its end.


_READ_EVERY_S = 0.5
T = TypeVar("T")


def await_receipt(context: Context, flow_name: str, operation_id: str, *, seconds: float) -> Receipt:
    """The driver's receipt of a request that was done.

    Raises `UnsafeError` when the driver refused it, `PreconditionError` when there is no receipt in time.
    """

    def found() -> Receipt | None:
        rows = _operations_of(context.ledger.now([OPERATIONS.name]), flow_name)
        return next((one for one in status.receipts_of(rows) if one.request == operation_id), None)

    receipt = _awaited(found, context.clock, seconds=seconds)
    if receipt is None:
        raise PreconditionError(
            f"no receipt of operation {operation_id} within {seconds:g} s; the request stays in the ledger "
            "and is taken up by the flow's driver"
        )
    if not receipt.is_done:
        raise UnsafeError(f"{receipt.request_kind} was {receipt.result}: {receipt.message}")
    return receipt


def await_end(context: Context, flow_name: str, *, seconds: float) -> str:
    """That no driver of the flow is at work any more; raises `PreconditionError` when one still is by then."""
    flow, state = context.config.flow(flow_name), context.state

    def found() -> RoleVerdict | None:
        verdict = verdict_now(flow, state.last_claim(writer_of(flow_name)))
        return None if verdict is RoleVerdict.IN_USE else verdict

    ended = _awaited(found, context.clock, seconds=seconds)
    if ended is None:
        raise PreconditionError(
            f"the driver of {flow_name} has not ended within {seconds:g} s; it was asked to, and ends after its round"
        )
    return f"{flow_name}: no driver is at work ({ended.replace('_', ' ')})"


def _awaited(ask: Callable[[], T | None], clock: Clock, *, seconds: float) -> T | None:
    """What is there in time; None: nothing."""
    deadline = clock.monotonic() + seconds
    while (found := ask()) is None and (left_s := deadline - clock.monotonic()) > 0:
        time.sleep(min(_READ_EVERY_S, left_s))
    return found


def _operations_of(at: DeltaSnapshot, flow_name: str) -> list[dict[str, Any]]:
    return at.rows(OPERATIONS.name, [("flow", "=", flow_name)])
