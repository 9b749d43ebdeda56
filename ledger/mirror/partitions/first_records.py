"""Whether a stretch of a log holds records, and whose: asked batch by batch."""

from collections.abc import Callable

from ledger.domain.facts import TopicPartition
from ledger.ports.clusters import ClusterAdmin, headers_between


def first_record(
    admin: ClusterAdmin, partition: TopicPartition, start: int, end: int, *, is_decided: Callable[[int], bool]
) -> tuple[int, int] | None:
    """The first offset of `[start, end)` with a record, and its producer id; None: control batches and holes alone.

    `is_decided`: of which producer ids records do not count.
    """
    for found in headers_between(admin, partition, start, end):
        if found.count and not found.is_control and not is_decided(found.producer_id):
            return max(found.base_offset, start), found.producer_id
    return None
