"""Who wrote to a target that is a flow's own, as far as the ledger and the target's broker tell."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ledger.domain.cluster_identity import FlowProducer, RememberedProducer
from ledger.domain.facts import TopicPartition
from ledger.domain.words.time_words import instant
from ledger.errors import ClusterUnavailableError, PreconditionError, ProtocolError
from ledger.mirror.task.assignments import Stop
from ledger.ports.clusters import ClusterAdmin


@dataclass(frozen=True, slots=True)
class ForeignWriters:
    """`producers`: by flow of this ledger, its producer ids at the target's Kafka cluster."""

    target: ClusterAdmin
    producers: Callable[[], Mapping[str, FlowProducer]]

    def named(self, stop: Stop, partition: TopicPartition) -> Stop:
        """The stop with what is known of its `foreign_producer_id`; unchanged where there is none."""
        if stop.foreign_producer_id is None:
            return stop
        known = f"{self._in_ledger(stop.foreign_producer_id)}; {self._at_target(stop.foreign_producer_id, partition)}"
        return replace(
            stop, message=f"{stop.message}. Who has producer id {stop.foreign_producer_id}: {known}"
        )

    def _in_ledger(self, producer_id: int) -> str:
        flows = [flow for flow, producer in self.producers().items() if producer.wrote(producer_id)]
        if flows:
            return f"flow {', '.join(sorted(flows))} of this ledger"
        return "no flow of this ledger"

    def _at_target(self, producer_id: int, partition: TopicPartition) -> str:
        try:
            known = self.target.remembered_producer(partition, producer_id)
        except (ClusterUnavailableError, PreconditionError, ProtocolError) as error:
            return f"the target does not tell more: {error}"
        if known is None:
            return "the target remembers nothing of it any more"
        return f"the target remembers it: {_remembered(known)}"


def _remembered(known: RememberedProducer) -> str:
    parts = []
    if known.transactional_id is not None:
        parts.append(f"transactional id {known.transactional_id}")
    if known.last_timestamp_ms is not None:
        parts.append(f"its last batch here is of {instant(known.last_timestamp_ms)}")
    parts.append(
        "a transaction of it is open" if known.has_open_transaction else "no transaction of it is open"
    )
    return ", ".join(parts)
