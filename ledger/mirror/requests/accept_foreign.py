"""Continuing after what the target holds, whoever wrote it."""

from collections.abc import Sequence

from ledger.domain.operations.requests import OperatorRequest, Request
from ledger.mirror.partitions.partition_state import PartitionState
from ledger.mirror.requests.known_flow import KnownFlow
from ledger.mirror.requests.moving import MovedPartitions
from ledger.mirror.requests.rules import Granted, Judgement, RequestRules, needed, nothing


class AcceptForeignRules(RequestRules):
    """Of a whole topic, foreign records are accepted where it stopped alone."""

    def judged(self, ask: Request, flow: KnownFlow) -> Judgement:
        stopped = flow.stopped(ask)
        if not stopped:
            return nothing(f"nothing of {ask.subject} is stopped")
        names = ", ".join(f"{known} ({known.stop_cause})" for known in stopped)
        return needed(f"continues after all that the target holds when the request is carried out: {names}")

    def named(self, request: OperatorRequest, partitions: MovedPartitions) -> Sequence[PartitionState]:
        found = partitions.concerned(request)
        if request.partition is not None:
            return found
        return [state for state in found if state.stop is not None] or found

    def accepting(self, request: OperatorRequest, partitions: MovedPartitions) -> Sequence[PartitionState]:
        return self.named(request, partitions)

    def granted(
        self, request: OperatorRequest, earlier: Sequence[OperatorRequest], partitions: MovedPartitions
    ) -> Granted:
        del earlier
        required = self.required(request, partitions)
        ends = [(state, partitions.target_ends(state)) for state in required]
        facts = partitions.begun_again([state for state, _ in ends])
        for state, target in ends:
            state.accepted_below = target.high_watermark
        partitions.go_on(required)
        names = ", ".join(f"{state.name} below {state.accepted_below}" for state, _ in ends)
        return facts, f"what the target holds is accepted: {names}"
