"""The partitions of a running flow, as a request that is granted moves them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ledger.domain.facts import OffsetSync, SyncCause, TopicPartition
from ledger.domain.operations.requests import OperatorRequest, Reached
from ledger.mirror.partitions.ends_of_incarnation import ends_of_incarnation
from ledger.mirror.partitions.flow_progress import FlowProgress
from ledger.mirror.partitions.standing import Standing
from ledger.mirror.partitions.start_positions import copy_again
from ledger.mirror.partitions.stop_advice import advice
from ledger.mirror.task.assignments import StopCause
from ledger.ports.clusters import ClusterAdmin, PartitionEnds


class RefusedError(Exception):
    """The request cannot be granted; nothing was changed."""


@dataclass(frozen=True, slots=True)
class MovedPartitions:
    """What a flow copies, and its clusters; `on_resumed` is called for every partition that resumes."""

    progress: FlowProgress
    source: ClusterAdmin
    target: ClusterAdmin
    on_resumed: Callable[[Standing], None]

    def concerned(self, request: OperatorRequest) -> list[Standing]:
        return [
            standing
            for standing in self.progress.standings
            if request.concerns(standing.pair.source.topic, standing.pair.source.partition)
        ]

    def require_movable(self, request: OperatorRequest, standings: Sequence[Standing]) -> None:
        """Raise `RefusedError` for what the flow does not copy, and for what another flow copies."""
        if not standings:
            raise RefusedError(f"this flow copies no {_coordinates(request)} at present")
        refuse_taken(standings)

    def begun_again(self, standings: Sequence[Standing]) -> list[OffsetSync]:
        """All that has to be known is asked for before the first standing moves."""
        beginnings = [self._resumption(standing) for standing in standings]
        return [begin() for begin in beginnings if begin is not None]

    def _resumption(self, standing: Standing) -> Callable[[], OffsetSync] | None:
        """How a partition resumes after the stop: another incarnation with a fact, all else is tried again."""
        cause = standing.stop.cause if standing.stop is not None else None
        if cause is StopCause.SOURCE_RECREATED:
            return lambda: standing.started(SyncCause.RECREATED)
        if cause is StopCause.TARGET_RECREATED:
            source, target = self.source_ends(standing), self.target_ends(standing)
            return lambda: copy_again(standing, source, target, SyncCause.TARGET_RECREATED)
        return None

    def go_on(self, standing: Standing) -> None:
        if standing.stop is not None:
            standing.stop = None
            self.on_resumed(standing)

    def source_ends(self, standing: Standing) -> PartitionEnds:
        """As of now; raises `RefusedError` when they cannot be read."""
        return _ends(self.source, standing.pair.source)

    def target_ends(self, standing: Standing) -> PartitionEnds:
        """As of now; raises `RefusedError` when they cannot be read."""
        return _ends(self.target, standing.pair.target)


def reached(standing: Standing, source: PartitionEnds) -> Reached:
    return Reached(
        position=standing.position.source_offset, log_start=source.log_start, end=source.high_watermark
    )


def is_taken(standing: Standing) -> bool:
    """Whether it stopped because another flow copies it."""
    return standing.stop is not None and standing.stop.cause is StopCause.COPIED_BY_ANOTHER_FLOW


def refuse_taken(standings: Sequence[Standing]) -> None:
    """No request lets two flows copy one partition to one target topic: all would be there twice."""
    for standing in standings:
        if standing.stop is not None and is_taken(standing):
            raise RefusedError(f"{standing.name}: {standing.stop.message}. {advice(standing.stop.cause)}")


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
