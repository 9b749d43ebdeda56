"""Waiting for what somebody else does: asked often, given up loudly."""

import time
from collections.abc import Callable

import pytest

from ledger.facts.syncs import TopicPartition
from ledger.kafka.copying import ClusterLink

WITHIN_S = 120.0  # an upper bound, for machines that are busy; no test is meant to reach it
_EVERY_S = 0.05


def eventually(holds: Callable[[], bool], what: str, *, within_s: float = WITHIN_S) -> None:
    """Return as soon as it holds; fails the test with `what` when it does not within the time.

    To ask a ledger takes longer than a pause: who waits pauses for twice as long as asking took, for brokers and
    drivers that are waited for share the machine.
    """
    asked_s = time.monotonic()
    deadline_s = asked_s + within_s
    while not holds():
        answered_s = time.monotonic()
        if answered_s > deadline_s:
            pytest.fail(f"not within {within_s:.0f} s: {what}")
        time.sleep(max(_EVERY_S, 2 * (answered_s - asked_s)))
        asked_s = time.monotonic()


def leading_node(link: ClusterLink, partition: TopicPartition) -> int:
    """The broker that leads a partition, as soon as its cluster says so.

    A link waits for an answer only as long as a copy may be held up: on a busy machine the first comes too late.
    """

    def is_led() -> bool:
        link.refresh([partition.topic])
        return link.leader(partition) is not None

    eventually(is_led, f"{partition.topic}-{partition.partition} has a leader")
    node = link.leader(partition)
    assert node is not None
    return node
