"""Requests that are made of every leader, for what one broker knows another may not know yet."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import DescribeAclsRequest, DescribeConfigsRequest
from kafka.protocol.metadata import ApiVersionsRequest

from ledger.adapters.kafka.admin.acl_requests import described_acls
from ledger.adapters.kafka.admin.answers import require
from ledger.adapters.kafka.admin.setting_requests import described_settings
from ledger.adapters.kafka.admin.topic_requests import metadata
from ledger.domain.fences.closing import Authorization
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.ports.fencing import Place

_DESCRIBE_QUORUM = 55
_BROKER = 4
_ANY = 1
_AUTHORIZER = "authorizer.class.name"
_KAFKAS_OWN = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Others know super users from elsewhere."""
_SUPER_USERS, _EVERYONE = "super.users", "allow.everyone.if.no.acl.found"


async def leaders(manager: KafkaConnectionManager, topics: Sequence[str]) -> dict[Place, int]:
    """Raises kafka-python's error where a topic does not exist, or a partition has no leader."""
    found: dict[Place, int] = {}
    for topic in (await metadata(manager, topics)).topics:
        require(topic.error_code, topic.name)
        for partition in topic.partitions:
            if partition.leader_id < 0:
                raise errors.LeaderNotAvailableError(f"{topic.name} partition {partition.partition_index}")
            found[topic.name, partition.partition_index] = partition.leader_id
    return found


async def keeps_metadata(manager: KafkaConnectionManager) -> bool:
    """Brokers that run with ZooKeeper do not speak of a quorum of their own."""
    await metadata(manager, [])
    request = ApiVersionsRequest(client_software_name="mirror-ledger", client_software_version="1")
    answer = await manager.send(request)
    require(answer.error_code, None)
    return any(api.api_key == _DESCRIBE_QUORUM for api in answer.api_keys)


async def acls_at(manager: KafkaConnectionManager, broker: int) -> frozenset[TopicAcl]:
    await metadata(manager, [])
    return await described_acls(manager, broker)


async def settings_at(
    manager: KafkaConnectionManager, broker: int, topics: Sequence[str], names: Sequence[str]
) -> dict[str, Mapping[str, str]]:
    await metadata(manager, [])
    answer = await described_settings(manager, topics, broker, names)
    for topic, reason in answer.refused.items():
        raise errors.TopicAuthorizationFailedError(f"{topic}: {reason}")
    return {topic: found.effective for topic, found in answer.read.items()}


async def authorizations(manager: KafkaConnectionManager) -> list[Authorization] | None:
    """Of every broker; None: the cluster has no authorizer."""
    brokers = [broker.node_id for broker in (await metadata(manager, [])).brokers]
    if not await _has_authorizer(manager):
        return None
    return [await _authorization(manager, broker) for broker in brokers]


async def _has_authorizer(manager: KafkaConnectionManager) -> bool:
    """A cluster without one says so to whoever asks for its rules."""
    request = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter="User:nobody",
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    answer = await manager.send(request)
    return bool(answer.error_code != errors.SecurityDisabledError.errno)


async def _authorization(manager: KafkaConnectionManager, broker: int) -> Authorization:
    """Unless a setting is given, Kafka's default holds; one that is given may be hidden as a secret would be."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[resource(resource_type=_BROKER, resource_name=str(broker), configuration_keys=None)],
        include_synonyms=False,
        include_documentation=False,
    )
    [result] = (await manager.send(request, node_id=broker)).results
    if issubclass(errors.for_code(result.error_code), errors.AuthorizationError):
        return Authorization(broker, None, None)
    require(result.error_code, result.error_message)
    given: dict[str, Any] = {setting.name: setting.value for setting in result.configs}
    if given.get(_AUTHORIZER) not in _KAFKAS_OWN:
        return Authorization(broker, None, None)
    return Authorization(broker, _super_users(given), _allows_everyone(given))


def _super_users(given: Mapping[str, str | None]) -> frozenset[str] | None:
    users = given.get(_SUPER_USERS, "")
    return None if users is None else frozenset(_names(users.split(";")))


def _names(texts: Collection[str]) -> list[str]:
    return [text.strip() for text in texts if text.strip()]


def _allows_everyone(given: Mapping[str, str | None]) -> bool | None:
    value = given.get(_EVERYONE, "false")
    return None if value is None else value.strip().lower() == "true"
