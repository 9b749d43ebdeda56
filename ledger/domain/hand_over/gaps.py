"""What applications may do at one cluster and not at another one: what can be created, and what is left to people.

The first status that applies to a kind of permissions, in this order, is reported: unknown at the former cluster,
unknown at the new one, not enforced at one of them, compared.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ledger.domain.hand_over.permissions import (
    EVERYBODY,
    NotCarried,
    TopicNames,
    denied,
    in_words,
    is_carried_quota,
    lacking,
    principals_of,
    wanted_acls,
)
from ledger.domain.permissions import (
    Permission,
    PermissionEvent,
    PermissionKind,
    Permissions,
    PermissionsOfKind,
)

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
    concerned = principals_of((rule for rule in rules if rule.resource_type == "topic"), names)
    others = (rule for rule in rules if rule.resource_type not in ("topic", "group", "transactional_id"))
    for rule in sorted(filter(concerned.have, others), key=in_words):
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
