"""Copying again what the source holds, behind what the target holds."""

from collections.abc import Sequence
from dataclasses import replace

from ledger.domain.facts import OffsetSync, SyncCause
from ledger.domain.offsets.position import Position
from ledger.domain.operations.requests import OperatorRequest, Request, RequestKind, command_line
from ledger.errors import PreconditionError
from ledger.mirror.partitions.standing import Standing
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

    def accepting(self, request: OperatorRequest, partitions: MovedPartitions) -> Sequence[Standing]:
        return [standing for standing in self.named(request, partitions) if _is_expired(standing)]

    def granted(
        self, request: OperatorRequest, earlier: Sequence[OperatorRequest], partitions: MovedPartitions
    ) -> Granted:
        del earlier
        standings = self.required(request, partitions)
        if request.offset is not None and len(standings) != 1:
            raise RefusedError("an offset to copy again from belongs to one partition")
        restarts = [(standing, _restart(standing, request.asked, partitions)) for standing in standings]
        _accept_expired(standings, partitions)
        facts = [_copied_again(standing, restart) for standing, restart in restarts]
        for standing in standings:
            partitions.go_on(standing)
        names = ", ".join(f"{standing.name} from {standing.position.source_offset}" for standing in standings)
        return facts, f"copied again: {names}"


def _is_expired(standing: Standing) -> bool:
    """Whether it stopped because the target's log begins behind its recorded end."""
    return standing.stop is not None and standing.stop.cause is StopCause.TARGET_OUT_OF_RANGE


def _accept_expired(standings: Sequence[Standing], partitions: MovedPartitions) -> None:
    """Where the target's log begins behind the recorded end, copying again can only continue there."""
    expired = [standing for standing in standings if _is_expired(standing)]
    log_starts = [(standing, partitions.target_ends(standing).log_start) for standing in expired]
    for standing, log_start in log_starts:
        standing.accepted_below = max(standing.accepted_below, log_start)


def _restart(standing: Standing, asked: Request, partitions: MovedPartitions) -> Position:
    """Where to copy again from; refused outside of what was copied and the source still has."""
    source = partitions.source_ends(standing)
    known, at = reached(standing, source), source.log_start if asked.offset is None else asked.offset
    if not asked.is_possible(known):
        raise RefusedError(
            f"{standing.name} can be copied again from {source.log_start} up to where it stands, "
            f"{known.copied_end}; {at} is not in between"
        )
    if standing.stop is not None and standing.stop.cause is StopCause.TARGET_RECREATED:
        log_start = partitions.target_ends(standing).log_start
        return Position(source_offset=at, target_offset=log_start, next_sequence=0)
    return replace(standing.position, source_offset=at, leader_epoch=None)


def _copied_again(standing: Standing, restart: Position) -> OffsetSync:
    if standing.stop is not None and standing.stop.cause is StopCause.SOURCE_RECREATED:
        return standing.started(SyncCause.RECREATED)
    return standing.supersede(restart, SyncCause.RESYNC)
