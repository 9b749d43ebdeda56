"""Answers what operators ask of a running flow: every request gets one receipt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ledger.domain.facts import OffsetSync
from ledger.domain.operations.receipts import Acceptance, Receipt, RequestResult, SourcePlace
from ledger.domain.operations.requests import OperatorRequest
from ledger.mirror.partitions.partition_state import PartitionState
from ledger.mirror.requests.every_kind import RULES
from ledger.mirror.requests.moving import MovedPartitions, RefusedError
from ledger.ports.ledger import OperationLog


@dataclass(frozen=True, slots=True)
class RequestHandler:
    """Grants or refuses requests by the rules of their kinds."""

    flow: str
    partitions: MovedPartitions
    operations: OperationLog

    def answer(
        self, request: OperatorRequest, earlier: Sequence[OperatorRequest] = ()
    ) -> tuple[list[OffsetSync], Callable[[], None]]:
        """Move the states; returns the facts to record first, and how to give the receipt afterwards.

        `earlier`: what had been asked of the flow before, for its pauses.
        """
        rules = RULES[request.kind]
        accepts = rules.accepting(request, self.partitions)
        try:
            facts, message = rules.granted(request, earlier, self.partitions)
        except RefusedError as refused:
            reason = str(refused)
            return [], lambda: self._give_receipt(request, RequestResult.REFUSED, reason, {})
        accepted = dict(map(_accepted, accepts))
        return facts, lambda: self._give_receipt(request, RequestResult.DONE, message, accepted)

    def _give_receipt(
        self,
        request: OperatorRequest,
        result: RequestResult,
        message: str,
        accepted: Mapping[SourcePlace, Acceptance],
    ) -> None:
        receipt = Receipt(
            request=request.operation_id,
            request_kind=request.kind,
            result=result,
            message=message,
            accepted=accepted,
        )
        self.operations.record(receipt, flow=self.flow, reason=None)


def _accepted(state: PartitionState) -> tuple[SourcePlace, Acceptance]:
    source, target = state.pair.source, state.pair.target
    acceptance = Acceptance(target.topic_id, state.position.target_offset, state.accepted_below)
    return (source.topic_id, source.partition), acceptance
