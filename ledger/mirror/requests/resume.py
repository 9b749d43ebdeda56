"""Ending a pause, and letting stopped partitions try again."""

from collections.abc import Sequence

from ledger.domain.operations.requests import AskedBy, OperatorRequest, Request, RequestKind, command_line
from ledger.domain.resumption import Place, Resumption
from ledger.errors import PreconditionError
from ledger.mirror.partitions.partition_state import PartitionState
from ledger.mirror.requests.known_flow import KnownFlow
from ledger.mirror.requests.moving import MovedPartitions
from ledger.mirror.requests.rules import Granted, Judgement, RequestRules, needed, nothing


class ResumeRules(RequestRules):
    """A pause ends as a whole, as it was asked for; what no request can move stays where it is."""

    def judged(self, ask: Request, flow: KnownFlow) -> Judgement:
        _refuse_part_of_a_pause(ask, flow)
        resumption = Resumption(_unasked(ask), flow.requests.asked)
        stopped = {(known.topic, known.partition): str(known.stop_cause) for known in flow.stopped(ask)}
        if not resumption.ended and not stopped:
            return nothing(f"{ask.subject} is neither paused nor stopped")
        others = {(known.topic, known.partition) for known in flow.partitions if known.stop_cause is not None}
        existing = {(known.topic, known.partition) for known in flow.partitions if not known.is_gone}
        return needed(resumption.described(existing - others | stopped.keys(), stopped))

    def granted(
        self, request: OperatorRequest, earlier: Sequence[OperatorRequest], partitions: MovedPartitions
    ) -> Granted:
        stopped = [state for state in self.named(request, partitions) if state.stop is not None]
        if stopped and not any(map(partitions.is_free, stopped)):
            partitions.require_free(stopped[0])
        stopped = [state for state in stopped if partitions.is_free(state)]
        causes = {_place(s): str(s.stop.cause) for s in stopped if s.stop is not None}
        facts = partitions.begun_again(stopped)
        partitions.go_on(stopped)
        going = [_place(state) for state in partitions.progress.states if state.stop is None]
        return facts, Resumption(request, earlier).described(going, causes)


def _unasked(ask: Request) -> OperatorRequest:
    """The request that it would be, asked by nobody yet."""
    return OperatorRequest(operation_id="", asked=ask, requested_at_ms=0, asked_by=AskedBy("", None, None))


def _place(state: PartitionState) -> Place:
    return state.pair.source.topic, state.pair.source.partition


def _refuse_part_of_a_pause(ask: Request, flow: KnownFlow) -> None:
    if ask.topic is None:
        return
    if flow.pauses.whole_flow:
        paused, resume = f"the whole of flow {flow.name}", command_line(RequestKind.RESUME, flow.name)
    elif ask.partition is not None and flow.pauses.covers(ask.topic):
        paused = f"topic {ask.topic}"
        resume = command_line(RequestKind.RESUME, flow.name, topic=ask.topic)
    else:
        return
    raise PreconditionError(
        f"{paused} is paused, so {ask.subject} cannot be resumed by itself; nothing was recorded. "
        f"End the pause with `{resume}`"
    )
