"""Ends of a partition, asked for by name and believed only for the incarnation that is meant."""

from ledger.domain.facts import TopicPartition
from ledger.ports.clusters import ClusterAdmin, PartitionEnds


def ends_of_incarnation(admin: ClusterAdmin, partition: TopicPartition) -> PartitionEnds | None:
    """The ends as of now; None without a leader, and when the topic was deleted or is another one by now."""
    ends = admin.ends([(partition.topic, partition.partition)]).get((partition.topic, partition.partition))
    # Checked afterwards: a topic id never comes back, so the ends were those of this incarnation.
    described = admin.topics().get(partition.topic)
    return ends if described is not None and described.topic_id == partition.topic_id else None
