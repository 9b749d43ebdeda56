"""Answers what operators ask of a running flow: every request gets one receipt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ledger.domain.facts import OffsetSync, SyncCause, TopicPartition
from ledger.domain.operations.receipts import Acceptance, Receipt, RequestResult, SourcePlace
from ledger.domain.operations.requests import OperatorRequest, Reached, Request, RequestKind
from ledger.domain.resumption import Resumption
from ledger.domain.supersession import Restart
from ledger.mirror.assignments import StopCause
from ledger.mirror.flow_progress import FlowProgress
from ledger.mirror.intake import copy_again
from ledger.mirror.living_ends import living_ends
from ledger.mirror.standing import Standing
from ledger.mirror.stop_advice import advice
from ledger.ports import ClusterAdmin, OperationLog, PartitionEnds

Facts = list[OffsetSync]


class _RefusedError(Exception):
    """The request cannot be granted; nothing was changed."""


@dataclass(frozen=True, slots=True)
class RequestDesk:
    """Grants or refuses requests; `on_resumed` is told of every partition that goes on."""

    flow: str
    progress: FlowProgress
    source: ClusterAdmin
    target: ClusterAdmin
    operations: OperationLog
    on_resumed: Callable[[Standing], None]

    def answer(
        self, request: OperatorRequest, earlier: Sequence[OperatorRequest] = ()
    ) -> tuple[Facts, Callable[[], None]]:
        """Move the standings; returns the facts to record first, and how to give the receipt afterwards.

        `earlier`: what had been asked of the flow before, for its pauses.
        """
        accepts = self._accepting(request)
        try:
            facts, message = self._grant(request, earlier)
        except _RefusedError as refused:
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

    def _grant(self, request: OperatorRequest, earlier: Sequence[OperatorRequest]) -> tuple[Facts, str]:
        match request.kind:
            case RequestKind.PAUSE:
                return [], f"{request.subject} is paused"
            case RequestKind.RESUME:
                return self._resume(request, earlier)
            case RequestKind.SKIP_TO:
                return self._skip_to(request)
            case RequestKind.ACCEPT_FOREIGN:
                return self._accept_foreign(request)
            case RequestKind.RESYNC:
                return self._resync(request)

    def _named(self, request: OperatorRequest) -> Sequence[Standing]:
        """What the request names; of a whole topic, foreign records are accepted where it stopped alone."""
        found = [
            standing
            for standing in self.progress.standings
            if request.concerns(standing.pair.source.topic, standing.pair.source.partition)
        ]
        if request.kind is RequestKind.ACCEPT_FOREIGN and request.partition is None:
            return [standing for standing in found if standing.stop is not None] or found
        return found

    def _concerned(self, request: OperatorRequest) -> Sequence[Standing]:
        found = self._named(request)
        if not found:
            raise _RefusedError(f"this flow copies no {_coordinates(request)} at present")
        _refuse_taken(found)
        return found

    def _accepting(self, request: OperatorRequest) -> Sequence[Standing]:
        """Where the request, when it is granted, accepts what the target holds."""
        found = self._named(request)
        match request.kind:
            case RequestKind.ACCEPT_FOREIGN:
                return found
            case RequestKind.RESYNC:
                return [standing for standing in found if _is_expired(standing)]
            case _:
                return ()

    # -- one of them each ------------------------------------------------------------------------

    def _resume(self, request: OperatorRequest, earlier: Sequence[OperatorRequest]) -> tuple[Facts, str]:
        stopped = [standing for standing in self._named(request) if standing.stop is not None]
        if stopped and all(map(_is_taken, stopped)):
            _refuse_taken(stopped)
        resumption = Resumption(request, earlier)
        causes = {_place(s): str(s.stop.cause) for s in stopped if s.stop is not None and not _is_taken(s)}
        stopped = [standing for standing in stopped if not _is_taken(standing)]
        facts = self._begun_again(stopped)
        for standing in stopped:
            self._go_on(standing)
        going = [_place(standing) for standing in self.progress.standings if standing.stop is None]
        return facts, resumption.told(going, causes)

    def _begun_again(self, standings: Sequence[Standing]) -> Facts:
        """All that has to be known is asked for before the first standing moves."""
        beginnings = [self._resumption(standing) for standing in standings]
        return [begin() for begin in beginnings if begin is not None]

    def _resumption(self, standing: Standing) -> Callable[[], OffsetSync] | None:
        """How going on begins after the stop: another incarnation with a fact, all else is tried again."""
        cause = standing.stop.cause if standing.stop is not None else None
        if cause is StopCause.SOURCE_RECREATED:
            return lambda: standing.started(SyncCause.RECREATED)
        if cause is StopCause.TARGET_RECREATED:
            source, target = self._source_ends(standing), self._target_ends(standing)
            return lambda: copy_again(standing, source, target, SyncCause.TARGET_RECREATED)
        return None

    def _skip_to(self, request: OperatorRequest) -> tuple[Facts, str]:
        [standing] = self._concerned(request)
        offset, ends = request.offset, self._source_ends(standing)
        if offset is None or not request.asked.is_possible(_reached(standing, ends)):
            raise _RefusedError(
                f"{standing.name} stands at {standing.position} and its source ends at {ends.high_watermark}: "
                f"{offset} is not beyond the one and within the other"
            )
        skipped = offset - standing.position
        facts = [*self._begun_again([standing]), standing.lose(offset, SyncCause.SKIPPED)]
        self._go_on(standing)
        return (
            facts,
            f"{standing.name}: {skipped} source offsets are recorded as skipped; it goes on at {offset}",
        )

    def _accept_foreign(self, request: OperatorRequest) -> tuple[Facts, str]:
        ends = [(standing, self._target_ends(standing)) for standing in self._concerned(request)]
        facts = self._begun_again([standing for standing, _ in ends])
        for standing, target in ends:
            standing.accepted_below = target.high_watermark
            self._go_on(standing)
        told = ", ".join(f"{standing.name} below {standing.accepted_below}" for standing, _ in ends)
        return facts, f"what the target holds is accepted: {told}"

    def _resync(self, request: OperatorRequest) -> tuple[Facts, str]:
        standings = self._concerned(request)
        if request.offset is not None and len(standings) != 1:
            raise _RefusedError("an offset to copy again from belongs to one partition")
        restarts = [(standing, self._restart(standing, request.asked)) for standing in standings]
        self._accept_expired(standings)
        facts = [self._copied_again(standing, restart) for standing, restart in restarts]
        for standing in standings:
            self._go_on(standing)
        told = ", ".join(f"{standing.name} from {standing.position}" for standing in standings)
        return facts, f"copied again: {told}"

    def _accept_expired(self, standings: Sequence[Standing]) -> None:
        """Where the target's log begins behind the recorded end, copying again can only go on there."""
        expired = [standing for standing in standings if _is_expired(standing)]
        log_starts = [(standing, self._target_ends(standing).log_start) for standing in expired]
        for standing, log_start in log_starts:
            standing.accepted_below = max(standing.accepted_below, log_start)

    def _restart(self, standing: Standing, asked: Request) -> Restart:
        """Where to copy again from; refused outside of what was copied and the source still has."""
        source = self._source_ends(standing)
        reached, at = _reached(standing, source), source.log_start if asked.offset is None else asked.offset
        if not asked.is_possible(reached):
            raise _RefusedError(
                f"{standing.name} can be copied again from {source.log_start} up to where it stands, "
                f"{reached.copied_end}; {at} is not in between"
            )
        if standing.stop is not None and standing.stop.cause is StopCause.TARGET_RECREATED:
            return Restart(at, self._target_ends(standing).log_start, next_sequence=0, leader_epoch=None)
        return Restart(at, standing.target_end, standing.next_sequence, leader_epoch=None)

    def _copied_again(self, standing: Standing, restart: Restart) -> OffsetSync:
        if standing.stop is not None and standing.stop.cause is StopCause.SOURCE_RECREATED:
            return standing.started(SyncCause.RECREATED)
        return standing.supersede(restart, SyncCause.RESYNC)

    # -- parts -----------------------------------------------------------------------------------

    def _go_on(self, standing: Standing) -> None:
        if standing.stop is not None:
            standing.stop = None
            self.on_resumed(standing)

    def _source_ends(self, standing: Standing) -> PartitionEnds:
        return _ends(self.source, standing.pair.source)

    def _target_ends(self, standing: Standing) -> PartitionEnds:
        return _ends(self.target, standing.pair.target)


def _place(standing: Standing) -> tuple[str, int]:
    return standing.pair.source.topic, standing.pair.source.partition


def _reached(standing: Standing, source: PartitionEnds) -> Reached:
    return Reached(position=standing.position, log_start=source.log_start, end=source.high_watermark)


def _is_taken(standing: Standing) -> bool:
    return standing.stop is not None and standing.stop.cause is StopCause.COPIED_BY_ANOTHER_FLOW


def _refuse_taken(standings: Sequence[Standing]) -> None:
    """No request lets two flows copy one partition to one target topic: all would be there twice."""
    for standing in standings:
        if standing.stop is not None and _is_taken(standing):
            raise _RefusedError(f"{standing.name}: {standing.stop.message}. {advice(standing.stop.cause)}")


def _ends(admin: ClusterAdmin, partition: TopicPartition) -> PartitionEnds:
    found = living_ends(admin, partition)
    if found is None:
        raise _RefusedError(
            f"{partition.topic} partition {partition.partition} has no leader at {admin.alias} at present, "
            "or is a new topic by now"
        )
    return found


def _is_expired(standing: Standing) -> bool:
    """Whether it stopped because the target's log begins behind its recorded end."""
    return standing.stop is not None and standing.stop.cause is StopCause.TARGET_OUT_OF_RANGE


def _accepted(standing: Standing) -> tuple[SourcePlace, Acceptance]:
    source, target = standing.pair.source, standing.pair.target
    acceptance = Acceptance(target.topic_id, standing.target_end, standing.accepted_below)
    return (source.topic_id, source.partition), acceptance


def _coordinates(request: OperatorRequest) -> str:
    partition = "" if request.partition is None else f" partition {request.partition}"
    return f"{request.topic or 'topic'}{partition}"
