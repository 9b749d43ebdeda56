"""Permissions that applications had at one cluster and need at another one.

Rules
    P1  access control lists of topics come with the names that the topics have at the other cluster. A topic that has
        another name there is written by its mirror alone: nothing about writing comes along, and all is reading
    P2  a rule for a prefix, or for all topics, would also be about topics that are none of the pair: it comes as it is
        where there is none such, else as one literal rule for each topic
    P3  rules of groups and transactional ids come for principals that may do something with these topics
    P4  never: rules of the mirror's principals, rules that a fence made, and rules about the cluster itself
    P5  what another rule there covers is there already
    P6  quotas of users and client ids come where there is none; defaults, and limits of addresses, are left to people
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ledger.facts.permissions import (
    EVERYBODY,
    Permission,
    PermissionEvent,
    PermissionKind,
    Permissions,
    PermissionsOfKind,
)

_CARRIED = ("group", "transactional_id")
_IMPLY_DESCRIBE = ("read", "write", "delete", "alter")


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Names of the topics of a pair: `carried`, by source name the target name; and all others on both sides."""

    carried: Mapping[str, str]
    others: frozenset[str]

    @classmethod
    def of(
        cls, carried: Mapping[str, str], *, at_source: Collection[str], at_target: Collection[str]
    ) -> "TopicNames":
        others = (set(at_source) - carried.keys()) | (set(at_target) - set(carried.values()))
        return cls(carried, frozenset(others))

    def beginning(self, prefix: str) -> dict[str, str]:
        return {source: target for source, target in self.carried.items() if source.startswith(prefix)}

    def is_of_the_pair_alone(self, prefix: str) -> bool:
        """Whether all that begins so is carried, under its name."""
        renamed = any(source != target for source, target in self.beginning(prefix).items())
        return not renamed and not any(name.startswith(prefix) for name in self.others)


@dataclass(frozen=True, slots=True)
class NotCarried:
    """P4: principals of mirrors (`User:mirror`), and rules that fences made."""

    mirrors: frozenset[str] = frozenset()
    fences: frozenset[Permission] = frozenset()

    def has(self, permission: Permission) -> bool:
        user = _user(permission)
        return (
            permission.entity in self.mirrors or f"User:{user}" in self.mirrors or permission in self.fences
        )


def _user(permission: Permission) -> str | None:
    """The user whose credential or quota it is; a quota of a user and a client id is that user's."""
    if permission.kind is PermissionKind.SCRAM_USER:
        return permission.entity
    return quota_names(permission).get("user") if permission.kind is PermissionKind.QUOTA else None


def quota_names(quota: Permission) -> dict[str, str | None]:
    """By `user`, `client-id` and `ip` who is meant; None for the default."""
    names: dict[str, str | None] = json.loads(quota.entity)
    return names


# Access control lists ---------------------------------------------------------------------------


def wanted_acls(
    source: Iterable[Permission], names: TopicNames, not_carried: NotCarried
) -> frozenset[Permission]:
    """P1 to P4: what is wanted at the target."""
    rules = [rule for rule in source if not not_carried.has(rule)]
    is_concerned = _concerned(rules, names)
    wanted = {one for rule in rules if rule.resource_type == "topic" for one in _at_target(rule, names)}
    return frozenset(
        wanted | {rule for rule in rules if rule.resource_type in _CARRIED and is_concerned(rule)}
    )


def _concerned(rules: Iterable[Permission], names: TopicNames) -> Callable[[Permission], bool]:
    """Whether a rule is about somebody who may do something, or may not, with the topics."""
    named = {rule.entity for rule in rules if rule.resource_type == "topic" and covered_topics(rule, names)}
    return lambda rule: rule.entity == EVERYBODY or not named.isdisjoint({EVERYBODY, rule.entity})


def covered_topics(rule: Permission, names: TopicNames) -> dict[str, str]:
    """Of the carried topics those that a rule is about."""
    name = rule.resource_name
    if rule.pattern_type == "literal" and name != "*":
        return {name: names.carried[name]} if name in names.carried else {}
    return names.beginning("" if name == "*" else name)


def _at_target(rule: Permission, names: TopicNames) -> Iterator[Permission]:
    is_prefix = rule.pattern_type == "prefixed" and bool(rule.resource_name)
    topics = covered_topics(rule, names)
    if is_prefix and topics and names.is_of_the_pair_alone(rule.resource_name):
        yield rule
        return
    for source, target in topics.items():
        operation = rule.operation if source == target else _of_a_copy(rule.operation)
        if operation is not None:
            yield replace(rule, resource_name=target, pattern_type="literal", operation=operation)


def _of_a_copy(operation: str) -> str | None:
    """P1, as flows follow access control lists: nobody but the mirror writes there."""
    return {"write": None, "all": "read"}.get(operation, operation)


def lacking(wanted: Iterable[Permission], there: Iterable[Permission]) -> frozenset[Permission]:
    """P5: those that no rule covers; what several cover together is lacking."""
    by_subject: dict[tuple[str, str, str], list[Permission]] = {}
    for rule in there:
        by_subject.setdefault((rule.permission_type, rule.resource_type, rule.entity), []).append(rule)
    return frozenset(
        rule
        for rule in wanted
        if not any(
            covers(one, rule)
            for entity in {rule.entity, EVERYBODY}
            for one in by_subject.get((rule.permission_type, rule.resource_type, entity), ())
        )
    )


def covers(rule: Permission, other: Permission) -> bool:
    """Whether `other` changes nothing where `rule` is: the query permission_gaps states the same."""
    if (rule.permission_type, rule.resource_type) != (other.permission_type, other.resource_type):
        return False
    is_for_them = rule.entity in (other.entity, EVERYBODY) and rule.host in (other.host, "*")
    return is_for_them and _covers_operation(rule, other) and _covers_name(rule, other)


def _covers_operation(rule: Permission, other: Permission) -> bool:
    if rule.operation in (other.operation, "all"):
        return True
    if rule.permission_type != "allow":
        return False
    is_describe = other.operation == "describe" and rule.operation in _IMPLY_DESCRIBE
    return is_describe or (other.operation, rule.operation) == ("describe_configs", "alter_configs")


def _covers_name(rule: Permission, other: Permission) -> bool:
    if (rule.resource_name, rule.pattern_type) == (other.resource_name, other.pattern_type):
        return True
    if rule.pattern_type == "literal":
        return rule.resource_name == "*"
    return other.resource_name != "*" and other.resource_name.startswith(rule.resource_name)


def denied(
    wanted: Iterable[Permission], there: Iterable[Permission], not_carried: NotCarried
) -> list[Permission]:
    """Rules there that deny something that is wanted, and that are not wanted themselves."""
    known = frozenset(wanted)
    allows = [rule for rule in known if rule.permission_type == "allow"]
    denies = [rule for rule in there if rule.permission_type == "deny" and rule not in known]
    mine = [rule for rule in denies if rule.entity not in not_carried.mirrors]
    return sorted((rule for rule in mine if any(_meets(rule, allow) for allow in allows)), key=in_words)


def _meets(deny: Permission, allow: Permission) -> bool:
    if deny.resource_type != allow.resource_type:
        return False
    is_them = deny.entity in (allow.entity, EVERYBODY) or allow.entity == EVERYBODY
    is_done = "all" in (deny.operation, allow.operation) or deny.operation == allow.operation
    return is_them and is_done and _overlap(deny, allow)


def _overlap(one: Permission, other: Permission) -> bool:
    names = (one.resource_name, other.resource_name)
    if "*" in names or names[0] == names[1]:
        return True
    is_of_one = one.pattern_type == "prefixed" and names[1].startswith(names[0])
    return is_of_one or (other.pattern_type == "prefixed" and names[0].startswith(names[1]))


# Quotas -----------------------------------------------------------------------------------------


def is_carried_quota(quota: Permission) -> bool:
    """P6."""
    names = quota_names(quota)
    return names.keys() <= {"user", "client-id"} and None not in names.values()


def in_words(permission: Permission) -> str:
    """A permission as people read it."""
    if permission.kind is PermissionKind.QUOTA:
        who = ", ".join(f"{kind} {name or 'default'}" for kind, name in quota_names(permission).items())
        return f"quota of {who}: {permission.setting} {permission.value:.15g}"
    if permission.kind is PermissionKind.SCRAM_USER:
        return f"SCRAM user {permission.entity} ({permission.setting})"
    resource = permission.resource_type.replace("_", " ")
    name = (
        f"{permission.resource_name}*" if permission.pattern_type == "prefixed" else permission.resource_name
    )
    host = "" if permission.host == "*" else f" from {permission.host}"
    return (
        f"{permission.permission_type} {permission.entity}{host} {permission.operation} on {resource} {name}"
    )


# Gaps ---------------------------------------------------------------------------------------------
# What applications may do at one cluster and not at another one: what can be created, and what is left to
# people.
#
# The first status that applies to a kind of permissions, in this order, is reported: unknown at the former
# cluster, unknown at the new one, not enforced at one of them, compared.


_KNOWN = (PermissionEvent.READABLE, PermissionEvent.NOT_ENFORCED)
_NAMES: Mapping[PermissionKind, str] = {
    PermissionKind.ACL: "access control lists",
    PermissionKind.SCRAM_USER: "SCRAM users",
    PermissionKind.QUOTA: "client quotas",
}
_WHY_UNKNOWN = {
    PermissionEvent.NOT_PERMITTED: "not_permitted: the principal that asks may not read them",
    PermissionEvent.REFUSED: "refused: the cluster answered with an error",
}
_NEVER = "never_recorded: no recorder has read them"


@dataclass(frozen=True, slots=True)
class Side:
    """A cluster by its alias, and how its permissions were read."""

    alias: str
    permissions: Permissions

    def reading(self, kind: PermissionKind) -> PermissionEvent | None:
        """None: nobody has read the kind."""
        return self.permissions[kind].reading if kind in self.permissions else None

    def found(self, kind: PermissionKind) -> frozenset[Permission]:
        return self.permissions.get(kind, PermissionsOfKind(PermissionEvent.REFUSED)).found

    def is_enforced(self, kind: PermissionKind) -> bool:
        return self.reading(kind) is not PermissionEvent.NOT_ENFORCED

    def unknown(self, kind: PermissionKind) -> str | None:
        """Why nothing is known of a kind; None: it is known."""
        reading = self.reading(kind)
        if reading in _KNOWN:
            return None
        why = _NEVER if reading is None else _WHY_UNKNOWN.get(reading, reading.value)
        return f"{_NAMES[kind]} of {self.alias}: {why}"


@dataclass(frozen=True, slots=True)
class PermissionGaps:
    """`to_create` at the new cluster; kinds of which nothing is `unknown`, and what is left to people, in words."""

    to_create: tuple[Permission, ...] = ()
    unknown: tuple[str, ...] = ()
    manual: tuple[str, ...] = ()


def permission_gaps(former: Side, new: Side, names: TopicNames, not_carried: NotCarried) -> PermissionGaps:
    """What the new cluster lacks of what applications had at the former one."""
    compared: Mapping[PermissionKind, Callable[[], PermissionGaps]] = {
        PermissionKind.ACL: lambda: _acls(former, new, names, not_carried),
        PermissionKind.SCRAM_USER: lambda: _users(former, new, not_carried),
        PermissionKind.QUOTA: lambda: _quotas(former, new, not_carried),
    }
    found = [_unknown(former, new, kind) or gaps() for kind, gaps in compared.items()]
    return PermissionGaps(
        tuple(one for gaps in found for one in gaps.to_create),
        tuple(one for gaps in found for one in gaps.unknown),
        tuple(one for gaps in found for one in gaps.manual),
    )


def _unknown(former: Side, new: Side, kind: PermissionKind) -> PermissionGaps | None:
    reasons = tuple(reason for side in (former, new) if (reason := side.unknown(kind)) is not None)
    return PermissionGaps(unknown=reasons) if reasons else None


def _acls(former: Side, new: Side, names: TopicNames, not_carried: NotCarried) -> PermissionGaps:
    kind = PermissionKind.ACL
    if not former.is_enforced(kind) or not new.is_enforced(kind):
        return PermissionGaps(manual=tuple(_unlike_authorizers(former, new)))
    source, there = former.found(kind), new.found(kind)
    wanted = wanted_acls(source, names, not_carried)
    manual = [
        *_of_the_cluster(source, former, names, not_carried),
        *_renamed(names, new),
        *(f"{new.alias} has: {in_words(deny)}" for deny in denied(wanted, there, not_carried)),
        *_logins(wanted, former, new),
    ]
    return PermissionGaps(_ordered(lacking(wanted, there)), manual=tuple(manual))


def _unlike_authorizers(former: Side, new: Side) -> Iterator[str]:
    kind = PermissionKind.ACL
    if new.is_enforced(kind):
        yield f"{former.alias} has no authorizer and {new.alias} has one: create what applications need there"
    elif former.is_enforced(kind):
        yield f"{new.alias} has no authorizer: everybody may do everything there, whatever {former.alias} denies"


def _of_the_cluster(
    source: Iterable[Permission], former: Side, names: TopicNames, not_carried: NotCarried
) -> Iterator[str]:
    """Rules of applications about anything but topics, groups and transactional ids."""
    rules = [rule for rule in source if not not_carried.has(rule)]
    others = (rule for rule in rules if rule.resource_type not in ("topic", "group", "transactional_id"))
    for rule in sorted(filter(_concerned(rules, names), others), key=in_words):
        yield f"{former.alias} has, and it was left out: {in_words(rule)}"


def _renamed(names: TopicNames, new: Side) -> Iterator[str]:
    renamed = sorted(target for source, target in names.carried.items() if source != target)
    if renamed:
        yield (
            f"{', '.join(renamed)} of {new.alias}: no rule about writing was carried, only the mirror writes there; "
            "applications that are to write to the plain names need rules of their own"
        )


def _logins(wanted: Iterable[Permission], former: Side, new: Side) -> Iterator[str]:
    """Principals of which nobody knows how they prove who they are: certificates, passwords of other mechanisms."""
    if former.reading(PermissionKind.SCRAM_USER) is not PermissionEvent.READABLE:
        return
    users = {f"User:{user.entity}" for user in former.found(PermissionKind.SCRAM_USER)}
    allowed = {rule.entity for rule in wanted if rule.permission_type == "allow"}
    others = sorted(allowed - users - {EVERYBODY})
    if others:
        yield f"{', '.join(others)}: no SCRAM users of {former.alias}; {new.alias} must accept their credentials"


def _users(former: Side, new: Side, not_carried: NotCarried) -> PermissionGaps:
    kind = PermissionKind.SCRAM_USER
    there = {one.identity for one in new.found(kind)}
    missing = [one for one in former.found(kind) if one.identity not in there and not not_carried.has(one)]
    words = sorted(f"create {in_words(one)} at {new.alias} with its password" for one in missing)
    return PermissionGaps(manual=tuple(words))


def _quotas(former: Side, new: Side, not_carried: NotCarried) -> PermissionGaps:
    kind = PermissionKind.QUOTA
    there = {one.identity: one for one in new.found(kind)}
    wanted = [
        one for one in former.found(kind) if not not_carried.has(one) and there.get(one.identity) != one
    ]
    to_create = [one for one in wanted if is_carried_quota(one) and one.identity not in there]
    manual = [_left(one, there.get(one.identity), former, new) for one in wanted if one not in to_create]
    return PermissionGaps(_ordered(to_create), manual=tuple(sorted(manual)))


def _left(quota: Permission, there: Permission | None, former: Side, new: Side) -> str:
    value = "none" if there is None else f"{there.value:.15g}"
    return f"{former.alias} has {in_words(quota)}, {new.alias} has {value}: it was left so"


def _ordered(permissions: Iterable[Permission]) -> tuple[Permission, ...]:
    return tuple(sorted(permissions, key=lambda one: (one.kind, in_words(one))))
