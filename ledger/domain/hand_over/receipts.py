"""What a cluster was given when applications, or a mirror, came to it from another one, as it is recorded."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, Self

from ledger.domain.hand_over.settings import TopicHandOver, merged
from ledger.domain.operations.content import OperationContent, Row
from ledger.domain.operations.kinds import OperationKind
from ledger.domain.permissions import Permission, PermissionKind
from ledger.domain.topics.topic_settings import SettingsChange


class Purpose(StrEnum):
    """For whom a cluster is made ready."""

    APPLICATIONS = "applications"  # they come to write and read there
    MIRROR = "mirror"  # the reverse flow is to copy there


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes(OperationContent):
    """Settings and permissions of `cluster`; `former`: the cluster that they come from, or that is read next."""

    cluster: str
    cluster_id: str
    former: str
    purpose: str
    topics: tuple[TopicHandOver, ...]
    permissions: tuple[Permission, ...]

    def content(self) -> dict[str, object]:
        return {
            **OperationContent.content(self),
            "purpose": str(self.purpose),
            "topics": [_topic_json(topic) for topic in self.topics],
            "permissions": [_permission_json(permission) for permission in self.permissions],
        }

    @classmethod
    def _parts(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **{name: content[name] for name in ("cluster", "cluster_id", "former", "purpose")},
            "topics": tuple(map(_topic, content["topics"])),
            "permissions": tuple(map(_permission, content["permissions"])),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver(_Changes):
    """What is about to be changed; `unknown`, `manual`: what could not be compared, and what is left to people."""

    kind: ClassVar = OperationKind.HANDED_OVER
    unknown: tuple[str, ...]
    manual: tuple[str, ...]

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        unknown, manual = tuple(content["unknown"]), tuple(content["manual"])
        return cls(**cls._parts(content), unknown=unknown, manual=manual)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverUndone(_Changes):
    """What of the operation `handed_over` is about to be undone; `left`: what somebody has changed since, in words.

    `topics` have the values to be restored, `former` those that the operation had set.
    """

    kind: ClassVar = OperationKind.HAND_OVER_UNDONE
    handed_over: str
    left: tuple[str, ...]

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        return cls(**cls._parts(content), handed_over=content["handed_over"], left=tuple(content["left"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverResult(OperationContent):
    """What was read back of `of`, an intention of the same operation and cluster; `failed` empty: all is so."""

    kind: ClassVar = OperationKind.HAND_OVER_RESULT
    of: str
    cluster: str
    failed: tuple[str, ...]

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        return cls(of=content["of"], cluster=content["cluster"], failed=tuple(content["failed"]))


def _topic_json(topic: TopicHandOver) -> dict[str, object]:
    return {
        "topic": topic.topic,
        "topic_id": topic.topic_id,
        "set": dict(topic.change.to_set),
        "removed": list(topic.change.to_remove),
        "before": dict(topic.former),
    }


def _topic(content: Mapping[str, Any]) -> TopicHandOver:
    return TopicHandOver(
        topic=content["topic"],
        topic_id=content["topic_id"],
        change=SettingsChange(content["set"], tuple(content["removed"])),
        former=content["before"],
    )


def _permission_json(permission: Permission) -> dict[str, object]:
    told = {name: value for name, value in asdict(permission).items() if value is not None}
    return {**told, "kind": permission.kind.value}


def _permission(content: Mapping[str, Any]) -> Permission:
    known = {name: value for name, value in content.items() if name in _OF_PERMISSION}
    return Permission(**{**known, "kind": PermissionKind(content["kind"])})


_OF_PERMISSION = frozenset(field.name for field in fields(Permission))


HAND_OVER_KINDS = (OperationKind.HANDED_OVER, OperationKind.HAND_OVER_UNDONE, OperationKind.HAND_OVER_RESULT)
_CONTENTS = {kind.kind: kind for kind in (HandedOver, HandOverUndone, HandOverResult)}


@dataclass(frozen=True, slots=True)
class UndoneParts:
    """What was undone of an operation at a cluster, attempt by attempt.

    `open_under`: the operation of the last one, None: it is read back.
    """

    parts: tuple[HandOverUndone, ...] = ()
    open_under: str | None = None


@dataclass(frozen=True, slots=True)
class HandOvers:
    """All that is recorded of them, in the order of the operators' serial: operation id and content."""

    rows: tuple[tuple[str, OperationContent], ...] = ()

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> Self:
        """From rows of `operations` of `HAND_OVER_KINDS`, in the order of their stamps."""
        return cls(tuple((row["operation_id"], _CONTENTS[row["kind"]].of_row(row)) for row in rows))

    def handed_over(self, operation_id: str) -> Sequence[HandedOver]:
        return [
            content
            for found, content in self.rows
            if found == operation_id and isinstance(content, HandedOver)
        ]

    def given_to_mirror(self, cluster: str) -> dict[tuple[str, str], TopicHandOver]:
        """By topic and its id what a cluster has for a copy to it, until it is undone or applications come there."""
        parts: dict[str, tuple[TopicHandOver, ...]] = {}
        for operation_id, content in self.rows:
            match content:
                case HandedOver() if content.cluster != cluster:
                    continue
                case HandedOver() if content.purpose == Purpose.MIRROR:
                    parts[operation_id] = (*parts.get(operation_id, ()), *content.topics)
                case HandedOver():
                    parts = {}
                case HandOverUndone() if content.cluster == cluster:
                    parts.pop(content.handed_over, None)
        return {one.key: one for one in merged(part for found in parts.values() for part in found)}

    def parts(self, operation_id: str, cluster: str, purpose: Purpose | None = None) -> list[HandedOver]:
        """What an operation has handed over at a cluster, for whom (None: for anybody), attempt by attempt."""
        found = [one for one in self.handed_over(operation_id) if one.cluster == cluster]
        return [one for one in found if purpose in (None, one.purpose)]

    def undone(self, operation_id: str, cluster: str) -> UndoneParts:
        """What is recorded of undoing it there."""
        parts: list[HandOverUndone] = []
        open_under: str | None = None
        for found, content in self.rows:
            match content:
                case HandOverUndone() if (content.handed_over, content.cluster) == (operation_id, cluster):
                    parts.append(content)
                    open_under = found
                case HandOverResult() if content.of == OperationKind.HAND_OVER_UNDONE and not content.failed:
                    open_under = None if (found, content.cluster) == (open_under, cluster) else open_under
        return UndoneParts(tuple(parts), open_under)

    def unfinished(self, cluster: str, former: str, purpose: Purpose) -> str | None:
        """The last operation of the kind, when nobody has read back that all of it is done; None: it is, or undone."""
        last: str | None = None
        for operation_id, content in self.rows:
            match content:
                case HandedOver() if (content.cluster, content.former, content.purpose) == (
                    cluster,
                    former,
                    purpose,
                ):
                    last = operation_id
                case HandOverResult() if content.of == OperationKind.HANDED_OVER and not content.failed:
                    is_its = operation_id == last and content.cluster == cluster
                    last = None if is_its else last
                case HandOverUndone() if content.handed_over == last:
                    last = None
        return last
