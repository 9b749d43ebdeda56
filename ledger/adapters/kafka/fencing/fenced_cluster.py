"""A real cluster as fences need it: `ports.FenceReader`, `ports.FenceControl` and `ports.ShutOutCluster`."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from kafka.net.manager import KafkaConnectionManager

from ledger.adapters.kafka.admin import setting_requests
from ledger.adapters.kafka.admin.cluster_admin import KafkaAdmin
from ledger.adapters.kafka.admin.portions import listed, parts
from ledger.adapters.kafka.fencing import (
    leader_requests,
    log_requests,
    marker_requests,
    transaction_requests,
)
from ledger.domain.facts import TopicPartition
from ledger.domain.fences.closing import Authorization
from ledger.domain.fences.proof import LeaderReading
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.ports.fencing import CoordinatedTransaction, OpenTransaction, Place, Refusal

_PARTITIONS_AT_ONCE = 1000
_SETTINGS_AT_ONCE = 500
Answer = TypeVar("Answer")


class KafkaFencing(KafkaAdmin):
    """With the credentials of the mirror it reads, with those of an administrator it changes."""

    def authorizations(self) -> Sequence[Authorization] | None:
        return self.connection.run("ask brokers who decides what is allowed", leader_requests.authorizations)

    def readings(self, partitions: Sequence[Place]) -> dict[Place, LeaderReading]:
        return self._answered(partitions, "read the ends", log_requests.readings)

    def smallest_batches(self, partitions: Sequence[Place]) -> dict[Place, int]:
        return self._answered(partitions, "read the last batches", log_requests.smallest_batches)

    def refusals(self, partitions: Sequence[Place]) -> dict[Place, tuple[int, Refusal]]:
        return self._answered(partitions, "ask leaders to refuse a batch", log_requests.refusals)

    def _answered(
        self,
        partitions: Sequence[Place],
        what: str,
        ask: Callable[[KafkaConnectionManager, Sequence[Place]], Awaitable[dict[Place, Answer]]],
    ) -> dict[Place, Answer]:
        """What leaders answer, asked about so many partitions at once."""
        found: dict[Place, Answer] = {}
        for some in parts(partitions, _PARTITIONS_AT_ONCE):
            found |= self.connection.run(f"{what} of {_listed(some)}", ask, some)
        return found

    def keeps_metadata(self) -> bool:
        return self.connection.run("ask whether brokers keep the metadata", leader_requests.keeps_metadata)

    def leaders(self, topics: Sequence[str]) -> dict[Place, int]:
        return self.connection.run(f"find the leaders of {listed(topics)}", leader_requests.leaders, topics)

    def acls_at(self, broker: int) -> frozenset[TopicAcl]:
        operation = f"describe access control lists of topics at broker {broker}"
        return self.connection.run(operation, leader_requests.acls_at, broker)

    def settings_at(
        self, broker: int, topics: Sequence[str], names: Collection[str]
    ) -> Mapping[str, Mapping[str, str]]:
        operation = f"describe the configuration of {listed(topics)} at broker {broker}"
        return self.connection.run(operation, leader_requests.settings_at, broker, topics, sorted(names))

    def change_setting(self, name: str, values: Mapping[str, str | None]) -> None:
        for some in parts(sorted(values), _SETTINGS_AT_ONCE):
            changes = {topic: {name: values[topic]} for topic in some}
            operation = f"change {name} of {listed(some)}"
            self.connection.run(operation, setting_requests.change_settings_of, changes)

    def transactions_in(self, topics: Sequence[str]) -> Sequence[CoordinatedTransaction]:
        operation = f"list the open transactions of {listed(topics)}"
        return self.connection.run(operation, transaction_requests.transactions_in, frozenset(topics))

    def open_transactions(self, partition: TopicPartition) -> Sequence[OpenTransaction]:
        operation = f"describe the producers of topic {partition.topic} partition {partition.partition}"
        return self.connection.run(operation, transaction_requests.open_transactions, partition)

    def producer_epochs(
        self, partitions: Sequence[TopicPartition], producer_id: int
    ) -> dict[TopicPartition, int]:
        operation = f"find the epochs of producer {producer_id} in {_topics_of(partitions)}"
        return self.connection.run(operation, marker_requests.producer_epochs, partitions, producer_id)

    def write_abort_markers(
        self, partitions: Sequence[TopicPartition], *, producer_id: int, producer_epoch: int
    ) -> None:
        operation = f"write abort markers to {_topics_of(partitions)}"
        write = marker_requests.write_abort_markers
        self.connection.run(operation, write, partitions, producer_id, producer_epoch)

    def coordinated(self, producer_id: int) -> CoordinatedTransaction | None:
        operation = f"list the transactions of producer {producer_id}"
        return self.connection.run(operation, transaction_requests.coordinated, producer_id)

    def fence_producer(self, transactional_id: str) -> None:
        operation = f"fence the producer of transactional id {transactional_id}"
        self.connection.run(operation, transaction_requests.fence_producer, transactional_id)

    def abort_hanging(self, transaction: OpenTransaction) -> None:
        at = transaction.partition
        operation = (
            f"abort the transaction of producer {transaction.producer_id} in {at.topic} {at.partition}"
        )
        self.connection.run(operation, transaction_requests.abort_hanging, transaction)


def _listed(places: Sequence[Place]) -> str:
    return listed(sorted({topic for topic, _ in places}))


def _topics_of(partitions: Sequence[TopicPartition]) -> str:
    return listed(sorted({at.topic for at in partitions}))
