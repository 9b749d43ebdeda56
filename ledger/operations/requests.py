"""Requests to a flow's driver, held against the ledger before they are recorded.

What makes no sense is refused here, with the reason, because the driver that would refuse it may not be
running. What has been done or asked for already is nothing to do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.domain.operations.requests import (
    AskedBy,
    FlowRequests,
    OperatorRequest,
    Pauses,
    Reached,
    Request,
    RequestKind,
    command_line,
    pauses_after,
)
from ledger.domain.resumption import Resumption
from ledger.errors import PreconditionError, UsageError


def require_complete(ask: Request) -> None:
    """Raise `UsageError` where it names a partition of no topic, or an offset of no partition."""
    if ask.partition is not None and ask.topic is None:
        raise UsageError("--partition needs --topic; nothing was recorded")
    if ask.offset is not None and ask.partition is None:
        raise UsageError("--offset needs --partition; nothing was recorded")


class PartitionStatus(StrEnum):
    """Statuses of the query `flow_status`, in its order."""

    GONE = "gone"  # its topic was deleted or recreated at the source
    STOPPED = "stopped"
    RELEASED = "released"
    NOT_STARTED = "not_started"
    MIRRORING = "mirroring"


@dataclass(frozen=True, slots=True)
class KnownPartition:
    """`position`: the next source offset, None when nothing is recorded; `stop_cause` None: it goes on.

    `is_gone`: this incarnation of it is not at the source any more.
    """

    topic: str
    partition: int
    position: int | None
    stop_cause: str | None
    is_gone: bool = False

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


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a request would do, in words; with nothing to do nothing is to be recorded."""

    is_needed: bool
    words: str


def judge(ask: Request, flow: KnownFlow) -> Judgement:
    """What the request would do.

    Raises `UsageError` for a topic or partition that the ledger does not know, and `PreconditionError`
    for what cannot be done as things stand.
    """
    _require_known(ask, flow)
    for request in flow.requests.waiting:
        if ask == request.asked:
            return _nothing(
                f"asked for already by operation {request.operation_id}, which waits for its receipt"
            )
    return _JUDGES[ask.request_kind](ask, flow)


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


def _pause(ask: Request, flow: KnownFlow) -> Judgement:
    if flow.pauses.whole_flow:
        return _nothing(f"the whole of flow {flow.name} is paused")
    if ask.topic is not None and flow.pauses.covers(ask.topic):
        return _nothing(f"{ask.subject} is paused")
    resume = command_line(RequestKind.RESUME, flow.name, topic=ask.topic)
    return _needed(f"nothing of {ask.subject} is copied after the round under way, until `{resume}`")


def _resume(ask: Request, flow: KnownFlow) -> Judgement:
    _refuse_part_of_a_pause(ask, flow)
    resumption = Resumption(_unasked(ask), flow.requests.asked)
    stopped = {(known.topic, known.partition): str(known.stop_cause) for known in flow.stopped(ask)}
    if not resumption.ended and not stopped:
        return _nothing(f"{ask.subject} is neither paused nor stopped")
    others = {(known.topic, known.partition) for known in flow.partitions if known.stop_cause is not None}
    living = {(known.topic, known.partition) for known in flow.partitions if not known.is_gone}
    return _needed(resumption.told(living - others | stopped.keys(), stopped))


def _unasked(ask: Request) -> OperatorRequest:
    """The request that it would be, asked by nobody yet."""
    return OperatorRequest(operation_id="", asked=ask, requested_at_ms=0, asked_by=AskedBy("", None, None))


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


def _skip_to(ask: Request, flow: KnownFlow) -> Judgement:
    assert ask.offset is not None, "the command requires it"
    reached = flow.reached(ask)
    position = reached.position
    if not ask.is_possible(reached):
        raise PreconditionError(
            f"flow {flow.name} stands at source offset {position} of {ask.subject}: up to {ask.offset} there is "
            "nothing to skip; nothing was recorded"
        )
    start = "where the flow begins" if position is None else str(position)
    return _needed(
        f"source offsets of {ask.subject} from {start} up to, not including, {ask.offset} are recorded as lost "
        "and not copied"
    )


def _accept_foreign(ask: Request, flow: KnownFlow) -> Judgement:
    stopped = flow.stopped(ask)
    if not stopped:
        return _nothing(f"nothing of {ask.subject} is stopped")
    names = ", ".join(f"{known} ({known.stop_cause})" for known in stopped)
    return _needed(f"goes on after all that the target holds when the request is taken up: {names}")


def _resync(ask: Request, flow: KnownFlow) -> Judgement:
    reached = flow.reached(ask)
    position = reached.position
    if not ask.is_possible(reached):
        skip = command_line(
            RequestKind.SKIP_TO, flow.name, topic=ask.topic, partition=ask.partition, offset=ask.offset
        )
        raise PreconditionError(
            f"flow {flow.name} stands at source offset {position} of {ask.subject}: from {ask.offset} on there is "
            f"nothing to copy again; nothing was recorded. To leave out what lies between use `{skip}`"
        )
    start = "the source's log start" if ask.offset is None else f"source offset {ask.offset}"
    return _needed(
        f"{ask.subject} is copied again from {start} on, behind what the target holds; what the ledger says of "
        "those source offsets holds no longer, and readers of the target meet the records twice"
    )


def _needed(words: str) -> Judgement:
    return Judgement(is_needed=True, words=words)


def _nothing(words: str) -> Judgement:
    return Judgement(is_needed=False, words=words)


_JUDGES: Mapping[RequestKind, Callable[[Request, KnownFlow], Judgement]] = {
    RequestKind.PAUSE: _pause,
    RequestKind.RESUME: _resume,
    RequestKind.SKIP_TO: _skip_to,
    RequestKind.ACCEPT_FOREIGN: _accept_foreign,
    RequestKind.RESYNC: _resync,
}
