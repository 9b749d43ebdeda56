"""Records and logs that partitions stopped, resumed, or are copied again."""

import logging
from dataclasses import dataclass

from ledger.domain.facts import PartitionPair
from ledger.domain.operations.partition_events import PartitionResumed, PartitionStopped, TailCopiedAgain
from ledger.mirror.partitions.stop_advice import advice
from ledger.mirror.task.assignments import Stop
from ledger.ports.ledger import OperationLog

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StopEvents:
    """Writes `partition_stopped`, `partition_resumed` and `tail_copied_again` rows of one flow."""

    flow: str
    operations: OperationLog

    def stopped(self, pair: PartitionPair, stop: Stop) -> None:
        log.error(
            "%s: %s partition %d stopped: %s",
            self.flow,
            pair.source.topic,
            pair.source.partition,
            stop.message,
        )
        source = pair.source
        stopped = PartitionStopped(
            topic=source.topic,
            topic_id=source.topic_id,
            partition=source.partition,
            cause=str(stop.cause),
            message=stop.message,
            next=advice(stop.cause),
        )
        self.operations.record(stopped, flow=self.flow, reason=str(stop.cause))

    def resumed(self, pair: PartitionPair) -> None:
        source = pair.source
        resumed = PartitionResumed(topic=source.topic, topic_id=source.topic_id, partition=source.partition)
        self.operations.record(resumed, flow=self.flow, reason=None)

    def copied_again(self, pair: PartitionPair, message: str) -> None:
        """Nothing stopped: the flow's policy is to copy again."""
        source = pair.source
        log.warning("%s: %s partition %d: %s", self.flow, source.topic, source.partition, message)
        again = TailCopiedAgain(
            topic=source.topic, topic_id=source.topic_id, partition=source.partition, message=message
        )
        self.operations.record(again, flow=self.flow, reason="on_tail_lost")
