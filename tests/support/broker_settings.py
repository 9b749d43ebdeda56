"""Settings of brokers that take effect while they run."""

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)


def set_broker_setting(servers: str, name: str, value: str) -> None:
    """Set a dynamic setting of broker 1."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": servers})  # held until it has answered
    client.incremental_alter_configs([resource])[resource].result(30)
