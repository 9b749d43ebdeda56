"""Waiting for a driver's answer to a request, or for its end."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from ledger.domain.operations.receipts import Receipt
from ledger.domain.writer_roles import RoleVerdict
from ledger.errors import PreconditionError, UnsafeError
from ledger.ports.clock import Clock

_READ_EVERY_S = 0.5
T = TypeVar("T")


def wait_for_receipt(
    operation_id: str,
    receipts: Callable[[], Iterable[Receipt]],
    *,
    seconds: float,
    clock: Clock,
    sleep: Callable[[float], None],
) -> Receipt:
    """The receipt of a request that was done.

    Raises `UnsafeError` when the driver refused it, `PreconditionError` when there is no receipt in time.
    """

    def found() -> Receipt | None:
        return next((receipt for receipt in receipts() if receipt.request == operation_id), None)

    receipt = _awaited(found, seconds=seconds, clock=clock, sleep=sleep)
    if receipt is None:
        raise PreconditionError(
            f"no receipt of operation {operation_id} within {seconds:g} s; the request stays in the ledger "
            "and is taken up by the flow's driver"
        )
    return _done(receipt)


def wait_for_end(
    flow: str,
    verdict: Callable[[], RoleVerdict],
    *,
    seconds: float,
    clock: Clock,
    sleep: Callable[[float], None],
) -> RoleVerdict:
    """Why no driver of the flow is at work any more; raises `PreconditionError` when one still is by then."""

    def found() -> RoleVerdict | None:
        return None if (now := verdict()) is RoleVerdict.IN_USE else now

    ended = _awaited(found, seconds=seconds, clock=clock, sleep=sleep)
    if ended is None:
        raise PreconditionError(
            f"the driver of {flow} has not ended within {seconds:g} s; it was asked to, and ends after its round"
        )
    return ended


def _awaited(
    ask: Callable[[], T | None], *, seconds: float, clock: Clock, sleep: Callable[[float], None]
) -> T | None:
    """What is there in time; None: nothing."""
    deadline = clock.monotonic() + seconds
    while (found := ask()) is None and (left_s := deadline - clock.monotonic()) > 0:
        sleep(min(_READ_EVERY_S, left_s))
    return found


def _done(receipt: Receipt) -> Receipt:
    if not receipt.is_done:
        raise UnsafeError(f"{receipt.request_kind} was {receipt.result}: {receipt.message}")
    return receipt
