"""Permissions that applications had at one cluster and need at another one.

Rules
    P1  access control lists of topics come with the names that the topics have at the other cluster. A topic that has
        another name there is written by its mirror alone: nothing about writing comes along, and all is reading
    P2  a rule for a prefix, or for all topics, would also be about topics that are none of the pair: it comes as it is
        where there is none such, else as one literal rule for each topic
    P3  rules of groups and transactional ids come for principals that may do something with these topics
    P4  never: rules of the mirror's principals, rules that a fence made, or people by an exported plan, and rules
        about the cluster itself
    P5  what another rule there covers is there already
    P6  quotas of users and client ids come where there is none; defaults, and limits of addresses, are left to people
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ledger.domain.permissions import Permission, PermissionKind
from ledger.domain.topics.topic_acls import TopicAcl

EVERYBODY = "User:*"
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


def of_topic_acl(acl: TopicAcl) -> Permission:
    """A rule about topics, as all permissions are recorded."""
    return Permission(
        kind=PermissionKind.ACL,
        entity=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission.value,
        resource_type="topic",
        resource_name=acl.name,
        pattern_type=acl.pattern.value,
    )


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
    of_topics = [rule for rule in rules if rule.resource_type == "topic"]
    concerned = principals_of(of_topics, names)
    wanted = {one for rule in of_topics for one in _at_target(rule, names)}
    return frozenset(
        wanted | {rule for rule in rules if rule.resource_type in _CARRIED and concerned.have(rule)}
    )


@dataclass(frozen=True, slots=True)
class Principals:
    """Who may do something, or may not, with the topics."""

    named: frozenset[str]

    def have(self, rule: Permission) -> bool:
        return rule.entity == EVERYBODY or EVERYBODY in self.named or rule.entity in self.named


def principals_of(of_topics: Iterable[Permission], names: TopicNames) -> Principals:
    return Principals(frozenset(rule.entity for rule in of_topics if covered_topics(rule, names)))


def covered_topics(rule: Permission, names: TopicNames) -> dict[str, str]:
    """Of the carried topics those that a rule is about."""
    name = rule.resource_name or ""
    if rule.pattern_type == "literal" and name != "*":
        return {name: names.carried[name]} if name in names.carried else {}
    return names.beginning("" if name == "*" else name)


def _at_target(rule: Permission, names: TopicNames) -> Iterator[Permission]:
    is_prefix = rule.pattern_type == "prefixed" and bool(rule.resource_name)
    topics = covered_topics(rule, names)
    if is_prefix and topics and names.is_of_the_pair_alone(rule.resource_name or ""):
        yield rule
        return
    for source, target in topics.items():
        operation = rule.operation if source == target else _of_a_copy(rule.operation)
        if operation is not None:
            yield replace(rule, resource_name=target, pattern_type="literal", operation=operation)


def _of_a_copy(operation: str | None) -> str | None:
    """P1, as flows follow access control lists: nobody but the mirror writes there."""
    return {"write": None, "all": "read"}.get(operation or "", operation)


def lacking(wanted: Iterable[Permission], there: Iterable[Permission]) -> frozenset[Permission]:
    """P5: those that no rule covers; what several cover together is lacking."""
    by_subject: dict[tuple[str | None, str | None, str], list[Permission]] = {}
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
    return other.resource_name != "*" and (other.resource_name or "").startswith(rule.resource_name or "")


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
    names = (one.resource_name or "", other.resource_name or "")
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
    resource = (permission.resource_type or "").replace("_", " ")
    name = (
        f"{permission.resource_name}*" if permission.pattern_type == "prefixed" else permission.resource_name
    )
    host = "" if permission.host == "*" else f" from {permission.host}"
    return (
        f"{permission.permission_type} {permission.entity}{host} {permission.operation} on {resource} {name}"
    )
