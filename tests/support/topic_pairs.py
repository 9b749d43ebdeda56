"""Pairs of topics as doctor has measured them."""

from ledger.doctor.results import Unmeasured
from ledger.doctor.topic_settings import SideOfPair, TopicPair

UNBOUNDED_MS = 2**63 - 1
GOOD = {
    "max.message.bytes": "1048588",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(UNBOUNDED_MS),
    "message.timestamp.after.max.ms": str(UNBOUNDED_MS),
}
NOT_KNOWN = Unmeasured("not told")


def pair(
    *,
    source: dict[str, str] | None = None,
    target: dict[str, str] | None = None,
    partitions: tuple[int, int] = (3, 3),
    replicas: tuple[int, int] = (3, 3),
    exists: bool = True,
) -> TopicPair:
    return TopicPair(
        SideOfPair("a", partitions[0], replicas[0], {**GOOD, **(source or {})}),
        SideOfPair("east.a", partitions[1], replicas[1], {**GOOD, **(target or {})}),
        exists,
    )
