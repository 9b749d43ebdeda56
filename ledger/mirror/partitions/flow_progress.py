"""Where a running flow stands on all its partitions: from the ledger at the start, from its rounds afterwards."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ledger.domain.cluster_identity import FlowProducer
from ledger.domain.facts import OffsetSync, PartitionPair, SyncKind
from ledger.mirror.partitions.partition_state import PartitionState
from ledger.mirror.task.assignments import Assignment, PartitionResult
from ledger.ports.ledger import FlowPosition

PartitionKey = tuple[str, int]
"""Source topic id and partition."""


def key_of(pair: PartitionPair) -> PartitionKey:
    return pair.source.topic_id, pair.source.partition


@dataclass(frozen=True, slots=True)
class Unreached:
    """A partition that a run until caught up left before the end that it was to reach."""

    topic: str
    partition: int
    position: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition} at {self.position} of {self.end}"


class FlowProgress:
    """States of all partitions of a flow. Offsets of different topic ids are never mixed."""

    def __init__(self, positions: Iterable[FlowPosition], producer: FlowProducer | None = None) -> None:
        """`producer`: what the flow writes with from now on; None when it has had one id only."""
        counted = [p if producer is None else p.for_producer(producer.current) for p in positions]
        self._recorded = {(p.source_topic_id, p.partition): p for p in counted}
        self._states: dict[PartitionKey, PartitionState] = {}
        self._topic_ids: defaultdict[str, set[str]] = defaultdict(set)
        """By source topic: ids of the incarnations that are recorded or taken care of."""
        for position in self._recorded.values():
            self._topic_ids[position.source_topic].add(position.source_topic_id)

    # -- what the ledger says --------------------------------------------------------------------

    def recorded(self, pair: PartitionPair) -> FlowPosition | None:
        """The position of this incarnation of the source partition, when there is one."""
        return self._recorded.get(key_of(pair))

    def recorded_at_target(self, pair: PartitionPair) -> FlowPosition | None:
        """The furthest position of any incarnation of the source on this target partition."""
        target = (pair.target.topic_id, pair.target.partition)
        found = [p for p in self._recorded.values() if (p.target_topic_id, p.partition) == target]
        return max(found, key=lambda found: found.position.target_offset, default=None)

    def other_incarnations(self, pair: PartitionPair) -> frozenset[str]:
        """Topic ids that this flow copied, or takes care of, under the source topic's name; its own left out."""
        return frozenset(self._topic_ids[pair.source.topic]) - {pair.source.topic_id}

    def has_begun(self, pair: PartitionPair) -> bool:
        """Whether the flow copies any partition of this source topic id."""
        topic_id = pair.source.topic_id
        running = (s for s in self._states.values() if s.stop is None)
        return any(key[0] == topic_id for key in self._recorded) or any(
            state.pair.source.topic_id == topic_id for state in running
        )

    @property
    def written_topic_ids(self) -> frozenset[str]:
        """Target topic ids that this flow has offset syncs for, or has written to since."""
        return frozenset(
            {position.target_topic_id for position in self._recorded.values()}
            | {state.pair.target.topic_id for state in self._states.values()}
        )

    @property
    def target_topics(self) -> frozenset[str]:
        """Target topics of what runs; as long as nothing does, those that the ledger knows."""
        running = {state.pair.target.topic for state in self._states.values()}
        return frozenset(running or {position.target_topic for position in self._recorded.values()})

    # -- what runs -------------------------------------------------------------------------------

    @property
    def states(self) -> Sequence[PartitionState]:
        return tuple(self._states.values())

    def unknown(self, pairs: Sequence[PartitionPair]) -> list[PartitionPair]:
        return [pair for pair in pairs if key_of(pair) not in self._states]

    def take_on(self, state: PartitionState) -> None:
        self._states[key_of(state.pair)] = state
        self._topic_ids[state.pair.source.topic].add(state.pair.source.topic_id)

    def forget(self, state: PartitionState) -> None:
        """It is not taken care of any more: where it stands is as it was recorded."""
        del self._states[key_of(state.pair)]

    def put_back(self, state: PartitionState) -> None:
        """It is to be taken on again from where it stands now."""
        self.forget(state)
        self._recorded[key_of(state.pair)] = state.as_recorded()

    def leave(self, topic: str, topic_ids: frozenset[str]) -> list[PartitionState]:
        """Earlier incarnations of a topic are no longer taken care of; returns what was.

        Where they got to stays known: partitions of the new incarnation begin behind their records.
        """
        left = [
            state
            for state in self._states.values()
            if state.pair.source.topic == topic and state.pair.source.topic_id in topic_ids
        ]
        recorded = {p.source_topic_id for p in self._recorded.values() if p.source_topic == topic}
        self._topic_ids[topic] -= topic_ids - recorded
        for state in left:
            key = key_of(state.pair)
            del self._states[key]
            if not state.is_waiting:
                self._recorded[key] = state.as_recorded()
                self._topic_ids[topic].add(state.pair.source.topic_id)
        return left

    def take_back(self, facts: Iterable[OffsetSync]) -> None:
        """Earlier incarnations whose records the target lost end before them."""
        for fact in facts:
            key = (fact.source.topic_id, fact.source.partition)
            if fact.kind is SyncKind.SUPERSEDED and key in self._recorded and key not in self._states:
                recorded = self._recorded[key]
                position = replace(
                    recorded.position, target_offset=fact.target_end, next_sequence=fact.first_sequence
                )
                self._recorded[key] = replace(recorded, position=position)

    def state_of(self, result: PartitionResult) -> PartitionState:
        source = result.assignment.source
        return self._states[(source.topic_id, source.partition)]

    def assignments(self, producer: FlowProducer, *, exclusive: bool) -> list[Assignment]:
        """What can be copied: every partition that is neither stopped nor at its end."""
        return [
            Assignment(
                source=state.pair.source,
                target=state.pair.target,
                position=state.position,
                tail=state.tail,
                producer_id=producer.current,
                former_producer_ids=producer.former,
                end_offset=state.end_offset,
                exclusive=exclusive,
                accepted_below=state.accepted_below,
                target_log_start=state.target_log_start,
                remembered_sequence=state.remembered_sequence,
            )
            for state in self._states.values()
            if state.stop is None and not state.has_reached_end
        ]

    @property
    def loads(self) -> Mapping[PartitionKey, int]:
        """Bytes that each partition brought in its last round."""
        return {key: state.copied_bytes for key, state in self._states.items()}

    def first_time(self) -> frozenset[tuple[str, int]]:
        """Source topic and partition of those that began in this run and were not at the source's end yet."""
        return frozenset(
            (state.pair.source.topic, state.pair.source.partition)
            for state in self._states.values()
            if state.is_first_time
        )

    def unreached(self) -> list[Unreached]:
        """Partitions that are neither stopped nor at the end that they are to reach."""
        return [
            Unreached(state.pair.source.topic, state.pair.source.partition, at, end)
            for state in self._states.values()
            if (end := state.end_offset) is not None
            and state.stop is None
            and (at := state.position.source_offset) < end
        ]

    def take(self, result: PartitionResult) -> PartitionState:
        """A task's result becomes the position of the next round."""
        state = self.state_of(result)
        state.position = result.position
        state.tail = result.tail
        state.copied_bytes = sum(sync.bytes for sync in result.syncs)
        if result.source_ends is not None and result.position.source_offset >= result.source_ends[0]:
            state.is_first_time = False
        return state
