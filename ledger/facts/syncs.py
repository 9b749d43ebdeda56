"""Offset syncs: what one says, and what holds of those of a flow: order, supersession, where to continue."""

import base64
import binascii
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from ledger.errors import InvalidValueError
from ledger.facts.codec import inline

# Facts --------------------------------------------------------------------------------------------
# What the ledger records: offset syncs, checkpoints, high watermarks, topic states, writer claims.
#
# Ranges are half-open. Times are milliseconds since the epoch, UTC. An unknown value is None.


SEQUENCE_MODULUS = 1 << 31
"""Producer sequences count records modulo this."""


class GapCause(StrEnum):
    """Why a source offset inside an offset sync holds no copied record: `CAUSES`, of kind `gap`."""

    CONTROL = "control"
    ABORTED = "aborted"
    COMPACTED = "compacted"
    FILTERED = "filtered"
    MIRROR_WRITE = "mirror_write"
    KEYLESS = "keyless"
    DEAD_LETTER = "dead_letter"
    KEPT_LOCAL = "kept_local"


class SyncKind(StrEnum):
    """What a row of `offset_syncs` says about a stretch of source offsets."""

    STARTED = "started"  # nothing yet: the flow begins with the partition here (empty ranges)
    COPIED = "copied"
    ADOPTED = "adopted"  # paired with records that something else had written at the target
    LOST = "lost"
    SUPERSEDED = "superseded"  # what earlier rows say from `source_start` on holds no longer
    UNPAIRED = "unpaired"  # the flow's own records at the target whose source offset could not be identified


MAPPED = frozenset({SyncKind.COPIED, SyncKind.ADOPTED})
"""Kinds of rows that pair source offsets with target offsets."""


class SyncCause(StrEnum):
    """Why a row that is not a copy was written, or by what one tells of copies of others: `CAUSES`, by kind."""

    RETENTION = "retention"
    DELETED_RECORDS = "deleted_records"
    SKIPPED = "skipped"
    OVERTAKEN = "overtaken"
    SOURCE_TRUNCATED = "source_truncated"
    MARKER_LOST = "marker_lost"
    RETURNING = "returning"
    TARGET_TRUNCATED = "target_truncated"
    TARGET_RECREATED = "target_recreated"
    RESYNC = "resync"
    SETTLED = "settled"
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    CUT = "cut"
    DEAD_LETTER = "dead_letter"
    EXTRAS = "extras"
    RECREATED = "recreated"
    LOST_SOURCE = "lost_source"
    ACCEPTED = "accepted"
    COMPACTED = "compacted"
    THROUGH = "through"
    REPEATED = "repeated"


LOST_AT_SOURCE = frozenset({SyncCause.SOURCE_TRUNCATED, SyncCause.RETURNING})
"""Causes that say that a source has lost its end."""


class Cause(NamedTuple):
    """What a cause says in a row of a kind, or in a gap; None: the row needs none. `is_unmatched`: records of one side
    have no counterpart at the other: they were not copied, have no known source offset, or hold no longer."""

    kind: str
    cause: str | None
    is_unmatched: bool
    meaning: str


CAUSES = (
    Cause("gap", "control", False, "not a record: a transaction's marker"),
    Cause("gap", "aborted", False, "not copied: of a transaction that was aborted"),
    Cause("gap", "compacted", False, "not copied: a cleaner removed it before that was recorded"),
    Cause("gap", "filtered", True, "not copied: left out by the configuration"),
    Cause("gap", "mirror_write", False, "not copied: another mirror had written it"),
    Cause("gap", "keyless", True, "not copied: without a key in a compacted topic, the target refused it"),
    Cause("gap", "dead_letter", True, "the target refused it: it is in the dead letter topic"),
    Cause("gap", "kept_local", True, "not copied: decided to stay at the source"),
    Cause("started", "earliest", False, "begun at the source's log start"),
    Cause("started", "latest", False, "begun at the source's last stable offset"),
    Cause("started", "timestamp", False, "begun at the first record at or after a time"),
    Cause("started", "recreated", False, "begun with a new incarnation of the source topic"),
    Cause("started", "cut", False, "begun where a cut says that the way back begins"),
    Cause("started", "extras", False, "begun at the first record that the source alone has"),
    Cause("started", "dead_letter", False, "begun at the first record that the target refused"),
    Cause("copied", None, False, "copied to the target"),
    Cause("adopted", None, False, "found at the target, written by an earlier mirror, and paired"),
    Cause("adopted", "through", False, "paired through a cluster that was given up"),
    Cause("lost", "retention", True, "lost: deleted at the source before it was copied"),
    Cause("lost", "deleted_records", True, "lost: deleted at the source by a request"),
    Cause("lost", "skipped", True, "lost: an operator said to continue behind it"),
    Cause("lost", "overtaken", True, "given up: the target has a later record of the key"),
    Cause("superseded", "source_truncated", True, "void: the source lost its end"),
    Cause("superseded", "marker_lost", True, "void: a transaction whose marker was lost ended otherwise"),
    Cause("superseded", "returning", True, "void: the source lost its end, which comes back from the target"),
    Cause("superseded", "target_truncated", True, "void: the target lost records"),
    Cause("superseded", "target_recreated", True, "void: the target topic was created again"),
    Cause("superseded", "resync", True, "void: an operator had it copied again"),
    Cause("superseded", "settled", False, "read again beside the source: it was recorded without it"),
    Cause("unpaired", "lost_source", True, "at the target: its source was lost, or did not answer"),
    Cause("unpaired", "accepted", True, "at the target: an operator said to continue behind it"),
    Cause("unpaired", "resync", True, "tombstones that a comparison of keys wrote"),
    Cause("unpaired", "repeated", True, "written a second time, by a request that came late"),
    Cause("unpaired", "retention", True, "at the target, and deleted there before it could be recorded"),
    Cause("unpaired", "compacted", True, "at the target: a cleaner removed what would identify it"),
    Cause("unpaired", "cut", False, "no record: the target continues behind what applications wrote there"),
    Cause("unpaired", "extras", False, "no record: the target continues in front of replicated extras"),
)
"""Every cause with its meaning: reports print it, and the view `causes` has it for queries."""
_MATCHED = frozenset((one.kind, one.cause) for one in CAUSES if not one.is_unmatched)


def source_may_be_deleted(kind: SyncKind, cause: SyncCause | None) -> bool:
    """Whether, after a row, records of the flow at the target may have no source record any more."""
    if (kind, cause) == (SyncKind.SUPERSEDED, SyncCause.TARGET_TRUNCATED):
        return False
    return cause is SyncCause.RECREATED or (kind, cause) not in _MATCHED


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

    @property
    def words(self) -> str:
        """As people read it: `orders partition 1`."""
        return f"{self.topic} partition {self.partition}"

    @property
    def place(self) -> tuple[str, int]:
        """Topic and partition, of whichever incarnation."""
        return self.topic, self.partition

    @property
    def key(self) -> tuple[str, int]:
        """Topic id and partition."""
        return self.topic_id, self.partition


@dataclass(frozen=True, slots=True)
class PartitionPair:
    """A source partition and the target partition that it is copied to."""

    source: TopicPartition
    target: TopicPartition


def _of_side(side: str) -> Mapping[str, Any]:
    """Columns of a partition in rows of `offset_syncs`."""
    return inline(topic=f"{side}_topic", topic_id=f"{side}_topic_id", partition=f"{side}_partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSync:
    """Source `[source_start, source_end)` went to target `[target_start, target_end)`, gaps left out.

    What only copies have is left at its default by rows of the other kinds. `former_producer_id`: the records
    were written with this one, before the flow got the id that `first_sequence` is for.
    """

    source: TopicPartition = field(metadata=_of_side("source"))
    target: TopicPartition = field(metadata=_of_side("target"))
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
    merged_batches: int | None = None
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


# Position -----------------------------------------------------------------------------------------
# Where a flow stands on one partition, and what it knows of the target behind that.
#
# Both are carried: from the ledger's last row to the driver, from the driver to a task, and back from it.
# Who carries them holds them whole, so that what is to be carried, too, is one more field here and a line
# where it changes.


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Up to where one partition is copied.

    `source_offset`: the next to be copied. `target_offset`: behind the last record there that is recorded.
    `next_sequence`: of the flow's next record. `former_sequence`: the producer id that the flow had before, and its
    next sequence, where nothing was written with the present one yet. `leader_epoch`: that of the last source batch
    before `source_offset`, None when unknown. `source_may_be_deleted`: source records before it were deleted, so
    records of the flow at the target, behind `target_offset`, may have no source any more.
    """

    source_offset: int
    target_offset: int
    next_sequence: int
    leader_epoch: int | None = None
    source_may_be_deleted: bool = False
    former_sequence: tuple[int, int] | None = None

    def copied_up_to(self, source_offset: int, target_offset: int, next_sequence: int) -> "Position":
        """A batch further; made for every one of them, so without `replace`, which takes twice the time."""
        return Position(
            source_offset=source_offset,
            target_offset=target_offset,
            next_sequence=next_sequence,
            leader_epoch=self.leader_epoch,
            source_may_be_deleted=self.source_may_be_deleted,
            former_sequence=self.former_sequence,
        )

    def lost_up_to(self, source_offset: int) -> "Position":
        """Source records before `source_offset` were deleted, or left out: whatever leader wrote the last of them."""
        return replace(self, source_offset=source_offset, leader_epoch=None, source_may_be_deleted=True)

    def with_another_producer(self, former_producer_id: int) -> "Position":
        """As it is for a producer id that nothing was written with, after one that all of it was."""
        return replace(self, next_sequence=0, former_sequence=(former_producer_id, self.next_sequence))

    def after(self, syncs: Sequence[OffsetSync]) -> "Position":
        """As it is known to be by what a task has to record; the next driver will tell the same from the last row."""
        may_be_deleted = self.source_may_be_deleted
        if any(sync.records and not sync.recovered for sync in syncs):
            may_be_deleted = False  # something new was written, so all of the tail was explained
        if syncs and syncs[-1].kind is SyncKind.UNPAIRED:
            may_be_deleted = True
        return replace(self, source_may_be_deleted=may_be_deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class TailKnowledge:
    """What the tasks of one run have learned of a target behind the flow's position.

    `start`: target offsets below it hold nothing unrecorded of this flow. `leader_epoch`: that of the target's leader
    under which the flow's last record was searched, None when it was not. `refused_sequences`: how often the target
    refused the next sequence since it last took one. `both_sides_seen`: the source answered, and the tail was read up
    to its end. `source_epoch`: that of the source's leader under which the flow's last record was compared with the
    source's own, None when it is to be.
    """

    start: int = 0
    leader_epoch: int | None = None
    refused_sequences: int = 0
    both_sides_seen: bool = False
    source_epoch: int | None = None


NOTHING_KNOWN = TailKnowledge()
"""When a run begins."""


@dataclass(frozen=True, slots=True)
class FlowPosition:
    """Where a flow stands on one partition, from its last row.

    Sequences are of `producer_id`, None when the flow has had one only. `is_truncated`: the source has lost its end
    from there on, and nothing was copied since.
    """

    source_topic: str
    source_topic_id: str
    partition: int
    target_topic: str
    target_topic_id: str
    position: Position
    producer_id: int | None = None
    is_truncated: bool = False

    @property
    def pair(self) -> PartitionPair:
        return PartitionPair(
            TopicPartition(self.source_topic, self.source_topic_id, self.partition),
            TopicPartition(self.target_topic, self.target_topic_id, self.partition),
        )

    def for_producer(self, producer_id: int) -> "FlowPosition":
        """As a driver with this producer id continues: nothing was written with it when the last row is of another."""
        if self.producer_id is None or self.producer_id == producer_id:
            return self
        position = self.position.with_another_producer(self.producer_id)
        return replace(self, producer_id=producer_id, position=position)


# Supersession -------------------------------------------------------------------------------------
# What holds of a flow's offset syncs: order of recording, supersession, and where to continue after a
# truncation.
#
# A `superseded` row voids what was recorded before it, or beside it in its round, about source offsets from
# its `source_start` on. What lies across is cut there. The row itself stays: the flow continues where it
# says.


SEQUENCED_KINDS = frozenset({SyncKind.COPIED, SyncKind.UNPAIRED})
"""Kinds of rows whose records the flow itself wrote, each with a sequence of its own."""

_PLACED = frozenset({SyncKind.STARTED, SyncKind.UNPAIRED})


def recording_order(
    *, writer_epoch: int, round_number: int, kind: str, source_start: int, source_end: int, target_end: int
) -> tuple[int, int, bool, int, int]:
    """The key that sorts the rows of one partition, oldest first; the last one tells where the flow stands.

    Within a round the rows follow the source, and a superseded row comes last: of two the lower one.
    """
    if kind == SyncKind.SUPERSEDED:
        return writer_epoch, round_number, True, -source_start, target_end
    return writer_epoch, round_number, False, source_end, target_end


def effective(syncs: Sequence[OffsetSync]) -> list[OffsetSync]:
    """The offset syncs of one partition after supersession, oldest first as they are given.

    A superseded row comes back with an empty source range: where the flow continues. What has no source offsets
    and lies just there holds when the target continues behind it.
    """
    return [sync for _, sync in numbered_effective(syncs)]


def numbered_effective(syncs: Sequence[OffsetSync]) -> list[tuple[int, OffsetSync]]:
    """The same, each with the place of its row among those given."""
    kept: list[tuple[int, OffsetSync]] = []
    later: list[OffsetSync] = []
    for index, sync in reversed(list(enumerate(syncs))):
        if not any(_voids(superseded, sync) for superseded in later):
            kept.append((index, _below(_as_it_holds(sync), later)))
        if sync.kind is SyncKind.SUPERSEDED:
            later.append(sync)
    return kept[::-1]


def _voids(superseded: OffsetSync, sync: OffsetSync) -> bool:
    """Whether nothing of an earlier row holds after a superseded one."""
    if sync.source_start != superseded.source_start or sync.kind not in _PLACED:
        return sync.source_start >= superseded.source_start
    continues_there = sync.target.topic_id == superseded.target.topic_id
    return not (continues_there and sync.target_end <= superseded.target_end)


def _as_it_holds(sync: OffsetSync) -> OffsetSync:
    return replace(sync, source_end=sync.source_start) if sync.kind is SyncKind.SUPERSEDED else sync


def _below(sync: OffsetSync, later: Sequence[OffsetSync]) -> OffsetSync:
    """What later superseded rows leave of a row; its bytes, batches and times stay those of the whole."""
    cut = min((superseded.source_start for superseded in later), default=sync.source_end)
    if sync.source_end <= cut:
        return sync
    gaps = tuple(
        Gap(gap.source_start, min(gap.source_end, cut), gap.cause)
        for gap in sync.gaps
        if gap.source_start < cut
    )
    shorter = replace(sync, source_end=cut, gaps=gaps, checksum=None)
    if sync.kind is SyncKind.LOST:
        return shorter
    records = cut - sync.source_start - sum(gap.source_end - gap.source_start for gap in gaps)
    return replace(shorter, records=records, target_end=sync.target_start + records)


@dataclass(frozen=True, slots=True)
class RecordedSync:
    """An offset sync with the place at which it was recorded.

    `producer_id`: the flow's at that time; None when it has had one only.
    """

    writer_epoch: int
    round: int
    sync: OffsetSync
    producer_id: int | None = None

    @property
    def written_with(self) -> int | None:
        """The producer id of its records; None when the flow has had one only."""
        former = self.sync.former_producer_id
        return self.producer_id if former is None else former

    def counts_for(self, producer_id: int) -> bool:
        """Whether its records have sequences of this producer id."""
        return self.sync.former_producer_id is None and self.producer_id in (None, producer_id)

    @property
    def place(self) -> tuple[int, int, bool, int, int]:
        """Sorts the rows of one partition, oldest first."""
        return recording_order(
            writer_epoch=self.writer_epoch,
            round_number=self.round,
            kind=self.sync.kind,
            source_start=self.sync.source_start,
            source_end=self.sync.source_end,
            target_end=self.sync.target_end,
        )


def holding(recorded: Iterable[RecordedSync]) -> list[OffsetSync]:
    """What still holds of a partition's rows, oldest first, the supersessions themselves left out."""
    oldest_first = [row.sync for row in sorted(recorded, key=lambda row: row.place)]
    return [sync for sync in effective(oldest_first) if sync.kind is not SyncKind.SUPERSEDED]


def behind_others_from(oldest_first: Iterable[OffsetSync]) -> int | None:
    """Where the flow stood at the target before it copied extras behind what others had written there.

    None: it has not, or what they had written was passed at a cut since. All rows are of one target.
    """
    found: int | None = None
    stood = 0
    for sync in oldest_first:
        is_passed = sync.kind is SyncKind.COPIED and not sync.records and sync.target_start > stood
        if sync.cause is SyncCause.EXTRAS:
            found = stood if found is None else found
        elif is_passed or sync.cause is SyncCause.CUT:
            found = None
        stood = sync.target_end
    return found


def by_source_incarnation(recorded: Iterable[RecordedSync]) -> dict[str, list[RecordedSync]]:
    """The rows of one partition by the topic id that its source had."""
    found: dict[str, list[RecordedSync]] = {}
    for row in recorded:
        found.setdefault(row.sync.source.topic_id, []).append(row)
    return found


# Offset ranges ------------------------------------------------------------------------------------
# Half-open ranges of offsets of one partition: put together, taken from each other, searched.
#
# Where ranges are called ascending they are also apart from each other.


OffsetRange = tuple[int, int]
"""Start and end of a half-open range of offsets."""


class Share(Enum):
    """How much of a stretch of offsets lies in one of several ranges."""

    NONE = "none"
    PART = "part"
    ALL = "all"


def share_of(ranges: Sequence[OffsetRange], start: int, end: int) -> Share:
    """How much of `[start, end)` ascending ranges hold; ranges that touch have to be joined."""
    index = bisect_right(ranges, start, key=_end)
    if index == len(ranges) or ranges[index][0] >= end:
        return Share.NONE
    return Share.ALL if ranges[index][0] <= start and end <= ranges[index][1] else Share.PART


def joined(ranges: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """Ranges in the order of their starts, with those made one that touch or overlap."""
    current: OffsetRange | None = None
    for start, end in ranges:
        if current is not None and start <= current[1]:
            current = current[0], max(current[1], end)
            continue
        if current is not None:
            yield current
        current = start, end
    if current is not None:
        yield current


def without(whole: OffsetRange, taken: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """What is left of a range; `taken` is in the order of starts."""
    start, whole_end = whole
    for taken_start, taken_end in taken:
        if start < min(taken_start, whole_end):
            yield start, min(taken_start, whole_end)
        start = max(start, taken_end)
    if start < whole_end:
        yield start, whole_end


def overlapping(ranges: Sequence[OffsetRange], start: int, end: int) -> Sequence[OffsetRange]:
    """Those of ascending ranges that reach into `[start, end)`."""
    return ranges[bisect_right(ranges, start, key=_end) : bisect_left(ranges, end, key=_start)]


def from_offset(ranges: Sequence[OffsetRange], offset: int) -> tuple[OffsetRange, ...]:
    """Those of ascending ranges that reach beyond an offset."""
    return tuple(ranges[bisect_right(ranges, offset, key=_end) :])


def _start(found: OffsetRange) -> int:
    return found[0]


def _end(found: OffsetRange) -> int:
    return found[1]


# Topic ids ----------------------------------------------------------------------------------------
# Topic ids: 16 bytes on the wire, 22 characters of URL-safe base64 everywhere else.
#
# The text is the one that Kafka's own tools print, so an id of the ledger can be compared with theirs.


_RAW_LENGTH = 16
_TEXT_LENGTH = 22
_REMEMBERED = 1 << 15  # every request names the same topics again


def topic_id_text(raw: bytes) -> str:
    """The canonical text of the 16 bytes that requests and responses carry."""
    if len(raw) != _RAW_LENGTH:
        raise InvalidValueError(f"a topic id has 16 bytes, got {len(raw)}")
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


@lru_cache(maxsize=_REMEMBERED)
def topic_id_bytes(text: str) -> bytes:
    """The 16 bytes of a canonical text; the inverse of `topic_id_text`."""
    try:
        raw = base64.b64decode(text.encode("ascii") + b"==", altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise InvalidValueError(f"a topic id is 22 characters of URL-safe base64, got {text!r}") from error
    if len(text) != _TEXT_LENGTH or topic_id_text(raw) != text:
        raise InvalidValueError(f"a topic id is 22 characters of URL-safe base64, got {text!r}")
    return raw
