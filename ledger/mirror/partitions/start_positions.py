"""How a running flow takes on a partition: where it begins or continues, or why it may not.

A new partition begins where the flow's `start` says, if the flow never ran before; else at its log start:
what came in between is copied. Either is a fact that is recorded before the first write. Offsets
of another incarnation, on either side, are never continued without a policy or an operator who says so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ledger.config.flow import FlowConfig, Policy, StartAt
from ledger.domain.facts import OffsetSync, PartitionPair, SyncCause
from ledger.domain.offsets.position import Position
from ledger.domain.operations.partition_events import RecordedStop
from ledger.domain.operations.receipts import Acceptance
from ledger.mirror.partitions.cut_starts import CutStarts
from ledger.mirror.partitions.flow_progress import FlowProgress, PartitionKey, key_of
from ledger.mirror.partitions.partition_state import PartitionState
from ledger.mirror.task.assignments import AT_THE_TARGET, NOT_BY_REQUEST, Stop, StopCause
from ledger.ports.clusters import ClusterAdmin, PartitionEnds
from ledger.ports.ledger import FlowPosition

Ends = Mapping[tuple[str, int], PartitionEnds]

Hold = Callable[[str], Stop | None]
"""Why a flow may not write to a topic of its target at present; None: it may."""


def nothing_held(_target_topic: str) -> Stop | None:
    return None


CopiedByOthers = Callable[[Sequence[PartitionPair]], Mapping[PartitionKey, str]]
"""Of partitions that would begin those that another flow copies to the same target topic, with what says so."""

BeforeSettling = Callable[[PartitionPair, Position], Position | None]
"""Where the flow stood before its partition was settled without the source; None where nothing of that holds."""


def never_settled(_pair: PartitionPair, _position: Position) -> None:
    return None


@dataclass(frozen=True, slots=True)
class TakenOn:
    """A partition that the flow takes care of from now on.

    `facts` are to be recorded before it is assigned. `new_stop`: it stopped now; a stop that the ledger
    tells already is in the state alone. `left`: states of earlier incarnations that it replaces.
    `goes_on`: a stop that the ledger tells is over.
    """

    state: PartitionState
    facts: tuple[OffsetSync, ...] = ()
    new_stop: Stop | None = None
    left: tuple[PartitionState, ...] = ()
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class StartPositions:
    """`is_first_run`: the flow never claimed an epoch before.

    `stops` and `acceptances`: stopped partitions, and what operators accepted last, as the ledger has them.
    """

    flow: FlowConfig
    source: ClusterAdmin
    progress: FlowProgress
    stops: dict[PartitionKey, RecordedStop]
    acceptances: Mapping[PartitionKey, Acceptance]
    is_first_run: bool
    copied_by_others: CopiedByOthers
    hold: Hold = nothing_held
    at_cut: CutStarts | None = None
    before_settling: BeforeSettling = never_settled

    def note(self, pair: PartitionPair, stop: Stop) -> None:
        """A stop that was recorded since."""
        self.stops[key_of(pair)] = RecordedStop(str(stop.cause), stop.message)

    def over(self, pair: PartitionPair) -> None:
        """A stop that was recorded to be over since."""
        self.stops.pop(key_of(pair), None)

    def start_offsets(
        self, pairs: Sequence[PartitionPair], *, is_first_refresh: bool
    ) -> dict[PartitionKey, int]:
        """For a flow that starts at a time: the first offset at or after it, where there is one."""
        at_ms = self.flow.start_at_ms
        if at_ms is None or not (self.is_first_run and is_first_refresh):
            return {}
        found = self.source.offsets_at([(p.source.topic, p.source.partition) for p in pairs], at_ms)
        return {
            key_of(pair): found[(pair.source.topic, pair.source.partition)]
            for pair in pairs
            if (pair.source.topic, pair.source.partition) in found
        }

    def taken_already(self, pairs: Sequence[PartitionPair]) -> Mapping[PartitionKey, str]:
        """Of partitions without a position those that another flow copies: begun here, all would be there twice."""
        beginning = [pair for pair in pairs if self.progress.recorded(pair) is None]
        return self.copied_by_others(beginning) if beginning else {}

    def take_on(
        self,
        pair: PartitionPair,
        source: PartitionEnds,
        target: PartitionEnds,
        *,
        started_at: int | None,
        is_first_refresh: bool,
        taken_already: str | None = None,
    ) -> TakenOn:
        """Take the partition on; `started_at`: its offset for the time that the flow starts at.

        `taken_already`: what says that another flow copies it.
        """
        hold = self.hold(pair.target.topic)
        if hold is not None:
            return self._held(pair, source, target, hold)
        recorded = self.progress.recorded(pair)
        taken = self._taken_at_cut(pair, recorded, source, target)
        if taken is not None:
            return taken
        if recorded is None and taken_already is not None:
            return self._taken_already(pair, source, target, taken_already)
        if recorded is None:
            return self._begin(pair, source, target, started_at, is_first_refresh=is_first_refresh)
        state = PartitionState(pair, recorded.position)
        if recorded.target_topic_id != pair.target.topic_id:
            return self._target_recreated(state, recorded, source, target)
        facts = self._beside_source_again(state)
        self._accept_again(state)
        state.stop = self._recorded_stop(pair)
        return TakenOn(state, facts, goes_on=self._is_over(pair))

    def _beside_source_again(self, state: PartitionState) -> tuple[OffsetSync, ...]:
        """What was recorded of the target's end without the source is read again, now that there is one."""
        stood = self.before_settling(state.pair, state.position)
        if stood is None:
            return ()
        state.position = stood
        fact = state.supersede(stood, SyncCause.SETTLED)
        state.position = stood
        return (fact,)

    def _recorded_stop(self, pair: PartitionPair) -> Stop | None:
        recorded = self.stops.get(key_of(pair))
        if recorded is None or self._is_over(pair):
            return None
        return Stop(StopCause.of(recorded.cause), recorded.message)

    def _is_over(self, pair: PartitionPair) -> bool:
        """Whether it had stopped for a cause that would have been found again."""
        recorded = self.stops.get(key_of(pair))
        return recorded is not None and recorded.cause in NOT_BY_REQUEST

    def _taken_at_cut(
        self,
        pair: PartitionPair,
        recorded: FlowPosition | None,
        source: PartitionEnds,
        target: PartitionEnds,
    ) -> TakenOn | None:
        """Behind a cut, where there is one that is about it; another stop comes first.

        That somebody else wrote to the target is over with it: it says up to where that is decided. What was settled
        without the source is paired with it first, as without a cut: else it would be copied a second time.
        """
        is_another = recorded is not None and recorded.target_topic_id != pair.target.topic_id
        begins_again = recorded is None and bool(self.progress.other_incarnations(pair))
        former = self._recorded_stop(pair)
        is_stopped = former is not None and former.cause is not StopCause.FOREIGN_WRITE
        if self.at_cut is None or is_another or begins_again or is_stopped:
            return None
        if recorded is not None and self.before_settling(pair, recorded.position) is not None:
            return None
        taken = self.at_cut.take_on(pair, None if recorded is None else recorded.position, source, target)
        if taken is None:
            return None
        taken.state.stop = taken.stop
        new_stop = None if taken.stop is None else self._unless_recorded(taken.state, taken.stop)
        is_over = former is not None or self._is_over(pair)
        return TakenOn(taken.state, taken.facts, new_stop, goes_on=taken.stop is None and is_over)

    def _held(self, pair: PartitionPair, source: PartitionEnds, target: PartitionEnds, hold: Stop) -> TakenOn:
        """It stands where it stood, whatever happens at either side meanwhile; another stop is not forgotten."""
        recorded = self.progress.recorded(pair)
        if recorded is None:
            state = self._beginning(pair, source, target)
        else:
            state = PartitionState(pair, recorded.position, is_waiting=True)
        state.stop = self._recorded_stop(pair) or hold
        return TakenOn(state, new_stop=self._unless_recorded(state, state.stop))

    def _taken_already(
        self, pair: PartitionPair, source: PartitionEnds, target: PartitionEnds, reason: str
    ) -> TakenOn:
        state = self._beginning(pair, source, target)
        state.stop = Stop(StopCause.COPIED_BY_ANOTHER_FLOW, f"{reason}; nothing was copied")
        return TakenOn(state, new_stop=self._unless_recorded(state, state.stop))

    def _accept_again(self, state: PartitionState) -> None:
        """What was accepted stays so while the flow has written nothing since."""
        accepted = self.acceptances.get(key_of(state.pair))
        here = state.pair.target.topic_id, state.position.target_offset
        if accepted is not None and (accepted.target_topic_id, accepted.target_end) == here:
            state.accepted_below = accepted.below

    def _begin(
        self,
        pair: PartitionPair,
        source: PartitionEnds,
        target: PartitionEnds,
        started_at: int | None,
        *,
        is_first_refresh: bool,
    ) -> TakenOn:
        others = self.progress.other_incarnations(pair)
        if others and (self._is_recorded_recreated(pair) or not self.progress.has_begun(pair)):
            return self._source_recreated(pair, others, source, target)
        if others:
            return self._begin_again(pair, source, target)
        goes_back = self.at_cut is not None and self.at_cut.cut_of(pair.target.topic) is not None
        applies = self.is_first_run and is_first_refresh and not goes_back
        start, cause = self._start(source, started_at) if applies else (source.log_start, SyncCause.EARLIEST)
        state = PartitionState(pair, _unwritten(start, target))
        return TakenOn(state, (state.started(cause),), goes_on=self._is_over(pair))

    def _start(self, source: PartitionEnds, started_at: int | None) -> tuple[int, SyncCause]:
        if self.flow.start == StartAt.EARLIEST:
            return source.log_start, SyncCause.EARLIEST
        if self.flow.start == StartAt.LATEST:
            return source.last_stable, SyncCause.LATEST
        return (source.last_stable if started_at is None else started_at), SyncCause.TIMESTAMP

    def _source_recreated(
        self, pair: PartitionPair, others: frozenset[str], source: PartitionEnds, target: PartitionEnds
    ) -> TakenOn:
        left = tuple(self.progress.leave(pair.source.topic, others))
        if self.flow.on_source_recreated is Policy.CONTINUE:
            taken = self._begin_again(pair, source, target)
            return TakenOn(taken.state, taken.facts, left=left, goes_on=taken.goes_on)
        stop = Stop(
            StopCause.SOURCE_RECREATED,
            f"{pair.source.topic} was recreated at the source: its topic id is {pair.source.topic_id}, this flow "
            f"copied {', '.join(sorted(others))}; nothing of the new topic was copied",
        )
        state = self._beginning(pair, source, target)
        state.stop = stop
        return TakenOn(state, new_stop=self._unless_recorded(state, stop), left=left)

    def _begin_again(self, pair: PartitionPair, source: PartitionEnds, target: PartitionEnds) -> TakenOn:
        """A new incarnation of the source continues behind the old one's records at the target."""
        state = self._beginning(pair, source, target)
        return TakenOn(state, (state.started(SyncCause.RECREATED),), goes_on=self._is_over(pair))

    def _beginning(self, pair: PartitionPair, source: PartitionEnds, target: PartitionEnds) -> PartitionState:
        before = self.progress.recorded_at_target(pair)
        if before is None:
            return PartitionState(pair, _unwritten(source.log_start, target), is_waiting=True)
        position = Position(
            source_offset=source.log_start,
            target_offset=before.position.target_offset,
            next_sequence=before.position.next_sequence,
        )
        return PartitionState(pair, position, is_waiting=True)

    def _target_recreated(
        self, state: PartitionState, recorded: FlowPosition, source: PartitionEnds, target: PartitionEnds
    ) -> TakenOn:
        """Where the flow continues, what stopped it for another reason than the lost topic stops it still."""
        pair = state.pair
        if self.flow.on_target_recreated is Policy.CONTINUE:
            former = self._recorded_stop(pair)
            is_over = self._is_over(pair) or (former is not None and former.cause in AT_THE_TARGET)
            state.stop = None if is_over else former
            fact = copy_again(state, source, target, SyncCause.TARGET_RECREATED)
            return TakenOn(state, (fact,), goes_on=is_over)
        stop = Stop(
            StopCause.TARGET_RECREATED,
            f"{pair.target.topic} was recreated at the target: its topic id is {pair.target.topic_id}, this flow "
            f"wrote to {recorded.target_topic_id}; nothing was written to the new topic",
        )
        state.stop = stop
        return TakenOn(state, new_stop=self._unless_recorded(state, stop))

    def _is_recorded_recreated(self, pair: PartitionPair) -> bool:
        recorded = self.stops.get(key_of(pair))
        return recorded is not None and recorded.cause == StopCause.SOURCE_RECREATED

    def _unless_recorded(self, state: PartitionState, stop: Stop) -> Stop | None:
        recorded = self.stops.get(key_of(state.pair))
        if recorded is None or recorded.cause != stop.cause:
            return stop
        # It says of which promotion: that the flow obeys one proves nothing of a later one.
        is_of_another = stop.cause is StopCause.PROMOTED and recorded.message != stop.message
        return stop if is_of_another else None


def copy_again(
    state: PartitionState, source: PartitionEnds, target: PartitionEnds, cause: SyncCause
) -> OffsetSync:
    """All that the source still has goes into a target partition that the flow has not written to.

    What the source deleted before it was copied at all is behind the position: it is met, and recorded as lost.
    """
    start = min(source.log_start, state.position.source_offset)
    return state.supersede(_unwritten(start, target), cause)


def _unwritten(source_offset: int, target: PartitionEnds) -> Position:
    """In a target partition that the flow has not written to."""
    return Position(source_offset=source_offset, target_offset=target.log_start, next_sequence=0)
