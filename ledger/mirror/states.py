"""Where a running flow stands on all its partitions: from the ledger at the start, from its rounds afterwards."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ledger.errors import ClusterUnavailableError, PreconditionError, ProtocolError
from ledger.facts.identity import FlowProducer
from ledger.facts.syncs import (
    LOST_AT_SOURCE,
    NOTHING_KNOWN,
    FlowPosition,
    Gap,
    GapCause,
    OffsetSync,
    PartitionPair,
    Position,
    SyncCause,
    SyncKind,
    TailKnowledge,
    TopicPartition,
    source_may_be_deleted,
)
from ledger.kafka.cluster import ClusterAdmin, PartitionEnds, headers_between
from ledger.mirror.assignment import Assignment, PartitionResult, Stop, StopCause
from ledger.words import instant

# Partition state ----------------------------------------------------------------------------------
# Where a running flow stands on one partition, and the facts that move it other than by copying.
#
# Each method that moves the state returns the fact to record, so that the two cannot disagree.


@dataclass(slots=True)
class PartitionState:
    """One partition that the flow takes care of; `stop`: why it stands still.

    `is_waiting`: this run has done nothing about it; when what it waits for is over, it is to be taken on again.
    `is_first_time`: it began in this run and was not at the source's end yet. `target_log_start`,
    `remembered_sequence`: as an assignment has them. `asks_for_outcomes`: the source has lost its end from the position
    on, and markers of transactions perhaps: it goes no further until these are decided; `open_from`: from where on they
    were open when that was seen last, None: none was. `is_uncompared`: what was copied last could not be compared with
    the source; None: not tried in this run.
    """

    pair: PartitionPair
    position: Position
    tail: TailKnowledge = NOTHING_KNOWN
    accepted_below: int = 0
    end_offset: int | None = None
    stop: Stop | None = None
    is_waiting: bool = False
    copied_bytes: int = 0
    is_first_time: bool = False
    target_log_start: int = 0
    remembered_sequence: int | None = None
    asks_for_outcomes: bool = False
    open_from: int | None = None
    is_uncompared: bool | None = None

    def as_recorded(self) -> FlowPosition:
        """The position that its facts add up to."""
        source, target = self.pair.source, self.pair.target
        return FlowPosition(
            source_topic=source.topic,
            source_topic_id=source.topic_id,
            partition=source.partition,
            target_topic=target.topic,
            target_topic_id=target.topic_id,
            position=self.position,
            is_truncated=self.asks_for_outcomes,
        )

    @property
    def name(self) -> str:
        return self.pair.source.words

    @property
    def has_reached_end(self) -> bool:
        """Where it is to end; it is checked all the same, once: either side may have truncated its log."""
        is_there = self.goes_to is not None and self.position.source_offset >= self.goes_to
        return is_there and self.tail.both_sides_seen

    @property
    def goes_to(self) -> int | None:
        """The source offset to reach at present; None: no end."""
        return self.position.source_offset if self.asks_for_outcomes else self.end_offset

    def started(self, cause: SyncCause) -> OffsetSync:
        """The flow begins with this partition where it stands."""
        self.position = replace(
            self.position, source_may_be_deleted=source_may_be_deleted(SyncKind.STARTED, cause)
        )
        self.is_first_time, self.is_waiting = True, False
        return self._fact(SyncKind.STARTED, cause)

    def pass_copies(self, source_end: int, *, target_end: int) -> OffsetSync:
        """Source offsets up to `source_end` hold what the opposite flow wrote: continue behind both sides of a cut."""
        at = self.position
        self.position = replace(at, target_offset=target_end, leader_epoch=None, former_sequence=None)
        passed = self._fact(SyncKind.COPIED, None, source_end=source_end)
        self.position = replace(self.position, source_offset=source_end)
        return replace(passed, gaps=(Gap(at.source_offset, source_end, GapCause.MIRROR_WRITE),))

    def leave_out(self, source_end: int, cause: GapCause) -> OffsetSync:
        """Nothing up to `source_end` is copied, and it is not read for that."""
        at = self.position
        passed = self._fact(SyncKind.COPIED, None, source_end=source_end)
        self.position = replace(at, source_offset=source_end, leader_epoch=None)
        return replace(passed, gaps=(Gap(at.source_offset, source_end, cause),))

    def pass_target(self, target_end: int, cause: SyncCause = SyncCause.CUT) -> OffsetSync:
        """What others wrote at the target up to there, while it was promoted, is neither read nor foreign."""
        may_be_deleted = source_may_be_deleted(SyncKind.UNPAIRED, cause)
        self.position = replace(
            self.position,
            target_offset=target_end,
            former_sequence=None,
            source_may_be_deleted=may_be_deleted,
        )
        return self._fact(SyncKind.UNPAIRED, cause)

    def lose(self, source_end: int, cause: SyncCause) -> OffsetSync:
        """Source offsets up to `source_end` are not copied (L6): continue there."""
        fact = self._fact(SyncKind.LOST, cause, source_end=source_end)
        self.position = self.position.lost_up_to(source_end)
        return fact

    def expired(self, *, next_sequence: int) -> OffsetSync:
        """What the flow wrote and did not record was deleted at the target: of it only the sequence is left."""
        may_be_deleted = source_may_be_deleted(SyncKind.UNPAIRED, SyncCause.RETENTION)
        self.position = replace(
            self.position, next_sequence=next_sequence, source_may_be_deleted=may_be_deleted
        )
        return self._fact(SyncKind.UNPAIRED, SyncCause.RETENTION)

    def supersede(self, restart: Position, cause: SyncCause) -> OffsetSync:
        """What was recorded from `restart.source_offset` on holds no longer: continue there."""
        source_end = max(self.position.source_offset, restart.source_offset)
        self.position = replace(
            restart,
            source_may_be_deleted=source_may_be_deleted(SyncKind.SUPERSEDED, cause),
            former_sequence=self.position.former_sequence,
        )
        self.tail = replace(self.tail, start=0)
        self.target_log_start, self.is_waiting = 0, False
        self.asks_for_outcomes, self.open_from = cause in LOST_AT_SOURCE, None
        return self._fact(SyncKind.SUPERSEDED, cause, source_end=source_end)

    def _fact(self, kind: SyncKind, cause: SyncCause | None, *, source_end: int | None = None) -> OffsetSync:
        """From the source offset where it stands up to `source_end`, or of none."""
        at = self.position
        return OffsetSync(
            source=self.pair.source,
            target=self.pair.target,
            source_leader_epoch=at.leader_epoch,
            source_start=at.source_offset,
            source_end=at.source_offset if source_end is None else source_end,
            target_start=at.target_offset,
            target_end=at.target_offset,
            first_sequence=at.next_sequence,
            kind=kind,
            cause=cause,
        )


# Flow progress ------------------------------------------------------------------------------------


PartitionKey = tuple[str, int]
"""Source topic id and partition."""


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
        return self._recorded.get(pair.source.key)

    def recorded_at_target(self, pair: PartitionPair) -> FlowPosition | None:
        """The furthest position of any incarnation of the source on this target partition."""
        target = pair.target.key
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
        return [pair for pair in pairs if pair.source.key not in self._states]

    def take_on(self, state: PartitionState) -> None:
        self._states[state.pair.source.key] = state
        self._topic_ids[state.pair.source.topic].add(state.pair.source.topic_id)

    def forget(self, state: PartitionState) -> None:
        """It is not taken care of any more: where it stands is as it was recorded."""
        del self._states[state.pair.source.key]

    def put_back(self, state: PartitionState) -> None:
        """It is to be taken on again from where it stands now."""
        self.forget(state)
        self._recorded[state.pair.source.key] = state.as_recorded()

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
            key = state.pair.source.key
            del self._states[key]
            if not state.is_waiting:
                self._recorded[key] = state.as_recorded()
                self._topic_ids[topic].add(state.pair.source.topic_id)
        return left

    def unattended(self) -> list[PartitionState]:
        """Where the flow got to at each target partition to which it copies nothing now, whatever source it was."""
        ended = [s for s in self.states if s.stop is not None and s.stop.cause is StopCause.SOURCE_TOPIC_GONE]
        others = (
            PartitionState(p.pair, p.position) for key, p in self._recorded.items() if key not in self._states
        )
        found: dict[PartitionKey, PartitionState] = {}
        for state in sorted([*ended, *others], key=lambda state: state.position.target_offset):
            found[state.pair.target.key] = state
        attended = {state.pair.target.key for state in self.states if state not in ended}
        return [state for key, state in found.items() if key not in attended]

    def went_back(self, state: PartitionState) -> None:
        """What `unattended` gave stands further back now."""
        if state.pair.source.key not in self._states:
            self._recorded[state.pair.source.key] = state.as_recorded()

    def withdraw(self, facts: Iterable[OffsetSync]) -> None:
        """Earlier incarnations whose records the target lost end before them."""
        for fact in facts:
            key = fact.source.key
            if fact.kind is SyncKind.SUPERSEDED and key in self._recorded and key not in self._states:
                recorded = self._recorded[key]
                position = replace(
                    recorded.position, target_offset=fact.target_end, next_sequence=fact.first_sequence
                )
                self._recorded[key] = replace(recorded, position=position)

    def state_of(self, result: PartitionResult) -> PartitionState:
        return self._states[result.assignment.source.key]

    def assignments(self, producer: FlowProducer, *, exclusive: bool) -> list[Assignment]:
        """What can be copied: every partition that is neither stopped nor at its end."""
        return [
            Assignment(
                source=state.pair.source,
                target=state.pair.target,
                position=state.position,
                tail=state.tail,
                producer=producer,
                end_offset=state.goes_to,
                exclusive=exclusive,
                accepted_below=state.accepted_below,
                target_log_start=state.target_log_start,
                remembered_sequence=state.remembered_sequence,
                compares_source=True,
            )
            for state in self._states.values()
            if state.stop is None and not state.has_reached_end
        ]

    def compare_sources(self) -> None:
        """Sources of partitions that stood still were not read meanwhile."""
        for state in self._states.values():
            state.tail = replace(state.tail, source_epoch=None)

    @property
    def loads(self) -> Mapping[PartitionKey, int]:
        """Bytes that each partition brought in its last round."""
        return {key: state.copied_bytes for key, state in self._states.items()}

    def note_loads(self, loads: Mapping[PartitionKey, int]) -> None:
        """They are as they were at another time."""
        for key, state in self._states.items():
            state.copied_bytes = loads.get(key, state.copied_bytes)

    def first_time(self) -> frozenset[tuple[str, int]]:
        """Source topic and partition of those that began in this run and were not at the source's end yet."""
        return frozenset(state.pair.source.place for state in self._states.values() if state.is_first_time)

    def unreached(self) -> list[Unreached]:
        """Partitions that are neither stopped nor at the end that they are to reach."""
        return [
            Unreached(state.pair.source.topic, state.pair.source.partition, at, end)
            for state in self._states.values()
            if (end := state.end_offset) is not None
            and state.stop is None
            and (at := state.position.source_offset) < end
        ]

    def take(self, result: PartitionResult) -> None:
        """A task's result becomes the position of the next round."""
        state = self.state_of(result)
        state.position = result.position
        state.tail = result.tail
        state.copied_bytes = sum(sync.bytes for sync in result.syncs)
        state.asks_for_outcomes &= not result.syncs
        state.is_uncompared = state.is_uncompared if result.uncompared is None else result.uncompared
        if result.source_ends is not None and result.position.source_offset >= result.source_ends[0]:
            state.is_first_time = False


# Foreign writers ----------------------------------------------------------------------------------
# Who wrote to a target that is a flow's own, as far as the ledger and the target's broker tell.


@dataclass(frozen=True, slots=True)
class ForeignWriters:
    """`producers`: by flow of this ledger, its producer ids at the target's Kafka cluster; `signs`: what speaks for
    MirrorMaker there."""

    target: ClusterAdmin
    producers: Callable[[], Mapping[str, FlowProducer]]
    signs: Callable[[], Sequence[str]]

    def named(self, stop: Stop, partition: TopicPartition, *, has_written: bool = True) -> Stop:
        """The stop with what is known of its `foreign_producer_id`; unchanged where there is none.

        `has_written`: whether the flow had written there. Where it had not, what speaks for MirrorMaker is said.
        """
        if stop.cause is StopCause.FOREIGN_WRITE and not has_written:
            stop = replace(stop, message="; ".join([stop.message, *self.signs()]))
        producer_id = stop.foreign_producer_id
        if producer_id is None:
            return stop
        flows = [flow for flow, producer in self.producers().items() if producer.wrote(producer_id)]
        named = f"flow {', '.join(sorted(flows))}" if flows else "no flow"
        known = f"{named} of this ledger; {self._at_target(producer_id, partition)}"
        return replace(stop, message=f"{stop.message}. Who has producer id {producer_id}: {known}")

    def _at_target(self, producer_id: int, partition: TopicPartition) -> str:
        try:
            known = self.target.remembered_producer(partition, producer_id)
        except (ClusterUnavailableError, PreconditionError, ProtocolError) as error:
            return f"the target does not tell more: {error}"
        if known is None:
            return "the target remembers nothing of it any more"
        parts = []
        if known.transactional_id is not None:
            parts.append(f"transactional id {known.transactional_id}")
        if known.last_timestamp_ms is not None:
            parts.append(f"its last batch here is of {instant(known.last_timestamp_ms)}")
        is_open = (
            "a transaction of it is open" if known.has_open_transaction else "no transaction of it is open"
        )
        return f"the target remembers it: {', '.join([*parts, is_open])}"


# First records ------------------------------------------------------------------------------------
# Whether a stretch of a log holds records, and whose: asked batch by batch.


def first_record(
    admin: ClusterAdmin, partition: TopicPartition, start: int, end: int, *, is_decided: Callable[[int], bool]
) -> tuple[int, int] | None:
    """The first offset of `[start, end)` with a record, and its producer id; None: control batches and holes alone.

    `is_decided`: of which producer ids records do not count.
    """
    for found in headers_between(admin, partition, start, end):
        if found.count and not found.is_control and not is_decided(found.producer_id):
            return max(found.base_offset, start), found.producer_id
    return None


# Ends of incarnation ------------------------------------------------------------------------------
# Ends of a partition, asked for by name and believed only for the incarnation that is meant.


def ends_of_incarnation(admin: ClusterAdmin, partition: TopicPartition) -> PartitionEnds | None:
    """The ends as of now; None without a leader, and when the topic was deleted or is another one by now."""
    ends = admin.ends([partition.place]).get(partition.place)
    # Checked afterwards: a topic id never comes back, so the ends were those of this incarnation.
    described = admin.topics().get(partition.topic)
    return ends if described is not None and described.topic_id == partition.topic_id else None
