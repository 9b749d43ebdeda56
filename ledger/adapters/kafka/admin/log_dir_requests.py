"""Requests about what lies in the log directories of brokers."""

from collections.abc import Mapping

from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import DescribeLogDirsRequest

from ledger.adapters.kafka.admin.answers import require
from ledger.adapters.kafka.admin.topic_requests import metadata


async def partition_sizes(
    manager: KafkaConnectionManager, topics: Mapping[str, int]
) -> dict[tuple[str, int], int]:
    """The largest replica of each partition; brokers tell only what they hold themselves."""
    # Not by `describe_log_dirs`, which drops the error code of the answer: what may not be seen seems empty.
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    request = DescribeLogDirsRequest(
        topics=[topic(topic=name, partitions=list(range(count))) for name, count in topics.items()]
    )
    found: dict[tuple[str, int], int] = {}
    for broker in (await metadata(manager, [])).brokers:
        answer = await manager.send(request, node_id=broker.node_id)
        require(getattr(answer, "error_code", 0) or 0, None)
        for topic in (t for result in answer.results for t in result.topics):
            for entry in topic.partitions:
                key = (topic.name, entry.partition_index)
                found[key] = max(found.get(key, 0), entry.partition_size)
    return found
