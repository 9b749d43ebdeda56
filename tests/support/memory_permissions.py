"""Changing permissions of a cluster in memory, as `PermissionAdmin` has it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ledger.facts.permissions import Permission, PermissionKind, Permissions
from ledger.topics.acls import AclPattern, AclPermission, TopicAcl
from tests.simulation.kafka.cluster import MemoryCluster


def _nothing() -> None:
    """Before each change."""


class MemoryPermissionAdmin:
    """Implements `PermissionAdmin`; `before` is called before each permission is changed, and may raise."""

    def __init__(self, cluster: MemoryCluster, before: Callable[[], None] = _nothing) -> None:
        self._cluster = cluster
        self._before = before

    def permissions(self) -> Permissions:
        return self._cluster.permissions()

    def create_permissions(self, permissions: Sequence[Permission]) -> None:
        for one in permissions:
            self._before()
            self._remove([one.identity])
            if acl := _topic_acl(one):
                self._cluster.create_acls([acl])
            else:
                self._cluster.allowed.others.add(one)

    def delete_permissions(self, permissions: Sequence[Permission]) -> None:
        for one in permissions:
            self._before()
            self._remove([one.identity])

    def _remove(self, identities: Iterable[Permission]) -> None:
        for identity in identities:
            if acl := _topic_acl(identity):
                self._cluster.delete_acls([acl])
            kept = {one for one in self._cluster.allowed.others if replace(one, value=None) != identity}
            self._cluster.allowed.others = kept


def _topic_acl(permission: Permission) -> TopicAcl | None:
    if permission.kind is not PermissionKind.ACL or permission.resource_type != "topic":
        return None
    return TopicAcl(
        AclPattern(permission.pattern_type or ""),
        permission.resource_name or "",
        permission.entity,
        permission.host or "",
        permission.operation or "",
        AclPermission(permission.permission_type or ""),
    )
