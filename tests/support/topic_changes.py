"""What happens to topics while a plan is carried out: also as a command, for the hook of a step."""

import sys
import time

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

_WITHIN_S = 30.0


def add_partitions(servers: str, topic: str, total: int) -> None:
    """So many there are then, empty ones among them."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(_WITHIN_S)
    _wait(admin, topic, total)


def recreate(servers: str, topic: str, partitions: int) -> None:
    """The same name, another id, and no record."""
    delete(servers, topic)
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_WITHIN_S)
    _wait(admin, topic, partitions)


def delete(servers: str, topic: str) -> None:
    """It is not shown any more then."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.delete_topics([topic])[topic].result(_WITHIN_S)
    _wait(admin, topic, 0)


def hook(change: str, servers: str, topic: str, partitions: int) -> str:
    """The command line that carries out one of these."""
    return f"{sys.executable} {__file__} {change} {servers} {topic} {partitions}"


def _wait(admin: AdminClient, topic: str, partitions: int) -> None:
    """Until the cluster shows so many, 0: until it does not show the topic."""
    deadline_s = time.monotonic() + _WITHIN_S
    while _shown(admin, topic) != partitions:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{topic} has not {partitions} partitions after {_WITHIN_S:g} s")
        time.sleep(0.05)


def _shown(admin: AdminClient, topic: str) -> int:
    topics = admin.list_topics(timeout=_WITHIN_S).topics
    return len(topics[topic].partitions) if topic in topics else 0


if __name__ == "__main__":
    change, servers, topic, partitions = sys.argv[1:]
    {"grow": add_partitions, "recreate": recreate}[change](servers, topic, int(partitions))
