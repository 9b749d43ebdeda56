"""What the logs of a simulated cluster hold, or held, record by record.

A record is looked up where it was written, also when it was deleted or cleaned since; what was truncated was
never there.
"""

from dataclasses import dataclass
from functools import cached_property

from ledger.kafka.batches import decode
from tests.simulation.accounts import Place
from tests.simulation.kafka.cluster import MemoryCluster, MemoryTopic
from tests.simulation.kafka.partition_log import PartitionLog

StepReports = tuple[int, bytes]
"""Timestamp and content of a record: what a copy keeps."""


@dataclass(frozen=True, slots=True)
class Written:
    """A record as it was appended."""

    told: StepReports
    producer_id: int
    is_committed: bool


class Chronicle:
    """Every record that a log took and did not lose at its end."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log

    @cached_property
    def records(self) -> dict[int, Written]:
        return {
            record.offset: Written(
                (record.timestamp, record.content), header.producer_id, self.log.committed(header)
            )
            for header, batch in self.log.written()
            if header.count and not header.is_control
            for record in decode(header, memoryview(batch))
        }

    @cached_property
    def readable(self) -> set[int]:
        """Offsets of what a committed reader from the log start sees now."""
        return {record.offset for record in self.log.readable()}

    def is_out_of_sight(self, offset: int) -> bool:
        """Whether nobody reads it and nobody can notice: the log lost its end there, grew again and deleted it, or lost
        with its end the batch that its start lies in."""
        lost_to = self.log.truncated_to
        if lost_to is None or offset >= self.log.log_start:
            return False
        return offset >= lost_to or offset not in self.records

    def is_brought_back(self, offset: int) -> bool:
        """Whether a copy that had nothing there took the log's place."""
        return self.log.restored_to is not None and offset >= self.log.restored_to

    def is_deleted_unseen(self, offset: int) -> bool:
        """Whether such a log may have deleted it before anybody compared it with what had lain there."""
        return self.is_brought_back(offset) and offset < self.log.log_start

    def own(self, producer_ids: frozenset[int]) -> set[int]:
        return {offset for offset, record in self.records.items() if record.producer_id in producer_ids}


class Chronicles:
    """The chronicles of all topics of a cluster, those included that are gone."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.living = {topic.topic_id for topic in cluster.topic_by_name.values()}
        self._deleted = list(cluster.deleted)
        topics: list[MemoryTopic] = [*cluster.deleted, *cluster.topic_by_name.values()]
        self._by_place = {
            (topic.topic_id, number): Chronicle(log)
            for topic in topics
            for number, log in enumerate(topic.logs)
        }

    def at(self, place: Place) -> Chronicle:
        return self._by_place[place]

    def former(self, topic: str, number: int) -> frozenset[StepReports]:
        """What earlier lives of a topic held in a partition."""
        lives = [
            self._by_place[life.topic_id, number]
            for life in self._deleted
            if life.name == topic and number < len(life.logs)
        ]
        return frozenset(record.told for life in lives for record in life.records.values())
