"""What operators ask of a running flow, which of it was answered, and which topics are paused because of it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Self

from ledger.facts.codec import LEFT_OUT
from ledger.facts.operations import OperationContent, OperationKind
from ledger.facts.tables import Row
from ledger.words import by_topic, instant, shell_word


class PartitionStatus(StrEnum):
    """Statuses of the query `flow_status`, in its order."""

    GONE = "gone"  # its topic was deleted or recreated at the source
    STOPPED = "stopped"
    RELEASED = "released"
    NOT_STARTED = "not_started"
    MIRRORING = "mirroring"


# Receipts -----------------------------------------------------------------------------------------
# What a flow's driver answers to requests, and what the answers accepted.


class RequestResult(StrEnum):
    """What became of a request."""

    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What lies below `below` in a target partition was accepted when the flow had written up to `target_end`.

    It is of use until the flow has written behind it. `topic_id` and `partition`: of the source.
    """

    topic_id: str
    partition: int
    target_topic_id: str
    target_end: int
    below: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt(OperationContent):
    """A driver's answer to a request, of an operation id; kind and result may be ones that only a later program knows.

    By the flow's driver, for each of the six requests from `pause` to `reload`. `accepted` is there when
    `accept-foreign` was done, or `resync` of a partition that stopped with `target_out_of_range`.

    Keys: `request` (its operation id), `request_kind`, `result` (`done`, `refused`), `message`, `accepted`: per
    partition `topic_id`, `partition`, `target_topic_id`, `target_end` (the flow's position at the target), `below`
    (everything below that target offset is accepted until the flow has written there).
    """

    kind: ClassVar = OperationKind.RECEIPT
    request: str
    request_kind: str
    result: str
    message: str
    accepted: tuple[Acceptance, ...] = field(default=(), metadata=LEFT_OUT)

    @property
    def is_done(self) -> bool:
        return self.result == RequestResult.DONE


def acceptances(rows: Iterable[Row]) -> dict[tuple[str, int], Acceptance]:
    """The last acceptance of each source topic id and partition, from rows of receipts, oldest first."""
    return {(one.topic_id, one.partition): one for row in rows for one in Receipt.of_row(row).accepted}


# Requests -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StopRequest(OperationContent):
    """Drivers of the flow are to end; it gets no receipt.

    By `mirror-ledger stop`.

    Keys: none.
    """

    kind: ClassVar = OperationKind.STOP


class RequestKind(StrEnum):
    """Kinds of rows of `operations` that a flow's driver answers with a receipt."""

    PAUSE = OperationKind.PAUSE
    RESUME = OperationKind.RESUME
    SKIP_TO = OperationKind.SKIP_TO
    ACCEPT_FOREIGN = OperationKind.ACCEPT_FOREIGN
    RESYNC = OperationKind.RESYNC
    RELOAD = OperationKind.RELOAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How far a flow has come with a source partition, as far as it is known: next offset, and ends of the source.

    `position` None: nothing is recorded. Who judges by the ledger alone knows no ends.
    """

    position: int | None
    log_start: int | None = None
    end: int | None = None

    @property
    def copied_end(self) -> int | None:
        """Where what was copied ends; less than the position where the source lost its end."""
        return min((offset for offset in (self.position, self.end) if offset is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(OperationContent):
    """What an operator wants; `topic` None: the whole flow, `partition` None: all partitions of the topic.

    A kind records no more than its `keys`, and says itself where it can be granted: asked before it is recorded,
    by what the ledger knows, and by the driver that takes it up.
    """

    keys: ClassVar[tuple[str, ...]]
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    def content(self) -> dict[str, object]:
        return {key: getattr(self, key) for key in self.keys}

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        return cls(**{key: content.get(key) for key in cls.keys})

    @property
    def request_kind(self) -> RequestKind:
        return RequestKind(self.kind)

    @property
    def subject(self) -> str:
        """What it is about, in words."""
        if self.topic is None:
            return "the flow"
        return f"topic {self.topic}" if self.partition is None else f"{self.topic} partition {self.partition}"

    def concerns(self, topic: str, partition: int) -> bool:
        return self.topic in (None, topic) and self.partition in (None, partition)

    def is_possible(self, reached: Reached) -> bool:
        """Whether nothing that is known of a partition that it names speaks against it."""
        del reached
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Request):
    """Copy nothing of a topic, or of the whole flow, until resumed.

    By `mirror-ledger pause`.

    Keys: `topic` (null: the whole flow).
    """

    kind: ClassVar = OperationKind.PAUSE
    keys: ClassVar = ("topic",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(Request):
    """End a pause; let stopped partitions try again.

    By `mirror-ledger resume`.

    Keys: `topic`, `partition` (null: all).
    """

    kind: ClassVar = OperationKind.RESUME
    keys: ClassVar = ("topic", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipTo(Request):
    """Record the source offsets up to `offset` as lost and continue there.

    By `mirror-ledger skip-to`.

    Keys: `topic`, `partition`, `offset`.
    """

    kind: ClassVar = OperationKind.SKIP_TO
    keys: ClassVar = ("topic", "partition", "offset")

    def is_possible(self, reached: Reached) -> bool:
        """Beyond where the flow stands, and not beyond the end of the source."""
        return (
            self.offset is not None
            and (reached.position is None or reached.position < self.offset)
            and (reached.end is None or self.offset <= reached.end)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptForeign(Request):
    """Continue after what the target holds now.

    By `mirror-ledger accept-foreign`.

    Keys: `topic`, `partition` (null: all).
    """

    kind: ClassVar = OperationKind.ACCEPT_FOREIGN
    keys: ClassVar = ("topic", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resync(Request):
    """Copy again what the source holds, from `offset` or its log start.

    By `mirror-ledger resync`.

    Keys: `topic`, `partition` (null: all), `offset` (null: the log start).
    """

    kind: ClassVar = OperationKind.RESYNC
    keys: ClassVar = ("topic", "partition", "offset")

    def _start(self, reached: Reached) -> int | None:
        """The source offset to copy again from; None: the log start of the source, which is not known."""
        return reached.log_start if self.offset is None else self.offset

    def is_possible(self, reached: Reached) -> bool:
        """From what the source still has, and the flow has copied."""
        start = self._start(reached)
        return start is None or (
            (reached.log_start is None or reached.log_start <= start)
            and (reached.copied_end is None or start <= reached.copied_end)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload(Request):
    """The driver reads its configuration file again and continues by it.

    By `mirror-ledger reload`.

    Keys: none.
    """

    kind: ClassVar = OperationKind.RELOAD
    keys: ClassVar = ()

    def concerns(self, topic: str, partition: int) -> bool:
        """No partition: it is about what the driver works by."""
        del topic, partition
        return False


REQUEST_CLASSES: Mapping[RequestKind, type[Request]] = {
    RequestKind(request.kind): request for request in (Pause, Resume, SkipTo, AcceptForeign, Resync, Reload)
}


def asked_in_words(row: Row) -> str:
    """Who asked for what a row of `operations` holds, when, why, and the operation that it can be looked up by."""
    why = "".join(f", {row[name]}" for name in ("reason", "ticket") if row[name] is not None)
    return f"by {row['operator']} {instant(row['recorded_at_ms'])}{why}; operation {row['operation_id']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRequest:
    """A request as it was recorded; `asked_in_words`: who asked, when and why."""

    operation_id: str
    asked: Request
    asked_in_words: str

    @classmethod
    def of_row(cls, row: Row) -> "OperatorRequest":
        """The request that a row of `operations` of a `RequestKind` holds."""
        return cls(
            operation_id=row["operation_id"],
            asked=REQUEST_CLASSES[RequestKind(row["kind"])].of_row(row),
            asked_in_words=asked_in_words(row),
        )

    @property
    def kind(self) -> RequestKind:
        return self.asked.request_kind

    @property
    def topic(self) -> str | None:
        return self.asked.topic

    @property
    def partition(self) -> int | None:
        return self.asked.partition

    @property
    def offset(self) -> int | None:
        return self.asked.offset

    @property
    def subject(self) -> str:
        """What it is about, in words."""
        return "the whole flow" if self.topic is None else self.asked.subject

    def concerns(self, topic: str, partition: int) -> bool:
        return self.asked.concerns(topic, partition)


def command_line(
    kind: RequestKind,
    flow: str,
    *,
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
) -> str:
    """What to type to ask for it."""
    options = (("--topic", topic), ("--partition", partition), ("--offset", offset))
    given = [f" {option} {shell_word(str(value))}" for option, value in options if value is not None]
    return f"mirror-ledger {kind.replace('_', '-')} {flow}{''.join(given)}"


REQUEST_ROWS = (*RequestKind, Receipt.kind, StopRequest.kind)
"""Kinds of rows that `FlowRequests` reads."""


@dataclass(frozen=True, slots=True)
class FlowRequests:
    """All that operators asked of a flow, in the order of asking, and which of it has a receipt.

    `last_stop`: place in that order of the last request to end, 0 when there is none; `last_stop_by`: who asked.
    """

    asked: tuple[OperatorRequest, ...] = ()
    answered: frozenset[str] = frozenset()
    last_stop: int = 0
    last_stop_by: str | None = None

    @classmethod
    def of_rows(cls, rows: Sequence[Row]) -> "FlowRequests":
        """From rows of `operations` in the order of their stamps."""
        stops = sorted((row for row in rows if row["kind"] == StopRequest.kind), key=lambda row: row["round"])
        return cls(
            asked=tuple(OperatorRequest.of_row(row) for row in rows if row["kind"] in REQUEST_CLASSES),
            answered=frozenset(Receipt.of_row(row).request for row in rows if row["kind"] == Receipt.kind),
            last_stop=stops[-1]["round"] if stops else 0,
            last_stop_by=asked_in_words(stops[-1]) if stops else None,
        )

    def asks_to_stop(self, *, since: int) -> bool:
        """Whether a driver is to end that knew of the stops up to `since` when it began."""
        return self.last_stop > since

    def before(self, request: OperatorRequest) -> tuple[OperatorRequest, ...]:
        """What had been asked when this was."""
        return self.asked[: self.asked.index(request)]

    @property
    def waiting(self) -> tuple[OperatorRequest, ...]:
        return tuple(request for request in self.asked if request.operation_id not in self.answered)


@dataclass(frozen=True, slots=True)
class Pauses:
    """What is paused; `whole_flow` covers every topic."""

    whole_flow: bool = False
    topics: frozenset[str] = frozenset()

    def covers(self, topic: str) -> bool:
        return self.whole_flow or topic in self.topics

    @classmethod
    def by(cls, requests: Iterable[OperatorRequest]) -> "Pauses":
        """What these requests pause."""
        topics = {request.topic for request in requests}
        return cls(None in topics, frozenset(topic for topic in topics if topic is not None))


def pausing(requests: Iterable[OperatorRequest]) -> list[OperatorRequest]:
    """The requests whose pauses hold, of all in the order in which they were asked for: the whole flow's first.

    What was paused already stays paused by the first who asked.
    """
    holding: dict[str | None, OperatorRequest] = {}
    for request in requests:
        if request.kind is RequestKind.PAUSE:
            holding.setdefault(request.topic, request)
        elif request.kind is RequestKind.RESUME and request.partition is None:
            holding = {} if request.topic is None else holding
            holding.pop(request.topic, None)
    return sorted(holding.values(), key=lambda request: request.topic or "")


def pauses_after(requests: Iterable[OperatorRequest]) -> Pauses:
    """What all pauses and resumptions, in the order in which they were asked for, add up to."""
    return Pauses.by(pausing(requests))


# Resumption ---------------------------------------------------------------------------------------
# What a request to resume ends, and what resumes after it, in words.
#
# The same words are used when it is asked for, from what the ledger knows, and in the driver's receipt.


Place = tuple[str, int]
"""Source topic and partition."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """A request to resume, and what had been asked of the flow before it."""

    request: OperatorRequest
    earlier: Sequence[OperatorRequest]

    @property
    def ended(self) -> list[OperatorRequest]:
        """The pauses that it ends."""
        left = pausing([*self.earlier, self.request])
        return [pause for pause in pausing(self.earlier) if pause not in left]

    def described(self, running: Collection[Place], stopped: Mapping[Place, str]) -> str:
        """Which pauses end, and what resumes.

        `running`: all that stands still for nothing but a pause, once the request is carried out. `stopped`: those of
        them that had stopped, with the cause.
        """
        before = Pauses.by(pausing(self.earlier))
        after = Pauses.by(pausing([*self.earlier, self.request]))
        held = {place for place in running if place in stopped or before.covers(place[0])}
        going = sorted(place for place in held if not after.covers(place[0]))
        waiting = sorted(place for place in held if place in stopped and after.covers(place[0]))
        words = [f"the pause of {pause.subject} ends (paused {pause.asked_in_words})" for pause in self.ended]
        if going:
            words.append(f"{_counted(going)}: {by_topic(going)}")
        elif self.ended:
            words.append("no partition of it is known to resume")
        if tried := [place for place in going if place in stopped]:
            words.append(f"of these had stopped, and try again: {_with_causes(tried, stopped)}")
        if waiting:
            words.append(f"no longer stopped, but paused: {by_topic(waiting)}")
        return "; ".join(words) or "nothing was paused or stopped any more"


def _counted(places: Sequence[Place]) -> str:
    return f"{len(places)} partitions resume" if len(places) > 1 else "1 partition resumes"


def _with_causes(places: Sequence[Place], causes: Mapping[Place, str]) -> str:
    by_cause: dict[str, list[Place]] = {}
    for place in places:
        by_cause.setdefault(causes[place], []).append(place)
    return "; ".join(f"{by_topic(alike)} ({cause})" for cause, alike in by_cause.items())
