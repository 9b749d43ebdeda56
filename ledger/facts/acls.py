"""Access control lists of topics: who may write or read, what closes a topic, which rules the target is to have."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ledger.facts.permissions import EVERYBODY, Permission, topic_acl
from ledger.topics.naming import NamingKind, TopicNaming

# Topic acls ---------------------------------------------------------------------------------------
# Access control lists of topics: which of the source's are wanted at the target.
#
# Rules, those of MirrorMaker where it has one
#    A1  what allows everything allows reading at the target
#    A2  nothing about writing is copied: neither what allows it, nor what denies it (that may be a fence). What a fence
#        denies about reading is left out before
#    A3  what denies everything denies reading at the target
#    A4  a rule for a prefix is copied where the target's names have a prefix of their own, else it would
#        cover topics of the target itself; a rule for all topics (`*`) never is


class AclFollow(StrEnum):
    """Whether access control lists of target topics follow."""

    NONE = "none"
    READ = "read"  # by the rules above


def wanted_acls(
    source: Iterable[Permission], *, naming: TopicNaming, topics: Collection[str]
) -> frozenset[Permission]:
    """The rules that target topics get from those of the source; `topics`: the selected source topics."""
    wanted = set()
    for acl in source:
        name = _target_name(acl, naming, topics)
        if name is not None and acl.operation != "write":
            operation = "read" if acl.operation == "all" else acl.operation
            wanted.add(replace(acl, resource_name=name, operation=operation))
    return frozenset(wanted)


def _target_name(acl: Permission, naming: TopicNaming, topics: Collection[str]) -> str | None:
    if acl.pattern_type == "literal":
        return naming.target_name(acl.resource_name) if acl.resource_name in topics else None
    covers_any = any(topic.startswith(acl.resource_name) for topic in topics)
    return naming.target_name(acl.resource_name) if naming.kind is NamingKind.PREFIX and covers_any else None


@dataclass(frozen=True, slots=True)
class AclChange:
    """What brings the target's rules to what is wanted, in a fixed order."""

    to_create: tuple[Permission, ...]
    to_remove: tuple[Permission, ...]

    def without(self, is_left: Callable[[Permission], bool]) -> "AclChange":
        """Less the rules that are left as they are."""
        return AclChange(
            tuple(acl for acl in self.to_create if not is_left(acl)),
            tuple(acl for acl in self.to_remove if not is_left(acl)),
        )


def acl_change(
    wanted: frozenset[Permission], target: frozenset[Permission], *, created_by_mirror: frozenset[Permission]
) -> AclChange:
    """Only what the mirror had created is removed."""
    return AclChange(tuple(sorted(wanted - target)), tuple(sorted((created_by_mirror & target) - wanted)))


# Closing ------------------------------------------------------------------------------------------
# Closing topics by rules: whom to deny writing, from the access control lists as they were read.
#
# Rules
#    C1  denied is every principal that a rule allows to write to the topic: literal, by prefix or by `*`, alone or
#        with everything else; by a rule of its own, for this topic and this principal, from every host
#    C2  the mirror's principal is never denied, nor is `User:*`: that would shut the mirror out with the others
#    C3  where a rule of C1 leaves somebody who may write, nothing is closed; all such reasons are given at once
#    C4  closed for reading too, it is the same of reading; whoever changes rules is left out as well, where known


ANY_HOST = "*"
_ALL_TOPICS = "*"
_WRITING = ("write", "all")
_READING = ("read", "all")


@dataclass(frozen=True, slots=True)
class Authorization:
    """What a broker tells of who decides what is allowed there; None: it does not tell.

    `super_users` may do everything, whatever rules deny. `allows_where_no_rule`: everybody may do everything with what
    no rule is about.
    """

    broker: int
    super_users: frozenset[str] | None
    allows_where_no_rule: bool | None


@dataclass(frozen=True, slots=True)
class Closing:
    """The rules that close topics, by topic; or the reasons why these would not, each with what to do."""

    rules: dict[str, frozenset[Permission]]
    refusals: tuple[str, ...]


def closing(
    topics: Collection[str],
    acls: Collection[Permission],
    authorizations: Sequence[Authorization],
    *,
    mirror: str | None,
    confirmed: Collection[str] = (),
    mirrored_back: Collection[str] = (),
) -> Closing:
    """What denies writing to these topics; `mirror`: its principal; `confirmed`: super users that do not write.

    `mirrored_back`: topics that were closed before, where the mirror may write by now.
    """
    rules = {
        topic: frozenset(denial(topic, who) for who in writers(topic, acls) if who not in (mirror, EVERYBODY))
        for topic in sorted(topics)
    }
    refusals = (
        *_of_principals(topics, acls, mirror, mirrored_back),
        *_of_brokers(authorizations, confirmed),
        *_of_topics_without_rules(authorizations, rules, acls),
    )
    return Closing(rules, refusals)


def closing_for_reading(
    topics: Collection[str], acls: Collection[Permission], *, mirror: str | None, administrator: str | None
) -> Closing:
    """C4: what denies reading these topics beside what closes them; `administrator`: who changes rules, None: unknown.

    What `closing` refuses is not said again.
    """
    spared = (mirror, administrator, EVERYBODY)
    rules = {
        topic: frozenset(
            denial(topic, who, "read") for who in _allowed(topic, acls, _READING) if who not in spared
        )
        for topic in sorted(topics)
    }
    open_topics = [topic for topic in rules if _may(EVERYBODY, topic, acls, _READING)]
    refusals = [
        f"a rule allows {EVERYBODY} to read {', '.join(open_topics)}: to deny everybody would shut the mirror out as "
        "well. Allow principals by name instead, or fence without --reading"
    ]
    return Closing(rules, tuple(refusals if open_topics else ()))


def denial(topic: str, principal: str, operation: str = "write") -> Permission:
    """The rule that denies a principal to write to a topic, or to read it, from wherever."""
    return topic_acl(topic, principal, operation, permission_type="deny")


def writers(topic: str, acls: Iterable[Permission]) -> frozenset[str]:
    """Principals that some rule allows to write to a topic; what other rules deny is left aside."""
    return _allowed(topic, acls, _WRITING)


def _allowed(topic: str, acls: Iterable[Permission], operations: Sequence[str]) -> frozenset[str]:
    return frozenset(
        acl.entity for acl in acls if acl.permission_type == "allow" and _is_about(acl, topic, operations)
    )


def may_write(principal: str, topic: str, acls: Collection[Permission]) -> bool:
    """Whether rules allow it by name, and none denies it: to this principal or to everybody, from every host."""
    return _may(principal, topic, acls, _WRITING)


def _may(principal: str, topic: str, acls: Collection[Permission], operations: Sequence[str]) -> bool:
    denied = any(
        acl.permission_type == "deny"
        and acl.entity in (principal, EVERYBODY)
        and acl.host == ANY_HOST
        and _is_about(acl, topic, operations)
        for acl in acls
    )
    return principal in _allowed(topic, acls, operations) and not denied


def _is_about(acl: Permission, topic: str, operations: Sequence[str]) -> bool:
    """Whether a rule says something of such an operation on a topic."""
    return acl.operation in operations and covers(acl, topic)


def covers(acl: Permission, topic: str) -> bool:
    """Whether a rule is about a topic."""
    if acl.pattern_type == "prefixed":
        return topic.startswith(acl.resource_name)
    return acl.resource_name in (topic, _ALL_TOPICS)


# Why nothing is closed ------------------------------------------------------------------------------


def _of_principals(
    topics: Collection[str],
    acls: Collection[Permission],
    mirror: str | None,
    mirrored_back: Collection[str],
) -> Iterator[str]:
    if mirror is None:
        yield (
            "which principal is the mirror's is not said, and it must not be denied: set mirror_principal of the "
            "cluster in the configuration"
        )
    open_topics = [topic for topic in sorted(topics) if may_write(EVERYBODY, topic, acls)]
    if open_topics:
        yield (
            f"a rule allows {EVERYBODY} to write to {', '.join(open_topics)}: to deny everybody would shut the "
            "mirror out as well. Allow principals by name instead, or fence otherwise"
        )
    not_yet = sorted(set(topics) - set(mirrored_back))
    shared = [topic for topic in not_yet if mirror is not None and may_write(mirror, topic, acls)]
    if shared:
        yield (
            f"the mirror's principal {mirror} is allowed to write to {', '.join(shared)}: whoever writes there as "
            "this principal would not be stopped. Give the mirror a principal of its own that reads alone; where a "
            "flow is to copy back as this one, deny it WRITE until then; or fence otherwise"
        )


def _of_brokers(authorizations: Sequence[Authorization], confirmed: Collection[str]) -> Iterator[str]:
    if any(one.allows_where_no_rule for one in authorizations):
        yield (
            "allow.everyone.if.no.acl.found is true at the brokers: whoever no rule names may write wherever no rule "
            "is found. Set it to false, or fence otherwise"
        )
    known = {user for one in authorizations for user in one.super_users or ()}
    if unconfirmed := sorted(known - set(confirmed)):
        options = " ".join(f"--accept super_user={user}" for user in unconfirmed)
        yield (
            f"no rule stops super users, and {', '.join(unconfirmed)} may be one that writes. Where no application "
            f"does so: {options}"
        )


def _of_topics_without_rules(
    authorizations: Sequence[Authorization],
    rules: dict[str, frozenset[Permission]],
    acls: Collection[Permission],
) -> Iterator[str]:
    """Where it is unknown whether that means that everybody may write, or nobody."""
    bare = [topic for topic, found in rules.items() if not found and not any(covers(a, topic) for a in acls)]
    if bare and any(one.allows_where_no_rule is None for one in authorizations):
        yield (
            f"no rule is about {', '.join(bare)}, and the brokers do not tell whether everybody may write where no "
            "rule is found (allow.everyone.if.no.acl.found). Deny or allow somebody by name there, or fence "
            "otherwise"
        )
