"""Records and logs that partitions stopped, resumed, or are copied again: all that happen together by one append."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ledger.domain.facts import PartitionPair
from ledger.domain.operations.partition_events import PartitionResumed, PartitionStopped, TailCopiedAgain
from ledger.domain.words.partition_names import by_topic
from ledger.mirror.partitions.stop_advice import advice
from ledger.mirror.task.assignments import Stop, StopCause
from ledger.ports.ledger import OperationLog

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StopEvents:
    """Writes `partition_stopped`, `partition_resumed` and `tail_copied_again` rows of one flow."""

    flow: str
    operations: OperationLog

    def stopped(self, pair: PartitionPair, stop: Stop) -> None:
        self.all_stopped([(pair, stop)])

    def all_stopped(self, stops: Sequence[tuple[PartitionPair, Stop]]) -> None:
        """All of them at once or none: a promotion stops a thousand partitions, and applications wait for it."""
        if not stops:
            return
        self._tell(stops)
        entries = [(str(stop.cause), _stopped(pair, stop)) for pair, stop in stops]
        self.operations.record_all(entries, flow=self.flow)

    def _tell(self, stops: Iterable[tuple[PartitionPair, Stop]]) -> None:
        """A line for each partition in trouble, one for all that a promotion stops: whoever promotes means that."""
        promoted: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for pair, stop in stops:
            source = pair.source
            if stop.cause is StopCause.PROMOTED:
                promoted[stop.message].append((source.topic, source.partition))
            else:
                text = "%s: %s partition %d stopped: %s"
                log.error(text, self.flow, source.topic, source.partition, stop.message)
        for message, partitions in promoted.items():
            log.info("%s: %s stopped: %s", self.flow, by_topic(partitions), message)

    def resumed(self, pairs: Sequence[PartitionPair]) -> None:
        """The same of those that make progress again."""
        if pairs:
            self.operations.record_all([(None, _resumed(pair)) for pair in pairs], flow=self.flow)

    def copied_again(self, pair: PartitionPair, message: str) -> None:
        """Nothing stopped: the flow's policy is to copy again."""
        source = pair.source
        log.warning("%s: %s partition %d: %s", self.flow, source.topic, source.partition, message)
        again = TailCopiedAgain(
            topic=source.topic, topic_id=source.topic_id, partition=source.partition, message=message
        )
        self.operations.record(again, flow=self.flow, reason="on_tail_lost")


def _stopped(pair: PartitionPair, stop: Stop) -> PartitionStopped:
    source = pair.source
    return PartitionStopped(
        topic=source.topic,
        topic_id=source.topic_id,
        partition=source.partition,
        cause=str(stop.cause),
        message=stop.message,
        next=advice(stop.cause),
    )


def _resumed(pair: PartitionPair) -> PartitionResumed:
    source = pair.source
    return PartitionResumed(topic=source.topic, topic_id=source.topic_id, partition=source.partition)
