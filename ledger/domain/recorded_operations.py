"""What rows of `operations` add up to: requests, findings, changes that a flow made at its target."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ledger.domain.requests import RECEIPT, STOP, AskedBy, OperatorRequest, RequestKind
from ledger.domain.topic_acls import AclPattern, AclPermission, TopicAcl

_REQUESTS = frozenset(RequestKind)
OFFSETS_SET = "offsets_set"
OFFSETS_SET_RESULT = "offsets_set_result"


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
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> "FlowRequests":
        """From rows of `operations` in the order of their stamps."""
        stops = sorted((row for row in rows if row["kind"] == STOP), key=lambda row: row["round"])
        return cls(
            asked=tuple(OperatorRequest.of_row(row) for row in rows if row["kind"] in _REQUESTS),
            answered=frozenset(
                json.loads(row["content"])["request"] for row in rows if row["kind"] == RECEIPT
            ),
            last_stop=stops[-1]["round"] if stops else 0,
            last_stop_by=_told_by(stops[-1]) if stops else None,
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


def recorded_cut(rows: Iterable[Mapping[str, Any]]) -> str | None:
    """The token of the cut that an operation says it went by, from its rows of `operations`; None: it says none."""
    said = (json.loads(row["content"] or "{}").get("cut") for row in rows)
    return next((token for token in said if isinstance(token, str)), None)


def _told_by(row: Mapping[str, Any]) -> str:
    return AskedBy.of_row(row).told(row["operation_id"], row["recorded_at_ms"])


_RowT = TypeVar("_RowT", bound=Mapping[str, Any])


def in_order(rows: Iterable[_RowT]) -> list[_RowT]:
    """Rows of one writer in the order in which it appended them.

    Rows of several writers have no order among each other; each writer's are in its own.
    """
    return sorted(rows, key=lambda row: (row["writer_epoch"], row["round"]))


FindingKey = tuple[str, str | None, int | None]
"""Name, topic and partition of a finding (`mirror.findings`)."""


def open_findings(rows: Sequence[Mapping[str, Any]]) -> frozenset[FindingKey]:
    """Findings raised and not cleared since, from rows of `operations`."""
    left: set[FindingKey] = set()
    for row in in_order(rows):
        content = json.loads(row["content"])
        key = (content["finding"], content["topic"], content["partition"])
        (left.add if row["kind"] == "finding_raised" else left.discard)(key)
    return frozenset(left)


TOPIC_FOLLOWED = "topic_followed"
"""Kind of the rows of `operations` that say what a flow changed about a target topic."""


ACLS_FOLLOWED = "acls_followed"
"""Kind of the rows of `operations` that say which access control lists a flow created or removed."""


def created_acls(rows: Sequence[Mapping[str, Any]]) -> frozenset[TopicAcl]:
    """Access control lists that a flow had created and not removed, from rows in order."""
    created: set[TopicAcl] = set()
    for row in rows:
        content = json.loads(row["content"])
        acls = {_acl(fields) for fields in content["acls"]}
        created = created | acls if content["action"] == "created" else created - acls
    return frozenset(created)


def _acl(fields: Mapping[str, str]) -> TopicAcl:
    return TopicAcl(
        pattern=AclPattern(fields["pattern"]),
        name=fields["name"],
        principal=fields["principal"],
        host=fields["host"],
        operation=fields["operation"],
        permission=AclPermission(fields["permission"]),
    )


DRIVER_STARTING = "driver_starting"
"""Kind of the rows of `operations` by which a process says that it is about to run a flow, before Spark starts."""


@dataclass(frozen=True, slots=True)
class PendingStart:
    """The process that began to run a flow, as writers say it, and when."""

    host: str
    at_ms: int

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "PendingStart":
        """The start that a row of `operations` holds."""
        return cls(json.loads(row["content"])["host"], row["recorded_at_ms"])


SCOPE_REDUCED = "scope_reduced"
"""Kind of the rows of `operations` that say which topics a flow was told to leave out."""


def accepted_reductions(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """By source topic how far it had been copied when leaving it out was last accepted, from rows in order."""
    accepted: dict[str, int] = {}
    for row in rows:
        accepted |= json.loads(row["content"])["topics"]
    return accepted


def followed_settings(rows: Sequence[Mapping[str, Any]]) -> dict[str, frozenset[str]]:
    """Names of settings that a flow had set and not removed, by target topic id, from rows in order."""
    names: dict[str, frozenset[str]] = {}
    for row in rows:
        content = json.loads(row["content"])
        before = names.get(content["topic_id"], frozenset())
        names[content["topic_id"]] = (before | content["set"].keys()) - set(content["removed"])
    return names
