"""Requests to a flow's driver, compared with the ledger before they are recorded.

What makes no sense is refused here, with the reason, because the driver that would refuse it may not be
running. What has been done or asked for already is nothing to do.
"""

from ledger.domain.operations.requests import Request
from ledger.errors import UsageError
from ledger.mirror.requests.every_kind import RULES
from ledger.mirror.requests.known_flow import KnownFlow
from ledger.mirror.requests.rules import Judgement, nothing


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
    return RULES[ask.request_kind].judged(ask, flow)


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
