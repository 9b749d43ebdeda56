"""Requests of operators to a flow: what each kind would do, by what the ledger knows, and how a driver grants it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ledger.errors import PreconditionError, UsageError
from ledger.facts.requests import (
    Acceptance,
    FlowRequests,
    OperatorRequest,
    PartitionStatus,
    Pauses,
    Reached,
    Receipt,
    Request,
    RequestKind,
    RequestResult,
    Resumption,
    command_line,
    pauses_after,
)
from ledger.facts.state import OperationLog
from ledger.facts.syncs import OffsetSync, PartitionPair, Position, SyncCause, TopicPartition
from ledger.kafka.cluster import ClusterAdmin, PartitionEnds
from ledger.mirror.assignment import NOT_BY_REQUEST, Hold, Stop, StopCause, nothing_held
from ledger.mirror.starts import copy_again
from ledger.mirror.states import FlowProgress, PartitionState, ends_of_incarnation
from ledger.mirror.stops import advice

# Known flow ---------------------------------------------------------------------------------------
# What the ledger knows of a flow that a request is for.


@dataclass(frozen=True, slots=True)
class KnownPartition:
    """`position`: the next source offset, None when nothing is recorded; `stop_cause` None: it is copied.

    `is_deleted`: this incarnation of it is not at the source any more.
    """

    topic: str
    partition: int
    position: int | None
    stop_cause: str | None
    is_deleted: bool = False

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition}"


@dataclass(frozen=True, slots=True)
class KnownFlow:
    """What the ledger knows of a flow; one entry per incarnation of a partition, the latest first."""

    name: str
    partitions: tuple[KnownPartition, ...]
    requests: FlowRequests

    @classmethod
    def of(cls, name: str, status_rows: Sequence[Mapping[str, Any]], requests: FlowRequests) -> "KnownFlow":
        """From the rows of the query `flow_status`."""
        # An incarnation that stopped before anything of it was copied is later than all that were copied.
        latest_first = sorted(
            status_rows, key=lambda row: row["last_recorded_at_ms"] or float("inf"), reverse=True
        )
        partitions = [
            KnownPartition(
                row["source_topic"],
                row["source_partition"],
                row["source_end"],
                None if row["status"] == PartitionStatus.GONE else row["stop_cause"],
                row["status"] == PartitionStatus.GONE,
            )
            for row in latest_first
        ]
        return cls(name, tuple(partitions), requests)

    @property
    def pauses(self) -> Pauses:
        return pauses_after(self.requests.asked)

    def concerned(self, ask: Request) -> list[KnownPartition]:
        return [known for known in self.partitions if ask.concerns(known.topic, known.partition)]

    def stopped(self, ask: Request) -> list[KnownPartition]:
        return [known for known in self.concerned(ask) if known.stop_cause is not None]

    def reached(self, ask: Request) -> Reached:
        """How far it came with the one partition that is asked about; its ends at the source nobody asked for."""
        return Reached(position=self.concerned(ask)[0].position)


# Judgement ----------------------------------------------------------------------------------------
# What a request would do, said before it is recorded. Where it can be granted its own class says
# (`Request.is_possible`).


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a request would do, in words; with nothing to do nothing is to be recorded."""

    is_needed: bool
    words: str


def needed(words: str) -> Judgement:
    return Judgement(is_needed=True, words=words)


def nothing(words: str) -> Judgement:
    return Judgement(is_needed=False, words=words)


def judged(ask: Request, flow: KnownFlow) -> Judgement:
    """What it would do; raises `PreconditionError` for what cannot be done as things stand."""
    match ask.request_kind:
        case RequestKind.PAUSE:
            return _pause_judged(ask, flow)
        case RequestKind.RESUME:
            return _resume_judged(ask, flow)
        case RequestKind.SKIP_TO:
            return _skip_judged(ask, flow)
        case RequestKind.ACCEPT_FOREIGN:
            return _acceptance_judged(ask, flow)
        case RequestKind.RESYNC:
            return _resync_judged(ask, flow)
        case RequestKind.RELOAD:
            return needed(
                "the driver reads its configuration file again; the receipt says what of it holds from then on"
            )


def _pause_judged(ask: Request, flow: KnownFlow) -> Judgement:
    if flow.pauses.whole_flow:
        return nothing(f"the whole of flow {flow.name} is paused")
    if ask.topic is not None and flow.pauses.covers(ask.topic):
        return nothing(f"{ask.subject} is paused")
    resume = command_line(RequestKind.RESUME, flow.name, topic=ask.topic)
    return needed(f"nothing of {ask.subject} is copied after the round under way, until `{resume}`")


def _resume_judged(ask: Request, flow: KnownFlow) -> Judgement:
    _refuse_part_of_a_pause(ask, flow)
    resumption = Resumption(_unasked(ask), flow.requests.asked)
    stopped = {(known.topic, known.partition): str(known.stop_cause) for known in flow.stopped(ask)}
    if not resumption.ended and not stopped:
        return nothing(f"{ask.subject} is neither paused nor stopped")
    others = {(known.topic, known.partition) for known in flow.partitions if known.stop_cause is not None}
    existing = {(known.topic, known.partition) for known in flow.partitions if not known.is_deleted}
    return needed(resumption.described(existing - others | stopped.keys(), stopped))


def _unasked(ask: Request) -> OperatorRequest:
    """The request that it would be, asked by nobody yet."""
    return OperatorRequest(operation_id="", asked=ask, asked_in_words="by nobody")


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


def _skip_judged(ask: Request, flow: KnownFlow) -> Judgement:
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


def _acceptance_judged(ask: Request, flow: KnownFlow) -> Judgement:
    stopped = flow.stopped(ask)
    if not stopped:
        return nothing(f"nothing of {ask.subject} is stopped")
    names = ", ".join(f"{known} ({known.stop_cause})" for known in stopped)
    return needed(f"continues after all that the target holds when the request is carried out: {names}")


def _resync_judged(ask: Request, flow: KnownFlow) -> Judgement:
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


# Request handler ----------------------------------------------------------------------------------
# Answers what operators ask of a running flow: every request gets one receipt.


class RefusedError(Exception):
    """The request cannot be granted; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Granted:
    """What was done, in words, and the facts to record first; `accepting`: where that accepts what the target holds."""

    words: str
    facts: Sequence[OffsetSync] = ()
    accepting: Sequence[PartitionState] = ()


def not_reloaded() -> str:
    """Of a run that no file was given for."""
    raise PreconditionError("this run has no configuration file that it could read again")


@dataclass(frozen=True, slots=True)
class RequestHandler:
    """Moves the partitions of a running flow as is asked; `on_resumed` gets partitions that resume together.

    `reload` reads the driver's configuration file again, and says what comes of it or raises what speaks against it.

    Each kind of request moves the states, or raises `RefusedError` and moves nothing.
    """

    flow: str
    progress: FlowProgress
    source: ClusterAdmin
    target: ClusterAdmin
    operations: OperationLog
    on_resumed: Callable[[Sequence[PartitionPair]], None]
    hold: Hold = nothing_held
    reload: Callable[[], str] = not_reloaded

    def answer(
        self, request: OperatorRequest, earlier: Sequence[OperatorRequest] = ()
    ) -> tuple[list[OffsetSync], Callable[[], object]]:
        """Move the states; returns the facts to record first, and how to give the receipt afterwards.

        `earlier`: what had been asked of the flow before, for its pauses.
        """
        try:
            granted, result = self._granted(request, earlier), RequestResult.DONE
        except RefusedError as refused:
            granted, result = Granted(str(refused)), RequestResult.REFUSED
        receipt = Receipt(
            request=request.operation_id,
            request_kind=request.kind,
            result=result,
            message=granted.words,
            accepted=tuple(map(_accepted, granted.accepting)),
        )
        return [*granted.facts], lambda: self.operations.record(receipt, flow=self.flow, reason=None)

    def _granted(self, request: OperatorRequest, earlier: Sequence[OperatorRequest]) -> Granted:
        match request.kind:
            case RequestKind.PAUSE:
                return Granted(f"{request.subject} is paused")  # what is paused is what was asked for
            case RequestKind.RESUME:
                return self._resume(request, earlier)
            case RequestKind.SKIP_TO:
                return self._skip(request)
            case RequestKind.ACCEPT_FOREIGN:
                return self._accept_foreign(request)
            case RequestKind.RESYNC:
                return self._resync(request)
            case RequestKind.RELOAD:
                return self._reload()

    def _concerned(self, request: OperatorRequest) -> list[PartitionState]:
        return [state for state in self.progress.states if request.concerns(*state.pair.source.place)]

    # -- each kind -------------------------------------------------------------------------------

    def _resume(self, request: OperatorRequest, earlier: Sequence[OperatorRequest]) -> Granted:
        """A pause ends as a whole, as it was asked for; what no request can move stays where it is."""
        stopped = [state for state in self._concerned(request) if state.stop is not None]
        free = [state for state in stopped if self._held_by(state) is None]
        if stopped and not free:
            self._require_free(stopped[0])
        causes = {s.pair.source.place: str(s.stop.cause) for s in free if s.stop is not None}
        facts = self._begun_again(free)
        self._let_resume(free)
        going = [state.pair.source.place for state in self.progress.states if state.stop is None]
        return Granted(Resumption(request, earlier).described(going, causes), facts)

    def _skip(self, request: OperatorRequest) -> Granted:
        """It is about one partition, and never goes back."""
        states = self._concerned(request)
        self._require_movable(request, states)
        [state] = states
        offset, ends = request.offset, _ends(self.source, state.pair.source)
        if offset is None or not request.asked.is_possible(reached(state, ends)):
            raise RefusedError(
                f"{state.name} stands at {state.position.source_offset} and its source ends at "
                f"{ends.high_watermark}: {offset} is not beyond the one and within the other"
            )
        skipped = offset - state.position.source_offset
        facts = [*self._begun_again([state]), state.lose(offset, SyncCause.SKIPPED)]
        self._let_resume([state])
        return Granted(
            f"{state.name}: {skipped} source offsets are recorded as skipped; it continues at {offset}", facts
        )

    def _accept_foreign(self, request: OperatorRequest) -> Granted:
        """Of a whole topic, foreign records are accepted where it stopped alone."""
        states = self._concerned(request)
        if request.partition is None:
            states = [state for state in states if state.stop is not None] or states
        self._require_movable(request, states)
        ends = [(state, _ends(self.target, state.pair.target)) for state in states]
        facts = self._begun_again([state for state, _ in ends])
        for state, target in ends:
            state.accepted_below = target.high_watermark
        self._let_resume(states)
        names = ", ".join(f"{state.name} below {state.accepted_below}" for state, _ in ends)
        return Granted(f"what the target holds is accepted: {names}", facts, accepting=states)

    def _resync(self, request: OperatorRequest) -> Granted:
        """Copy again, behind what the target holds, what was copied and is at the source still."""
        states = self._concerned(request)
        self._require_movable(request, states)
        if request.offset is not None and len(states) != 1:
            raise RefusedError("an offset to copy again from belongs to one partition")
        restarts = [(state, self._restart(state, request.asked)) for state in states]
        expired = self._accept_expired(states)
        facts = [
            state.started(SyncCause.RECREATED)
            if state.stop is not None and state.stop.cause is StopCause.SOURCE_RECREATED
            else state.supersede(restart, SyncCause.RESYNC)
            for state, restart in restarts
        ]
        self._let_resume(states)
        names = ", ".join(f"{state.name} from {state.position.source_offset}" for state in states)
        return Granted(f"copied again: {names}", facts, accepting=expired)

    def _reload(self) -> Granted:
        try:
            return Granted(self.reload())
        except (UsageError, PreconditionError) as refused:
            raise RefusedError("; ".join(refused.lines)) from refused

    def _accept_expired(self, states: Sequence[PartitionState]) -> list[PartitionState]:
        """Where the target's log begins behind the recorded end, copying again can only continue there."""
        expired = [
            state
            for state in states
            if state.stop is not None and state.stop.cause is StopCause.TARGET_OUT_OF_RANGE
        ]
        log_starts = [(state, _ends(self.target, state.pair.target).log_start) for state in expired]
        for state, log_start in log_starts:
            state.accepted_below = max(state.accepted_below, log_start)
        return expired

    def _restart(self, state: PartitionState, asked: Request) -> Position:
        """Where to copy again from; refused outside of what was copied and the source still has."""
        source = _ends(self.source, state.pair.source)
        known, at = reached(state, source), source.log_start if asked.offset is None else asked.offset
        if not asked.is_possible(known):
            raise RefusedError(
                f"{state.name} can be copied again from {source.log_start} up to where it stands, "
                f"{known.copied_end}; {at} is not in between"
            )
        if state.stop is not None and state.stop.cause is StopCause.TARGET_RECREATED:
            log_start = _ends(self.target, state.pair.target).log_start
            return Position(source_offset=at, target_offset=log_start, next_sequence=0)
        return replace(state.position, source_offset=at, leader_epoch=None)

    # -- moving ----------------------------------------------------------------------------------

    def _require_movable(self, request: OperatorRequest, states: Sequence[PartitionState]) -> None:
        """Raise `RefusedError` for what the flow does not copy, and for what no request can move."""
        if not states:
            partition = "" if request.partition is None else f" partition {request.partition}"
            raise RefusedError(f"this flow copies no {request.topic or 'topic'}{partition} at present")
        for state in states:
            self._require_free(state)

    def _require_free(self, state: PartitionState) -> None:
        """Raise `RefusedError` for what another flow copies, and for what is promoted at the target."""
        held_by = self._held_by(state)
        if held_by is not None:
            raise RefusedError(f"{state.name}: {held_by.message}. {advice(held_by.cause)}")

    def _held_by(self, state: PartitionState) -> Stop | None:
        """What lets no request move a partition, whatever else has stopped it.

        Two flows that copy one partition to one target topic would bring all of it twice. Behind what applications
        have written at a promoted target nothing may be appended.
        """
        hold = self.hold(state.pair.target.topic)
        if hold is not None:
            return hold
        return state.stop if state.stop is not None and state.stop.cause in NOT_BY_REQUEST else None

    def _begun_again(self, states: Sequence[PartitionState]) -> list[OffsetSync]:
        """All that has to be known is asked for before the first partition moves."""
        beginnings = [self._resumption(state) for state in states]
        return [begin() for begin in beginnings if begin is not None]

    def _resumption(self, state: PartitionState) -> Callable[[], OffsetSync] | None:
        """How a partition resumes after the stop: another incarnation with a fact, all else is tried again."""
        cause = state.stop.cause if state.stop is not None else None
        if cause is StopCause.SOURCE_RECREATED:
            return lambda: state.started(SyncCause.RECREATED)
        if cause is StopCause.TARGET_RECREATED:
            source, target = _ends(self.source, state.pair.source), _ends(self.target, state.pair.target)
            return lambda: copy_again(state, source, target, SyncCause.TARGET_RECREATED)
        return None

    def _let_resume(self, states: Sequence[PartitionState]) -> None:
        stopped = [state for state in states if state.stop is not None]
        for state in stopped:
            state.stop = None
        self.on_resumed([state.pair for state in stopped])


def reached(state: PartitionState, source: PartitionEnds) -> Reached:
    return Reached(
        position=state.position.source_offset, log_start=source.log_start, end=source.high_watermark
    )


def _ends(admin: ClusterAdmin, partition: TopicPartition) -> PartitionEnds:
    found = ends_of_incarnation(admin, partition)
    if found is None:
        raise RefusedError(
            f"{partition.words} has no leader at {admin.alias} at present, or is a new topic by now"
        )
    return found


def _accepted(state: PartitionState) -> Acceptance:
    return Acceptance(
        topic_id=state.pair.source.topic_id,
        partition=state.pair.source.partition,
        target_topic_id=state.pair.target.topic_id,
        target_end=state.position.target_offset,
        below=state.accepted_below,
    )
