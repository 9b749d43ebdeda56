"""Members of share groups, which read from the start of a topic unless told otherwise."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource


@contextmanager
def share_consumer(servers: str, group: str, topic: str) -> Iterator[ShareConsumer]:
    """A member that has subscribed."""
    setting = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[setting])
    client_of_groups = AdminClient({"bootstrap.servers": servers})
    client_of_groups.incremental_alter_configs([resource])[resource].result(30)
    client = ShareConsumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    client.subscribe([topic])
    try:
        yield client
    finally:
        client.close()
