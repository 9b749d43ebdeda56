"""Copying nothing of a topic, or of the whole flow, until resumed."""

from collections.abc import Sequence

from ledger.domain.operations.requests import OperatorRequest, Request, RequestKind, command_line
from ledger.mirror.requests.known_flow import KnownFlow
from ledger.mirror.requests.moving import MovedPartitions
from ledger.mirror.requests.rules import Granted, Judgement, RequestRules, needed, nothing


class PauseRules(RequestRules):
    """What is paused is what was asked for: a driver moves nothing."""

    def judged(self, ask: Request, flow: KnownFlow) -> Judgement:
        if flow.pauses.whole_flow:
            return nothing(f"the whole of flow {flow.name} is paused")
        if ask.topic is not None and flow.pauses.covers(ask.topic):
            return nothing(f"{ask.subject} is paused")
        resume = command_line(RequestKind.RESUME, flow.name, topic=ask.topic)
        return needed(f"nothing of {ask.subject} is copied after the round under way, until `{resume}`")

    def granted(
        self, request: OperatorRequest, earlier: Sequence[OperatorRequest], partitions: MovedPartitions
    ) -> Granted:
        del earlier, partitions
        return [], f"{request.subject} is paused"
