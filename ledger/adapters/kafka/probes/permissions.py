"""Which operations the mirror's principal is authorized for, as the brokers tell it.

The library's `describe_acls` and `describe_cluster` would do, but for their deadline (see `ClusterConnection`).
"""

import uuid
from collections.abc import Collection, Iterable

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import ACLOperation, DescribeAclsRequest, DescribeClusterRequest

from ledger.adapters.kafka.admin.group_requests import hidden_groups
from ledger.adapters.kafka.admin.topic_requests import metadata
from ledger.doctor.measurements import Operation, Operations, Permissions

_ANY = 1
_OPERATIONS = {
    ACLOperation.READ: Operation.READ,
    ACLOperation.WRITE: Operation.WRITE,
    ACLOperation.CREATE: Operation.CREATE,
    ACLOperation.DELETE: Operation.DELETE,
    ACLOperation.ALTER: Operation.ALTER,
    ACLOperation.DESCRIBE: Operation.DESCRIBE,
    ACLOperation.DESCRIBE_CONFIGS: Operation.DESCRIBE_CONFIGS,
    ACLOperation.ALTER_CONFIGS: Operation.ALTER_CONFIGS,
    ACLOperation.IDEMPOTENT_WRITE: Operation.IDEMPOTENT_WRITE,
}


async def asked_permissions(
    manager: KafkaConnectionManager, topics: Collection[str], groups: Collection[str]
) -> Permissions:
    nobody = f"mirror-ledger-doctor-{uuid.uuid4().hex}"
    hidden = await hidden_groups(manager, [*groups, nobody])
    return Permissions(
        enforced=await _is_enforced(manager),
        cluster=await _on_cluster(manager),
        topics=await _on_topics(manager, topics),
        groups_seen=nobody not in hidden,
        hidden_groups=tuple(group for group in groups if group in hidden),
    )


async def _is_enforced(manager: KafkaConnectionManager) -> bool:
    """A cluster without an authorizer says so to whoever asks for its ACLs."""
    request = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=f"User:{uuid.uuid4().hex}",
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    answer = await manager.send(request)
    return bool(answer.error_code != errors.SecurityDisabledError.errno)


async def _on_cluster(manager: KafkaConnectionManager) -> Operations | None:
    """None: without Describe on the cluster an empty set is answered, whatever else is allowed."""
    answer = await manager.send(DescribeClusterRequest(include_cluster_authorized_operations=True))
    return _operations(answer.authorized_operations) or None


async def _on_topics(
    manager: KafkaConnectionManager, topics: Collection[str]
) -> dict[str, Operations | None]:
    answer = await metadata(manager, topics, operations=True)
    hidden = errors.TopicAuthorizationFailedError.errno
    return {
        topic.name: None if topic.error_code == hidden else _operations(topic.authorized_operations)
        for topic in answer.topics
    }


def _operations(codes: Iterable[int]) -> Operations:
    """Those of a response that mean something here; it lists codes of `ACLOperation`."""
    return frozenset(_OPERATIONS[code] for code in map(ACLOperation, codes) if code in _OPERATIONS)
