"""How a running flow takes on a partition: where it begins or continues, or why it may not.

A new partition begins where the flow's `start` says, if the flow never ran before; else at its log start:
what came in between is copied. Either is a fact that is recorded before the first write. Offsets
of another incarnation, on either side, are never continued without a policy or an operator who says so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ledger.config.values import FlowConfig, Policy, StartAt
from ledger.errors import PreconditionError, UsageError
from ledger.facts.cut_offsets import Cut, CutOffset
from ledger.facts.identity import FlowProducer
from ledger.facts.operations import RecordedStop, Settled, SettledByEpoch
from ledger.facts.recreated import Recreations
from ledger.facts.requests import Acceptance
from ledger.facts.state import LedgerState
from ledger.facts.syncs import (
    FlowPosition,
    OffsetRange,
    OffsetSync,
    PartitionPair,
    Position,
    RecordedSync,
    SyncCause,
    SyncKind,
    TopicPartition,
    holding,
    joined,
    source_may_be_deleted,
    without,
)
from ledger.kafka.cluster import ClusterAdmin, PartitionEnds
from ledger.mirror.assignment import AT_THE_TARGET, NOT_BY_REQUEST, Hold, Stop, StopCause, nothing_held
from ledger.mirror.states import FlowProgress, PartitionKey, PartitionState, first_record
from ledger.words import listed


@dataclass(frozen=True, slots=True)
class StartedPartition:
    """A partition that the flow takes care of from now on; `state.stop`: why it stands still all the same.

    `facts` are to be recorded before it is assigned. `new_stop`: it stopped now; a stop that the ledger
    tells already is in the state alone. `left`: states of earlier incarnations that it replaces.
    `is_stop_over`: a stop that the ledger tells is over.
    """

    state: PartitionState
    facts: tuple[OffsetSync, ...] = ()
    new_stop: Stop | None = None
    left: tuple[PartitionState, ...] = ()
    is_stop_over: bool = False


@dataclass(frozen=True, slots=True)
class PairEnds:
    """A pair of partitions that the flow takes on, with the ends of both sides as of now."""

    pair: PartitionPair
    source: PartitionEnds
    target: PartitionEnds


# Cut starts ---------------------------------------------------------------------------------------
# Where a flow begins or continues after a change of direction: at the cut that was taken of the other
# direction.
#
# What the other flow copied to here, as its rows or its producer ids prove, is passed unread, and what the
# target holds up to its end at the cut is neither read nor foreign. So nothing is read twice, and nothing
# copied twice: the flow's own records there are all recorded, for else the cut says of no offset that the
# way back may begin there.


CutOf = Callable[[str], Cut | None]
"""By target topic the cut that a flow's partitions begin or continue at; None: as always."""


@dataclass(frozen=True, slots=True)
class CutPlace:
    """Where a partition begins or continues: the ends of both sides as they were at the cut."""

    operation_id: str
    here: CutOffset
    there: CutOffset
    source_offset: int
    target_offset: int

    def is_ahead_of(self, position: Position) -> bool:
        """Whether the flow has yet to come there."""
        at_cut = (self.source_offset, self.target_offset)
        at = (position.source_offset, position.target_offset)
        return at != at_cut and at[0] <= at_cut[0] and at[1] <= at_cut[1]


@dataclass(frozen=True, slots=True)
class CutStarts:
    """Of a flow with an opposite; of another one nothing begins at a cut."""

    flow: FlowConfig
    source: ClusterAdmin
    target: ClusterAdmin
    state: LedgerState
    producer: FlowProducer
    cut_of: CutOf
    recreations: Recreations = field(default_factory=Recreations)

    def place(self, pair: PartitionPair) -> CutPlace | None:
        """Where the partition is to begin or continue; None: no cut is about both of these incarnations."""
        found = place_of(self.flow, self.cut_of(pair.target.topic), pair.source.topic, pair.source.partition)
        if found is None:
            return None
        are_these = (found.here.topic_id, found.there.topic_id) == (
            pair.source.topic_id,
            pair.target.topic_id,
        )
        return found if are_these else None

    def take_on(self, at: PairEnds, recorded: Position | None) -> StartedPartition | None:
        """Begin at the cut, or continue behind it; None: no cut is about it, or the flow has come behind it before."""
        pair, source, target = at.pair, at.source, at.target
        place = self.place(pair)
        if place is None or (recorded is not None and not place.is_ahead_of(recorded)):
            return None
        refusal = _shrunk(place, source, target)
        if recorded is None:
            begin = Position(
                source_offset=place.source_offset, target_offset=place.target_offset, next_sequence=0
            )
            state = PartitionState(pair, begin, is_waiting=True)
            if refusal is not None:
                return self._refused(state, place, refusal)
            state.stop = self._written_since(place, target)
            return StartedPartition(state, (state.started(SyncCause.CUT),))
        state = PartitionState(pair, recorded, is_waiting=True)
        proven_end = recorded.source_offset if refusal else self._proven_end(pair, place, recorded, source)
        unknown = (
            place.source_offset if refusal else self._first_unknown(pair, place, recorded, source, proven_end)
        )
        if refusal is None and unknown < place.source_offset:
            refusal = (
                f"{self.flow.source} holds at offset {unknown} what flow {self.flow.opposite} has not copied there, "
                f"and flow {self.flow.name} may have copied some of it and not recorded that"
            )
        if refusal is not None:
            return self._refused(state, place, refusal)
        state.is_waiting, state.stop = False, self._written_since(place, target)
        return StartedPartition(state, (_passing(state, place, proven_end),))

    def needs_another_producer(self, known: FlowPosition) -> bool:
        """Whether the flow has written with its id where it is to continue behind what others wrote.

        The last record there is not its own then. With a new id none of its own is searched behind a cut.
        """
        if not known.position.next_sequence or known.producer_id not in (None, self.producer.current):
            return False
        if (new := self._made_again(known.pair)) is not None:
            return self.place(new) is not None
        place = self.place(known.pair)
        return place is not None and place.is_ahead_of(known.position)

    def _made_again(self, pair: PartitionPair) -> PartitionPair | None:
        """The pair of a source topic that was created again by decision, while the flow has not begun with it; else
        None."""
        topic_id = self.recreations.current(pair.source.topic_id)
        if topic_id is None or topic_id == pair.source.topic_id:
            return None
        if any(at.source_topic_id == topic_id for at in self.state.positions(self.flow.name)):
            return None
        return replace(pair, source=replace(pair.source, topic_id=topic_id))

    # -- what is proved --------------------------------------------------------------------------

    def _first_unknown(
        self, pair: PartitionPair, place: CutPlace, recorded: Position, source: PartitionEnds, proven_end: int
    ) -> int:
        """Up to where nothing can be at the target unrecorded: extras of which it is decided that they stay were not,
        for what was copied had been paired before."""
        if proven_end == place.source_offset or self._is_complete(pair, recorded):
            return place.source_offset
        decided = self.state.extras().kept_local(pair.source)
        return self._proven_end(pair, place, recorded, source, decided) if decided else proven_end

    def _proven_end(
        self,
        pair: PartitionPair,
        place: CutPlace,
        recorded: Position,
        source: PartitionEnds,
        decided: tuple[OffsetRange, ...] = (),
    ) -> int:
        """Up to where all that the source holds was written by mirrors, is a control record, or `decided`.

        What its log start has passed cannot be read any more. Nothing else can have been there where the flow had come
        to the source's end at a cut of its own: from then on only the other flow wrote there.
        """
        passed = (recorded.source_offset, place.source_offset)
        rows = self.state.recorded_syncs(place.here.flow, place.there.topic, pair.source.partition)
        claims = [
            (sync.target_start, sync.target_end)
            for sync in holding(rows)
            if sync.records and sync.target == pair.source
        ]
        known = joined(sorted((*claims, *decided)))
        unclaimed = list(without(passed, known))
        mirrors = self.state.identities().mirror_ids(self.source.cluster_id()) if unclaimed else frozenset()
        for start, end in unclaimed:
            if start < source.log_start and not self._is_complete(pair, recorded):
                return start
            found = first_record(
                self.source, pair.source, max(start, source.log_start), end, is_decided=mirrors.__contains__
            )
            if found is not None:
                return found[0]
        return place.source_offset

    def _is_complete(self, pair: PartitionPair, recorded: Position) -> bool:
        """Whether a cut was taken of this flow where it stands: nothing of it at the target was unrecorded then.

        What had been settled then stood at the source where the flow had been before, and was paired with it since.
        """
        ends = {recorded.source_offset} | self._settled_from(pair)
        return any(
            at.reverse_start is not None
            and at.topic_id == pair.target.topic_id
            and at.map_target_end == recorded.target_offset
            and at.map_source_end in ends
            for at in self.state.cut_targets(self.flow.name, [pair.target.topic]).get(pair.target.place, ())
        )

    def _settled_from(self, pair: PartitionPair) -> set[int]:
        """Source offsets behind which what was settled is paired by now."""
        rows = self.state.recorded_syncs(self.flow.name, pair.source.topic, pair.source.partition)
        return {
            one.sync.source_start
            for one in rows
            if one.sync.cause is SyncCause.SETTLED
            and (one.sync.source, one.sync.target) == (pair.source, pair.target)
        }

    def _written_since(self, place: CutPlace, target: PartitionEnds) -> Stop | None:
        """What somebody wrote at the target after the cut: the flow's records would lie behind it."""
        found = first_record(
            self.target,
            _partition(place.there),
            place.target_offset,
            target.high_watermark,
            is_decided=self.producer.wrote,
        )
        if found is None:
            return None
        return Stop(
            StopCause.FOREIGN_WRITE,
            f"{place.there.name} of {self.flow.target} ended at {place.target_offset} at cut {place.operation_id}, and "
            f"was written to since, from offset {found[0]} on: applications were not kept from it; nothing was written",
        )

    def _refused(self, state: PartitionState, place: CutPlace, why: str) -> StartedPartition:
        message = f"cut {place.operation_id}: {why}; nothing was copied"
        state.stop = Stop(StopCause.CUT_NOT_HELD, message)
        return StartedPartition(state)


def place_of(flow: FlowConfig, cut: Cut | None, source_topic: str, partition: int) -> CutPlace | None:
    """What a cut says of a partition of a flow that goes the way back of the one that it was taken of."""
    if cut is None or flow.opposite is None:
        return None
    pair = cut.pairs(flow.opposite).get((source_topic, partition))
    if pair is None or pair.source is None or pair.target is None:
        return None
    start, end = pair.reverse_start, pair.source.high_watermark
    if start is None or end is None:
        return None
    return CutPlace(cut.operation_id, pair.target, pair.source, start, end)


def require_usable(flow: FlowConfig, cut: Cut, *, undone: str = "nothing was started") -> None:
    """Raise unless the flow may begin at the cut: `UsageError` where it is of other flows, else `PreconditionError`.

    `undone`: what was not done because of that.
    """
    if flow.opposite is None:
        raise UsageError(
            f"flow {flow.name} has no opposite: only the way back of another flow begins at a cut of that. Give both "
            f"flows the key `opposite`; {undone}"
        )
    pairs = cut.pairs(flow.opposite)
    if not pairs:
        raise UsageError(
            f"operation {cut.operation_id} took no cut of flow {flow.opposite}"
            + (f", but of {', '.join(cut.flows)}" if cut.flows else "")
            + f"; {undone}"
        )
    without_start = [
        f"{pair.name}: {why}"
        for pair in pairs.values()
        if None not in (pair.source, pair.target) and (why := pair.why_no_start()) is not None
    ]
    if not any(pair.source is not None and pair.source.is_live for pair in pairs.values()):
        without_start = without_start or [f"{flow.target} was not read itself"]
    if without_start:
        more = [f"and {len(without_start) - 10} more"] if len(without_start) > 10 else []
        raise PreconditionError(
            f"flow {flow.name} cannot begin at cut {cut.operation_id}; {undone}. Take another one when that "
            f"is mended (mirror-ledger cut --from {flow.target} --to {flow.source}), of other topics where "
            "only some are concerned:",
            *listed([*without_start[:10], *more]),
        )


def _shrunk(place: CutPlace, source: PartitionEnds, target: PartitionEnds) -> str | None:
    """Why a log that ends before the cut keeps the flow from it."""
    for at, ends, offset in (
        (place.here, source, place.source_offset),
        (place.there, target, place.target_offset),
    ):
        if ends.high_watermark < offset:
            return f"{at.name} of {at.cluster} ended at {offset} then, and ends at {ends.high_watermark} now"
    return None


def _passing(state: PartitionState, place: CutPlace, proven_end: int) -> OffsetSync:
    if proven_end > state.position.source_offset:
        return state.pass_copies(proven_end, target_end=place.target_offset)
    return state.pass_target(place.target_offset)


def _partition(at: CutOffset) -> TopicPartition:
    return TopicPartition(at.topic, at.topic_id, at.partition)


# Start positions ----------------------------------------------------------------------------------


CopiedByOthers = Callable[[Sequence[PartitionPair]], Mapping[PartitionKey, str]]
"""Of partitions that would begin those that another flow copies to the same target topic, with what says so."""

BeforeSettling = Callable[[PartitionPair, Position], Position | None]
"""Where the flow stood before its partition was settled without the source; None where nothing of that holds."""


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
    before_settling: BeforeSettling = lambda _pair, _position: None

    def note(self, pair: PartitionPair, stop: Stop) -> None:
        """A stop that was recorded since."""
        self.stops[pair.source.key] = RecordedStop(str(stop.cause), stop.message)

    def over(self, pair: PartitionPair) -> None:
        """A stop that was recorded to be over since."""
        self.stops.pop(pair.source.key, None)

    def start_offsets(
        self, pairs: Sequence[PartitionPair], *, is_first_refresh: bool
    ) -> dict[PartitionKey, int]:
        """For a flow that starts at a time: the first offset at or after it, where there is one."""
        at_ms = self.flow.start_at_ms
        if at_ms is None or not (self.is_first_run and is_first_refresh):
            return {}
        found = self.source.offsets_at([p.source.place for p in pairs], at_ms)
        return {pair.source.key: found[pair.source.place] for pair in pairs if pair.source.place in found}

    def taken_already(self, pairs: Sequence[PartitionPair]) -> Mapping[PartitionKey, str]:
        """Of partitions without a position those that another flow copies: begun here, all would be there twice."""
        beginning = [pair for pair in pairs if self.progress.recorded(pair) is None]
        return self.copied_by_others(beginning) if beginning else {}

    def take_on(
        self,
        at: PairEnds,
        *,
        started_at: int | None,
        is_first_refresh: bool,
        taken_already: str | None = None,
    ) -> StartedPartition:
        """Take the partition on; `started_at`: its offset for the time that the flow starts at.

        `taken_already`: what says that another flow copies it.
        """
        pair = at.pair
        hold = self.hold(pair.target.topic)
        if hold is not None:
            return self._held(at, hold)
        recorded = self.progress.recorded(pair)
        taken = self._taken_at_cut(at, recorded)
        if taken is not None:
            return taken
        if recorded is None and taken_already is not None:
            stop = Stop(StopCause.COPIED_BY_ANOTHER_FLOW, f"{taken_already}; nothing was copied")
            return self._stopped(self._beginning(at), stop)
        if recorded is None:
            return self._begin(at, started_at, is_first_refresh=is_first_refresh)
        state = PartitionState(pair, recorded.position, asks_for_outcomes=recorded.is_truncated)
        if recorded.target_topic_id != pair.target.topic_id:
            return self._target_recreated(state, recorded, at)
        facts = self._beside_source_again(state)
        self._accept_again(state)
        state.stop = self._recorded_stop(pair)
        return StartedPartition(state, facts, is_stop_over=self._is_over(pair))

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
        recorded = self.stops.get(pair.source.key)
        if recorded is None or self._is_over(pair):
            return None
        return Stop(StopCause.of(recorded.cause), recorded.message)

    def _is_over(self, pair: PartitionPair) -> bool:
        """Whether it had stopped for a cause that would have been found again."""
        recorded = self.stops.get(pair.source.key)
        return recorded is not None and recorded.cause in NOT_BY_REQUEST

    def _taken_at_cut(self, at: PairEnds, recorded: FlowPosition | None) -> StartedPartition | None:
        """Behind a cut, where there is one that is about it; another stop comes first.

        That somebody else wrote to the target is over with it: it says up to where that is decided. What was settled
        without the source is paired with it first, as without a cut: else it would be copied a second time.
        """
        pair = at.pair
        is_another = recorded is not None and recorded.target_topic_id != pair.target.topic_id
        begins_again = (
            recorded is None
            and bool(self.progress.other_incarnations(pair))
            and not self._is_decided(pair.source)
        )
        former = self._recorded_stop(pair)
        is_stopped = former is not None and former.cause is not StopCause.FOREIGN_WRITE
        if self.at_cut is None or is_another or begins_again or is_stopped:
            return None
        if recorded is not None and self.before_settling(pair, recorded.position) is not None:
            return None
        taken = self.at_cut.take_on(at, None if recorded is None else recorded.position)
        if taken is None:
            return None
        if taken.state.stop is not None:
            return replace(self._stopped(taken.state, taken.state.stop), facts=taken.facts)
        return replace(taken, is_stop_over=former is not None or self._is_over(pair))

    def _is_decided(self, at: TopicPartition) -> bool:
        """Whether the topic was created again by decision, so that no policy is asked of flows of a way back."""
        if self.at_cut is None or self.flow.opposite is None:
            return False
        return self.at_cut.recreations.is_new(at.topic_id)

    def _held(self, at: PairEnds, hold: Stop) -> StartedPartition:
        """It stands where it stood, whatever happens at either side meanwhile; another stop is not forgotten."""
        recorded = self.progress.recorded(at.pair)
        stop = self._recorded_stop(at.pair) or hold
        if recorded is None:
            return self._stopped(self._beginning(at), stop)
        return self._stopped(PartitionState(at.pair, recorded.position, is_waiting=True), stop)

    def _accept_again(self, state: PartitionState) -> None:
        """What was accepted stays so while the flow has written nothing since."""
        accepted = self.acceptances.get(state.pair.source.key)
        here = state.pair.target.topic_id, state.position.target_offset
        if accepted is not None and (accepted.target_topic_id, accepted.target_end) == here:
            state.accepted_below = accepted.below

    def _begin(self, at: PairEnds, started_at: int | None, *, is_first_refresh: bool) -> StartedPartition:
        pair, source = at.pair, at.source
        others, stop = self.progress.other_incarnations(pair), self.stops.get(pair.source.key)
        is_recreated = stop is not None and stop.cause == StopCause.SOURCE_RECREATED
        if others and (is_recreated or not self.progress.has_begun(pair)):
            return self._source_recreated(at, others)
        if others:
            return self._begin_again(at)
        goes_back = self.at_cut is not None and self.at_cut.cut_of(pair.target.topic) is not None
        applies = self.is_first_run and is_first_refresh and not goes_back
        start, cause = self._start(source, started_at) if applies else (source.log_start, SyncCause.EARLIEST)
        state = PartitionState(pair, _unwritten(start, at.target))
        return StartedPartition(state, (state.started(cause),), is_stop_over=self._is_over(pair))

    def _start(self, source: PartitionEnds, started_at: int | None) -> tuple[int, SyncCause]:
        if self.flow.start == StartAt.EARLIEST:
            return source.log_start, SyncCause.EARLIEST
        if self.flow.start == StartAt.LATEST:
            return source.last_stable, SyncCause.LATEST
        return (source.last_stable if started_at is None else started_at), SyncCause.TIMESTAMP

    def _source_recreated(self, at: PairEnds, others: frozenset[str]) -> StartedPartition:
        pair = at.pair
        left = tuple(self.progress.leave(pair.source.topic, others))
        if self.flow.on_source_recreated is Policy.CONTINUE or self._is_decided(pair.source):
            return replace(self._begin_again(at), left=left)
        stop = Stop(
            StopCause.SOURCE_RECREATED,
            f"{pair.source.topic} was recreated at the source: its topic id is {pair.source.topic_id}, this flow "
            f"copied {', '.join(sorted(others))}; nothing of the new topic was copied",
        )
        return replace(self._stopped(self._beginning(at), stop), left=left)

    def _begin_again(self, at: PairEnds) -> StartedPartition:
        """A new incarnation of the source continues behind the old one's records at the target."""
        state = self._beginning(at)
        return StartedPartition(
            state, (state.started(SyncCause.RECREATED),), is_stop_over=self._is_over(at.pair)
        )

    def _beginning(self, at: PairEnds) -> PartitionState:
        before = self.progress.recorded_at_target(at.pair)
        position = _unwritten(at.source.log_start, at.target)
        if before is not None:
            position = replace(
                position,
                target_offset=before.position.target_offset,
                next_sequence=before.position.next_sequence,
            )
        return PartitionState(at.pair, position, is_waiting=True)

    def _target_recreated(
        self, state: PartitionState, recorded: FlowPosition, at: PairEnds
    ) -> StartedPartition:
        """Where the flow continues, what stopped it for another reason than the lost topic stops it still.

        Until it does the position is one in the former topic, and nothing is known of it in the new one.
        """
        pair = state.pair
        if self.flow.on_target_recreated is Policy.CONTINUE or self._is_decided(pair.target):
            former = self._recorded_stop(pair)
            is_over = self._is_over(pair) or (former is not None and former.cause in AT_THE_TARGET)
            state.stop = None if is_over else former
            fact = copy_again(state, at.source, at.target, SyncCause.TARGET_RECREATED)
            return StartedPartition(state, (fact,), is_stop_over=is_over)
        stop = Stop(
            StopCause.TARGET_RECREATED,
            f"{pair.target.topic} was recreated at the target: its topic id is {pair.target.topic_id}, this flow "
            f"wrote to {recorded.target_topic_id}; nothing was written to the new topic",
        )
        state.is_waiting = True
        return self._stopped(state, stop)

    def _stopped(self, state: PartitionState, stop: Stop) -> StartedPartition:
        """It stands still; what the ledger has of that is not recorded once more."""
        state.stop = stop
        recorded = self.stops.get(state.pair.source.key)
        is_known = recorded is not None and recorded.cause == stop.cause
        if recorded is not None and stop.cause is StopCause.PROMOTED:
            # It says of which promotion: that the flow obeys one proves nothing of a later one.
            is_known &= recorded.message == stop.message
        return StartedPartition(state, new_stop=None if is_known else stop)


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


# Settlements --------------------------------------------------------------------------------------
# Where a flow stood before somebody recorded the end of its target without its source.


class Settlements:
    """Of one flow, as of its driver's claim: nobody can settle it while that driver is the last one."""

    def __init__(self, flow: str, state: LedgerState, producer_id: int) -> None:
        self._flow = flow
        self._state = state
        self._producer_id = producer_id
        self._settled: dict[PartitionKey, SettledByEpoch] = state.settlements(flow)

    def before(self, pair: PartitionPair, at: Position) -> Position | None:
        """None where nothing was settled, or something was recorded since.

        The partition's rows are read where it stands as if it had been settled.
        """
        settled = self._settled.get(pair.source.key)
        may_be_settled = settled is not None and any(
            one.source_start == at.source_offset and one.target_start < at.target_offset
            for one in settled.values()
        )
        if settled is None or not may_be_settled:
            return None
        rows = self._state.recorded_syncs(self._flow, pair.source.topic, pair.source.partition)
        of_source = [row for row in rows if row.sync.source.topic_id == pair.source.topic_id]
        first, last = None, None
        for row in sorted(of_source, key=lambda row: row.place, reverse=True):
            is_unpaired = (row.sync.kind, row.sync.cause) == (SyncKind.UNPAIRED, SyncCause.LOST_SOURCE)
            if not is_unpaired or row.writer_epoch not in settled:
                last = row
                break
            first = settled[row.writer_epoch]  # of several the first: something may have come late
        return None if first is None else _before(first, at, last, producer_id=self._producer_id)


def _before(settled: Settled, at: Position, last: RecordedSync | None, *, producer_id: int) -> Position:
    """Where the flow stood, for a driver that writes with `producer_id` and stands `at` what was settled.

    `last`: what was recorded before that.
    """
    before = replace(
        at,
        source_offset=settled.source_start,
        target_offset=settled.target_start,
        next_sequence=settled.first_sequence,
        source_may_be_deleted=last is not None and source_may_be_deleted(last.sync.kind, last.sync.cause),
        former_sequence=None,
    )
    if settled.producer_id is None or settled.producer_id == producer_id:
        return before
    return before.with_another_producer(settled.producer_id)


# Other flows --------------------------------------------------------------------------------------
# Partitions that another flow copies to the same target topic: begun once more, all would be there twice.
#
# The ledger knows flows by their names: a flow of another name with the same topics has copied nothing.


AlsoCopiedBy = Callable[[str], frozenset[str]]
"""By source topic: other flows of the configuration that copy it to the same target topic."""


@dataclass(frozen=True, slots=True)
class OtherFlows:
    """Finds them in the ledger and in the configuration."""

    flow: str
    state: LedgerState
    also_copied_by: AlsoCopiedBy

    def __call__(self, pairs: Sequence[PartitionPair]) -> Mapping[PartitionKey, str]:
        """What says that another flow copies a partition; those that this flow has to itself are left out."""
        recorded = self.state.copied_by_others(self.flow, {pair.source.topic_id for pair in pairs})
        found = {}
        for pair in pairs:
            source, target = pair.source, pair.target
            other = recorded.get((source.topic_id, source.partition, target.topic_id))
            if other is not None:
                found[pair.source.key] = (
                    f"flow {other} has copied {source.words} to {target.topic}, as the "
                    f"ledger has it: flow {self.flow} would copy all of it once more"
                )
            elif others := self.also_copied_by(source.topic):
                found[pair.source.key] = (
                    f"the configuration lets flow {' and '.join(sorted(others))} copy {source.topic} to "
                    f"{target.topic}, too: every record would be there twice"
                )
        return found
