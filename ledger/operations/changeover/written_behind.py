"""Whether applications have written at the target since it took over: by the headers of what lies behind the cut."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ledger.domain.facts import TopicPartition
from ledger.ports.clusters import ClusterAdmin, PartitionEnds, headers_between

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
    return sorted({words for _, words in found_behind(target, partitions, is_mirror)})


def found_behind(
    target: ClusterAdmin, partitions: Sequence[Behind], is_mirror: IsMirror
) -> list[tuple[Behind, str]]:
    """The same beside the partition; all ends are asked for at once, and only what lies behind one is read."""
    topics = target.topics()
    ends = target.ends(sorted({(one.topic, one.partition) for one in partitions if one.topic in topics}))
    found = []
    for one in partitions:
        live = topics.get(one.topic)
        if live is None or live.topic_id != one.topic_id:
            found.append((one, f"{one.topic} of {target.alias} is another topic by now, or not shown"))
            continue
        why = _why(target, one, ends.get((one.topic, one.partition)), is_mirror)
        if why is not None:
            found.append((one, f"{one.topic} partition {one.partition}: {why}"))
    return found


def application_offsets(
    cluster: ClusterAdmin, at: TopicPartition, start: int, end: int, is_mirror: IsMirror
) -> int:
    """How many offsets between these hold what applications wrote: no marker of a transaction, nothing of a mirror."""
    return sum(
        min(header.end_offset, end) - max(header.base_offset, start)
        for header in headers_between(cluster, at, start, end)
        if not header.is_control and not is_mirror(header.producer_id)
    )


def _why(target: ClusterAdmin, at: Behind, ends: PartitionEnds | None, is_mirror: IsMirror) -> str | None:
    if ends is None:
        return "it has no leader, so nobody knows what was written"
    if ends.log_start > at.offset:
        return f"records from {at.offset} on were deleted: nobody knows who wrote them"
    place = TopicPartition(at.topic, at.topic_id, at.partition)
    for header in headers_between(target, place, at.offset, ends.high_watermark):
        if not header.is_control and not is_mirror(header.producer_id):
            return f"an application has written at offset {max(header.base_offset, at.offset)}"
    return None
