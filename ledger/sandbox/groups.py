"""Consumer groups as applications run them: subscribe, read, commit, stop somewhere, resume elsewhere."""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from ledger.errors import ClusterUnavailableError
from ledger.sandbox.reading import (
    MESSAGES_AT_ONCE,
    POLL_S,
    Partition,
    Readings,
    is_end,
    placed,
    position,
    reader_properties,
)
from ledger.sandbox.workload import Workload

GROUP_TIMEOUT_S = 60.0
TO_THE_END = 2**63 - 1


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """How far a group reads: per partition the first offset that it leaves, `TO_THE_END`, or 0 for nothing."""

    group_id: str
    stops: Mapping[Partition, int]

    @property
    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.stops})


def plan_groups(workload: Workload, ends: Mapping[Partition, int]) -> list[GroupPlan]:
    """Groups that leave the workload's topics at uneven positions: among gaps, at the very end, at nothing."""
    chance = random.Random(workload.seed)

    def of(*topics: str) -> list[Partition]:
        return sorted(partition for partition in ends if partition[0] in topics)

    def uneven(*topics: str) -> dict[Partition, int]:
        return {partition: int(ends[partition] * chance.uniform(0.2, 0.8)) for partition in of(*topics)}

    *others, last = workload.event_topics
    half = len(others) // 2
    return [
        GroupPlan("billing", uneven(*others[:half])),
        GroupPlan("search", uneven(*others[half:])),
        GroupPlan("archive", dict.fromkeys(of(last), TO_THE_END)),
        GroupPlan("accounting", uneven(workload.transfers)),
        GroupPlan("stockroom", uneven(workload.inventory)),
        GroupPlan("newcomer", {**dict.fromkeys(of(workload.stamped), 0), **_first(uneven(workload.stamped))}),
    ]


def _first(stops: Mapping[Partition, int]) -> dict[Partition, int]:
    return dict(list(stops.items())[:1])


def consume(servers: str, plan: GroupPlan) -> Readings:
    """Read as planned, commit synchronously behind the last record of each partition, and leave the group."""
    consumer = Consumer(reader_properties(servers, plan.group_id))
    try:
        consumer.subscribe(plan.topics)
        read = _read_up_to(consumer, plan)
        _commit(consumer, read)
        return read
    finally:
        consumer.close()


def resume(servers: str, group_id: str, partitions: Sequence[Partition]) -> Readings:
    """Start a group at its committed offsets, or at the log start without one, and read everything."""
    return consume(servers, GroupPlan(group_id, dict.fromkeys(partitions, TO_THE_END)))


def _read_up_to(consumer: Consumer, plan: GroupPlan) -> Readings:
    """Records below the stops. What was fetched beyond a stop does not count as read."""
    read: Readings = {partition: [] for partition in plan.stops}
    reading = {partition for partition, stop in plan.stops.items() if stop > 0}
    deadline_s = time.monotonic() + GROUP_TIMEOUT_S
    while reading:
        if time.monotonic() > deadline_s:
            raise ClusterUnavailableError(
                f"group {plan.group_id} read {sum(map(len, read.values()))} records, then nothing more of "
                f"{sorted(reading)} within {GROUP_TIMEOUT_S:.0f} s; nothing was committed"
            )
        for message in consumer.consume(MESSAGES_AT_ONCE, timeout=POLL_S):
            at, offset = position(message)
            if is_end(message) or offset >= plan.stops[at]:
                reading.discard(at)
            elif at in reading:
                read[at].append(placed(message, offset))
    return read


def _commit(consumer: Consumer, read: Readings) -> None:
    offsets = [
        ClientPartition(topic, partition, records[-1].offset + 1)
        for (topic, partition), records in read.items()
        if records
    ]
    if offsets:
        consumer.commit(offsets=offsets, asynchronous=False)
