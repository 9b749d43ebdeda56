"""What the middle of the program needs from the outside, as Protocols.

Adapters implement them on Kafka, Delta and Spark; simulations and tests implement them in memory.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ledger.domain.adopted import AdoptionHistory
from ledger.domain.cluster_identity import ClusterIdentities, LiveCluster, RememberedProducer
from ledger.domain.facts import Checkpoint, HighWatermark, TopicPartition
from ledger.domain.group_commits import CommitRefusal, NewCommit
from ledger.domain.operations.content import OperationContent
from ledger.domain.operations.finding_events import FindingKey
from ledger.domain.operations.partition_events import RecordedStop
from ledger.domain.operations.receipts import Acceptance
from ledger.domain.operations.requests import FlowRequests
from ledger.domain.position import Position
from ledger.domain.returning import FormerCopy
from ledger.domain.supersession import RecordedSync
from ledger.domain.topic_acls import TopicAcl
from ledger.wire.record_batch import BatchHeader
from ledger.wire.requests import Fetched, Produced

Row = Mapping[str, object]
"""One row of a table without its stamp: column name of `schema.py` to value."""


class Clock(Protocol):
    """Wall time for rows, monotonic time for deadlines."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as a cluster describes it now; `internal` for Kafka's own."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    internal: bool


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created."""

    name: str
    partitions: int
    replication_factor: int
    configuration: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A consumer group that a cluster knows; type, state and protocol type as the broker spells them."""

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


class ClusterAdmin(Protocol):
    """Administration of one cluster. Every call has a deadline and raises `ClusterUnavailableError` past it."""

    alias: str

    def cluster_id(self) -> str: ...

    def metadata_offset(self) -> int | None:
        """How far the cluster's own metadata has come, which only grows while it lives; None: it does not tell."""
        ...

    def broker_count(self) -> int: ...

    def topics(self) -> dict[str, TopicDescription]:
        """All topics by name, internal ones included."""
        ...

    def configurations(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Per topic the settings that were set on the topic itself; defaults left out."""
        ...

    def topic_settings(self, topics: Sequence[str]) -> SettingsAnswer: ...

    def change_settings(self, name: str, *, to_set: Mapping[str, str], to_remove: Sequence[str]) -> None:
        """Change some of a topic's own settings; what is removed falls back to the cluster's default."""
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

    def add_partitions(self, name: str, *, total: int) -> None: ...

    def delete_topic(self, name: str, *, topic_id: str) -> None:
        """Delete this life of a topic; one that is gone already is no error."""
        ...

    def is_gone(self, topic: str) -> bool:
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

    def batch_at(self, partition: TopicPartition, offset: int) -> BatchHeader | None:
        """The batch that holds an offset, or the first one after it; None where the log does not reach.

        Raises `ClusterUnavailableError` also when the topic has another id by now.
        """
        ...

    def next_sequence(self, partition: TopicPartition, producer_id: int) -> int | None:
        """What the leader expects next of a producer, also once its records are gone; None where it does not tell."""
        ...

    def remembered_producer(self, partition: TopicPartition, producer_id: int) -> RememberedProducer | None:
        """What the leader remembers of a producer; None: nothing. Raises `PreconditionError` where it may not tell."""
        ...

    def groups(self) -> list[GroupListing]: ...
    def commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> list[Checkpoint]:
        """Every committed offset of the groups, as checkpoints; `topic_ids` names the living topics."""
        ...

    def dead_groups(self, groups: Sequence[str]) -> frozenset[str]:
        """Which of these groups are certain not to exist; the others do, or may not be described."""
        ...

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[tuple[str, int], CommitRefusal]:
        """Commit for a group that has no members; returns by topic and partition what was refused.

        A group that does not exist is created. Unknown when it raises; what was committed before is overwritten.
        """
        ...

    def allocate_producer_id(self) -> int:
        """A producer id that this cluster has never given before (InitProducerId without a transactional id)."""
        ...


def live_cluster(admin: ClusterAdmin) -> LiveCluster:
    """The cluster that answers."""
    return LiveCluster(admin.cluster_id(), admin.metadata_offset())


class AclAdmin(Protocol):
    """Access control lists of one cluster; every call raises `PreconditionError` when it is refused."""

    def topic_acls(self) -> frozenset[TopicAcl]: ...

    def create_acls(self, acls: Sequence[TopicAcl]) -> None: ...
    def delete_acls(self, acls: Sequence[TopicAcl]) -> None:
        """Delete exactly these; one that is gone already is no error."""
        ...


@dataclass(frozen=True, slots=True)
class WriterClaim:
    """A claimed writer epoch; every append names it."""

    writer: str
    epoch: int


class ReachProbe(Protocol):
    """Short questions to one cluster, apart from all that copies and administers."""

    def look(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], str]:
        """Which of these partitions have no leader that answers, and why.

        Raises `ClusterUnavailableError`, or another error of ours, when no broker of the cluster answers: within
        seconds, whatever state the brokers are in.
        """
        ...

    def close(self) -> None: ...


class FactLog(Protocol):
    """The append side of the ledger. Each append is one commit of one table, read back before it counts."""

    def claim(self, writer: str, tables: Sequence[str], row: Row) -> WriterClaim:
        """Take the next epoch of `writer`: a commit to each of `tables`, then the claim as a row of `writers`.

        The log itself adds the column `shut_out` to the row: where each table stood when earlier epochs were
        shut out of it. Raises `PreconditionError` when another driver claimed at the same moment.
        """
        ...

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        """Append rows of one round. Raises `ShutOutError` when a later epoch has been claimed."""
        ...

    def append_next(self, writer: str, table: str, rows: Sequence[Row]) -> int:
        """Append rows as the next round of a writer that claims nothing (epoch 0); returns the round.

        Of two that append at the same moment each gets a round of its own.
        """
        ...


@dataclass(frozen=True, slots=True)
class FlowPosition:
    """Where a flow stands on one partition, from its last row.

    Sequences are of `producer_id`, None when the flow has had one only.
    """

    source_topic: str
    source_topic_id: str
    partition: int
    target_topic: str
    target_topic_id: str
    position: Position
    producer_id: int | None = None

    def for_producer(self, producer_id: int) -> "FlowPosition":
        """As a driver with this producer id goes on: nothing was written with it when the last row is of another."""
        if self.producer_id is None or self.producer_id == producer_id:
            return self
        position = self.position.with_another_producer(self.producer_id)
        return replace(self, producer_id=producer_id, position=position)


class LedgerState(Protocol):
    """The read side that drivers need: latest state, no time travel."""

    def positions(self, flow: str) -> list[FlowPosition]: ...

    def recorded_syncs(self, flow: str, source_topic: str, partition: int) -> list[RecordedSync]:
        """All rows of one flow and source partition, of each topic id that it had, superseded ones included."""
        ...

    def former_copies(self, cluster: str, topic_ids: Mapping[str, str]) -> list[FormerCopy]:
        """What flows copied from these topics of a cluster when they had another id than the one given."""
        ...

    def copied_by_others(
        self, flow: str, source_topic_ids: Collection[str]
    ) -> dict[tuple[str, int, str], str]:
        """By source topic id, partition and target topic id another flow whose map holds records there."""
        ...

    def adoptions(self, topic_ids: Collection[str]) -> list[AdoptionHistory]:
        """By flow and source partition, what was adopted at these topics, and what tells that their logs went back."""
        ...

    def has_run(self, flow: str) -> bool:
        """Whether a driver has ever claimed an epoch of the flow."""
        ...

    def identities(self) -> ClusterIdentities:
        """Which Kafka clusters aliases stand for, and whose producer ids are whose there."""
        ...

    def deleted_topic_ids(self, cluster: str) -> frozenset[str]:
        """Ids of topics of a cluster that were seen deleted by a recorder."""
        ...

    def last_checkpoints(self, cluster: str) -> list[Checkpoint]: ...

    def last_high_watermarks(self, cluster: str) -> list[HighWatermark]: ...

    def stopped_partitions(self, flow: str) -> dict[tuple[str, int], RecordedStop]:
        """By (source topic id, partition) those whose last event is that they stopped."""
        ...

    def requests(self, flow: str) -> FlowRequests: ...

    def acceptances(self, flow: str) -> dict[tuple[str, int], Acceptance]:
        """By source topic id and partition, what operators accepted last."""
        ...

    def open_findings(self, flow: str) -> frozenset[FindingKey]:
        """Findings that were raised and not cleared since."""
        ...

    def created_acls(self, flow: str) -> frozenset[TopicAcl]:
        """Access control lists that the flow had created and not removed."""
        ...

    def followed_settings(self, flow: str) -> dict[str, frozenset[str]]:
        """Names of settings that the flow had set and not removed, by target topic id."""
        ...


def require_recorded(state: LedgerState, *admins: ClusterAdmin) -> None:
    """Raise `PreconditionError` when another cluster answers behind an alias than the ledger knows."""
    identities = state.identities()
    for admin in admins:
        identities.require(admin.alias, live_cluster(admin))


class WriterDirectory(Protocol):
    """Tells mirror flows from applications by their producer ids, for one Kafka cluster id."""

    def is_mirror(self, producer_id: int) -> bool:
        """Whether a flow has recorded this id. Ask only after a batch with it was fetched: then it is final.

        Raises `LedgerUnavailableError` when the ledger cannot be asked.
        """
        ...


OperationEntry = tuple[str | None, OperationContent]
"""Reason and content of an operation."""


class OperationLog(Protocol):
    """Appends to `operations`; the content knows its kind."""

    def record(
        self, content: OperationContent, *, flow: str | None, reason: str | None, ticket: str | None = None
    ) -> str:
        """Append one row and return its operation id."""
        ...

    def record_all(self, entries: Sequence[OperationEntry], *, flow: str | None) -> None:
        """Append an operation for each reason and content, all of them at once or none."""
        ...

    def record_parts(
        self,
        contents: Sequence[OperationContent],
        *,
        operation_id: str | None = None,
        flow: str | None,
        reason: str | None,
        ticket: str | None = None,
    ) -> str:
        """Append at once the rows of one operation; returns its id, which they share: a new one unless given."""
        ...


@dataclass(frozen=True, slots=True)
class FetchItem:
    """One partition of a fetch; `last_epoch`: leader epoch of the last batch read, to be checked (None: not)."""

    partition: TopicPartition
    offset: int
    max_bytes: int
    last_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ProduceItem:
    """One partition of a produce request: exactly one patched batch."""

    partition: TopicPartition
    batch: memoryview


class ClusterLink(Protocol):
    """Kept connections to one cluster. Requests are sent at once and answered through `Network.poll`."""

    def leader(self, partition: TopicPartition) -> int | None:
        """Node that leads the partition as last heard; None when unknown."""
        ...

    def leader_epoch(self, partition: TopicPartition) -> int | None:
        """Which leader that is, counted by the cluster; None when unknown."""
        ...

    def is_gone(self, partition: TopicPartition) -> bool:
        """Whether, as last heard, the topic's name is unknown or belongs to another topic id."""
        ...

    def is_denied(self, partition: TopicPartition) -> bool:
        """Whether, as last heard, this principal may not even describe the topic."""
        ...

    def refresh(self, topics: Sequence[str]) -> None:
        """Ask for leaders again. Raises `ClusterUnavailableError` when no broker answers."""
        ...

    def fetch(
        self, node: int, items: Sequence[FetchItem], *, committed: bool, max_wait_ms: int, max_bytes: int
    ) -> int:
        """Send a Fetch; the ticket returned comes back in one `Completion`."""
        ...

    def produce(self, node: int, items: Sequence[ProduceItem], *, timeout_ms: int) -> int:
        """Send a Produce with acks=all; the ticket returned comes back in one `Completion`."""
        ...

    def produce_window(self, node: int) -> int:
        """How many produce requests may be in flight to the node, from its round trip time."""
        ...


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to one request: partitions of the response in the order asked, or why there is none.

    `failure` says that the outcome is unknown: the connection was lost or the deadline passed. `throttle_ms`: for
    how long a quota made the broker hold back.
    """

    ticket: int
    fetched: tuple[Fetched | None, ...] = ()
    produced: tuple[Produced | None, ...] = ()
    failure: str | None = None
    throttle_ms: int = 0


class Network(Protocol):
    """Both sides of a copy task and the wait for whatever is answered first."""

    @property
    def source(self) -> ClusterLink: ...

    @property
    def target(self) -> ClusterLink: ...

    def poll(self, timeout_s: float) -> list[Completion]:
        """Answers that have arrived; waits up to `timeout_s` for the first."""
        ...
