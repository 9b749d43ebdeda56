"""What a cluster in memory allows to whom, as it tells whoever asks."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ledger.facts.permissions import (
    Permission,
    PermissionEvent,
    PermissionKind,
    Permissions,
    PermissionsOfKind,
)


@dataclass(slots=True)
class MemoryPermissions:
    """All but access control lists of topics. `unread`: kinds that the mirror's principal is refused, and how."""

    others: set[Permission] = field(default_factory=set)
    unread: dict[PermissionKind, PermissionEvent] = field(default_factory=dict)

    def told(self, topic_acls: Iterable[Permission]) -> Permissions:
        allowed = {*topic_acls, *self.others}
        return {
            kind: PermissionsOfKind(self.unread[kind])
            if kind in self.unread
            else PermissionsOfKind(
                PermissionEvent.READABLE, frozenset(one for one in allowed if one.kind is kind)
            )
            for kind in PermissionKind
        }
