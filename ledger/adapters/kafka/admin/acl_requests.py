"""Requests about access control lists of topics."""

from collections.abc import Sequence
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

from ledger.adapters.kafka.admin.answers import ABSENT_TOPIC, is_present, require
from ledger.adapters.kafka.admin.topic_requests import metadata
from ledger.domain.topics.topic_acls import AclPattern, AclPermission, TopicAcl

_PATTERNS = {
    AclPattern.LITERAL: ACLResourcePatternType.LITERAL,
    AclPattern.PREFIXED: ACLResourcePatternType.PREFIXED,
}
_PERMISSIONS = {AclPermission.ALLOW: ACLPermissionType.ALLOW, AclPermission.DENY: ACLPermissionType.DENY}
_PATTERN_OF = {code: pattern for pattern, code in _PATTERNS.items()}
_PERMISSION_OF = {code: permission for permission, code in _PERMISSIONS.items()}


async def described_rules(
    manager: KafkaConnectionManager, resource_type: ACLResourceType, broker: int | None = None
) -> list[tuple[Any, Any]]:
    """All rules about resources of a type, each as Kafka's resource and its entry; `broker` None: any is asked."""
    # `describe_acls` would do, but for its deadline (see `ClusterConnection`).
    request = DescribeAclsRequest(
        resource_type_filter=resource_type,
        resource_name_filter=None,
        pattern_type_filter=ACLResourcePatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
    )
    answer = await manager.send(request, node_id=broker)
    require(answer.error_code, answer.error_message)
    return [(resource, acl) for resource in answer.resources for acl in resource.acls]


async def described_acls(manager: KafkaConnectionManager, broker: int | None = None) -> frozenset[TopicAcl]:
    """All rules about topics, as this broker has them; None: any."""
    found = await described_rules(manager, ACLResourceType.TOPIC, broker)
    return frozenset(_acl(resource, acl) for resource, acl in found)


async def writable_topics(manager: KafkaConnectionManager, topics: Sequence[str]) -> frozenset[str]:
    """Those that some broker lets this principal write to: each has its own copy of the rules."""
    nodes = [broker.node_id for broker in (await metadata(manager, [])).brokers]
    answers = [await metadata(manager, topics, operations=True, node_id=node) for node in nodes]
    return frozenset(topic.name for answer in answers for topic in answer.topics if _is_writable(topic))


def _is_writable(topic: Any) -> bool:
    """A topic that this principal may not even describe, or that is not there, it cannot write to."""
    absent = (*ABSENT_TOPIC, errors.TopicAuthorizationFailedError)
    if not is_present(topic.error_code, topic.name, absent):
        return False
    return ACLOperation.WRITE.value in topic.authorized_operations


def _acl(resource: Any, acl: Any) -> TopicAcl:
    return TopicAcl(
        pattern=_PATTERN_OF[resource.pattern_type],
        name=resource.resource_name,
        principal=acl.principal,
        host=acl.host,
        operation=ACLOperation(acl.operation).name.lower(),
        permission=_PERMISSION_OF[acl.permission_type],
    )


async def create_acls(manager: KafkaConnectionManager, acls: Sequence[TopicAcl]) -> None:
    """Create all of these. Raises kafka-python's error at the first that is refused."""
    # Not by the library's `create_acls`, which drops the broker's message.
    creation = CreateAclsRequest.AclCreation
    request = CreateAclsRequest(
        creations=[
            creation(
                resource_type=ACLResourceType.TOPIC,
                resource_name=acl.name,
                resource_pattern_type=_PATTERNS[acl.pattern],
                principal=acl.principal,
                host=acl.host,
                operation=ACLOperation[acl.operation.upper()],
                permission_type=_PERMISSIONS[acl.permission],
            )
            for acl in acls
        ]
    )
    for result in (await manager.send(request)).results:
        require(result.error_code, result.error_message)


async def delete_acls(manager: KafkaConnectionManager, acls: Sequence[TopicAcl]) -> None:
    """Delete exactly these; that one was deleted already is no error."""
    # Not by the library's `delete_acls`, which drops the error of each rule that matched.
    wanted = DeleteAclsRequest.DeleteAclsFilter
    request = DeleteAclsRequest(
        filters=[
            wanted(
                resource_type_filter=ACLResourceType.TOPIC,
                resource_name_filter=acl.name,
                pattern_type_filter=_PATTERNS[acl.pattern],
                principal_filter=acl.principal,
                host_filter=acl.host,
                operation=ACLOperation[acl.operation.upper()],
                permission_type=_PERMISSIONS[acl.permission],
            )
            for acl in acls
        ]
    )
    for result in (await manager.send(request)).filter_results:
        require(result.error_code, result.error_message)
        for acl in result.matching_acls:
            require(acl.error_code, acl.error_message)
