"""Waiting for a driver's answer to a request."""

from collections.abc import Callable, Iterable

from ledger.domain.operations.receipts import Receipt
from ledger.errors import PreconditionError, UnsafeError
from ledger.ports.clock import Clock

_READ_EVERY_S = 0.5


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
    deadline = clock.monotonic() + seconds
    while True:
        for receipt in receipts():
            if receipt.request == operation_id:
                return _done(receipt)
        left_s = deadline - clock.monotonic()
        if left_s <= 0:
            raise PreconditionError(
                f"no receipt of operation {operation_id} within {seconds:g} s; the request stays in the ledger "
                "and is taken up by the flow's driver"
            )
        sleep(min(_READ_EVERY_S, left_s))


def _done(receipt: Receipt) -> Receipt:
    if not receipt.is_done:
        raise UnsafeError(f"{receipt.request_kind} was {receipt.result}: {receipt.message}")
    return receipt
