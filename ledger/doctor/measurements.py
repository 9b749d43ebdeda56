"""What an examination measures, as values, and the Protocols that adapters measure it behind.

Every method has a deadline and raises one of our errors when it has no answer. Nothing here writes, but
`TargetProbe`, which was asked for, and `LedgerProbe.exclusive_create`, which removes its file again.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from ledger.facts.cuts import ClockStep
from ledger.facts.direction import Directions
from ledger.facts.permissions import Permission
from ledger.facts.syncs import FlowPosition
from ledger.kafka.cluster import GroupListing, PartitionEnds, TopicDescription
from ledger.store.merging import DataFile

Partition = tuple[str, int]
Settings = Mapping[str, str]


# Brokers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Validity:
    """From when until when a certificate is valid, milliseconds since the epoch."""

    not_before_ms: int
    not_after_ms: int


@dataclass(frozen=True, slots=True)
class Reach:
    """A broker that answered: how long connecting and logging in took, and the versions that it speaks."""

    connect_ms: float
    versions: Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as its cluster advertises it."""

    node_id: int
    address: str


# Permissions -----------------------------------------------------------------------------------


class Operation(StrEnum):
    """What may be done to a resource, as `kafka-acls.sh` spells it."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"


Operations = frozenset[Operation]


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a principal may do. An operation set of None was not reported: the resource may not be described.

    `enforced` False: the cluster has no authorizer. `groups_seen`: every group can be described, also
    those that do not exist yet. `hidden_groups` were asked for by name and may not be described.
    """

    enforced: bool
    cluster: Operations | None
    topics: Mapping[str, Operations | None]
    groups_seen: bool
    hidden_groups: tuple[str, ...]


# Clusters --------------------------------------------------------------------------------------


class ClusterProbe(Protocol):
    """Reads one cluster; never writes."""

    alias: str
    servers: str

    @property
    def principal(self) -> str | None:
        """Who the mirror is to the cluster's ACLs; None when it cannot tell."""
        ...

    @property
    def uses_tls(self) -> bool: ...

    def addresses(self) -> Sequence[str]:
        """The bootstrap addresses."""
        ...

    def reach(self, address: str) -> Reach: ...

    def certificate(self, address: str) -> Validity: ...

    def client_certificate(self) -> Validity | None:
        """None when the mirror presents no certificate."""
        ...

    def brokers(self) -> Sequence[Broker]: ...

    def cluster_id(self) -> str: ...

    def topics(self) -> Mapping[str, TopicDescription]: ...

    def groups(self) -> Sequence[GroupListing]: ...

    def permissions(self, topics: Collection[str], groups: Collection[str]) -> Permissions: ...

    def topic_acls(self) -> frozenset[Permission]:
        """All rules about topics. Raises `PreconditionError` where the principal may not read them."""
        ...

    def settings(self, topics: Sequence[str]) -> Mapping[str, Settings]:
        """Per topic every setting with the value that counts, defaults included."""
        ...

    def own_settings(self, topics: Sequence[str]) -> Mapping[str, Settings]:
        """Per topic the settings that were set on the topic itself."""
        ...

    def broker_settings(self, node_ids: Sequence[int]) -> Mapping[int, Settings]: ...

    def ends(self, partitions: Sequence[Partition]) -> Mapping[Partition, PartitionEnds]: ...

    def sizes(self, topics: Mapping[str, int]) -> Mapping[Partition, int]:
        """Bytes on disk by partition, of topics given with their number of partitions."""
        ...

    def timestamps(self, positions: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """The largest timestamp of the batch at each offset; partitions without an answer are left out."""
        ...


# The probe -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """A batch of `count` records to a partition of the probe's topic. `own` False: by another producer."""

    partition: int
    sequence: int
    count: int
    own: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """What a broker said: its error code, and the first offset when that is 0."""

    error: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class AppendObservation:
    """Answers in the order of sending, and the ends of the partitions after all of them."""

    topic: str
    answers: tuple[Answer, ...]
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class ClockObservation:
    """A broker stamped a record with `stamped_ms`; it was sent and answered at these times of this machine."""

    node_id: int
    sent_ms: int
    stamped_ms: int
    answered_ms: int


class ProbeTopic(Protocol):
    """A topic that exists for one probe."""

    def appends(self, script: Sequence[Send]) -> AppendObservation: ...

    def clocks(self) -> Sequence[ClockObservation]:
        """One for every partition; the topic stamps append times."""
        ...


class TargetProbe(Protocol):
    """Writes to a target, into topics of its own that are deleted at the end of their context."""

    def compare_and_append(self) -> AbstractContextManager[ProbeTopic]: ...

    def clock(self, brokers: int) -> AbstractContextManager[ProbeTopic]:
        """With a partition for every broker."""
        ...


# Ledger and machine ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One commit: `operation` as the writing engine named it, `overwrites` its mode.

    `merges`: it put merged files in the place of others, and changed no data.
    """

    version: int
    operation: str
    overwrites: bool
    committed_at_ms: int
    merges: bool = False


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as it is now: its properties, its newest commits, newest first, and the files of its version."""

    properties: Mapping[str, str]
    commits: tuple[TableCommit, ...]
    files: tuple[DataFile, ...]


class LedgerProbe(Protocol):
    """Reads the ledger without a JVM."""

    path: str

    @property
    def folder(self) -> str | None:
        """The ledger's folder when that is on this machine's file system."""
        ...

    def table(self, name: str) -> TableState | None:
        """None when there is no such table."""
        ...

    def clock_steps(self) -> Sequence[ClockStep]:
        """Where the recorded times of a writer fall, in any table."""
        ...

    def cluster_ids(self) -> Mapping[str, str]:
        """The Kafka cluster id that was recorded last, by alias."""
        ...

    def positions(self, flow: str) -> Sequence[FlowPosition]: ...

    def directions(self) -> Directions:
        """Which topics of which clusters are promoted."""
        ...

    def exclusive_create(self) -> bool:
        """Whether the second of two creations of one file was refused. For a local folder, or where it will be."""
        ...

    def free_bytes(self) -> int:
        """For a local folder, or where it will be."""
        ...


class MachineProbe(Protocol):
    """This machine."""

    def java(self) -> str:
        """The Java that Spark gets."""
        ...

    def python(self) -> tuple[int, int, int]: ...
