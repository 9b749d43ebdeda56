"""A cluster of two partitions on which somebody waits, and what happens meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ledger.changeover.plans import PlannedTopic
from ledger.changeover.waiting import Patience
from ledger.facts.syncs import FlowPosition, Position
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.support.fakes import FakeClock


@dataclass
class Room:
    """A cluster with a topic of two partitions, and what happens while somebody sleeps."""

    clock: FakeClock = field(default_factory=FakeClock)
    said: list[str] = field(default_factory=list)
    happens: list[Callable[[], None]] = field(default_factory=list)
    each_second: Callable[[int], None] = lambda _second: None
    cluster: MemoryCluster = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = MemoryCluster("east", self.clock)
        self.cluster.create_topic("orders", partitions=2, replication_factor=1, configuration={})

    def sleep(self, seconds: float) -> None:
        before, self.clock.now_s = self.clock.now_s, self.clock.now_s + seconds
        for second in range(int(before) + 1, int(self.clock.now_s) + 1):
            self.each_second(second - 1_000)
        if self.happens:
            self.happens.pop(0)()

    def patience(self, seconds: float = 5.0) -> Patience:
        return Patience(self.clock, self.sleep, seconds)

    @property
    def topic(self) -> PlannedTopic:
        topic_id = self.cluster.topic_by_name["orders"].topic_id
        return PlannedTopic(
            flow="flow", source_topic="orders", source_topic_id=topic_id, topic="orders", topic_id="W"
        )

    def at(self, partition: int, offset: int) -> FlowPosition:
        return FlowPosition(
            source_topic="orders",
            source_topic_id=self.topic.source_topic_id,
            partition=partition,
            target_topic="orders",
            target_topic_id="W",
            position=Position(source_offset=offset, target_offset=offset, next_sequence=offset),
        )

    def write(self, partition: int) -> None:
        batch = application_batch([content(b"k", b"v")] * 3, [1] * 3)
        self.cluster.log("orders", partition).append(batch, now_ms=1)
