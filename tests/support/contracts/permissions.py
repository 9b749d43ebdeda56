"""What `ports.ClusterAdmin.permissions` promises, whichever cluster answers: one that knows who asks.

So does `PermissionAdmin`, which changes them.
"""

from abc import ABC, abstractmethod

from ledger.facts.permissions import (
    Permission,
    PermissionEvent,
    PermissionKind,
    Permissions,
    PermissionsOfKind,
    quota_entity,
)
from ledger.kafka.cluster import ClusterAdmin, PermissionAdmin
from tests.support.waiting import eventually


class PermissionSite(ABC):
    """A cluster, and names that nobody else uses there. `stranger`: a principal that may read no permissions.

    `changing`: the same cluster, to change permissions.
    """

    admin: ClusterAdmin
    changing: PermissionAdmin
    stranger: ClusterAdmin
    name: str

    @abstractmethod
    def allow_reading(self, principal: str, topic: str) -> None: ...

    @abstractmethod
    def take_away(self, principal: str, topic: str) -> None:
        """All that the principal may do to the topic."""

    @abstractmethod
    def set_credential(self, user: str, iterations: int | None) -> None:
        """For SCRAM-SHA-512; None: delete it."""

    @abstractmethod
    def limit_producing(self, client_id: str, bytes_per_s: float | None) -> None:
        """For a client id whoever the user is; None: no longer."""


class PermissionsContract:
    """Whoever inherits has the fixture `site`."""

    def test_access_control_lists_are_told_until_they_are_deleted(self, site: PermissionSite) -> None:
        principal = f"User:{site.name}"
        site.allow_reading(principal, site.name)
        allowed = Permission(
            kind=PermissionKind.ACL,
            entity=principal,
            host="*",
            operation="read",
            permission_type="allow",
            resource_type="topic",
            resource_name=site.name,
            pattern_type="literal",
        )
        _await(site, principal, {allowed})
        site.take_away(principal, site.name)
        _await(site, principal, set())

    def test_scram_users_are_told_with_iterations_and_nothing_else(self, site: PermissionSite) -> None:
        for iterations in (4096, 8192):
            site.set_credential(site.name, iterations)
            wanted = Permission(
                kind=PermissionKind.SCRAM_USER,
                entity=site.name,
                setting="SCRAM-SHA-512",
                value=float(iterations),
            )
            _await(site, site.name, {wanted})
        site.set_credential(site.name, None)
        _await(site, site.name, set())

    def test_quotas_are_told_by_their_entity(self, site: PermissionSite) -> None:
        entity = f'{{"client-id":"{site.name}"}}'
        for limit in (1e6, 2.5e6):
            site.limit_producing(site.name, limit)
            wanted = Permission(
                kind=PermissionKind.QUOTA, entity=entity, setting="producer_byte_rate", value=limit
            )
            _await(site, entity, {wanted})
        site.limit_producing(site.name, None)
        _await(site, entity, set())

    def test_permissions_of_every_kind_are_created_once_and_deleted_exactly(
        self, site: PermissionSite
    ) -> None:
        principal = f"User:{site.name}"
        created = {
            _rule(principal, "topic", site.name, "write"),
            _rule(principal, "topic", site.name, "read", pattern_type="prefixed"),
            _rule(principal, "group", site.name, "read", host="10.0.0.1"),
            _rule(principal, "group", site.name, "describe", permission_type="deny"),
            _rule(principal, "transactional_id", site.name, "two_phase_commit", pattern_type="prefixed"),
        }
        quota_of = quota_entity({"user": site.name, "client-id": site.name})
        quotas = {
            Permission(kind=PermissionKind.QUOTA, entity=quota_of, setting=setting, value=limit)
            for setting, limit in (("producer_byte_rate", 1e6), ("request_percentage", 12.5))
        }
        for _ in range(2):
            site.changing.create_permissions([*created, *quotas])
        _await(site, principal, created)
        _await(site, quota_of, quotas)
        gone = [_rule(principal, "topic", site.name, "write"), min(quotas, key=lambda one: one.setting or "")]
        for _ in range(2):
            site.changing.delete_permissions(gone)
        _await(site, principal, created - set(gone))
        _await(site, quota_of, quotas - set(gone))
        site.changing.delete_permissions([*created, *quotas])
        _await(site, principal, set())
        _await(site, quota_of, set())

    def test_every_kind_is_told_to_who_may_ask(self, site: PermissionSite) -> None:
        assert _readings(site.admin.permissions()) == dict.fromkeys(PermissionKind, PermissionEvent.READABLE)

    def test_who_may_not_ask_is_told_so_and_not_that_there_is_nothing(self, site: PermissionSite) -> None:
        assert site.stranger.permissions() == dict.fromkeys(
            PermissionKind, PermissionsOfKind(PermissionEvent.NOT_PERMITTED)
        )


def _rule(
    principal: str,
    resource_type: str,
    name: str,
    operation: str,
    *,
    host: str = "*",
    pattern_type: str = "literal",
    permission_type: str = "allow",
) -> Permission:
    return Permission(
        kind=PermissionKind.ACL,
        entity=principal,
        host=host,
        operation=operation,
        permission_type=permission_type,
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern_type,
    )


def _await(site: PermissionSite, entity: str, wanted: set[Permission]) -> None:
    """A change is told once all brokers have heard of it."""
    eventually(lambda: _of(site, entity) == wanted, f"{entity} has {wanted}")


def _of(site: PermissionSite, entity: str) -> set[Permission]:
    found = site.admin.permissions()
    return {permission for kind in found.values() for permission in kind.found if permission.entity == entity}


def _readings(permissions: Permissions) -> dict[PermissionKind, PermissionEvent]:
    return {kind: found.reading for kind, found in permissions.items()}
