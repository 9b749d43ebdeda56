"""Changing permissions of a cluster in memory, as `PermissionAdmin` has it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ledger.facts.permissions import Permission, PermissionKind, Permissions
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
            if _is_of_topic(one):
                self._cluster.create_acls([one])
            else:
                self._cluster.allowed.others.add(one)

    def delete_permissions(self, permissions: Sequence[Permission]) -> None:
        for one in permissions:
            self._before()
            self._remove([one.identity])

    def _remove(self, identities: Iterable[Permission]) -> None:
        for identity in identities:
            if _is_of_topic(identity):
                self._cluster.delete_acls([identity])
            kept = {one for one in self._cluster.allowed.others if replace(one, value=None) != identity}
            self._cluster.allowed.others = kept


def _is_of_topic(permission: Permission) -> bool:
    return permission.kind is PermissionKind.ACL and permission.resource_type == "topic"
