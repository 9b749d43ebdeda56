"""Entries of answers of brokers: which of them hold something, and what absence is called."""

from kafka import errors

from ledger.adapters.kafka.cluster_connection import require

ABSENT_TOPIC = (errors.UnknownTopicOrPartitionError, errors.UnknownTopicIdError)
ABSENT_LEADER = (
    errors.LeaderNotAvailableError,
    errors.NotLeaderForPartitionError,
    errors.ReplicaNotAvailableError,
    errors.OffsetNotAvailableError,
    errors.KafkaStorageError,
    errors.FencedLeaderEpochError,
    errors.UnknownLeaderEpochError,
)


def is_present(error_code: int, detail: str, absent: tuple[type[errors.KafkaError], ...]) -> bool:
    """Whether an entry holds an answer; codes other than those of absence are raised."""
    try:
        require(error_code, detail)
    except absent:
        return False
    return True
