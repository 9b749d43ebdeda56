"""Tells the ledger and the log that partitions stopped, went on, or are copied again."""

import logging
from dataclasses import dataclass

from ledger.mirror.assignments import Stop
from ledger.mirror.flow_topics import PartitionPair
from ledger.mirror.stop_advice import advice
from ledger.ports import OperationLog

log = logging.getLogger(__name__)

TAIL_COPIED_AGAIN = "tail_copied_again"


@dataclass(frozen=True, slots=True)
class PartitionLogBook:
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
        content = {
            **_coordinates(pair),
            "cause": str(stop.cause),
            "message": stop.message,
            "next": advice(stop.cause),
        }
        self.operations.record("partition_stopped", flow=self.flow, reason=str(stop.cause), content=content)

    def resumed(self, pair: PartitionPair) -> None:
        self.operations.record("partition_resumed", flow=self.flow, reason=None, content=_coordinates(pair))

    def copied_again(self, pair: PartitionPair, message: str) -> None:
        """Nothing stopped: the flow's policy is to copy again."""
        log.warning("%s: %s partition %d: %s", self.flow, pair.source.topic, pair.source.partition, message)
        content = {**_coordinates(pair), "message": message}
        self.operations.record(TAIL_COPIED_AGAIN, flow=self.flow, reason="on_tail_lost", content=content)


def _coordinates(pair: PartitionPair) -> dict[str, object]:
    return {
        "topic": pair.source.topic,
        "topic_id": pair.source.topic_id,
        "partition": pair.source.partition,
    }
