"""What an examination measures, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

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
    """Answers in the order of sending, then the ends; `takes_drawn`: all of it by an id that no broker gives."""

    topic: str
    answers: tuple[Answer, ...]
    ends: Mapping[int, int]
    takes_drawn: bool = True


@dataclass(frozen=True, slots=True)
class ClockObservation:
    """A broker stamped a record with `stamped_ms`; it was sent and answered at these times of this machine."""

    node_id: int
    sent_ms: int
    stamped_ms: int
    answered_ms: int


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
