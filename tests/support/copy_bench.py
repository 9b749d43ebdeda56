"""Whole copy tasks between two in-memory clusters, in simulated time."""

from dataclasses import dataclass, field, replace

from ledger.facts.state import MirrorProducers
from ledger.facts.syncs import Position, TopicPartition
from ledger.mirror.assignment import Assignment, CopyLimits, PartitionResult, StopCause
from ledger.mirror.task import CopyTask
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.network import CalmWeather, MemoryNetwork
from tests.simulation.kafka.partition_log import PartitionLog
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.support.sources import BOTH_SEEN, OWN_PRODUCER_ID, writers

NOW_MS = 1_700_000_000_000
_LIMITS = CopyLimits(partition_fetch_bytes=2_000, max_wait_ms=50, request_timeout_ms=1_000, drain_ms=100)


@dataclass
class Bench:
    """Topic `orders` of two partitions at `east`, its copies at `west`, and a network between them."""

    schedule: Schedule = field(default_factory=Schedule)
    weather: CalmWeather = field(default_factory=CalmWeather)
    writers: MirrorProducers = field(default_factory=writers)

    def __post_init__(self) -> None:
        self.source = MemoryCluster("east", self.schedule)
        self.target = MemoryCluster("west", self.schedule)
        for cluster in (self.source, self.target):
            cluster.create_topic("orders", partitions=2, replication_factor=1, configuration={})

    def write(self, *counts: int, partition: int = 0) -> None:
        for count in counts:
            offset = self.source_log(partition).end
            contents = [content(b"%d" % (offset + n), b"v" * 50) for n in range(count)]
            self.source_log(partition).append(application_batch(contents, [NOW_MS] * count), now_ms=NOW_MS)

    def source_log(self, partition: int = 0) -> PartitionLog:
        return self.source.log("orders", partition)

    def target_log(self, partition: int = 0) -> PartitionLog:
        return self.target.log("orders", partition)

    def assignment(
        self, partition: int = 0, *, exclusive: bool = True, end_offset: int | None = None
    ) -> Assignment:
        source, target = (
            TopicPartition("orders", cluster.topic_by_name["orders"].topic_id, partition)
            for cluster in (self.source, self.target)
        )
        return Assignment(
            source=source,
            target=target,
            position=Position(
                source_offset=self.source_log(partition).log_start, target_offset=0, next_sequence=0
            ),
            tail=BOTH_SEEN,
            producer_id=OWN_PRODUCER_ID,
            end_offset=self.source_log(partition).end if end_offset is None else end_offset,
            exclusive=exclusive,
        )

    def run(
        self, *assignments: Assignment, seconds: float = 5.0, gaps: int = _LIMITS.gaps
    ) -> list[PartitionResult]:
        network = MemoryNetwork(self.source, self.target, self.schedule, self.weather)
        limits = replace(_LIMITS, gaps=gaps)
        results = CopyTask(assignments, network, self.writers, self.schedule, limits).run(seconds=seconds)
        assert network.is_idle
        return sorted(results, key=lambda result: result.assignment.source.partition)

    def is_copied(self, partition: int = 0) -> bool:
        source, target = self.source_log(partition), self.target_log(partition)
        return [r.content for r in source.readable()] == [r.content for r in target.readable()]


def cause(result: PartitionResult) -> StopCause | None:
    return None if result.stop is None else result.stop.cause
