"""Real brokers tell what they allow to whom: one with an authorizer keeps the contract, one without says so."""

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka.admin import (
    ACLOperation,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig
from ledger.errors import PreconditionError
from ledger.facts.permissions import Permission, PermissionEvent, PermissionKind
from ledger.kafka.admin import KafkaAdmin
from tests.support import quotas
from tests.support.contracts.permissions import PermissionsContract, PermissionSite
from tests.support.guarded import Guarded

_STRANGER = "guest"
_MECHANISM = ScramMechanism.SCRAM_SHA_512


class GuardedSite(PermissionSite):
    """The guarded cluster: `admin` comes by the open listener, `stranger` as a user that may do nothing."""

    stranger: KafkaAdmin

    def __init__(self, guarded: Guarded, admin: KafkaAdmin, stranger: KafkaAdmin) -> None:
        self._guarded = guarded
        self.admin = self.changing = admin
        self.stranger = stranger
        self.name = f"contract-{uuid.uuid4().hex[:8]}"

    def allow_reading(self, principal: str, topic: str) -> None:
        self._guarded.allow(principal.removeprefix("User:"), topic, ACLOperation.READ)

    def take_away(self, principal: str, topic: str) -> None:
        self._guarded.forbid(principal.removeprefix("User:"), topic)

    def set_credential(self, user: str, iterations: int | None) -> None:
        change = (
            UserScramCredentialDeletion(user, _MECHANISM)
            if iterations is None
            else UserScramCredentialUpsertion(user, _MECHANISM, self._guarded.password, iterations=iterations)
        )
        with self._guarded.administered() as client:
            client.alter_user_scram_credentials([change])

    def limit_producing(self, client_id: str, bytes_per_s: float | None) -> None:
        quotas.limit_producing(self._guarded.open, client_id, bytes_per_s)


class TestGuardedCluster(PermissionsContract):
    @pytest.fixture
    def site(self, guarded: Guarded) -> Iterator[PermissionSite]:
        open_ = ClusterConfig(name="solo", bootstrap_servers=guarded.open)
        login = guarded.plain_login(_STRANGER)
        known = ClusterConfig(name="solo", bootstrap_servers=guarded.without_tls, properties=login)
        with (
            closing(KafkaAdmin("solo", open_, SystemClock())) as admin,
            closing(KafkaAdmin("solo", known, SystemClock())) as stranger,
        ):
            yield GuardedSite(guarded, admin, stranger)

    @pytest.mark.parametrize("kind", [PermissionKind.ACL, PermissionKind.QUOTA])
    def test_who_may_not_change_permissions_is_refused(self, site: GuardedSite, kind: PermissionKind) -> None:
        acl = Permission(
            kind=kind,
            entity=f"User:{site.name}",
            host="*",
            operation="read",
            permission_type="allow",
            resource_type="group",
            resource_name=site.name,
            pattern_type="literal",
        )
        quota = Permission(
            kind=kind, entity=f'{{"user":"{site.name}"}}', setting="producer_byte_rate", value=1.0
        )
        refused = acl if kind is PermissionKind.ACL else quota
        for change in (site.stranger.create_permissions, site.stranger.delete_permissions):
            with pytest.raises(PreconditionError, match="does not allow this principal to"):
                change([refused])


def test_a_cluster_without_an_authorizer_has_no_access_control_lists(admin: KafkaAdmin) -> None:
    assert {kind: found.reading for kind, found in admin.permissions().items()} == {
        PermissionKind.ACL: PermissionEvent.NOT_ENFORCED,
        PermissionKind.SCRAM_USER: PermissionEvent.READABLE,
        PermissionKind.QUOTA: PermissionEvent.READABLE,
    }
