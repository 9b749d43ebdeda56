"""Requests about what a cluster allows to whom: access control lists, SCRAM users, client quotas.

An answer that the cluster gives to who may not ask is an answer here; "not now" and a lost connection are errors.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    DescribeClientQuotasRequest,
    DescribeUserScramCredentialsRequest,
)

from ledger.adapters.kafka.admin.acl_requests import described_rules
from ledger.adapters.kafka.admin.answers import require
from ledger.domain.permissions import (
    Permission,
    PermissionEvent,
    PermissionKind,
    Permissions,
    PermissionsOfKind,
    quota_entity,
)

_OPERATIONS = {**{code.value: code.name.lower() for code in ACLOperation}, 15: "two_phase_commit"}
_RESOURCES = {**{code.value: code.name.lower() for code in ACLResourceType}, 7: "user"}
"""With what brokers know and the library does not."""
_PATTERNS = {code.value: code.name.lower() for code in ACLResourcePatternType}
_PERMISSION_TYPES = {code.value: code.name.lower() for code in ACLPermissionType}
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_Found = Callable[[KafkaConnectionManager], Awaitable[frozenset[Permission]]]


async def described_permissions(manager: KafkaConnectionManager) -> Permissions:
    """Every kind; of one that may not be read, why."""
    asked: Mapping[PermissionKind, _Found] = {
        PermissionKind.ACL: _acls,
        PermissionKind.SCRAM_USER: _scram_users,
        PermissionKind.QUOTA: _quotas,
    }
    return {kind: await _answered(manager, found) for kind, found in asked.items()}


async def _answered(manager: KafkaConnectionManager, found: _Found) -> PermissionsOfKind:
    """A kind that a cluster refuses for ever keeps nothing else of it from being read."""
    try:
        return PermissionsOfKind(PermissionEvent.READABLE, await found(manager))
    except errors.AuthorizationError:
        return PermissionsOfKind(PermissionEvent.NOT_PERMITTED)
    except errors.SecurityDisabledError:
        return PermissionsOfKind(PermissionEvent.NOT_ENFORCED)
    except errors.BrokerResponseError as error:
        if error.retriable:
            raise
        return PermissionsOfKind(PermissionEvent.REFUSED)


async def _acls(manager: KafkaConnectionManager) -> frozenset[Permission]:
    found = await described_rules(manager, ACLResourceType.ANY)
    return frozenset(_acl(resource, acl) for resource, acl in found)


def _acl(resource: Any, acl: Any) -> Permission:
    return Permission(
        kind=PermissionKind.ACL,
        entity=acl.principal,
        host=acl.host,
        operation=_word(_OPERATIONS, acl.operation),
        permission_type=_word(_PERMISSION_TYPES, acl.permission_type),
        resource_type=_word(_RESOURCES, resource.resource_type),
        resource_name=resource.resource_name,
        pattern_type=_word(_PATTERNS, resource.pattern_type),
    )


async def _scram_users(manager: KafkaConnectionManager) -> frozenset[Permission]:
    # Not by `describe_user_scram_credentials`: it asks for all by null, and to null from who may not ask brokers never
    # answer (measured: 4.3). No names ask for all as well.
    answer = await manager.send(DescribeUserScramCredentialsRequest(users=[]))
    require(answer.error_code, answer.error_message)
    return frozenset(
        Permission(
            kind=PermissionKind.SCRAM_USER,
            entity=user.user,
            setting=_word(_MECHANISMS, credential.mechanism),
            value=float(credential.iterations),
        )
        for user in answer.results
        for credential in user.credential_infos
    )


async def _quotas(manager: KafkaConnectionManager) -> frozenset[Permission]:
    # The library's admin client has no call for it.
    answer = await manager.send(DescribeClientQuotasRequest(components=[], strict=False))
    require(answer.error_code, answer.error_message)
    return frozenset(
        Permission(
            kind=PermissionKind.QUOTA,
            entity=quota_entity({part.entity_type: part.entity_name for part in entry.entity}),
            setting=limit.key,
            value=float(limit.value),
        )
        for entry in answer.entries or ()
        for limit in entry.values
    )


def _word(words: Mapping[int, str], code: int) -> str:
    """Kafka's name for a code; one that came later is recorded as the number that it is."""
    return words.get(code, f"code_{code}")
