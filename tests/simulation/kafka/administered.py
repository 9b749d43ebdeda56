"""An in-memory cluster that decides who may do what: by its rules, as each of its brokers knows them.

A rule is stored at once and enforced by a broker once that has learned of it, one after the other, also where a
connection was open before; so is a setting of a topic. What nobody allows is denied, what is denied stays so whatever
allows it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from ledger.facts.acls import Authorization
from ledger.facts.fences import LeaderReading
from ledger.facts.permissions import Permission, PermissionKind, topic_acl
from ledger.facts.syncs import TopicPartition
from ledger.kafka.cluster import CoordinatedTransaction, OpenTransaction, Place, Refusal
from ledger.kafka.requests import ErrorCode
from tests.simulation.kafka.cluster import Access, MemoryCluster, MemoryTopic, configure
from tests.simulation.kafka.partition_log import PartitionLog, Replication
from tests.simulation.kafka.permissions import MemoryPermissions
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import StoredBatch

CLUSTER = "kafka-cluster"
"""The name of the one resource that is the cluster itself."""
MIRROR = "User:mirror"
_LEARNS_S = 0.15
_DAMAGED_BYTES = 101


def rule(principal: str, operation: str, resource: str, name: str) -> Permission:
    """What allows a principal something that is no topic."""
    return Permission(
        kind=PermissionKind.ACL,
        entity=principal,
        host="*",
        operation=operation,
        permission_type="allow",
        resource_type=resource,
        resource_name=name,
        pattern_type="literal",
    )


def topic_rule(principal: str, operation: str, topic: str) -> Permission:
    """What allows a principal something with a topic; `*`: with all."""
    return topic_acl(topic, principal, operation)


class AdministeredCluster(MemoryCluster):
    """The mirror's requests that carry records come as `MIRROR`. `generations`: of groups, by how often they joined."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.generations: dict[str, int] = {}
        self._known: dict[int, frozenset[Permission]] = dict.fromkeys(self.nodes, frozenset())

    # -- who may ---------------------------------------------------------------------------------

    def allows(self, principal: str, operation: str, resource: str, name: str) -> bool:
        """As the controller decides."""
        if resource == "topic":
            return _allowed(principal, operation, name, self.acls)
        wanted = rule(principal, operation, resource, name)
        return bool({wanted, _of_all(wanted)} & self.allowed.others)

    def lets_write(self, principal: str, topic: str, partition: int) -> bool:
        """As the leader of the partition decides."""
        leader = self.topic_by_name[topic].leaders[partition]
        return leader is not None and _allowed(principal, "write", topic, self._known[leader])

    def change_acls(self, change: Collection[Permission], *, remove: bool = False) -> None:
        """Brokers learn of it one after the other."""
        self._reach()
        self.acls = self.acls - set(change) if remove else self.acls | set(change)
        for number, node in enumerate(self.nodes, start=1):
            cast(Schedule, self.clock).after(number * _LEARNS_S, lambda node=node: self._learn(node))  # type: ignore[misc]

    def create_acls(self, acls: Sequence[Permission]) -> None:
        self.change_acls(acls)

    def delete_acls(self, acls: Sequence[Permission]) -> None:
        self.change_acls(acls, remove=True)

    def alter_topic(self, name: str, settings: Mapping[str, str]) -> None:
        """Whoever asks is told at once; the logs of each broker have it later."""
        topic = self.topic_by_name[name]
        topic.configuration.update(settings)
        for number, node in enumerate(self.nodes, start=1):
            cast(Schedule, self.clock).after(number * _LEARNS_S, lambda node=node: self._set(topic, node))  # type: ignore[misc]

    def _set(self, topic: MemoryTopic, node: int) -> None:
        for log, leader in zip(topic.logs, topic.leaders, strict=True):
            if leader == node:
                configure(log, topic.configuration)

    def _learn(self, node: int) -> None:
        self._known[node] = frozenset(self.acls)

    def begin_with(self, acls: Collection[Permission], others: Collection[Permission]) -> None:
        """Rules that all brokers know from the beginning."""
        self.acls, self.allowed = set(acls), MemoryPermissions(others=set(others))
        self._known = dict.fromkeys(self.nodes, frozenset(acls))

    # -- who writes ------------------------------------------------------------------------------

    def write_as(self, principal: str, topic: str, partition: int, batch: StoredBatch) -> bool:
        """Whether the leader took the batch of an application."""
        self._reach()
        if not self.lets_write(principal, topic, partition):
            return False
        log = self.log(topic, partition)
        if len(batch.encoded()) > log.max_message_bytes:
            return False
        log.append(batch, now_ms=self.clock.now_ms())
        return True

    def _led_by(
        self, node: int, partition: TopicPartition, access: Access, *, follows: bool = False
    ) -> PartitionLog | int:
        found = super()._led_by(node, partition, access, follows=follows)
        if isinstance(found, int) or access is Access.READ:
            return found
        is_denied = not _allowed(MIRROR, "write", partition.topic, self._known[node])
        return int(ErrorCode.TOPIC_AUTHORIZATION_FAILED) if is_denied else found

    # -- groups ----------------------------------------------------------------------------------

    def join(self, group: str) -> int:
        """A member joins: the group has another generation from now on."""
        self.members.add(group)
        self.protocol_types[group] = "consumer"
        self.generations[group] = self.generations.get(group, 0) + 1
        return self.generations[group]

    def leave(self, group: str) -> None:
        self.members.discard(group)

    def commit_as_member(self, group: str, generation: int, places: dict[tuple[str, int], int]) -> bool:
        """Whether the coordinator took it: not of a generation that is over, nor of a group that all have left."""
        self._reach()
        if group not in self.members or generation != self.generations[group]:
            return False
        self.committed |= {(group, *place): offset for place, offset in places.items()}
        return True

    # -- what fences ask for ---------------------------------------------------------------------

    def authorizations(self) -> Sequence[Authorization] | None:
        self._reach()
        return [Authorization(node, frozenset(), False) for node in self.nodes]

    def readings(self, partitions: Sequence[Place]) -> dict[Place, LeaderReading]:
        leaders = self.leaders(sorted({topic for topic, _ in partitions}))
        return {place: self._reading(place, leaders[place]) for place in partitions if place in leaders}

    def _reading(self, place: Place, leader: int) -> LeaderReading:
        log = self.log(*place)
        return LeaderReading(
            leader=leader,
            leader_epoch=log.leader_epoch,
            log_start=log.log_start,
            last_stable=log.last_stable,
            high_watermark=log.high_watermark,
            log_end=log.end,
            in_sync=1 if log.replication is Replication.HELD else len(self.nodes),
        )

    def smallest_batches(self, partitions: Sequence[Place]) -> dict[Place, int]:
        sizes = {place: [header.size for header in self.log(*place).headers()] for place in partitions}
        return {place: min(found) for place, found in sizes.items() if found}

    def refusals(self, partitions: Sequence[Place]) -> Mapping[Place, tuple[int, Refusal]]:
        """By what each log has, whatever is told of it."""
        leaders = self.leaders(sorted({topic for topic, _ in partitions}))
        return {place: (leaders[place], self._refusal(place)) for place in partitions if place in leaders}

    def _refusal(self, place: Place) -> Refusal:
        return Refusal.BY_SIZE if self.log(*place).max_message_bytes < _DAMAGED_BYTES else Refusal.NOT_YET

    def keeps_metadata(self) -> bool:
        return True

    def transactions_in(self, topics: Sequence[str]) -> Sequence[CoordinatedTransaction]:
        open_ = [name for name in topics for log in self.topic_by_name[name].logs if log.open_transactions()]
        assert not open_, "nobody here writes transactions"
        return []

    def acls_at(self, broker: int) -> frozenset[Permission]:
        self._reach()
        return self._known[broker]

    def settings_at(
        self, broker: int, topics: Sequence[str], names: Collection[str]
    ) -> dict[str, dict[str, str]]:
        assert broker in self.nodes
        read = self.topic_settings(topics).read
        return {
            topic: {name: value for name, value in found.effective.items() if name in names}
            for topic, found in read.items()
        }

    def change_setting(self, name: str, values: Mapping[str, str | None]) -> None:
        for topic, value in values.items():
            to_set = {} if value is None else {name: value}
            self.change_settings(topic, to_set=to_set, to_remove=[] if to_set else [name])

    def open_transactions(self, partition: TopicPartition) -> Sequence[OpenTransaction]:
        assert not self._living_log(partition).open_transactions(), "nobody here writes transactions"
        return []

    def coordinated(self, producer_id: int) -> CoordinatedTransaction | None:
        raise AssertionError(f"nobody here writes transactions, {producer_id} does not either")

    def producer_epochs(
        self, partitions: Sequence[TopicPartition], producer_id: int
    ) -> dict[TopicPartition, int]:
        known = {at: self._living_log(at).producer_epoch(producer_id) for at in partitions}
        return {at: epoch for at, epoch in known.items() if epoch is not None}

    def write_abort_marker(self, at: TopicPartition, *, producer_id: int, producer_epoch: int) -> None:
        log = self._living_log(at)
        log.end_transaction(producer_id, producer_epoch, commit=False, now_ms=self.clock.now_ms())


def _of_all(one: Permission) -> Permission:
    return rule(one.entity, one.operation, one.resource_type, "*")


def _allowed(principal: str, operation: str, topic: str, acls: Collection[Permission]) -> bool:
    """Whether a rule allows it, and none denies it."""
    about = {
        acl.permission_type
        for acl in acls
        if acl.entity in (principal, "User:*")
        and acl.operation in (operation, "all")
        and (
            topic.startswith(acl.resource_name)
            if acl.pattern_type == "prefixed"
            else acl.resource_name in (topic, "*")
        )
    }
    return about == {"allow"}
