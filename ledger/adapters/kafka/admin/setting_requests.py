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
    manager: KafkaConnectionManager,
    topics: Sequence[str],
    broker: int | None = None,
    names: Sequence[str] | None = None,
) -> SettingsAnswer:
    """Settings by topic; topics that do not exist are left out, refusals are returned one by one.

    As this broker has them; None: any. `names`: of the settings, None: all.
    """
    answer = SettingsAnswer({}, {})
    for result in (await manager.send(_describe_configs(_TOPIC, topics, names), node_id=broker)).results:
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


def _describe_configs(
    kind: int, of: Sequence[str], names: Sequence[str] | None = None
) -> DescribeConfigsRequest:
    # Not by `describe_configs`, which drops error codes.
    resource = DescribeConfigsRequest.DescribeConfigsResource
    keys = None if names is None else list(names)
    return DescribeConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=one, configuration_keys=keys) for one in of],
        include_synonyms=False,
        include_documentation=False,
    )


def _effective(configs: Sequence[Any]) -> dict[str, str]:
    return {setting.name: setting.value for setting in configs if setting.value is not None}


def _settings(configs: Sequence[Any]) -> TopicSettings:
    effective = _effective(configs)
    own = {setting.name for setting in configs if setting.config_source == _SET_ON_THE_TOPIC}
    return TopicSettings({name: value for name, value in effective.items() if name in own}, effective)


async def change_settings_of(
    manager: KafkaConnectionManager, changes: Mapping[str, Mapping[str, str | None]]
) -> None:
    """Change own settings of topics, by topic and setting; None: it is removed.

    Raises kafka-python's error at the first topic that is refused; the others are changed all the same.
    """
    # Not by `alter_configs`, which makes texts of errors.
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    alterable = resource.AlterableConfig
    request = IncrementalAlterConfigsRequest(
        resources=[
            resource(
                resource_type=_TOPIC,
                resource_name=topic,
                configs=[
                    alterable(name=setting, config_operation=_DELETE if value is None else _SET, value=value)
                    for setting, value in values.items()
                ],
            )
            for topic, values in changes.items()
        ],
        validate_only=False,
    )
    for response in (await manager.send(request, node_id=await controller(manager))).responses:
        require(response.error_code, response.error_message)
