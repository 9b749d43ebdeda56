"""Recording source offsets of a partition as lost, and continuing behind them."""

from collections.abc import Sequence

from ledger.domain.facts import SyncCause
from ledger.domain.operations.requests import OperatorRequest, Request
from ledger.errors import PreconditionError
from ledger.mirror.requests.known_flow import KnownFlow
from ledger.mirror.requests.moving import MovedPartitions, RefusedError, reached
from ledger.mirror.requests.rules import Granted, Judgement, RequestRules, needed


class SkipToRules(RequestRules):
    """It is about one partition, and never goes back."""

    def judged(self, ask: Request, flow: KnownFlow) -> Judgement:
        assert ask.offset is not None, "the command requires it"
        known = flow.reached(ask)
        if not ask.is_possible(known):
            raise PreconditionError(
                f"flow {flow.name} stands at source offset {known.position} of {ask.subject}: up to {ask.offset} there "
                "is nothing to skip; nothing was recorded"
            )
        start = "where the flow begins" if known.position is None else str(known.position)
        return needed(
            f"source offsets of {ask.subject} from {start} up to, not including, {ask.offset} are recorded as lost "
            "and not copied"
        )

    def granted(
        self, request: OperatorRequest, earlier: Sequence[OperatorRequest], partitions: MovedPartitions
    ) -> Granted:
        del earlier
        [state] = self.required(request, partitions)
        offset, ends = request.offset, partitions.source_ends(state)
        if offset is None or not request.asked.is_possible(reached(state, ends)):
            raise RefusedError(
                f"{state.name} stands at {state.position.source_offset} and its source ends at "
                f"{ends.high_watermark}: {offset} is not beyond the one and within the other"
            )
        skipped = offset - state.position.source_offset
        facts = [*partitions.begun_again([state]), state.lose(offset, SyncCause.SKIPPED)]
        partitions.go_on([state])
        return (
            facts,
            f"{state.name}: {skipped} source offsets are recorded as skipped; it continues at {offset}",
        )
