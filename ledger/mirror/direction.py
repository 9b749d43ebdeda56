"""Which target topics of a flow the other direction holds: the flow leaves these alone until that is over.

Of two opposite flows one holds at a time. Where applications write was said last by `promoted` and `demoted`; where
nobody has said it, the flow whose driver was started first holds. That is the order of the operators' serial, in which
a driver's start has its place before its claim, so before anything that it wrote: both flows read the same, whatever
their clocks say. The other one stands still partition by partition, with its driver at work: it continues in the round
after a promotion, and one topic may be promoted before the others.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from ledger.config.values import FlowConfig
from ledger.errors import FencedProducerError
from ledger.facts.cut_offsets import Cut
from ledger.facts.direction import Directions, HeldBack
from ledger.facts.state import LedgerState
from ledger.facts.syncs import FlowPosition
from ledger.mirror.assignment import OF_DIRECTION, Stop, StopCause
from ledger.mirror.states import FlowProgress, PartitionState
from ledger.mirror.stops import StopEvents


@dataclass(slots=True)
class DirectionWatch:
    """As of the last round. `given`: the cut that the flow was started with.

    `fenced_topics`: those that markers have shut the producer id out of that this run writes with.
    `needs_another_producer`: whether the flow may continue behind a cut from there with a later producer id alone.
    """

    flow: FlowConfig
    state: LedgerState
    given: Cut | None = None
    directions: Directions = field(default_factory=Directions)
    needs_another_producer: Callable[[FlowPosition], bool] = lambda _position: False
    fenced_topics: Callable[[], frozenset[str]] = frozenset
    _obeyed: Directions | None = None
    _read: dict[str, Cut] = field(default_factory=dict)

    @property
    def topic_ids_of_cut(self) -> frozenset[str]:
        """Of topics of which a cut says what they hold, that the flow was started with or that the way back to them
        begins at: nothing there is strange."""
        ways_back = [
            self._cut(one.operation_id)
            for one in self.directions.ways_back
            if (one.opened.promoted, one.opened.cluster) == (self.flow.source, self.flow.target)
        ]
        cuts = [*([] if self.given is None else [self.given]), *ways_back]
        return frozenset(
            side.topic_id
            for cut in cuts
            for pair in cut.every_pair
            for side in (pair.source, pair.target)
            if side is not None
        )

    def hold(self, target_topic: str) -> Stop | None:
        """Why nothing may be written to a target topic; None: it may."""
        flow, source, target = self.flow, self.flow.source, self.flow.target
        held = self.directions.held_back(
            flow.name, flow.opposite, source=source, target=target, topic=target_topic
        )
        if held is None:
            return None
        if held is HeldBack.PROMOTED:
            made_by = self.directions.promotion(source, target, target_topic)
            message = (
                f"{target_topic} of {target} was promoted over {source} {made_by}: applications write there"
            )
            return Stop(StopCause.PROMOTED, f"{message}; nothing was written")
        return Stop(
            StopCause.OPPOSITE_HOLDS,
            f"{target_topic} of {source} is not promoted over {target}, and flow {flow.opposite}, which brings it the "
            "other way, was started first: applications write at the target; nothing was written",
        )

    def holds_all(self, target_topics: Collection[str]) -> bool:
        """Whether nothing may be written to any of them; False of none."""
        return bool(target_topics) and all(self.hold(topic) is not None for topic in target_topics)

    def are_promoted(self, target_topics: Collection[str]) -> bool:
        """The same for the reason that they are promoted: the mirror may be denied all that it would write, and so be
        given no other producer id.
        """
        stops = [self.hold(topic) for topic in target_topics]
        return bool(stops) and all(stop is not None and stop.cause is StopCause.PROMOTED for stop in stops)

    def cut_of(self, target_topic: str) -> Cut | None:
        """Where partitions of a topic begin or continue: the cut that was given, or the one that was kept for them.

        The later of the two: a driver that was started at a cut may be at work when the direction changes twice.
        """
        kept = self.directions.kept_ends(self.flow.source, self.flow.target, target_topic)
        if kept is None:
            return self.given
        found = self._cut(kept)
        return self.given if self.given is not None and not found.is_behind(self.given) else found

    def _cut(self, operation_id: str) -> Cut:
        if operation_id not in self._read:
            self._read[operation_id] = self.state.cut(operation_id)
        return self._read[operation_id]

    def obey(
        self,
        directions: Directions,
        progress: FlowProgress,
        events: StopEvents,
        *,
        copied: Callable[[], None],
    ) -> bool:
        """Stop what the other direction holds, and continue with what it holds no longer.

        `copied` waits until what was copied is recorded: it comes before the stop. Returns whether partitions are to
        be taken on again, for this run has done nothing about them yet, or they continue behind a cut. Raises
        `FencedProducerError` where they continue with another producer id, which only a claim can give the flow.
        """
        is_other = directions != self._obeyed  # the first are: the claim may be older than a marker
        self.directions = self._obeyed = directions
        self._stop(progress, events, copied)
        freed = [state for state in progress.states if self._is_free_again(state)]
        behind_cut = [state for state in freed if self.cut_of(state.pair.target.topic) is not None]
        fenced = self.fenced_topics() if is_other else frozenset[str]()
        if fenced and not all(map(self.holds_all, (progress.target_topics, fenced))):
            copied()
            raise FencedProducerError(
                f"a marker of a promotion refuses the producer id of flow {self.flow.name} at {self.flow.target}; "
                "nothing was written. It continues with another id, from its next claim on: start it again"
            )
        if any(self.needs_another_producer(state.as_recorded()) for state in behind_cut):
            copied()
            raise FencedProducerError(
                f"flow {self.flow.name} continues behind what applications wrote at {self.flow.target} meanwhile: "
                "nothing was written. It continues with another id, from its next claim on: start it again"
            )
        begun = [state for state in freed if not state.is_waiting]
        events.resumed([state.pair for state in begun])
        for state in freed:
            if state.is_waiting:
                progress.forget(state)
            elif state in behind_cut:
                progress.put_back(state)
            else:
                state.stop = None
        return any(state.is_waiting or state in behind_cut for state in freed)

    def _stop(self, progress: FlowProgress, events: StopEvents, copied: Callable[[], None]) -> None:
        """What the other direction holds, in one append: who promotes waits for the rows."""
        holds = {topic: self.hold(topic) for topic in {one.pair.target.topic for one in progress.states}}
        stops = [
            (state, hold)
            for state in progress.states
            if (hold := holds[state.pair.target.topic]) is not None and _is_to_stop(state.stop, hold)
        ]
        if not stops:
            return
        copied()
        for state, hold in stops:
            state.stop = hold
        events.stopped([(state.pair, hold) for state, hold in stops])

    def _is_free_again(self, state: PartitionState) -> bool:
        is_held = state.stop is not None and state.stop.cause in OF_DIRECTION
        return is_held and self.hold(state.pair.target.topic) is None


def _is_to_stop(stop: Stop | None, hold: Stop) -> bool:
    """What stands still for an earlier promotion says so of this one as well; another stop is not forgotten."""
    return stop is None or (stop.cause in OF_DIRECTION and stop != hold)
