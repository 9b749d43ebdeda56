"""What the ledger records: offset syncs, checkpoints, high watermarks, topic states, writer claims.

Ranges are half-open. Times are milliseconds since the epoch, UTC. An unknown value is None.
"""

from dataclasses import dataclass
from enum import StrEnum

SEQUENCE_MODULUS = 1 << 31
"""Producer sequences count records modulo this."""


class GapCause(StrEnum):
    """Why a source offset inside an offset sync holds no copied record."""

    CONTROL = "control"  # a transaction marker
    ABORTED = "aborted"  # a record of an aborted transaction
    COMPACTED = "compacted"  # the cleaner had removed it before it was read
    FILTERED = "filtered"  # the flow's configuration leaves it out
    MIRROR_WRITE = "mirror_write"  # written by a mirror flow, not by an application


class SyncKind(StrEnum):
    """What a row of `offset_syncs` says about a stretch of source offsets."""

    STARTED = "started"  # nothing yet: the flow begins with the partition here (empty ranges)
    COPIED = "copied"
    ADOPTED = "adopted"  # paired with records that something else had written at the target
    LOST = "lost"
    SUPERSEDED = "superseded"  # what earlier rows say from `source_start` on holds no longer
    UNPAIRED = "unpaired"  # the flow's own records at the target whose source offset could not be identified


class SyncCause(StrEnum):
    """Why a row that is not a copy was written."""

    RETENTION = "retention"  # lost: deleted before it was copied; unpaired: at the target, before it could be recorded
    DELETED_RECORDS = "deleted_records"  # lost: the log start moved though retention had no reason
    SKIPPED = "skipped"  # lost: an operator said to continue after it
    KEPT_LOCAL = "kept_local"  # lost: decided to stay at the source, and to be copied nowhere
    OVERTAKEN = "overtaken"  # lost: given up, the target has a later record of the key
    SOURCE_TRUNCATED = "source_truncated"  # superseded: the source lost its end (leader epochs)
    TARGET_TRUNCATED = "target_truncated"  # superseded: the target lost records of this flow
    TARGET_RECREATED = "target_recreated"  # superseded: the target topic was deleted and created again
    RESYNC = (
        "resync"  # superseded: an operator had it copied again; unpaired: tombstones of a comparison of keys
    )
    SETTLED = "settled"  # superseded: what was recorded without the source is read again beside it
    EARLIEST = "earliest"  # started at the source's log start
    LATEST = "latest"  # started at the source's last stable offset
    TIMESTAMP = "timestamp"  # started at the first record at or after a time
    CUT = "cut"  # started where a cut says that the way back begins: what lies before is decided; unpaired: others'
    RECREATED = "recreated"  # started with a new incarnation of the source topic
    LOST_SOURCE = "lost_source"  # unpaired: their source records were deleted
    ACCEPTED = "accepted"  # unpaired: an operator said to continue after them
    COMPACTED = (
        "compacted"  # unpaired: a cleaner has been at work, and their source records cannot be identified
    )
    REPEATED = "repeated"  # unpaired: written a second time, by a request that came late


def source_may_be_gone(kind: SyncKind, cause: SyncCause | None) -> bool:
    """Whether, after a row, records of the flow at the target may have no source record any more."""
    if kind is SyncKind.SUPERSEDED:
        return cause not in (SyncCause.TARGET_TRUNCATED, SyncCause.SETTLED)
    if cause is SyncCause.CUT:
        return False
    return kind in (SyncKind.LOST, SyncKind.UNPAIRED) or cause is SyncCause.RECREATED


class Absence(StrEnum):
    """Why a commit that was recorded once is not there any more."""

    GONE = "gone"  # the group was deleted or has expired, or it has no commit for the partition any more
    HIDDEN = "hidden"  # the mirror's principal is not shown the group, or the topic, any more


class WriterEvent(StrEnum):
    """What a row of `writers` says."""

    CLAIMED = "claimed"
    ALIVE = "alive"  # nothing else was appended for a heartbeat
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class Gap:
    """Source offsets `[source_start, source_end)` that hold no copied record, and why."""

    source_start: int
    source_end: int
    cause: GapCause


@dataclass(frozen=True, slots=True)
class TopicPartition:
    """One partition of one incarnation of a topic."""

    topic: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class PartitionPair:
    """A source partition and the target partition that it is copied to."""

    source: TopicPartition
    target: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSync:
    """Source `[source_start, source_end)` went to target `[target_start, target_end)`, gaps left out.

    What only copies have is left at its default by rows of the other kinds. `former_producer_id`: the records
    were written with this one, before the flow got the id that `first_sequence` is for.
    """

    source: TopicPartition
    target: TopicPartition
    source_leader_epoch: int | None
    source_start: int
    source_end: int
    target_start: int
    target_end: int
    first_sequence: int
    kind: SyncKind
    cause: SyncCause | None
    gaps: tuple[Gap, ...] = ()
    recovered: bool = False
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    records: int = 0
    bytes: int = 0
    checksum: int | None = None
    raw_batches: int = 0
    record_path_batches: int = 0
    former_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a group had committed for one partition; `committed_offset` None: `absence` says why.

    `transaction_pending`: a transaction that was open when this was read had committed another offset.
    """

    cluster: str
    group_id: str
    group_type: str | None
    group_state: str | None
    topic: str
    topic_id: str | None
    partition: int
    committed_offset: int | None
    leader_epoch: int | None
    metadata: str | None
    read_at_ms: int
    absence: Absence | None = None
    transaction_pending: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermark:
    """Where one partition started and ended.

    `confirms_others`: all ends that have no row beside it were read too, and had not changed.
    `previous_read_at_ms`: when the read before began, at which all ends were as they had been recorded.
    """

    cluster: str
    topic: str
    topic_id: str
    partition: int
    leader_epoch: int | None
    log_start: int
    last_stable: int
    high_watermark: int
    read_at_ms: int
    confirms_others: bool | None = None
    previous_read_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """A topic as a cluster described it."""

    cluster: str
    topic: str
    topic_id: str
    partitions: int
    replication_factor: int
    configuration: tuple[tuple[str, str], ...]
