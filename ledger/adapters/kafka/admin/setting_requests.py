"""Requests about the settings of topics and brokers."""

from collections.abc import Mapping, Sequence
from typing import Any

from kafka import errors
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from ledger.adapters.kafka.admin.answers import ABSENT_TOPIC, require
from ledger.adapters.kafka.admin.topic_requests import controller, metadata
from ledger.ports.clusters import SettingsAnswer, TopicSettings

_TOPIC, _BROKER = 2, 4
_SET_ON_THE_TOPIC = 1
_SET, _DELETE = 0, 1


async def described_settings(
    manager: KafkaConnectionManager, topics: Sequence[str], broker: int | None = None
) -> SettingsAnswer:
    """Settings by topic; topics that do not exist are left out, refusals are returned one by one.

    As this broker has them; None: any.
    """
    answer = SettingsAnswer({}, {})
    for result in (await manager.send(_describe_configs(_TOPIC, topics), node_id=broker)).results:
        kind: Any = errors.for_code(result.error_code)
        if kind is errors.NoError:
            answer.read[result.resource_name] = _settings(result.configs)
        elif issubclass(kind, errors.AuthorizationError):
            answer.refused[result.resource_name] = result.error_message or kind.description
        elif not issubclass(kind, ABSENT_TOPIC):
            require(result.error_code, f"{result.resource_name}: {result.error_message}")
    return answer


async def broker_settings(
    manager: KafkaConnectionManager, node_ids: Sequence[int]
) -> dict[int, dict[str, str]]:
    """Every setting of these brokers, which each tells of itself."""
    await metadata(manager, [])
    found: dict[int, dict[str, str]] = {}
    for node_id in node_ids:
        answer = await manager.send(_describe_configs(_BROKER, [str(node_id)]), node_id=node_id)
        for result in answer.results:
            require(result.error_code, f"{result.resource_name}: {result.error_message}")
            found[node_id] = _effective(result.configs)
    return found


def _describe_configs(kind: int, names: Sequence[str]) -> DescribeConfigsRequest:
    # Not by `describe_configs`, which drops error codes.
    resource = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            resource(resource_type=kind, resource_name=name, configuration_keys=None) for name in names
        ],
        include_synonyms=False,
        include_documentation=False,
    )


def _effective(configs: Sequence[Any]) -> dict[str, str]:
    return {setting.name: setting.value for setting in configs if setting.value is not None}


def _settings(configs: Sequence[Any]) -> TopicSettings:
    effective = _effective(configs)
    own = {setting.name for setting in configs if setting.config_source == _SET_ON_THE_TOPIC}
    return TopicSettings({name: value for name, value in effective.items() if name in own}, effective)


async def change_settings(
    manager: KafkaConnectionManager, name: str, *, to_set: Mapping[str, str], to_remove: Sequence[str]
) -> None:
    """Change some of a topic's own settings. Raises kafka-python's error when it is refused."""
    # Not by `alter_configs`, which makes texts of errors.
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    changes = [
        resource.AlterableConfig(name=setting, config_operation=_SET, value=value)
        for setting, value in to_set.items()
    ] + [
        resource.AlterableConfig(name=setting, config_operation=_DELETE, value=None) for setting in to_remove
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=_TOPIC, resource_name=name, configs=changes)],
        validate_only=False,
    )
    for response in (await manager.send(request, node_id=await controller(manager))).responses:
        require(response.error_code, response.error_message)
