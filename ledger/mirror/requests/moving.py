"""The partitions of a running flow, as a request that is granted moves them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ledger.domain.facts import OffsetSync, SyncCause, TopicPartition
from ledger.domain.operations.requests import OperatorRequest, Reached
from ledger.mirror.partitions.ends_of_incarnation import ends_of_incarnation
from ledger.mirror.partitions.flow_progress import FlowProgress
from ledger.mirror.partitions.partition_state import PartitionState
from ledger.mirror.partitions.start_positions import Hold, copy_again, nothing_held
from ledger.mirror.partitions.stop_advice import advice
from ledger.mirror.task.assignments import NOT_BY_REQUEST, Stop, StopCause
from ledger.ports.clusters import ClusterAdmin, PartitionEnds


class RefusedError(Exception):
    """The request cannot be granted; nothing was changed."""


@dataclass(frozen=True, slots=True)
class MovedPartitions:
    """What a flow copies, and its clusters; `on_resumed` is called with partitions that resume together."""

    progress: FlowProgress
    source: ClusterAdmin
    target: ClusterAdmin
    on_resumed: Callable[[Sequence[PartitionState]], None]
    hold: Hold = nothing_held

    def concerned(self, request: OperatorRequest) -> list[PartitionState]:
        return [
            state
            for state in self.progress.states
            if request.concerns(state.pair.source.topic, state.pair.source.partition)
        ]

    def require_movable(self, request: OperatorRequest, states: Sequence[PartitionState]) -> None:
        """Raise `RefusedError` for what the flow does not copy, and for what no request can move."""
        if not states:
            raise RefusedError(f"this flow copies no {_coordinates(request)} at present")
        for state in states:
            self.require_free(state)

    def is_free(self, state: PartitionState) -> bool:
        """Whether requests may move a partition."""
        return self._held_by(state) is None

    def require_free(self, state: PartitionState) -> None:
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

    def begun_again(self, states: Sequence[PartitionState]) -> list[OffsetSync]:
        """All that has to be known is asked for before the first partition moves."""
        beginnings = [self._resumption(state) for state in states]
        return [begin() for begin in beginnings if begin is not None]

    def _resumption(self, state: PartitionState) -> Callable[[], OffsetSync] | None:
        """How a partition resumes after the stop: another incarnation with a fact, all else is tried again."""
        cause = state.stop.cause if state.stop is not None else None
        if cause is StopCause.SOURCE_RECREATED:
            return lambda: state.started(SyncCause.RECREATED)
        if cause is StopCause.TARGET_RECREATED:
            source, target = self.source_ends(state), self.target_ends(state)
            return lambda: copy_again(state, source, target, SyncCause.TARGET_RECREATED)
        return None

    def go_on(self, states: Sequence[PartitionState]) -> None:
        stopped = [state for state in states if state.stop is not None]
        for state in stopped:
            state.stop = None
        self.on_resumed(stopped)

    def source_ends(self, state: PartitionState) -> PartitionEnds:
        """As of now; raises `RefusedError` when they cannot be read."""
        return _ends(self.source, state.pair.source)

    def target_ends(self, state: PartitionState) -> PartitionEnds:
        """As of now; raises `RefusedError` when they cannot be read."""
        return _ends(self.target, state.pair.target)


def reached(state: PartitionState, source: PartitionEnds) -> Reached:
    return Reached(
        position=state.position.source_offset, log_start=source.log_start, end=source.high_watermark
    )


def _ends(admin: ClusterAdmin, partition: TopicPartition) -> PartitionEnds:
    found = ends_of_incarnation(admin, partition)
    if found is None:
        raise RefusedError(
            f"{partition.topic} partition {partition.partition} has no leader at {admin.alias} at present, "
            "or is a new topic by now"
        )
    return found


def _coordinates(request: OperatorRequest) -> str:
    partition = "" if request.partition is None else f" partition {request.partition}"
    return f"{request.topic or 'topic'}{partition}"
