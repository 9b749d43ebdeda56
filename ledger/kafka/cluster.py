"""Administration of one cluster, and what it says of its topics, partitions and groups."""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from ledger.facts.acls import Authorization
from ledger.facts.fences import LeaderReading
from ledger.facts.groups import CommitRefusal, NewCommit, ShareOffset, UnreadGroup
from ledger.facts.identity import LiveCluster, RememberedProducer
from ledger.facts.permissions import Permission, Permissions
from ledger.facts.state import LedgerState
from ledger.facts.syncs import Checkpoint, TopicPartition
from ledger.kafka.batches import BatchHeader, WholeBatch
from ledger.topics.following import NewTopic


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as a cluster describes it now; `internal` for Kafka's own."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    internal: bool


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group that a cluster lists, of any type; type, state and protocol type as the broker spells them."""

    group_id: str
    group_type: str | None
    group_state: str | None
    protocol_type: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """Log start, last stable offset and high watermark of one partition, read together."""

    log_start: int
    last_stable: int
    high_watermark: int
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Settings of a topic: its own, and all with the cluster's defaults."""

    own: Mapping[str, str]
    effective: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SettingsAnswer:
    """Settings by topic, and why some may not be read; a topic that does not exist is in neither."""

    read: dict[str, TopicSettings]
    refused: dict[str, str]


@dataclass(frozen=True, slots=True)
class CommitsAnswer:
    """Committed offsets, and why those of some groups could not be read; a group that does not exist has neither."""

    read: list[Checkpoint]
    refused: dict[str, UnreadGroup]


@dataclass(frozen=True, slots=True)
class ShareOffsetsAnswer:
    """The same of share groups, with the offsets that brokers keep for them."""

    read: list[ShareOffset]
    refused: dict[str, UnreadGroup]


class LogReader(Protocol):
    """Reads what batches a log has."""

    def batches_at(self, partition: TopicPartition, offset: int) -> Sequence[BatchHeader]:
        """Batches in order, as many as a request brings, from the one that holds an offset or is the first after it.

        None where the log does not reach. Raises `ClusterUnavailableError` also when the topic has another id by now.
        """
        ...


def headers_between(
    reader: LogReader, partition: TopicPartition, start: int, end: int
) -> Iterator[BatchHeader]:
    """Headers of all batches with an offset of `[start, end)`, in order: what was cleaned in between has none."""
    while start < end:
        found = reader.batches_at(partition, start)
        for header in found:
            if header.base_offset >= end:
                return
            yield header
        if not found:
            return
        start = found[-1].end_offset


class Cluster(LogReader, Protocol):
    """Which cluster it is, and its topics. Every call has a deadline and raises `ClusterUnavailableError` past it."""

    alias: str

    def cluster_id(self) -> str: ...

    def metadata_offset(self) -> int | None:
        """How far the cluster's metadata has come; less only after it was formatted again. None: not reported."""
        ...

    def topics(self) -> dict[str, TopicDescription]:
        """All topics by name, internal ones included."""
        ...


class ClusterAdmin(Cluster, Protocol):
    """Administration of one cluster."""

    def broker_count(self) -> int: ...
    def brokers(self) -> Sequence[str]: ...

    def transactional_producers(self, partitions: Sequence[TopicPartition]) -> Mapping[str, frozenset[int]]:
        """By topic the producer ids whose transactions leaders remember, until `transactional.id.expiration.ms`.

        What this principal may not read is left out.
        """
        ...

    def aborted_at(self, partition: TopicPartition, offset: int) -> Sequence[tuple[int, int]]:
        """Aborted transactions with records or the marker in what a committed reader gets from an offset on.

        Producer id and first offset of each, which may lie before. Raises as `batches_at`.
        """
        ...

    def whole_batches_at(self, partition: TopicPartition, offset: int) -> Sequence[WholeBatch]:
        """As `batches_at`, with their bytes."""
        ...

    def configurations(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Per topic the settings that were set on the topic itself; defaults left out."""
        ...

    def topic_settings(self, topics: Sequence[str]) -> SettingsAnswer:
        """Of brokers that do not know the question all are refused."""
        ...

    def change_settings(self, name: str, *, to_set: Mapping[str, str], to_remove: Sequence[str]) -> None:
        """Change some of a topic's own settings; what is removed falls back to the cluster's default."""
        ...

    def change_settings_of(self, changes: Mapping[str, Mapping[str, str | None]]) -> None:
        """The same of many topics, by topic and setting; None: it is removed. Raises where one is refused, behind the
        others."""
        ...

    def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, configuration: Mapping[str, str]
    ) -> None:
        """Create and wait until it is described; a topic that exists already is an error."""
        ...

    def create_topics(self, wanted: Sequence[NewTopic]) -> dict[str, str]:
        """Create several at once and wait until they are described; returns topic ids by name.

        What is refused is left out: `create_topic` says why.
        """
        ...

    def refused_settings(self, wanted: Sequence[NewTopic]) -> dict[str, str]:
        """By name why the cluster would not create a topic with these settings; nothing is created."""
        ...

    def add_partitions(self, name: str, *, total: int) -> None: ...

    def delete_topic(self, name: str, *, topic_id: str) -> None:
        """Delete this incarnation of a topic; that it was deleted already is no error."""
        ...

    def is_deleted(self, topic: str) -> bool:
        """Whether no topic has the name; raises `PreconditionError` when that may not be seen."""
        ...

    def ends(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], PartitionEnds]:
        """Ends by (topic, partition); a partition without a leader is left out."""
        ...

    def offsets_at(
        self, partitions: Sequence[tuple[str, int]], timestamp_ms: int
    ) -> dict[tuple[str, int], int]:
        """The first offset whose record is of that time or later; partitions without such a record are left out."""
        ...

    def next_sequence(self, partition: TopicPartition, producer_id: int) -> int | None:
        """What the leader expects next of a producer, also when its records were deleted; None: it does not say."""
        ...

    def remembered_producer(self, partition: TopicPartition, producer_id: int) -> RememberedProducer | None:
        """What the leader remembers of a producer; None: nothing. Raises `PreconditionError` where it may not tell."""
        ...

    def groups(self) -> list[GroupListing]:
        """Groups of every type that the cluster shows to this principal."""
        ...

    def static_members(self, groups: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """By group the instance ids of its members, of groups that have such; a denied group has none to show."""
        ...

    def lists_all_groups(self) -> bool:
        """Whether those are all groups of the cluster; without the right to describe the cluster nobody knows."""
        ...

    def commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> list[Checkpoint]:
        """Every committed offset of the groups, as checkpoints; `topic_ids` names the topics that exist.

        Raises `PreconditionError` or `ClusterUnavailableError` when those of one group cannot be read.
        """
        ...

    def group_commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> CommitsAnswer:
        """As `commits`, of the groups whose commits can be read, and why those of others cannot."""
        ...

    def share_offsets(self, groups: Sequence[str]) -> ShareOffsetsAnswer:
        """Share-partition start offsets of share groups."""
        ...

    def unlisted_groups(self, groups: Sequence[str]) -> dict[str, UnreadGroup]:
        """What became of groups that were not listed: each is `gone` for certain, `hidden` or `unavailable`."""
        ...

    def dead_groups(self, groups: Sequence[str]) -> frozenset[str]:
        """Which of these groups are certain not to exist; the others do, or may not be described."""
        ...

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[tuple[str, int], CommitRefusal]:
        """Commit for a group that has no members; returns by topic and partition what was refused.

        A group that does not exist is created. Unknown when it raises; what was committed before is overwritten, if the
        commit may replace that: its coordinator is asked right before.
        """
        ...

    def set_commits_of_groups(
        self, commits: Mapping[str, Sequence[NewCommit]]
    ) -> dict[str, dict[tuple[str, int], CommitRefusal]]:
        """The same for many groups at once, by group: as quick as one for all that a coordinator has."""
        ...

    def delete_commits(
        self, group: str, places: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], CommitRefusal]:
        """Remove committed offsets of a group that has no members; returns by topic and partition what was refused.

        That there was none, or no such group, is no error. Unknown when it raises.
        """
        ...

    def set_share_offsets(
        self, group: str, offsets: Sequence[NewCommit]
    ) -> dict[tuple[str, int], CommitRefusal]:
        """The same of share-partition start offsets of a share group; they have no metadata."""
        ...

    def permissions(self) -> Permissions:
        """What the cluster allows to whom, every kind; of one that may not be read, why. Never a secret."""
        ...

    def allocate_producer_id(self) -> int:
        """A producer id that this cluster has never given before (InitProducerId without a transactional id)."""
        ...

    def draw_producer_id(self) -> int:
        """One of `DRAWN_IDS` at random; the cluster is not asked."""
        ...


def topic_ids(cluster: ClusterAdmin) -> dict[str, str]:
    """By name those of the topics that a cluster has now."""
    return {name: topic.topic_id for name, topic in cluster.topics().items()}


def live_cluster(admin: Cluster) -> LiveCluster:
    """The cluster that answers."""
    return LiveCluster(admin.cluster_id(), admin.metadata_offset())


class AclAdmin(Protocol):
    """Access control lists of one cluster; every call raises `PreconditionError` when it is refused."""

    def topic_acls(self) -> frozenset[Permission]: ...

    def create_acls(self, acls: Sequence[Permission]) -> None: ...
    def delete_acls(self, acls: Sequence[Permission]) -> None:
        """Delete exactly these; that one was deleted already is no error."""
        ...


class PermissionAdmin(Protocol):
    """Permissions of one cluster; every call raises `PreconditionError` when it is refused."""

    def permissions(self) -> Permissions:
        """As `ClusterAdmin` has it."""
        ...

    def create_permissions(self, permissions: Sequence[Permission]) -> None:
        """Create access control lists, and set quotas; that one is there already is no error."""
        ...

    def delete_permissions(self, permissions: Sequence[Permission]) -> None:
        """Delete exactly these; that one was deleted already is no error."""
        ...


class LeaderAdmin(AclAdmin, Protocol):
    """The same, and which of the rules the leaders have."""

    def leaders(self, topics: Sequence[str]) -> Mapping[tuple[str, int], int]:
        """Which broker leads each partition of the topics. Raises `ClusterUnavailableError` where one has no leader."""
        ...

    def acls_at(self, broker: int) -> frozenset[Permission]:
        """The rules about topics as this broker has them."""
        ...


class ShutOutCluster(ClusterAdmin, LeaderAdmin, Protocol):
    """A cluster as those reach it who may change its rules, and write markers."""

    def producer_epochs(
        self, partitions: Sequence[TopicPartition], producer_id: int
    ) -> dict[TopicPartition, int]:
        """The epoch that leaders remember of a producer, where they do. Raises as `remembered_producer`."""
        ...

    def write_abort_markers(
        self, partitions: Sequence[TopicPartition], *, producer_id: int, producer_epoch: int
    ) -> None:
        """End a transaction of a producer, of which there need be none: earlier epochs are refused from here on.

        Raises `PreconditionError` where this principal may not, or a later epoch is known. Where a leader could not,
        `producer_epochs` does not tell the epoch afterwards.
        """
        ...


class WriteProbe(Protocol):
    """A cluster as the mirror reaches it."""

    def writable_topics(self, topics: Sequence[str]) -> frozenset[str]:
        """Of these topics those that some broker lets this principal write to."""
        ...


class ReachProbe(Protocol):
    """Short questions to one cluster, apart from all that copies and administers."""

    def leaderless(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], str]:
        """Which of these partitions have no leader that answers, and why.

        Raises `ClusterUnavailableError`, or another error of ours, when no broker of the cluster answers: within
        seconds, whatever state the brokers are in.
        """
        ...

    def close(self) -> None: ...


def require_recorded(state: LedgerState, *admins: ClusterAdmin) -> None:
    """Raise `PreconditionError` when another cluster answers behind an alias than the ledger knows."""
    identities = state.identities()
    for admin in admins:
        identities.require(admin.alias, live_cluster(admin))


# Fencing ------------------------------------------------------------------------------------------
# What a fence needs of a cluster, beside `ClusterAdmin`: rules and settings as every leader has them,
# transactions.


Place = tuple[str, int]
"""Topic and partition."""


class Refusal(Enum):
    """What a leader answers to a batch that it takes under no setting, and refuses for its size first."""

    BY_SIZE = auto()  # it has the setting
    NOT_YET = auto()  # it would take batches of this size
    NOT_KNOWN = auto()  # it does not come to compare the size, for want of a permission above all


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction with records in a partition, as its leader has it; `start` is the offset of the first one.

    `last_timestamp_ms`: of the producer's last batch there, None: not known.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start: int
    last_timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class CoordinatedTransaction:
    """What a coordinator has of a producer; `is_ongoing`: it waits for the producer to end the transaction.

    `places`: where records of it may lie, markers left out that were written.
    """

    transactional_id: str
    state: str
    places: frozenset[Place] = frozenset()

    @property
    def is_ongoing(self) -> bool:
        return self.state == "Ongoing"

    @property
    def is_ended(self) -> bool:
        """For the coordinator it is over, so it writes no marker any more."""
        return self.state in ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


def first_data(
    reader: LogReader, at: TopicPartition, start: int, end: int, *, mirrors: Container[int]
) -> BatchHeader | None:
    """The first batch between these offsets that an application wrote: no marker, and not by a mirror's producer id."""
    return next(
        (
            header
            for header in headers_between(reader, at, start, end)
            if not header.is_control and header.producer_id not in mirrors
        ),
        None,
    )


class FenceReader(Cluster, Protocol):
    """Reads logs and what leaders know of them, with the credentials of the mirror."""

    def readings(self, partitions: Sequence[Place]) -> dict[Place, LeaderReading]:
        """Each partition as its leader has it, all at once; one without a leader is left out."""
        ...

    def smallest_batches(self, partitions: Sequence[Place]) -> dict[Place, int]:
        """The size of the smallest batch of the last ones in each log, markers left out; where none is found, nothing.

        Of some of the last ones, which a leader answers with in one go.
        """
        ...

    def open_transactions(self, partition: TopicPartition) -> Sequence[OpenTransaction]: ...


class FenceControl(LeaderAdmin, Protocol):
    """Changes who may write, with the credentials of an administrator. Refusals are `PreconditionError`."""

    def authorizations(self) -> Sequence[Authorization] | None:
        """By broker who decides what is allowed; None: the cluster has no authorizer."""
        ...

    def settings_at(
        self, broker: int, topics: Sequence[str], names: Collection[str]
    ) -> Mapping[str, Mapping[str, str]]:
        """Settings with these names, as this broker tells them: it may tell them before its logs have them."""
        ...

    def keeps_metadata(self) -> bool:
        """Whether brokers have the cluster's metadata themselves (KRaft), and tell of settings what they have."""
        ...

    def refusals(self, partitions: Sequence[Place]) -> Mapping[Place, tuple[int, Refusal]]:
        """What each leader, by its id, answers to a batch that is damaged, so that it is never appended.

        A partition that its leader just gave up is left out.
        """
        ...

    def configurations(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Per topic the settings that were set on the topic itself."""
        ...

    def change_setting(self, name: str, values: Mapping[str, str | None]) -> None:
        """Set one setting on each of these topics, all at once; None: what is set on the topic is removed.

        Raises where one is refused; others may be set then.
        """
        ...

    def transactions_in(self, topics: Sequence[str]) -> Sequence[CoordinatedTransaction]:
        """What coordinators have open with records in these topics, as far as this principal may see it.

        Nothing where brokers do not tell (before 3.0).
        """
        ...

    def coordinated(self, producer_id: int) -> CoordinatedTransaction | None:
        """What coordinators show of a producer; None: nothing, which may be for want of a permission."""
        ...

    def fence_producer(self, transactional_id: str) -> None:
        """Have the coordinator abort what is open, everywhere; the producer cannot commit it any more."""
        ...

    def abort_hanging(self, transaction: OpenTransaction) -> None:
        """Have the partition's leader append the marker that aborts it there.

        For a transaction that no coordinator waits for: of another one the producer would commit what is left.
        """
        ...
