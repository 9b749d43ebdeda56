"""Up to where a target log still holds what the flow wrote there, by the batches that lie there.

The end of a log alone does not tell: a log that lost its end grows again, by others' records or by a request
of the flow's own that was late.
"""

from bisect import bisect_left
from dataclasses import dataclass

from ledger.domain.cluster_identity import FlowProducer
from ledger.domain.facts import TopicPartition
from ledger.domain.offsets.supersession import SEQUENCED_KINDS, RecordedSync, is_as_recorded
from ledger.ports.clusters import ClusterAdmin


@dataclass(frozen=True, slots=True)
class TargetHistory:
    """What a flow recorded of one target partition, to be compared with what lies there."""

    target: ClusterAdmin
    partition: TopicPartition
    producer: FlowProducer
    recorded: tuple[RecordedSync, ...]

    def held_end(self, end: int, *, log_start: int) -> int:
        """The highest recorded end, at most `end`, up to which the log is the one that was recorded.

        A log loses records from its end only, so recorded ends are searched by halves. A hole that a cleaner
        left, and what is below the log's start, prove nothing and count as held. `log_start` when nothing that
        the flow wrote is left: then any of its requests may have come late, to any place.
        """
        ends = self._ends(end)
        lost = bisect_left(ends, True, key=lambda at: not self._is_held(at))
        if lost:
            return ends[lost - 1]
        return log_start if ends else end

    def _ends(self, end: int) -> list[int]:
        topic_id = self.partition.topic_id
        return sorted(
            min(sync.target_end, end)
            for sync in (row.sync for row in self.recorded)
            if sync.kind in SEQUENCED_KINDS
            and sync.records
            and sync.target.topic_id == topic_id
            and sync.target_start < end
        )

    def _is_held(self, end: int) -> bool:
        """Whether the record before `end` is the flow's own with the sequence that it was recorded with."""
        found = next(iter(self.target.batches_at(self.partition, end - 1)), None)
        if found is None or found.base_offset >= end:
            return True
        return self.producer.wrote(found.producer_id) and is_as_recorded(
            self.recorded,
            self.partition.topic_id,
            end - 1,
            producer_id=found.producer_id,
            sequence=found.sequence_at(end - 1),
        )
