"""An in-memory cluster that may shut the mirror out: by rules, and by markers."""

from collections.abc import Sequence

from ledger.facts.permissions import Permission
from ledger.facts.syncs import TopicPartition
from ledger.kafka.requests import ErrorCode
from tests.simulation.kafka.cluster import Access, MemoryCluster
from tests.simulation.kafka.partition_log import PartitionLog

MIRROR = "User:mirror"
"""Whom it takes the mirror for."""


class FencedCluster(MemoryCluster):
    """Implements `ShutOutCluster` and `WriteProbe`. `exempts_mirror`: the mirror is a super user."""

    exempts_mirror: bool = False

    def writable_topics(self, topics: Sequence[str]) -> frozenset[str]:
        self.topics()
        return frozenset(topic for topic in topics if not self._denies(topic))

    def acls_at(self, broker: int) -> frozenset[Permission]:
        """All brokers learn of a rule at once."""
        assert broker in self.nodes
        return self.topic_acls()

    def producer_epochs(
        self, partitions: Sequence[TopicPartition], producer_id: int
    ) -> dict[TopicPartition, int]:
        known = {at: self._living_log(at).producer_epoch(producer_id) for at in partitions}
        return {at: epoch for at, epoch in known.items() if epoch is not None}

    def write_abort_markers(
        self, partitions: Sequence[TopicPartition], *, producer_id: int, producer_epoch: int
    ) -> None:
        for at in partitions:
            log = self._living_log(at)
            log.end_transaction(producer_id, producer_epoch, commit=False, now_ms=self.clock.now_ms())

    def _led_by(
        self, node: int, partition: TopicPartition, access: Access, *, follows: bool = False
    ) -> PartitionLog | int:
        if access is Access.WRITE and self._denies(partition.topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return super()._led_by(node, partition, access, follows=follows)

    def _denies(self, topic: str) -> bool:
        denied = (MIRROR, "write", "deny", topic)
        rules = {(acl.entity, acl.operation, acl.permission_type, acl.resource_name) for acl in self.acls}
        return not self.exempts_mirror and denied in rules
