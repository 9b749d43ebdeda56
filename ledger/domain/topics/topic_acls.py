"""Access control lists of topics: which of the source's are wanted at the target.

Rules, those of MirrorMaker where it has one
    A1  what allows everything allows reading at the target
    A2  nothing about writing is copied: neither what allows it, nor what denies it (that may be a fence)
    A3  what denies everything denies reading at the target
    A4  a rule for a prefix is copied where the target's names have a prefix of their own, else it would
        cover topics of the target itself; a rule for all topics (`*`) never is
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from ledger.domain.topics.naming import NamingKind, TopicNaming


class AclFollow(StrEnum):
    """Whether access control lists of target topics follow."""

    NONE = "none"
    READ = "read"  # by the rules above


class AclPattern(StrEnum):
    """What the name of a rule says."""

    LITERAL = "literal"  # one topic, or `*` for all
    PREFIXED = "prefixed"  # all topics whose names begin so


class AclPermission(StrEnum):
    """What a rule does."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True, order=True)
class TopicAcl:
    """One rule about topics; `operation` by Kafka's name in lower case (`read`, `describe_configs`)."""

    pattern: AclPattern
    name: str
    principal: str
    host: str
    operation: str
    permission: AclPermission


def wanted_acls(
    source: Iterable[TopicAcl], *, naming: TopicNaming, topics: Collection[str]
) -> frozenset[TopicAcl]:
    """The rules that target topics get from those of the source; `topics`: the selected source topics."""
    wanted = set()
    for acl in source:
        name = _target_name(acl, naming, topics)
        if name is not None and acl.operation != "write":
            operation = "read" if acl.operation == "all" else acl.operation
            wanted.add(replace(acl, name=name, operation=operation))
    return frozenset(wanted)


def _target_name(acl: TopicAcl, naming: TopicNaming, topics: Collection[str]) -> str | None:
    if acl.pattern is AclPattern.LITERAL:
        return naming.target_name(acl.name) if acl.name in topics else None
    covers_any = any(topic.startswith(acl.name) for topic in topics)
    return naming.target_name(acl.name) if naming.kind is NamingKind.PREFIX and covers_any else None


@dataclass(frozen=True, slots=True)
class AclChange:
    """What brings the target's rules to what is wanted, in a fixed order."""

    to_create: tuple[TopicAcl, ...]
    to_remove: tuple[TopicAcl, ...]

    def without(self, is_left: Callable[[TopicAcl], bool]) -> "AclChange":
        """Less the rules that are left as they are."""
        return AclChange(
            tuple(acl for acl in self.to_create if not is_left(acl)),
            tuple(acl for acl in self.to_remove if not is_left(acl)),
        )


def acl_change(
    wanted: frozenset[TopicAcl], target: frozenset[TopicAcl], *, created_by_mirror: frozenset[TopicAcl]
) -> AclChange:
    """Only what the mirror had created is removed."""
    return AclChange(tuple(sorted(wanted - target)), tuple(sorted((created_by_mirror & target) - wanted)))
