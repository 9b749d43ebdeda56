"""Tells the ledger and the log that partitions stopped and went on."""

import logging
from dataclasses import dataclass

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
        content = {
            **_coordinates(pair),
            "cause": str(stop.cause),
            "message": stop.message,
            "next": advice(stop.cause),
        }
        self.operations.record("partition_stopped", flow=self.flow, reason=str(stop.cause), content=content)

    def resumed(self, pair: PartitionPair) -> None:
        self.operations.record("partition_resumed", flow=self.flow, reason=None, content=_coordinates(pair))


def _coordinates(pair: PartitionPair) -> dict[str, object]:
    return {
        "topic": pair.source.topic,
        "topic_id": pair.source.topic_id,
        "partition": pair.source.partition,
    }
