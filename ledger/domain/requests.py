"""What an operator asks of a running flow, and which topics are paused because of it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.domain.time_words import instant


class RequestKind(StrEnum):
    """Kinds of rows of `operations` that a flow's driver answers with a receipt."""

    PAUSE = "pause"  # a topic or the whole flow: copy nothing until resumed
    RESUME = "resume"  # end a pause; let stopped partitions try again
    SKIP_TO = "skip_to"  # record the source offsets up to `offset` as lost and go on there
    ACCEPT_FOREIGN = "accept_foreign"  # go on after what the target holds now
    RESYNC = "resync"  # copy again what the source holds, from `offset` or its log start


@dataclass(frozen=True, slots=True)
class AskedBy:
    """Who asked for something, why, and when."""

    operator: str
    reason: str | None
    ticket: str | None

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "AskedBy":
        """As a row of `operations` has it."""
        return cls(row["operator"], row["reason"], row["ticket"])

    def told(self, operation_id: str, requested_at_ms: int) -> str:
        """In words, with the operation that they can be looked up by."""
        why = "".join(f", {text}" for text in (self.reason, self.ticket) if text is not None)
        return f"by {self.operator} {instant(requested_at_ms)}{why}; operation {operation_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRequest:
    """One request; `topic` None: all topics, `partition` None: all partitions of the topic."""

    operation_id: str
    kind: RequestKind
    topic: str | None
    partition: int | None
    offset: int | None
    requested_at_ms: int
    asked_by: AskedBy

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "OperatorRequest":
        """The request that a row of `operations` holds."""
        content = json.loads(row["content"])
        return cls(
            operation_id=row["operation_id"],
            kind=RequestKind(row["kind"]),
            topic=content.get("topic"),
            partition=content.get("partition"),
            offset=content.get("offset"),
            requested_at_ms=row["recorded_at_ms"],
            asked_by=AskedBy.of_row(row),
        )

    @property
    def told_by(self) -> str:
        """Who asked, when, why, and the operation."""
        return self.asked_by.told(self.operation_id, self.requested_at_ms)

    @property
    def subject(self) -> str:
        """What it is about, in words."""
        if self.topic is None:
            return "the whole flow"
        return f"topic {self.topic}" if self.partition is None else f"{self.topic} partition {self.partition}"

    def concerns(self, topic: str, partition: int) -> bool:
        return self.topic in (None, topic) and self.partition in (None, partition)


RECEIPT = "receipt"
"""Kind of the row that answers a request."""

STOP = "stop"
"""Kind of the row that asks drivers which run to end; it gets no receipt."""


class RequestResult(StrEnum):
    """What became of a request."""

    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A driver's answer to the request of that operation id; its kind may be one that only a later program knows."""

    request: str
    request_kind: str
    result: RequestResult
    message: str
    recorded_at_ms: int

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Receipt":
        """The receipt that a row of `operations` holds."""
        content = json.loads(row["content"])
        return cls(
            request=content["request"],
            request_kind=content["request_kind"],
            result=RequestResult(content["result"]),
            message=content["message"],
            recorded_at_ms=row["recorded_at_ms"],
        )


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
    given = [f" {option} {value}" for option, value in options if value is not None]
    return f"mirror-ledger {kind.replace('_', '-')} {flow}{''.join(given)}"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What lies below `below` in a target partition was accepted when the flow had written up to `target_end`.

    It is of use until the flow has written behind it.
    """

    target_topic_id: str
    target_end: int
    below: int

    def told(self, topic_id: str, partition: int) -> dict[str, object]:
        """As a receipt has it."""
        return {
            "topic_id": topic_id,
            "partition": partition,
            "target_topic_id": self.target_topic_id,
            "target_end": self.target_end,
            "below": self.below,
        }


def acceptances(receipts: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], Acceptance]:
    """By source topic id and partition the last acceptance, from rows of receipts, oldest first."""
    return {
        (told["topic_id"], told["partition"]): Acceptance(
            told["target_topic_id"], told["target_end"], told["below"]
        )
        for row in receipts
        for told in json.loads(row["content"]).get("accepted", ())
    }


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
