"""Tells the ledger and the log that partitions stopped and went on."""

import logging
from dataclasses import dataclass

from ledger.domain.operations.partition_events import PartitionResumed, PartitionStopped
from ledger.mirror.assignments import Stop
from ledger.mirror.flow_topics import PartitionPair
from ledger.mirror.stop_advice import advice
from ledger.ports import OperationLog

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionLogBook:
    """Writes `partition_stopped` and `partition_resumed` rows of one flow."""

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
