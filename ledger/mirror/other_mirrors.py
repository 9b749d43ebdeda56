"""Whether MirrorMaker 2 may be at work at a target that nothing is written to just now.

A source that is silent keeps its mirror silent, too. What the target holds tells: the workers of Kafka Connect are
members of a group there, and heartbeats and checkpoints are written to topics of their own.
"""

from collections.abc import Iterator

from ledger.clock import Clock
from ledger.errors import PreconditionError
from ledger.kafka.cluster import ClusterAdmin
from ledger.topics.naming import CHECKPOINTS, HEARTBEATS, matches_any

_CONNECT = "connect"
_AT_REST = ("Empty", "Dead")
_WRITTEN_AT_WORK = (*HEARTBEATS, CHECKPOINTS, r"mm2-offset-syncs\..+\.internal")
"""What it writes while it mirrors; what its workers keep for themselves they write when they end as well."""
_RECENT_MS = 150_000  # checkpoints are written once a minute


def signs_of_mirror_maker(target: ClusterAdmin, clock: Clock) -> list[str]:
    """What speaks for it, in words; what may not be read speaks for it too."""
    try:
        return [*_workers(target), *_written_lately(target, clock.now_ms())]
    except PreconditionError as error:
        return [f"whether MirrorMaker still runs is unknown: {error}"]


def _workers(target: ClusterAdmin) -> Iterator[str]:
    groups = [
        group.group_id
        for group in target.groups()
        if group.protocol_type == _CONNECT and group.group_state not in _AT_REST
    ]
    if groups:
        yield (
            f"Kafka Connect is at work at {target.alias} (group {', '.join(groups)}): when that is the MirrorMaker "
            "which has filled the topic, stop it before the flow runs"
        )


def _written_lately(target: ClusterAdmin, now_ms: int) -> Iterator[str]:
    partitions = [
        (name, partition)
        for name, topic in sorted(target.topics().items())
        if matches_any(_WRITTEN_AT_WORK, name)
        for partition in range(topic.partitions)
    ]
    recent = target.offsets_at(partitions, now_ms - _RECENT_MS) if partitions else {}
    if recent:
        topics = ", ".join(sorted({name for name, _ in recent}))
        yield (
            f"{topics} at {target.alias} was written to within {_RECENT_MS // 1000} s, as MirrorMaker does: stop it "
            "before the flow runs"
        )
