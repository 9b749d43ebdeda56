"""Requests about what a cluster allows to whom: access control lists, SCRAM users, client quotas.

Access control lists and quotas are created and deleted too; credentials of users never, their secrets are not ours.
An answer that the cluster gives to who may not ask is an answer here; "not now" and a lost connection are errors.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    AlterClientQuotasRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeUserScramCredentialsRequest,
)

from ledger.facts.permissions import (
    Permission,
    PermissionEvent,
    PermissionKind,
    Permissions,
    PermissionsOfKind,
    quota_entity,
)
from ledger.kafka.topics import ABSENT_TOPIC, brokers, is_present, metadata, require

_NOT_SHOWN = (*ABSENT_TOPIC, errors.TopicAuthorizationFailedError)
_ANY = 1  # of every enumeration of a filter
_OPERATIONS = {**{code.value: code.name.lower() for code in ACLOperation}, 15: "two_phase_commit"}
_RESOURCES = {**{code.value: code.name.lower() for code in ACLResourceType}, 7: "user"}
"""With what brokers know and the library does not."""
_PATTERNS = {code.value: code.name.lower() for code in ACLResourcePatternType}
_PERMISSION_TYPES = {code.value: code.name.lower() for code in ACLPermissionType}
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_Found = Callable[[KafkaConnectionManager], Awaitable[frozenset[Permission]]]


# Access control lists -----------------------------------------------------------------------------


async def described_acls(
    manager: KafkaConnectionManager, resource_type: int = ACLResourceType.TOPIC, broker: int | None = None
) -> frozenset[Permission]:
    """All rules about resources of a type, as this broker has them; `broker` None: any is asked."""
    answer = await _described(manager, resource_type, broker=broker)
    require(answer.error_code, answer.error_message)
    return frozenset(_acl(resource, acl) for resource in answer.resources for acl in resource.acls)


async def has_authorizer(manager: KafkaConnectionManager) -> bool:
    """A cluster without one says so to whoever asks for its rules; one that does not know the question may have one."""
    try:
        answer = await _described(manager, _ANY, principal="User:nobody")
    except errors.IncompatibleBrokerVersion:
        return True
    return bool(answer.error_code != errors.SecurityDisabledError.errno)


async def _described(
    manager: KafkaConnectionManager,
    resource_type: int,
    *,
    principal: str | None = None,
    broker: int | None = None,
) -> Any:
    # `describe_acls` would do, but for its deadline (see `ClusterConnection`).
    request = DescribeAclsRequest(
        resource_type_filter=resource_type,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=principal,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    return await manager.send(request, node_id=broker)


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


async def writable_topics(manager: KafkaConnectionManager, topics: Sequence[str]) -> frozenset[str]:
    """Those that some broker lets this principal write to: each has its own copy of the rules."""
    found = set()
    for node in await brokers(manager):
        for topic in (await metadata(manager, topics, operations=True, node_id=node)).topics:
            # A topic that this principal may not even describe, or that is not there, it cannot write to.
            is_there = is_present(topic.error_code, topic.name, _NOT_SHOWN)
            if is_there and ACLOperation.WRITE.value in topic.authorized_operations:
                found.add(topic.name)
    return frozenset(found)


async def lacking_operations(
    manager: KafkaConnectionManager, topics: Sequence[str], operations: Sequence[str]
) -> dict[str, list[str]]:
    """By topic those of these operations that this principal does not have there, as far as a broker says."""
    cluster = await manager.send(DescribeClusterRequest(include_cluster_authorized_operations=True))
    anywhere = {"create"} & _operations(cluster)
    found = {}
    for topic in (await metadata(manager, topics, operations=True)).topics:
        is_there = is_present(topic.error_code, topic.name, _NOT_SHOWN)
        known = anywhere | (_operations(topic) if is_there else set())
        found[topic.name] = [one for one in operations if one not in known]
    return {name: lacking for name, lacking in found.items() if lacking}


def _operations(answer: Any) -> set[str]:
    return {_word(_OPERATIONS, code) for code in answer.authorized_operations or ()}


# All kinds ----------------------------------------------------------------------------------------


async def described_permissions(manager: KafkaConnectionManager) -> Permissions:
    """Every kind; of one that may not be read, why."""
    asked: Mapping[PermissionKind, _Found] = {
        PermissionKind.ACL: partial(described_acls, resource_type=_ANY),
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


async def create_permissions(manager: KafkaConnectionManager, permissions: Sequence[Permission]) -> None:
    """Create all of these. Raises kafka-python's error at the first that is refused."""
    # Not by the library's `create_acls`, which drops the broker's message.
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=_code(_RESOURCES, one.resource_type),
            resource_name=one.resource_name,
            resource_pattern_type=_code(_PATTERNS, one.pattern_type),
            principal=one.entity,
            host=one.host,
            operation=_code(_OPERATIONS, one.operation),
            permission_type=_code(_PERMISSION_TYPES, one.permission_type),
        )
        for one in _of_kind(permissions, PermissionKind.ACL)
    ]
    if creations:
        for result in (await manager.send(CreateAclsRequest(creations=creations))).results:
            require(result.error_code, result.error_message)
    await _alter_quotas(manager, _of_kind(permissions, PermissionKind.QUOTA), remove=False)


async def delete_permissions(manager: KafkaConnectionManager, permissions: Sequence[Permission]) -> None:
    """Delete exactly these; that one was deleted already is no error."""
    # Not by the library's `delete_acls`, which drops the error of each rule that matched.
    filters = [
        DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=_code(_RESOURCES, one.resource_type),
            resource_name_filter=one.resource_name,
            pattern_type_filter=_code(_PATTERNS, one.pattern_type),
            principal_filter=one.entity,
            host_filter=one.host,
            operation=_code(_OPERATIONS, one.operation),
            permission_type=_code(_PERMISSION_TYPES, one.permission_type),
        )
        for one in _of_kind(permissions, PermissionKind.ACL)
    ]
    if filters:
        for result in (await manager.send(DeleteAclsRequest(filters=filters))).filter_results:
            require(result.error_code, result.error_message)
            for acl in result.matching_acls:
                require(acl.error_code, acl.error_message)
    await _alter_quotas(manager, _of_kind(permissions, PermissionKind.QUOTA), remove=True)


def _of_kind(permissions: Iterable[Permission], kind: PermissionKind) -> Iterator[Permission]:
    return (one for one in permissions if one.kind is kind)


async def _alter_quotas(
    manager: KafkaConnectionManager, quotas: Iterable[Permission], *, remove: bool
) -> None:
    # The library's admin client has no call for it.
    entry = AlterClientQuotasRequest.EntryData
    by_entity: dict[str, list[Any]] = {}
    for one in quotas:
        change = entry.OpData(key=one.setting, value=one.value or 0.0, remove=remove)
        by_entity.setdefault(one.entity, []).append(change)
    if not by_entity:
        return
    entries = [
        entry(
            entity=[
                entry.EntityData(entity_type=kind, entity_name=name)
                for kind, name in json.loads(entity).items()
            ],
            ops=changes,
        )
        for entity, changes in by_entity.items()
    ]
    answer = await manager.send(AlterClientQuotasRequest(entries=entries, validate_only=False))
    for result in answer.entries:
        require(result.error_code, result.error_message)


def _code(words: Mapping[int, str], word: str) -> int:
    """Kafka's code for a name, as `_word` has it."""
    codes = {name: code for code, name in words.items()}
    return codes[word] if word in codes else int(word.removeprefix("code_"))


def _word(words: Mapping[int, str], code: int) -> str:
    """Kafka's name for a code; one that came later is recorded as the number that it is."""
    return words.get(code, f"code_{code}")
