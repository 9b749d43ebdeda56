"""Whether applications have written at the target since it took over: by the headers of what lies behind the cut."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ledger.domain.facts import TopicPartition
from ledger.ports.clusters import ClusterAdmin, headers_between

IsMirror = Callable[[int], bool]
"""Whether a flow has recorded this producer id at the cluster. Asked only behind the fetch of a batch with it."""


@dataclass(frozen=True, slots=True, order=True)
class Behind:
    """A partition that took over, and the offset from which on applications write."""

    topic: str
    topic_id: str
    partition: int
    offset: int


def written_behind(target: ClusterAdmin, partitions: Sequence[Behind], is_mirror: IsMirror) -> list[str]:
    """Why applications have written, or may have, a line for each partition; markers and mirrors do not count.

    Raises `ClusterUnavailableError` where a partition cannot be read: unknown is not nothing.
    """
    topics = target.topics()
    lines = []
    for one in partitions:
        live = topics.get(one.topic)
        if live is None or live.topic_id != one.topic_id:
            lines.append(f"{one.topic} of {target.alias} is another topic by now, or not shown")
            continue
        why = _why(target, one, is_mirror)
        if why is not None:
            lines.append(f"{one.topic} partition {one.partition}: {why}")
    return sorted(set(lines))


def application_offsets(
    cluster: ClusterAdmin, at: TopicPartition, start: int, end: int, is_mirror: IsMirror
) -> int:
    """How many offsets between these hold what applications wrote: no marker of a transaction, nothing of a mirror."""
    return sum(
        min(header.end_offset, end) - max(header.base_offset, start)
        for header in headers_between(cluster, at, start, end)
        if not header.is_control and not is_mirror(header.producer_id)
    )


def _why(target: ClusterAdmin, at: Behind, is_mirror: IsMirror) -> str | None:
    ends = target.ends([(at.topic, at.partition)]).get((at.topic, at.partition))
    if ends is None:
        return "it has no leader, so nobody knows what was written"
    if ends.log_start > at.offset:
        return f"records from {at.offset} on were deleted: nobody knows who wrote them"
    place = TopicPartition(at.topic, at.topic_id, at.partition)
    for header in headers_between(target, place, at.offset, ends.high_watermark):
        if not header.is_control and not is_mirror(header.producer_id):
            return f"an application has written at offset {max(header.base_offset, at.offset)}"
    return None
