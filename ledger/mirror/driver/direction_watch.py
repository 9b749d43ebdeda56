"""Which target topics of a flow are promoted: the flow leaves these alone until they are demoted."""

from collections.abc import Callable
from dataclasses import dataclass

from ledger.config.flow import FlowConfig
from ledger.domain.operations.directions import Directions
from ledger.errors import FencedProducerError
from ledger.mirror.partitions.flow_progress import FlowProgress
from ledger.mirror.partitions.partition_state import PartitionState
from ledger.mirror.partitions.stop_events import StopEvents
from ledger.mirror.task.assignments import Stop, StopCause


@dataclass(slots=True)
class DirectionWatch:
    """As of the last round."""

    flow: FlowConfig
    is_fenced: Callable[[], bool] = lambda: False
    """Whether markers have shut out the producer id that this run writes with."""
    _directions: Directions | None = None

    def promotion(self, target_topic: str) -> str | None:
        """Why nothing may be written to a target topic, in words; None: it may."""
        directions = self._directions or Directions()
        made_by = directions.promotion(self.flow.source, self.flow.target, target_topic)
        if made_by is None:
            return None
        return (
            f"{target_topic} of {self.flow.target} was promoted over {self.flow.source} {made_by}: applications "
            "write there; nothing was written"
        )

    def obey(
        self,
        directions: Directions,
        progress: FlowProgress,
        events: StopEvents,
        *,
        copied: Callable[[], None],
    ) -> bool:
        """Stop what is promoted, and continue with what is so no longer.

        `copied` waits until what was copied is recorded: it comes before the stop. Returns whether partitions are to
        be taken on again, for this run has done nothing about them yet. Raises `FencedProducerError` when it cannot
        continue with what was demoted.
        """
        is_other = directions != self._directions  # the first are: the claim may be older than a marker
        self._directions = directions
        for state in progress.states:
            promotion = self.promotion(state.pair.target.topic)
            if promotion is not None and _is_to_stop(state.stop, promotion):
                copied()
                state.stop = Stop(StopCause.PROMOTED, promotion)
                events.stopped(state.pair, state.stop)
        demoted = [state for state in progress.states if self._is_demoted(state)]
        if is_other and self.is_fenced():
            copied()
            raise FencedProducerError(
                f"a marker of a promotion refuses the producer id of flow {self.flow.name} at {self.flow.target}; "
                "nothing was written. It continues with another id, from its next claim on: start it again"
            )
        for state in demoted:
            if state.is_waiting:
                progress.forget(state)
            else:
                state.stop = None
                events.resumed(state.pair)
        return any(state.is_waiting for state in demoted)

    def _is_demoted(self, state: PartitionState) -> bool:
        is_held = state.stop is not None and state.stop.cause is StopCause.PROMOTED
        return is_held and self.promotion(state.pair.target.topic) is None


def _is_to_stop(stop: Stop | None, promotion: str) -> bool:
    """What stands still for an earlier promotion says so of this one as well; another stop is not forgotten."""
    return stop is None or (stop.cause is StopCause.PROMOTED and stop.message != promotion)
