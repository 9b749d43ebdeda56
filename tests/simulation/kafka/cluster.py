"""In-memory clusters: brokers, topics and their logs, with the administration that a flow needs.

Requests that carry records come through `memory.network`; what a test does to a cluster (leaders that
move, restarts, topics recreated) is a method here.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from ledger.clock import Clock
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.groups import CommitRefusal, GroupEvent, NewCommit, UnreadGroup
from ledger.facts.identity import RememberedProducer
from ledger.facts.permissions import Permission, Permissions
from ledger.facts.syncs import Checkpoint, TopicPartition, topic_id_bytes, topic_id_text
from ledger.kafka.batches import BatchHeader, WholeBatch, batches
from ledger.kafka.cluster import (
    CommitsAnswer,
    GroupListing,
    PartitionEnds,
    SettingsAnswer,
    ShareOffsetsAnswer,
    TopicDescription,
    TopicSettings,
)
from ledger.kafka.requests import ErrorCode, Fetched, FetchItem, Produced, ProduceItem
from ledger.topics.following import NewTopic
from tests.simulation.kafka.partition_log import DEFAULT_MAX_MESSAGE_BYTES, PartitionLog
from tests.simulation.kafka.permissions import MemoryPermissions
from tests.simulation.kafka.producer_ids import ProducerIdBlocks
from tests.support.unasked_cluster import OneByOne

NOT_LEADER_OR_FOLLOWER = 6
_ID_BYTES = 16
_NOTHING = memoryview(b"")
_CODECS = {"none": 0, "uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NodeListener = Callable[[int], None]
Place = tuple[str, int]


class Access(Enum):
    """What a principal may be denied on a topic."""

    READ = auto()
    WRITE = auto()


@dataclass(slots=True)
class Replica:
    """A node that follows the leader of a partition: so many records it has not got yet."""

    node: int
    behind: int = 0


@dataclass(slots=True)
class MemoryTopic:
    """One incarnation of a topic; `leaders` by partition, None while there is none."""

    name: str
    topic_id: str
    replication_factor: int
    configuration: dict[str, str]
    logs: list[PartitionLog]
    leaders: list[int | None]


@dataclass(slots=True)
class MemoryCluster(OneByOne):
    """Implements `ClusterAdmin`; `available` False: no broker answers.

    `undescribable`: names of topics that a copy may not even describe.
    `denied`: what the mirror's principal may not do. `hung`: nodes that take requests and do not answer.
    `deleted`: topics that are gone, as they were. `kafka_id`: the Kafka cluster id. `committed`: offsets by group,
    topic and partition, with what some commits name in `committed_epochs` and `committed_metadata`. `members`:
    groups with consumers at work; `protocol_types`: of those that ever had some. `allowed`: permissions beside `acls`.
    `denied_groups`: those that the mirror's principal may not even describe.
    `pending`: where a transaction that is open has committed another offset. `replicas`: by topic and partition the one
    that the leader sends clients to which ask for the nearest.
    """

    alias: str
    clock: Clock
    nodes: tuple[int, ...] = (1, 2, 3)
    available: bool = True
    undescribable: set[str] = field(default_factory=set)
    topic_by_name: dict[str, MemoryTopic] = field(default_factory=dict)
    committed: dict[tuple[str, str, int], int] = field(default_factory=dict)
    committed_epochs: dict[tuple[str, str, int], int | None] = field(default_factory=dict)
    committed_metadata: dict[tuple[str, str, int], str] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)
    static: dict[str, tuple[str, ...]] = field(default_factory=dict)
    protocol_types: dict[str, str] = field(default_factory=dict)
    denied_groups: set[str] = field(default_factory=set)
    pending: set[tuple[str, str, int]] = field(default_factory=set)
    denied: set[tuple[str, Access]] = field(default_factory=set)
    hung: set[int] = field(default_factory=set)
    replicas: dict[Place, Replica] = field(default_factory=dict)
    deleted: list[MemoryTopic] = field(default_factory=list)
    on_restart: list[NodeListener] = field(default_factory=list)
    acls: set[Permission] = field(default_factory=set)
    allowed: MemoryPermissions = field(default_factory=MemoryPermissions)
    default_settings: Mapping[str, str] = field(default_factory=dict)
    on_wake: list[NodeListener] = field(default_factory=list)
    kafka_id: str = ""
    producer_ids: ProducerIdBlocks = field(init=False)
    _created_topics: int = 0
    _formatted: int = 0
    _formatted_at_s: float = 0.0

    def __post_init__(self) -> None:
        self.kafka_id = self.kafka_id or f"cluster-of-{self.alias}"
        self.producer_ids = ProducerIdBlocks(self.alias)

    # -- administration --------------------------------------------------------------------------

    def cluster_id(self) -> str:
        self._reach()
        return self.kafka_id

    def metadata_offset(self) -> int:
        self._reach()
        return int(2 * (self.clock.monotonic() - self._formatted_at_s))

    def brokers(self) -> Sequence[str]:
        return [f"PLAINTEXT://{self.alias}-{node}:9092" for node in self.nodes]

    def broker_count(self) -> int:
        self._reach()
        return len(self.nodes)

    def topics(self) -> dict[str, TopicDescription]:
        self._reach()
        return {
            name: TopicDescription(name, topic.topic_id, len(topic.logs), topic.replication_factor, False)
            for name, topic in self.topic_by_name.items()
        }

    def configurations(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        self._reach()
        return {
            name: dict(self.topic_by_name[name].configuration)
            for name in topics
            if name in self.topic_by_name
        }

    def topic_settings(self, topics: Sequence[str]) -> SettingsAnswer:
        own = self.configurations(topics)
        effective = {name: {**self.default_settings, **found} for name, found in own.items()}
        return SettingsAnswer(
            {name: TopicSettings(found, effective[name]) for name, found in own.items()}, {}
        )

    def change_settings(self, name: str, *, to_set: Mapping[str, str], to_remove: Sequence[str]) -> None:
        self._reach()
        topic = self.topic_by_name[name]
        for setting in to_remove:
            topic.configuration.pop(setting, None)
        self.alter_topic(name, to_set)

    def topic_acls(self) -> frozenset[Permission]:
        self._reach()
        return frozenset(self.acls)

    def permissions(self) -> Permissions:
        self._reach()
        return self.allowed.told(self.acls)

    def create_acls(self, acls: Sequence[Permission]) -> None:
        self._reach()
        self.acls |= set(acls)

    def delete_acls(self, acls: Sequence[Permission]) -> None:
        self._reach()
        self.acls -= set(acls)

    def is_deleted(self, topic: str) -> bool:
        self._reach()
        return topic not in self.topic_by_name

    def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, configuration: Mapping[str, str]
    ) -> None:
        self._reach()
        if name in self.topic_by_name:
            raise PreconditionError(f"{self.alias} has a topic {name} already; it was not created")
        self._create(name, partitions, replication_factor, dict(configuration))

    def create_topics(self, wanted: Sequence[NewTopic]) -> dict[str, str]:
        self._reach()
        created = [topic for topic in wanted if topic.name not in self.topic_by_name]
        for topic in created:
            self._create(topic.name, topic.partitions, topic.replication_factor, dict(topic.configuration))
        return {topic.name: self.topic_by_name[topic.name].topic_id for topic in created}

    def refused_settings(self, wanted: Sequence[NewTopic]) -> dict[str, str]:
        self._reach()
        return dict.fromkeys((topic.name for topic in wanted if topic.name in self.topic_by_name), "exists")

    def _create(
        self, name: str, partitions: int, replication_factor: int, configuration: dict[str, str]
    ) -> None:
        topic = MemoryTopic(name, self._new_topic_id(), replication_factor, configuration, [], [])
        self.topic_by_name[name] = topic
        self._add_partitions(topic, partitions)

    def add_partitions(self, name: str, *, total: int) -> None:
        self._reach()
        topic = self.topic_by_name[name]
        if total <= len(topic.logs):
            raise PreconditionError(
                f"{self.alias} refused to bring topic {name} to {total} partitions: it has {len(topic.logs)}; not done"
            )
        self._add_partitions(topic, total)

    def _add_partitions(self, topic: MemoryTopic, total: int) -> None:
        for partition in range(len(topic.logs), total):
            log = PartitionLog()
            configure(log, topic.configuration)
            topic.logs.append(log)
            topic.leaders.append(self.nodes[partition % len(self.nodes)])

    def leaders(self, topics: Sequence[str]) -> Mapping[Place, int]:
        self._reach()
        return {
            (name, number): leader
            for name in topics
            for number, leader in enumerate(self.topic_by_name[name].leaders)
            if leader is not None
        }

    def ends(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], PartitionEnds]:
        self._reach()
        found = {}
        for name, partition in partitions:
            topic = self.topic_by_name.get(name)
            if topic is not None and partition < len(topic.logs) and topic.leaders[partition] is not None:
                log = topic.logs[partition]
                found[(name, partition)] = PartitionEnds(
                    log.log_start, log.last_stable, log.high_watermark, log.leader_epoch
                )
        return found

    def offsets_at(
        self, partitions: Sequence[tuple[str, int]], timestamp_ms: int
    ) -> dict[tuple[str, int], int]:
        self._reach()
        found: dict[tuple[str, int], int] = {}
        for name, partition in partitions:
            records = self.topic_by_name[name].logs[partition].readable()
            later = [record.offset for record in records if record.timestamp >= timestamp_ms]
            found |= {(name, partition): later[0]} if later else {}
        return found

    def batches_at(self, partition: TopicPartition, offset: int) -> list[BatchHeader]:
        return [header for header, _ in self.whole_batches_at(partition, offset)]

    def whole_batches_at(self, partition: TopicPartition, offset: int) -> list[WholeBatch]:
        log = self._living_log(partition)  # which has to be asked for long stretches more than once
        read = log.read(offset, committed=False, max_bytes=400, at_least_one=True)
        return list(batches(memoryview(read.records)))

    def aborted_at(self, partition: TopicPartition, offset: int) -> Sequence[tuple[int, int]]:
        log = self._living_log(partition)
        return log.read(offset, committed=True, max_bytes=400, at_least_one=True).aborted

    def next_sequence(self, partition: TopicPartition, producer_id: int) -> int | None:
        return self._living_log(partition).expected_sequence(producer_id)

    def transactional_producers(self, partitions: Sequence[TopicPartition]) -> Mapping[str, frozenset[int]]:
        """Of transactions that are open: no log here remembers others."""
        open_ = {at.topic: self._living_log(at).open_transactions() for at in partitions}
        return {topic: frozenset(ids) for topic, ids in open_.items() if ids}

    def remembered_producer(self, partition: TopicPartition, producer_id: int) -> RememberedProducer | None:
        log = self._living_log(partition)
        last_timestamp_ms = log.last_timestamp(producer_id)
        if last_timestamp_ms is None:
            return None
        return RememberedProducer(last_timestamp_ms, log.has_open_transaction(producer_id), None)

    def _living_log(self, partition: TopicPartition) -> PartitionLog:
        """For admin calls, which go to the leader of this incarnation of the topic."""
        self._reach()
        topic = self.topic_by_name.get(partition.topic)
        if topic is None or topic.topic_id != partition.topic_id:
            raise ClusterUnavailableError(
                f"{partition.topic} has another topic id than {partition.topic_id} by now"
            )
        if topic.leaders[partition.partition] is None:
            raise ClusterUnavailableError(f"{partition.topic} partition {partition.partition} has no leader")
        return topic.logs[partition.partition]

    def static_members(self, groups: Sequence[str]) -> dict[str, tuple[str, ...]]:
        return {group: self.static[group] for group in groups if group in self.static}

    def groups(self) -> list[GroupListing]:
        self._reach()
        return [
            GroupListing(
                group,
                "classic",
                "Stable" if group in self.members else "Empty",
                self.protocol_types.get(group),
            )
            for group in sorted({key[0] for key in self.committed} | self.members)
            if group not in self.denied_groups
        ]

    def commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> list[Checkpoint]:
        self._reach()
        by_id = {group.group_id: group for group in groups}
        return [
            Checkpoint(
                cluster=self.alias,
                group_id=group_id,
                group_type=by_id[group_id].group_type,
                group_state=by_id[group_id].group_state,
                topic=topic,
                topic_id=topic_ids.get(topic),
                partition=partition,
                committed_offset=offset,
                leader_epoch=self.committed_epochs.get((group_id, topic, partition)),
                metadata=self.committed_metadata.get((group_id, topic, partition), ""),
                transaction_pending=(group_id, topic, partition) in self.pending,
                read_at_ms=self.clock.now_ms(),
            )
            for (group_id, topic, partition), offset in sorted(self.committed.items())
            if group_id in by_id
        ]

    def lists_all_groups(self) -> bool:
        self._reach()
        return not self.denied_groups

    def group_commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> CommitsAnswer:
        shown = [group for group in groups if group.group_id not in self.denied_groups]
        denied = {group.group_id for group in groups} & self.denied_groups
        hidden = UnreadGroup(GroupEvent.HIDDEN, "GROUP_AUTHORIZATION_FAILED")
        return CommitsAnswer(self.commits(shown, topic_ids=topic_ids), dict.fromkeys(denied, hidden))

    def share_offsets(self, groups: Sequence[str]) -> ShareOffsetsAnswer:
        raise AssertionError(f"no group of a simulation is a share group, and so none of {list(groups)}")

    def set_share_offsets(self, group: str, offsets: Sequence[NewCommit]) -> dict[Place, CommitRefusal]:
        raise AssertionError(f"no group of a simulation is a share group, and so {group} is none: {offsets}")

    def unlisted_groups(self, groups: Sequence[str]) -> dict[str, UnreadGroup]:
        dead = self.dead_groups(groups)
        return {name: UnreadGroup(GroupEvent.GONE if name in dead else GroupEvent.HIDDEN) for name in groups}

    def dead_groups(self, groups: Sequence[str]) -> frozenset[str]:
        self._reach()
        return frozenset(groups) - {key[0] for key in self.committed} - self.members - self.denied_groups

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[tuple[str, int], CommitRefusal]:
        self._reach()
        refused: dict[tuple[str, int], CommitRefusal] = {}
        for commit in commits:
            key = (group, commit.topic, commit.partition)
            if refusal := self._refusal_of(*key):
                refused[key[1:]] = refusal
                continue
            if not commit.may_replace(self.committed.get(key)):
                refused[key[1:]] = CommitRefusal.MOVED
                continue
            self.committed[key] = commit.offset
            self.committed_metadata[key] = commit.metadata or ""
            self.committed_epochs[key] = None
        return refused

    def delete_commits(self, group: str, places: Sequence[Place]) -> dict[Place, CommitRefusal]:
        self._reach()
        refused = {place: why for place in places if (why := self._refusal_of(group, *place))}
        for place in set(places) - refused.keys():
            self.committed.pop((group, *place), None)
        return {place: why for place, why in refused.items() if why is not CommitRefusal.NO_TOPIC}

    def _refusal_of(self, group: str, topic: str, partition: int) -> CommitRefusal | None:
        if group in self.denied_groups:
            return CommitRefusal.GROUP_DENIED
        if group in self.members:
            return CommitRefusal.HAS_MEMBERS
        if (topic, Access.READ) in self.denied:
            return CommitRefusal.TOPIC_DENIED
        there = self.topic_by_name.get(topic)
        return CommitRefusal.NO_TOPIC if there is None or partition >= len(there.logs) else None

    def allocate_producer_id(self) -> int:
        self._reach()
        return self.producer_ids.give(self.nodes)

    def draw_producer_id(self) -> int:
        return self.producer_ids.draw()

    def _reach(self) -> None:
        if not self.available:
            raise ClusterUnavailableError(f"cluster {self.alias!r}: no broker answers")

    def _new_topic_id(self) -> str:
        self._created_topics += 1
        life = f"{self.alias}/{self._formatted}" if self._formatted else self.alias
        seed = f"{life}/{self._created_topics}".encode()
        return topic_id_text(hashlib.sha256(seed).digest()[:_ID_BYTES])

    # -- what happens to a cluster ---------------------------------------------------------------

    def format(self, kafka_id: str | None = None) -> None:
        """Begin anew, without topics, groups or memory of producers; under the old cluster id unless told another."""
        self._formatted += 1
        self._formatted_at_s = self.clock.monotonic()
        self.kafka_id = kafka_id or self.kafka_id
        self.producer_ids = ProducerIdBlocks(self.alias)
        self.topic_by_name.clear()
        self.committed.clear()
        self.acls.clear()
        self.allowed = MemoryPermissions()

    def log(self, topic: str, partition: int) -> PartitionLog:
        return self.topic_by_name[topic].logs[partition]

    def delete_topic(self, name: str, *, topic_id: str | None = None) -> None:
        """The topic is gone, and with it what groups had committed there.

        With an id, as the mirror asks for it, only if that life is still there.
        """
        topic = self.topic_by_name.get(name)
        if topic is not None and topic_id in (None, topic.topic_id):
            self.deleted.append(self.topic_by_name.pop(name))
            self.committed = {key: offset for key, offset in self.committed.items() if key[1] != name}

    def recreate_topic(self, name: str) -> None:
        """The same name and settings, another topic id, nothing in it."""
        old = self.topic_by_name[name]
        self.delete_topic(name)
        self._create(name, len(old.logs), old.replication_factor, old.configuration)

    def alter_topic(self, name: str, settings: Mapping[str, str]) -> None:
        """Change settings of a topic and of its logs, as they are."""
        topic = self.topic_by_name[name]
        topic.configuration.update(settings)
        for log in topic.logs:
            configure(log, topic.configuration)

    def move_leader(self, topic: str, partition: int, node: int | None, *, keep_held: bool = True) -> None:
        """Another node leads, or none; what only the old one had is kept or lost."""
        self.topic_by_name[topic].leaders[partition] = node
        self.log(topic, partition).fail_over(keep_held=keep_held)

    def restart(self, node: int) -> None:
        """The node comes back at once: its connections and unanswered requests are gone, producer state thins out."""
        self.hung.discard(node)
        for topic in self.topic_by_name.values():
            for log, leader in zip(topic.logs, topic.leaders, strict=True):
                if leader == node:
                    log.restart(now_ms=self.clock.now_ms())
        for listener in self.on_restart:
            listener(node)

    def hang(self, node: int) -> None:
        """The node stands still until `wake`: it answers nothing and forgets nothing."""
        self.hung.add(node)

    def wake(self, node: int) -> None:
        if node in self.hung:
            self.hung.remove(node)
            for listener in self.on_wake:
                listener(node)

    def expire_producers(self) -> None:
        """What brokers do every ten minutes."""
        for topic in self.topic_by_name.values():
            for log in topic.logs:
                log.expire_producers(now_ms=self.clock.now_ms())

    # -- requests --------------------------------------------------------------------------------

    def fetch(
        self, node: int, items: Sequence[FetchItem], *, committed: bool, max_bytes: int, nearest: bool = False
    ) -> tuple[Fetched, ...]:
        """Answer a Fetch: partitions in the order asked, until the response is full."""
        answers: list[Fetched] = []
        room = max_bytes
        for item in items:
            fetched = self._fetch_one(
                node, item, committed=committed, room=room, is_first=room == max_bytes, nearest=nearest
            )
            room -= len(fetched.records)
            answers.append(fetched)
        return tuple(answers)

    def _fetch_one(
        self, node: int, item: FetchItem, *, committed: bool, room: int, is_first: bool, nearest: bool
    ) -> Fetched:
        replica = self.replicas.get((item.partition.topic, item.partition.partition))
        topic = self.topic_by_name.get(item.partition.topic)
        leads = topic is not None and topic.leaders[item.partition.partition :][:1] == [node]
        follows = replica is not None and replica.node == node and not leads
        log = self._led_by(node, item.partition, Access.READ, follows=follows)
        if isinstance(log, int):
            return _fetch_error(item.partition, log)
        if item.leader_epoch not in (None, log.leader_epoch):
            is_old = item.leader_epoch is not None and item.leader_epoch < log.leader_epoch
            error = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            return _fetch_error(item.partition, error)
        sends_to = replica.node if nearest and replica is not None and replica.node != node else None
        behind = replica.behind if replica is not None and follows else 0
        read = log.read(
            item.offset,
            committed=committed,
            max_bytes=max(0, min(item.max_bytes, room)) if sends_to is None else 0,
            at_least_one=is_first and sends_to is None,
            last_epoch=item.last_epoch,
            behind=behind,
        )
        return Fetched(
            topic=topic_id_bytes(item.partition.topic_id),
            partition=item.partition.partition,
            error=read.error,
            high_watermark=log.high_watermark - behind,
            last_stable=min(log.last_stable, log.high_watermark - behind),
            log_start=log.log_start,
            aborted=read.aborted,
            records=memoryview(bytearray(read.records)),
            diverging_end=None if read.diverging is None else read.diverging.end,
            diverging_epoch=None if read.diverging is None else read.diverging.epoch,
            preferred_replica=sends_to,
        )

    def produce(self, node: int, items: Sequence[ProduceItem]) -> tuple[Produced, ...]:
        """Answer a Produce with acks=all."""
        return tuple(self._produce_one(node, item) for item in items)

    def _produce_one(self, node: int, item: ProduceItem) -> Produced:
        log = self._led_by(node, item.partition, Access.WRITE)
        topic, partition = topic_id_bytes(item.partition.topic_id), item.partition.partition
        if isinstance(log, int):
            return Produced(topic, partition, log, -1, None)
        appended = log.produce(bytes(item.batch), now_ms=self.clock.now_ms())
        return Produced(topic, partition, appended.error, appended.base_offset, None)

    def _led_by(
        self, node: int, partition: TopicPartition, access: Access, *, follows: bool = False
    ) -> PartitionLog | int:
        """The log, or the error code that a node which does not lead it, or does not allow it, answers."""
        topic = self.topic_by_name.get(partition.topic)
        if topic is None or topic.topic_id != partition.topic_id:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if (partition.topic, access) in self.denied:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if partition.partition >= len(topic.logs):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.leaders[partition.partition] != node and not follows:
            return NOT_LEADER_OR_FOLLOWER
        return topic.logs[partition.partition]


def configure(log: PartitionLog, configuration: Mapping[str, str]) -> None:
    log.log_append_time = configuration.get("message.timestamp.type") == "LogAppendTime"
    log.target_codec = _CODECS.get(configuration.get("compression.type", "producer"))
    log.max_message_bytes = int(configuration.get("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES))


def _fetch_error(partition: TopicPartition, error: int) -> Fetched:
    topic = topic_id_bytes(partition.topic_id)
    return Fetched(topic, partition.partition, error, -1, -1, -1, (), _NOTHING, None)
