"""What a cluster allows to whom: access control lists, SCRAM users without their secrets, client quotas.

A cluster tells each kind only to who may ask for it. So beside the permissions of a kind stands how it was read: that
nothing was found is known only of a kind that is `readable`.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum

from ledger.facts.codec import LEFT_OUT

EVERYBODY = "User:*"


class PermissionKind(StrEnum):
    """What is asked for with a request of its own, and a right of its own."""

    ACL = "acl"
    SCRAM_USER = "scram_user"
    QUOTA = "quota"


class PermissionEvent(StrEnum):
    """What a row of `permissions` says: the first two of one permission, the others of a kind as a whole."""

    PRESENT = "present"  # there since this read, or with this value
    REMOVED = "removed"
    READABLE = "readable"  # all permissions of the kind were read
    NOT_PERMITTED = "not_permitted"  # the mirror's principal may not read the kind
    NOT_ENFORCED = "not_enforced"  # the cluster has no authorizer, so no access control lists
    REFUSED = "refused"  # the cluster answered with another error, for example that it knows no such request


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Permission:
    """An access control list entry, a credential of a SCRAM user, or a limit of a client quota.

    `entity`: principal; user; or JSON object of a quota's entity. `setting`: mechanism; or a quota's key. `value`:
    iterations; or the limit. Of an access control list entry the rest, by Kafka's names in lower case (`read`,
    `describe_configs`). What a kind does not have is empty, and `value` None.
    """

    kind: PermissionKind
    entity: str
    setting: str = field(default="", metadata=LEFT_OUT)
    resource_type: str = field(default="", metadata=LEFT_OUT)
    resource_name: str = field(default="", metadata=LEFT_OUT)
    pattern_type: str = field(default="", metadata=LEFT_OUT)
    permission_type: str = field(default="", metadata=LEFT_OUT)
    operation: str = field(default="", metadata=LEFT_OUT)
    host: str = field(default="", metadata=LEFT_OUT)
    value: float | None = field(default=None, metadata=LEFT_OUT)

    @property
    def identity(self) -> "Permission":
        """The permission whatever its value: two of one identity are the same one, before and after a change."""
        return replace(self, value=None)

    def recorded(self) -> dict[str, object]:
        """By column of `permissions`; None: its kind does not have it."""
        reported = {name: None if value == "" else value for name, value in asdict(self).items()}
        return {**reported, "kind": self.kind.value}


def topic_acl(
    topic: str,
    principal: str,
    operation: str,
    *,
    permission_type: str = "allow",
    pattern_type: str = "literal",
    host: str = "*",
) -> Permission:
    """A rule about one topic; `prefixed`: about all whose names begin so."""
    return Permission(
        kind=PermissionKind.ACL,
        entity=principal,
        resource_type="topic",
        resource_name=topic,
        pattern_type=pattern_type,
        permission_type=permission_type,
        operation=operation,
        host=host,
    )


@dataclass(frozen=True, slots=True)
class PermissionsOfKind:
    """How a kind was read, and what was found; nothing is known of it unless it was `readable`."""

    reading: PermissionEvent
    found: frozenset[Permission] = frozenset()


Permissions = Mapping[PermissionKind, PermissionsOfKind]
"""All that is known of a cluster, by kind."""

PermissionChange = tuple[PermissionEvent, PermissionKind, Permission | None]
"""What happened, and to which permission; None: to the kind as a whole."""


def permission_changes(last: Permissions, read: Permissions) -> list[PermissionChange]:
    """What was not known so, by kind: first how it was read, then its permissions in a fixed order."""
    changes: list[PermissionChange] = []
    for kind, now in sorted(read.items()):
        before = last.get(kind)
        if before is None or before.reading is not now.reading:
            changes.append((now.reading, kind, None))
        if now.reading is PermissionEvent.READABLE:
            changes += _changes_of(kind, before.found if before else frozenset(), now.found)
    return changes


def _changes_of(
    kind: PermissionKind, last: frozenset[Permission], now: frozenset[Permission]
) -> list[PermissionChange]:
    kept = {permission.identity for permission in now}
    removed = {permission for permission in last if permission.identity not in kept}
    return [
        *((PermissionEvent.REMOVED, kind, permission) for permission in sorted(removed)),
        *((PermissionEvent.PRESENT, kind, permission) for permission in sorted(now - last)),
    ]


def known_after(last: Permissions, read: Permissions) -> Permissions:
    """What is known after a read; of a kind that could not be read what was known stays, to be compared later."""
    return {**last, **{kind: _after(last.get(kind), now) for kind, now in read.items()}}


def _after(last: PermissionsOfKind | None, now: PermissionsOfKind) -> PermissionsOfKind:
    if last is None or now.reading is PermissionEvent.READABLE:
        return now
    return replace(now, found=last.found)


def quota_entity(names: Mapping[str, str | None]) -> str:
    """An entity as rows name it; `names`: by `user`, `client-id` and `ip` who is meant, None for the default."""
    return json.dumps(dict(names), sort_keys=True, separators=(",", ":"))
