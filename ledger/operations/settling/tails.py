"""The tails of all target partitions of a flow, whose topics still exist."""

from collections.abc import Callable
from dataclasses import dataclass

from ledger.config.flow import FlowConfig, TargetMode
from ledger.domain.cluster_identity import FlowProducer
from ledger.domain.facts import OffsetSync, PartitionPair, TopicPartition
from ledger.domain.operations.partition_events import Settled
from ledger.domain.words.count_words import counted
from ledger.errors import ClusterUnavailableError
from ledger.mirror.task.assignments import Assignment
from ledger.operations.adoption.pairing_result import RefusedPartitionError
from ledger.operations.settling.unrecorded import TargetReading, Unrecorded
from ledger.ports.clock import Clock
from ledger.ports.clusters import ClusterAdmin, PartitionEnds
from ledger.ports.ledger import FlowPosition, LedgerState
from ledger.ports.network import Network


@dataclass(frozen=True, slots=True)
class Tail:
    """A partition as it was recorded, and what was read of it; `found` None: `refused` says why nothing was."""

    recorded: FlowPosition
    found: Unrecorded | None
    refused: str | None = None

    @property
    def pair(self) -> PartitionPair:
        at = self.recorded
        return PartitionPair(
            TopicPartition(at.source_topic, at.source_topic_id, at.partition),
            TopicPartition(at.target_topic, at.target_topic_id, at.partition),
        )

    @property
    def syncs(self) -> tuple[OffsetSync, ...]:
        return () if self.found is None else self.found.syncs

    @property
    def words(self) -> str:
        if self.found is None:
            return f"not settled: {self.refused}"
        return f"{counted(self.found.records, 'record')} found, up to target offset {self.found.end}"

    def operation(self) -> Settled:
        """What is recorded of one that was read."""
        at, source, target, found = self.recorded.position, self.pair.source, self.pair.target, self.found
        assert found is not None, "a refused partition is not recorded"
        return Settled(
            topic=source.topic,
            topic_id=source.topic_id,
            partition=source.partition,
            target_topic=target.topic,
            target_topic_id=target.topic_id,
            source_start=at.source_offset,
            target_start=at.target_offset,
            target_end=found.end,
            first_sequence=at.next_sequence,
            producer_id=self.recorded.producer_id,
            records=found.records,
            others=0 if found.others is None else found.others.records,
            others_start=None if found.others is None else found.others.first.base_offset,
        )


@dataclass(frozen=True, slots=True)
class Tails:
    """Reads them one after the other, by the flow's producer ids; `target` and `network`: the target's side only."""

    flow: FlowConfig
    producer: FlowProducer
    target: ClusterAdmin
    state: LedgerState
    network: Network
    clock: Clock

    def read(self, progress: Callable[[str], None]) -> list[Tail]:
        """A line of `progress` for each. Raises `ClusterUnavailableError` when the target does not answer at all."""
        existing = {topic.topic_id for topic in self.target.topics().values()}
        positions = [one for one in self._last() if one.target_topic_id in existing]
        if not positions:
            return []
        ends = self.target.ends([(one.target_topic, one.partition) for one in positions])
        self.network.target.refresh(sorted({one.target_topic for one in positions}))
        tails = []
        for number, one in enumerate(positions, start=1):
            tail = self._tail(one, ends.get((one.target_topic, one.partition)))
            progress(
                f"{one.target_topic} partition {one.partition} ({number} of {len(positions)}): {tail.words}"
            )
            tails.append(tail)
        return tails

    def _last(self) -> list[FlowPosition]:
        """By target partition the furthest; of several incarnations of a source that stand there, the last one seen."""
        deleted = self.state.deleted_topic_ids(self.flow.source)
        seen_at = {
            (one.topic_id, one.partition): one.read_at_ms
            for one in self.state.last_high_watermarks(self.flow.source)
        }

        def age(one: FlowPosition) -> tuple[int, bool, int]:
            source = one.source_topic_id, one.partition
            return one.position.target_offset, one.source_topic_id not in deleted, seen_at.get(source, -1)

        in_order = sorted(self.state.positions(self.flow.name), key=age)
        last = {(one.target_topic, one.target_topic_id, one.partition): one for one in in_order}
        return [last[place] for place in sorted(last)]

    def _tail(self, recorded: FlowPosition, ends: PartitionEnds | None) -> Tail:
        tail = Tail(recorded, None, "it has no leader at the target; settle again when it has one")
        if ends is None:
            return tail
        assignment = Assignment(
            source=tail.pair.source,
            target=tail.pair.target,
            position=recorded.for_producer(self.producer.current).position,
            producer_id=self.producer.current,
            former_producer_ids=self.producer.former,
            end_offset=None,
            exclusive=self.flow.target_mode is TargetMode.EXCLUSIVE,
        )
        try:
            return Tail(recorded, TargetReading(assignment, ends, self.network, self.clock).read())
        except (RefusedPartitionError, ClusterUnavailableError) as error:
            return Tail(recorded, None, str(error))
