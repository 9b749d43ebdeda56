"""What lies at the target before a batch of the flow's own that landed further on than expected (P6)."""

from ledger.domain.cluster_identity import FlowProducer
from ledger.mirror.task.assignments import Assignment, Stop
from ledger.mirror.task.sent import Sent
from ledger.mirror.task.tail import partition_stops
from ledger.mirror.task.tail.foreign_records import ForeignRecords
from ledger.mirror.task.tail.target_tail import TailBatch, TargetTail


class Between:
    """P6: it is read before the batch is settled; a record of the flow's own in it was written twice.

    `landed`: the batch. `own`: what of it the flow wrote, as far as it was read.
    """

    def __init__(self, landed: Sent, producer: FlowProducer) -> None:
        self.landed = landed
        self.own: list[TailBatch] = []
        self._producer = producer
        self._others: ForeignRecords | None = None

    def take(self, tail: TargetTail) -> None:
        """Take what was read of it."""
        self._others = self._others or tail.others(self._producer, below=self.landed.landed_offset)
        while (found := tail.head) is not None:
            tail.pop()
            is_own = self._producer.wrote(found.header.producer_id)
            if is_own and found.header.base_offset < self.landed.landed_offset:
                self.own.append(found)

    def stop(self, assignment: Assignment) -> Stop | None:
        """Why nothing may be written after it; None where others may write and the flow wrote nothing twice."""
        if self.own:
            return partition_stops.repeated(self.own)
        if not assignment.exclusive:
            return None
        return partition_stops.landed_behind(
            self.landed.landed_offset,
            expected=self.landed.expected_offset,
            between=self._others,
            own=assignment.producer_id,
        )
