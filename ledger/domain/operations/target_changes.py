"""What a flow changed at its target, as it is recorded: topics, their settings, access control lists."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Self

from ledger.domain.operations.content import OperationContent, Row
from ledger.domain.operations.kinds import OperationKind
from ledger.domain.topics.topic_acls import AclPattern, AclPermission, TopicAcl
from ledger.domain.topics.topic_settings import SettingsChange


class TopicAction(StrEnum):
    """What a flow did with a target topic."""

    CREATED = "created"
    PARTITIONS_ADDED = "partitions_added"
    SETTINGS_CHANGED = "settings_changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFollowed(OperationContent):
    """A change of a target topic; `partitions` None: their number is as before."""

    kind: ClassVar = OperationKind.TOPIC_FOLLOWED
    action: str
    topic: str
    topic_id: str
    partitions: int | None = None
    change: SettingsChange = field(default_factory=SettingsChange)

    def content(self) -> dict[str, object]:
        return {
            "action": self.action,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partitions": self.partitions,
            "set": dict(self.change.to_set),
            "removed": list(self.change.to_remove),
        }

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        return cls(
            action=content["action"],
            topic=content["topic"],
            topic_id=content["topic_id"],
            partitions=content["partitions"],
            change=SettingsChange(content["set"], tuple(content["removed"])),
        )


def followed_settings(rows: Sequence[Row]) -> dict[str, frozenset[str]]:
    """Names of settings that a flow had set and not removed, by target topic id, from rows in order."""
    names: dict[str, frozenset[str]] = {}
    for row in rows:
        followed = TopicFollowed.of_row(row)
        before = names.get(followed.topic_id, frozenset())
        after = (before | followed.change.to_set.keys()) - set(followed.change.to_remove)
        names[followed.topic_id] = after
    return names


class AclAction(StrEnum):
    """What a flow did with access control lists."""

    CREATED = "created"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class AclsFollowed(OperationContent):
    """Access control lists that were created or removed; those of kinds that are not known here are left out."""

    kind: ClassVar = OperationKind.ACLS_FOLLOWED
    action: str
    acls: tuple[TopicAcl, ...]

    def content(self) -> dict[str, object]:
        return {"action": str(self.action), "acls": [asdict(acl) for acl in self.acls]}

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        return cls(content["action"], tuple(known_acls(content["acls"])))


def known_acls(recorded: Iterable[Mapping[str, str]]) -> Iterator[TopicAcl]:
    """Access control lists as rows have them."""
    patterns, permissions = set(AclPattern), set(AclPermission)
    for fields in recorded:
        if fields["pattern"] in patterns and fields["permission"] in permissions:
            yield TopicAcl(
                pattern=AclPattern(fields["pattern"]),
                name=fields["name"],
                principal=fields["principal"],
                host=fields["host"],
                operation=fields["operation"],
                permission=AclPermission(fields["permission"]),
            )


def created_acls(rows: Sequence[Row]) -> frozenset[TopicAcl]:
    """Access control lists that a flow had created and not removed, from rows in order."""
    created: set[TopicAcl] = set()
    for row in rows:
        followed = AclsFollowed.of_row(row)
        if followed.action == AclAction.CREATED:
            created |= set(followed.acls)
        elif followed.action == AclAction.REMOVED:
            created -= set(followed.acls)
    return frozenset(created)
