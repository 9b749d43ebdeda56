"""Error codes in answers of brokers: what is raised, and what only says that something is not there."""

from typing import Any

from kafka import errors

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


def error_of(error_code: int, detail: str | None) -> errors.KafkaError:
    """kafka-python's error for a code; of 0 it is `NoError`."""
    kind: Any = errors.for_code(error_code)
    error: errors.KafkaError = kind(detail or kind.description)
    return error


def require(error_code: int, detail: str | None) -> None:
    """Raise kafka-python's error for a code that is not zero."""
    if error_code != 0:
        raise error_of(error_code, detail)


def is_present(error_code: int, detail: str, absent: tuple[type[errors.KafkaError], ...]) -> bool:
    """Whether an entry holds an answer; codes other than those of absence are raised."""
    try:
        require(error_code, detail)
    except absent:
        return False
    return True
