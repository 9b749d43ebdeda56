"""What a copy task is given and what it returns."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ledger.durations import Durations
from ledger.facts.findings import Side
from ledger.facts.identity import FlowProducer
from ledger.facts.syncs import (
    NOTHING_KNOWN,
    OffsetRange,
    OffsetSync,
    Position,
    TailKnowledge,
    TopicPartition,
)
from ledger.topics.naming import KEEP_ALL, RecordFilter


class StopCause(StrEnum):
    """Why a partition cannot continue. The flow's policies decide what the driver does about the first five."""

    LOST = "lost"
    """Source records were deleted before they were copied; the loss is recorded."""
    SOURCE_TRUNCATED = "source_truncated"
    """The source has other records, or none, where it was copied (unclean leader election, restored disks)."""
    SOURCE_RECREATED = "source_recreated"
    """The source topic has another topic id under the same name."""
    TARGET_TRUNCATED = "target_truncated"
    """The target ends below what the flow wrote there."""
    TARGET_RECREATED = "target_recreated"
    """The target topic has another topic id under the same name."""
    SOURCE_OUT_OF_RANGE = "source_out_of_range"
    """The source refuses the position, and nothing explains it."""
    TARGET_OUT_OF_RANGE = "target_out_of_range"
    """The log of a target that is the flow's own begins behind the recorded end."""
    FOREIGN_WRITE = "foreign_write"
    """Somebody else wrote to a target partition that is the flow's own."""
    TAIL_MISMATCH = "tail_mismatch"
    """Records of this flow at the target do not match the source."""
    SEQUENCE_REFUSED = "sequence_refused"
    """The target refuses the next sequence, and its log does not say why."""
    SOURCE_TOPIC_GONE = "source_topic_gone"
    """The source topic was deleted, and perhaps created again."""
    TARGET_TOPIC_GONE = "target_topic_gone"
    """The target topic was deleted, and perhaps created again."""
    DENIED = "denied"
    """A permission is missing."""
    REFUSED = "refused"
    """The target refuses a record, which was sent alone: too large, or its time or format."""
    TOO_LARGE = "too_large"
    """A compressed batch that cannot be copied as it is comes to more than a task holds of one."""
    CORRUPT = "corrupt"
    """The source returns bytes that are no record batch."""
    TARGET_CORRUPT = "target_corrupt"
    """The target returns bytes that are no record batch, or not the one that was stored."""
    FAILED = "failed"
    """This program met something that it has no answer to."""
    SHUT_OUT = "shut_out"
    """The flow's principal may not write to the target any more."""
    UNKNOWN = "unknown"
    """A cause that this version of the program does not know."""
    COPIED_BY_ANOTHER_FLOW = "copied_by_another_flow"
    """Another flow has copied it to the same target topic, or is configured to. If this flow began, every record
    would be there twice."""
    PROMOTED = "promoted"
    """The target was promoted over the source: applications write there."""
    OPPOSITE_HOLDS = "opposite_holds"
    """The flow of the other direction (`opposite`) holds: it was started first, or the source is not promoted any
    more."""
    CUT_NOT_HELD = "cut_not_held"
    """What the cut says that the flow is to begin at is not so, or cannot be proved."""

    @classmethod
    def of(cls, recorded: str) -> "StopCause":
        """The cause as a row has it; `UNKNOWN` for one that only a later program knows."""
        return cls(recorded) if recorded in set(cls) else cls.UNKNOWN


OF_DIRECTION = frozenset({StopCause.PROMOTED, StopCause.OPPOSITE_HOLDS})
"""Causes that end when the other direction of a pair holds."""

NOT_BY_REQUEST = OF_DIRECTION | {StopCause.COPIED_BY_ANOTHER_FLOW, StopCause.CUT_NOT_HELD}
"""Causes that no request lifts: they end with what they are about."""

AT_THE_TARGET = frozenset(
    {
        StopCause.TARGET_TRUNCATED,
        StopCause.TARGET_RECREATED,
        StopCause.TARGET_OUT_OF_RANGE,
        StopCause.FOREIGN_WRITE,
        StopCause.TAIL_MISMATCH,
        StopCause.SEQUENCE_REFUSED,
        StopCause.TARGET_TOPIC_GONE,
        StopCause.TARGET_CORRUPT,
        StopCause.REFUSED,
    }
)
"""Causes that lie in a target topic and end with it."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A partition that stopped: what was seen, in words that name the values.

    `foreign_producer_id`: of whoever else wrote there; None when nobody did, or without a producer id.
    """

    cause: StopCause
    message: str
    foreign_producer_id: int | None = None


Hold = Callable[[str], Stop | None]
"""Why a flow may not write to a topic of its target at present; None: it may."""


def nothing_held(_target_topic: str) -> Stop | None:
    return None


@dataclass(frozen=True, slots=True)
class Divergence:
    """The source's answer to the last leader epoch read: the epoch before it that it knows, and its end."""

    epoch: int | None
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One partition of a copy task, where it stands, and how far it is to go.

    It is written with the current id of `producer`; what it wrote with before is its own, too. `end_offset`: the
    source offset to reach (None: no end); until both sides were seen they are read though the partition may be
    there. `exclusive`: nobody else may write to the target partition, except below `accepted_below`, where an
    operator accepted what lies there.
    `target_log_start`: where the target's log began when it was found to begin behind the position: whatever the
    flow wrote between and did not record is lost; `remembered_sequence`: the flow's next one as the target then
    remembered it, None when it did not.
    `returning`: source ranges that are copied though a mirror wrote them. `adopted`: source ranges that are left
    out as if one had. `kept_local`: source ranges whose other records stay there. `mistakable`: by producer id of a
    mirror that applications have too the source ranges that the mirror wrote. `record_filter`: what is left out of
    the rest.
    `pairs_below`: nothing is written, the task ends when what the flow wrote below this target offset is paired.
    `copies_tail_again`: own records at the target of which nothing can be proved are left behind, and the source is
    copied again from `position`. `is_target_cleaned`: a cleaner may take records of the target, `is_source_cleaned`:
    of the source. `dead_letter`: why the target refused the record at the position, which is copied to its dead letter
    topic, with headers that say so. `byte_rate`: bytes of batches a second that the task may read of all its
    partitions, None: as many as come. `comes_first`: it is fetched before others of the task. `compares_source`: the
    flow's last record at the target is compared with the source's own before more is read.
    """

    source: TopicPartition
    target: TopicPartition
    position: Position
    producer: FlowProducer
    end_offset: int | None
    exclusive: bool
    tail: TailKnowledge = NOTHING_KNOWN
    accepted_below: int = 0
    target_log_start: int = 0
    remembered_sequence: int | None = None
    returning: tuple[tuple[int, int], ...] = ()
    record_filter: RecordFilter = KEEP_ALL
    adopted: tuple[tuple[int, int], ...] = ()
    kept_local: tuple[tuple[int, int], ...] = ()
    mistakable: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    pairs_below: int | None = None
    copies_tail_again: bool = False
    is_target_cleaned: bool = False
    is_source_cleaned: bool = False
    dead_letter: str | None = None
    byte_rate: float | None = None
    comes_first: bool = False
    compares_source: bool = False

    def side(self, side: Side) -> TopicPartition:
        """The partition at one side."""
        return self.source if side is Side.SOURCE else self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """What a task did for one partition; `trouble` is transient and says why progress fell short.

    `position` and `tail`: as of the next assignment. `divergence`: what the source said when it no longer knew the
    end of the position's leader epoch. `target_lost_from`: the target offset at which a batch landed though this
    flow had written beyond it; `target_whole_below`: from there on the target may have lost some of what this flow
    wrote, and hold what it wrote later. `source_ends`: last stable offset and high watermark of the source as of the
    last answer, None when there was none. `unreached`: by side what kept the task from reading or writing there at its
    end; `throttled_ms`: by side the longest time for which a quota made a broker hold an answer back.
    `copied_again`: what was seen, in words, when the source was copied again because nothing could be proved.
    `has_paired`: of an assignment that only pairs, whether all of it was. `cut`: which batch the target refused for
    its size, in words, of which the records were sent in smaller ones; `refused`: the record at which it stopped;
    `refuses_id`: it takes no producer id that it has not given. `latency`: of each batch from the time that its first
    record says to its acknowledgement; None: there was none. `markers`: offsets of those that an exclusive target has
    between the flow's records. `uncompared`: what was copied last could not be compared with what the source holds,
    None: it was not tried, or a driver has to; `seen_at`: the source offset of what it was compared with.
    """

    assignment: Assignment
    syncs: tuple[OffsetSync, ...]
    position: Position
    tail: TailKnowledge
    stop: Stop | None
    trouble: str | None
    divergence: Divergence | None = None
    target_lost_from: int | None = None
    target_whole_below: int | None = None
    source_ends: tuple[int, int] | None = None
    unreached: tuple[tuple[Side, str], ...] = ()
    throttled_ms: tuple[tuple[Side, int], ...] = ()
    copied_again: str | None = None
    has_paired: bool = False
    cut: str | None = None
    refused: "RefusedRecord | None" = None
    refuses_id: bool = False
    latency: Durations | None = None
    markers: tuple[OffsetRange, ...] = ()
    uncompared: bool | None = None
    seen_at: int | None = None


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that the target refused though it was sent alone: its source offset, and the error in words."""

    offset: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyLimits:
    """Bounds of one task: memory and waiting. Bytes and milliseconds.

    `gaps`: a task that has so many of them to record ends before its round does. `search_ms`: for how long it keeps
    after its round to find out what can be proved of a tail. `merged_bytes`: the most that small batches which wait
    together are merged to, 0: they are not. `gather_ms`: how soon after a fetch that brought fewer than `gather_bytes`
    the next one is sent, so that records which follow each other closely share requests. `slow_ms`: by how much longer
    than the quickest an acknowledgement takes that others are not to wait for.
    """

    partition_fetch_bytes: int = 4 * 1024 * 1024
    fetch_bytes: int = 16 * 1024 * 1024
    buffered_bytes: int = 48 * 1024 * 1024
    produce_request_bytes: int = 4 * 1024 * 1024
    in_flight_bytes: int = 32 * 1024 * 1024
    max_wait_ms: int = 500
    busy_wait_ms: int = 10
    gather_ms: int = 2
    gather_bytes: int = 32 * 1024
    request_timeout_ms: int = 30_000
    drain_ms: int = 1_000
    search_ms: int = 20_000
    gaps: int = 100_000
    merged_bytes: int = 128 * 1024
    slow_ms: int = 250


# Troubles -----------------------------------------------------------------------------------------
# What keeps a partition of a copy task from getting on at present, and how long it pauses before it tries
# again.


LEDGER, WRITING = "ledger", "writing"
"""What, beside reading at the two sides, may fail."""


class Troubles:
    """The troubles of one partition, by side; knows no clock beyond the instants passed in."""

    def __init__(self) -> None:
        self.retry_at = 0.0
        self._failures: dict[str, int] = {}
        self._troubles: dict[str, str] = {}
        self._throttled_ms: dict[Side, int] = {}

    @property
    def trouble(self) -> str | None:
        """What keeps the partition from getting on; one side's success says nothing about the other."""
        throttled = (f"the {side} throttles this client by a quota" for side in self._throttled_ms)
        return next(iter([*self._troubles.values(), *throttled]), None)

    @property
    def unreached(self) -> tuple[tuple[Side, str], ...]:
        """By side what keeps it from reading or writing there at present."""
        sides = {Side.SOURCE: Side.SOURCE, Side.TARGET: Side.TARGET, WRITING: Side.TARGET}
        found = {sides[at]: trouble for at, trouble in self._troubles.items() if at in sides}
        return tuple(found.items())

    @property
    def throttled_ms(self) -> tuple[tuple[Side, int], ...]:
        """By side the longest time for which a broker held an answer back, of this task."""
        return tuple(self._throttled_ms.items())

    def throttle(self, side: Side, throttle_ms: int) -> None:
        """A quota made a broker hold back."""
        self._throttled_ms[side] = max(throttle_ms, self._throttled_ms.get(side, 0))

    def failures(self, side: Side) -> int:
        """Failures at one side since something worked there."""
        return self._failures.get(side, 0)

    def settle_trouble(self, side: str) -> None:
        """Something worked again."""
        self._failures.pop(side, None)
        self._troubles.pop(side, None)

    def note(self, side: Side, trouble: str) -> None:
        """Something is not as it should be; a reason that is known already stays."""
        self._troubles.setdefault(side, trouble)

    def trouble_writing(self, trouble: str) -> None:
        """Nothing can be written, whatever can be read there."""
        self._troubles[WRITING] = trouble

    def pause(self, side: str, trouble: str, *, now: float) -> None:
        """A read failed at a side or in the ledger: nothing is in doubt, try again after a pause."""
        failures = self._failures[side] = self._failures.get(side, 0) + 1
        self._troubles[side] = trouble
        self.retry_at = now + min(0.05 * 2 ** min(failures, 6), 2.0)


# Open requests ------------------------------------------------------------------------------------
# Requests of one partition that are on their way, and whether their answers still count.


class RequestKind(StrEnum):
    """What a request is for."""

    RECORDS = "records"
    TAIL = "tail"
    WRITE = "write"

    @property
    def side(self) -> Side:
        """Which cluster answers."""
        return Side.SOURCE if self is RequestKind.RECORDS else Side.TARGET


class OpenRequests:
    """P4: an attempt ends with a doubt. What was asked in an earlier one is waited for, and tells nothing any more.

    `attempt`: the number of the one that asks now.
    """

    def __init__(self) -> None:
        self.attempt = 0
        self._open = Counter[RequestKind]()

    def is_open(self, kind: RequestKind) -> bool:
        """Such a request is on its way, of this attempt or an earlier one."""
        return self._open[kind] > 0

    def sent(self, kind: RequestKind) -> None:
        """One more is on its way."""
        self._open[kind] += 1

    def answered(self, kind: RequestKind, attempt: int) -> bool:
        """One is answered, or never will be; returns whether the answer counts."""
        self._open[kind] -= 1
        return attempt == self.attempt

    def begin_again(self) -> None:
        """Answers to what is on its way count no longer."""
        self.attempt += 1
