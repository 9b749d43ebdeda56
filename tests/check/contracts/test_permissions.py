"""The clusters that simulations run on tell what they allow to whom as real ones do."""

from dataclasses import replace

import pytest

from ledger.facts.permissions import Permission, PermissionEvent, PermissionKind, quota_entity, topic_acl
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.permissions import MemoryPermissions
from tests.simulation.kafka.schedule import Schedule
from tests.support.contracts.permissions import PermissionsContract, PermissionSite
from tests.support.memory_permissions import MemoryPermissionAdmin


class MemorySite(PermissionSite):
    def __init__(self) -> None:
        self.admin = self._cluster = MemoryCluster("east", Schedule())
        self.changing = MemoryPermissionAdmin(self._cluster)
        unread = dict.fromkeys(PermissionKind, PermissionEvent.NOT_PERMITTED)
        self.stranger = MemoryCluster("east", Schedule(), allowed=MemoryPermissions(unread=unread))
        self.name = "contract"

    def allow_reading(self, principal: str, topic: str) -> None:
        self._cluster.create_acls([_reading(principal, topic)])

    def take_away(self, principal: str, topic: str) -> None:
        self._cluster.delete_acls([_reading(principal, topic)])

    def set_credential(self, user: str, iterations: int | None) -> None:
        self._set(PermissionKind.SCRAM_USER, user, "SCRAM-SHA-512", iterations)

    def limit_producing(self, client_id: str, bytes_per_s: float | None) -> None:
        entity = quota_entity({"client-id": client_id})
        self._set(PermissionKind.QUOTA, entity, "producer_byte_rate", bytes_per_s)

    def _set(self, kind: PermissionKind, entity: str, setting: str, value: float | None) -> None:
        identity = Permission(kind=kind, entity=entity, setting=setting)
        others = {one for one in self._cluster.allowed.others if one.identity != identity}
        self._cluster.allowed.others = others | ({replace(identity, value=value)} if value else set())


def _reading(principal: str, topic: str) -> Permission:
    return topic_acl(topic, principal, "read")


class TestMemoryCluster(PermissionsContract):
    @pytest.fixture
    def site(self) -> PermissionSite:
        return MemorySite()
