"""Copying again what the source holds, behind what the target holds."""

from collections.abc import Sequence
from dataclasses import replace

from ledger.domain.facts import OffsetSync, SyncCause
from ledger.domain.offsets.position import Position
from ledger.domain.operations.requests import OperatorRequest, Request, RequestKind, command_line
from ledger.errors import PreconditionError
from ledger.mirror.partitions.partition_state import PartitionState
from ledger.mirror.requests.known_flow import KnownFlow
from ledger.mirror.requests.moving import MovedPartitions, RefusedError, reached
from ledger.mirror.requests.rules import Granted, Judgement, RequestRules, needed
from ledger.mirror.task.assignments import StopCause


class ResyncRules(RequestRules):
    """What was copied and is at the source still; an offset belongs to one partition."""

    def judged(self, ask: Request, flow: KnownFlow) -> Judgement:
        known = flow.reached(ask)
        if not ask.is_possible(known):
            skip = command_line(
                RequestKind.SKIP_TO, flow.name, topic=ask.topic, partition=ask.partition, offset=ask.offset
            )
            raise PreconditionError(
                f"flow {flow.name} stands at source offset {known.position} of {ask.subject}: from {ask.offset} on "
                f"there is nothing to copy again; nothing was recorded. To leave out what lies between use `{skip}`"
            )
        start = "the source's log start" if ask.offset is None else f"source offset {ask.offset}"
        return needed(
            f"{ask.subject} is copied again from {start} on, behind what the target holds; what the ledger says of "
            "those source offsets holds no longer, and readers of the target meet the records twice"
        )

    def accepting(self, request: OperatorRequest, partitions: MovedPartitions) -> Sequence[PartitionState]:
        return [state for state in self.named(request, partitions) if _is_expired(state)]

    def granted(
        self, request: OperatorRequest, earlier: Sequence[OperatorRequest], partitions: MovedPartitions
    ) -> Granted:
        del earlier
        states = self.required(request, partitions)
        if request.offset is not None and len(states) != 1:
            raise RefusedError("an offset to copy again from belongs to one partition")
        restarts = [(state, _restart(state, request.asked, partitions)) for state in states]
        _accept_expired(states, partitions)
        facts = [_copied_again(state, restart) for state, restart in restarts]
        partitions.go_on(states)
        names = ", ".join(f"{state.name} from {state.position.source_offset}" for state in states)
        return facts, f"copied again: {names}"


def _is_expired(state: PartitionState) -> bool:
    """Whether it stopped because the target's log begins behind its recorded end."""
    return state.stop is not None and state.stop.cause is StopCause.TARGET_OUT_OF_RANGE


def _accept_expired(states: Sequence[PartitionState], partitions: MovedPartitions) -> None:
    """Where the target's log begins behind the recorded end, copying again can only continue there."""
    expired = [state for state in states if _is_expired(state)]
    log_starts = [(state, partitions.target_ends(state).log_start) for state in expired]
    for state, log_start in log_starts:
        state.accepted_below = max(state.accepted_below, log_start)


def _restart(state: PartitionState, asked: Request, partitions: MovedPartitions) -> Position:
    """Where to copy again from; refused outside of what was copied and the source still has."""
    source = partitions.source_ends(state)
    known, at = reached(state, source), source.log_start if asked.offset is None else asked.offset
    if not asked.is_possible(known):
        raise RefusedError(
            f"{state.name} can be copied again from {source.log_start} up to where it stands, "
            f"{known.copied_end}; {at} is not in between"
        )
    if state.stop is not None and state.stop.cause is StopCause.TARGET_RECREATED:
        log_start = partitions.target_ends(state).log_start
        return Position(source_offset=at, target_offset=log_start, next_sequence=0)
    return replace(state.position, source_offset=at, leader_epoch=None)


def _copied_again(state: PartitionState, restart: Position) -> OffsetSync:
    if state.stop is not None and state.stop.cause is StopCause.SOURCE_RECREATED:
        return state.started(SyncCause.RECREATED)
    return state.supersede(restart, SyncCause.RESYNC)
