"""What a flow's driver answers to requests, and what the answers accepted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Self

from ledger.domain.operations.content import OperationContent, Row
from ledger.domain.operations.kinds import OperationKind


class RequestResult(StrEnum):
    """What became of a request."""

    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What lies below `below` in a target partition was accepted when the flow had written up to `target_end`.

    It is of use until the flow has written behind it.
    """

    target_topic_id: str
    target_end: int
    below: int


SourcePlace = tuple[str, int]
"""Source topic id and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt(OperationContent):
    """A driver's answer to the request of an operation id.

    `request_kind` and `result` may be ones that only a later program knows.
    """

    kind: ClassVar = OperationKind.RECEIPT
    request: str
    request_kind: str
    result: str
    message: str
    accepted: Mapping[SourcePlace, Acceptance] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return self.result == RequestResult.DONE

    def content(self) -> dict[str, object]:
        accepted = [_as_recorded(place, acceptance) for place, acceptance in self.accepted.items()]
        return {
            "request": self.request,
            "request_kind": str(self.request_kind),
            "result": str(self.result),
            "message": self.message,
            **({"accepted": accepted} if accepted else {}),
        }

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        return cls(
            request=content["request"],
            request_kind=content["request_kind"],
            result=content["result"],
            message=content["message"],
            accepted={
                (one["topic_id"], one["partition"]): Acceptance(
                    one["target_topic_id"], one["target_end"], one["below"]
                )
                for one in content.get("accepted", ())
            },
        )


def _as_recorded(place: SourcePlace, acceptance: Acceptance) -> dict[str, object]:
    topic_id, partition = place
    return {
        "topic_id": topic_id,
        "partition": partition,
        "target_topic_id": acceptance.target_topic_id,
        "target_end": acceptance.target_end,
        "below": acceptance.below,
    }


def acceptances(rows: Iterable[Row]) -> dict[SourcePlace, Acceptance]:
    """The last acceptance of each source partition, from rows of receipts, oldest first."""
    last: dict[SourcePlace, Acceptance] = {}
    for row in rows:
        last |= Receipt.of_row(row).accepted
    return last
