"""Applications of the demonstration: what they wrote and read at the source, and what they write after it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.cli.processes.demo.showing import Progress
from ledger.sandbox.filling import RECORDS_ARE_OLDER_BY_MS, produce
from ledger.sandbox.groups import GroupPlan, consume, plan_groups
from ledger.sandbox.log_gaps import KEPT_AS_IT_IS, configure, wait_until_cleaned
from ledger.sandbox.reading import Partition, Readings, ends, read_partitions, read_topics
from ledger.sandbox.workload import Delivery, RecordSource, Workload


@dataclass(frozen=True, slots=True)
class Source:
    """What was known of the source before it was lost: its records, and what its groups had read.

    `ends`: where each partition ended then; `more`: records that were written nowhere yet.
    """

    workload: Workload
    survivors: Readings
    ends: dict[Partition, int]
    groups: Sequence[GroupPlan]
    read: dict[str, Readings]
    more: RecordSource

    @property
    def records(self) -> int:
        return sum(map(len, self.survivors.values()))


def prepare_source(servers: str, shown: Progress, records: int) -> Source:
    """Topics of every kind, and groups that have read a part of each."""
    workload = Workload(
        records_per_topic=records, started_ms=time.time_ns() // 1_000_000 - RECORDS_ARE_OLDER_BY_MS
    )
    with shown.step("produce on east") as step:
        made = produce(servers, workload, step.update)
        step.outcome = f"{made:,} records in {len(workload.topics)} topics"
    with shown.step("read and commit a part on east") as step:
        groups = plan_groups(workload, ends(servers, workload.topics))
        read = {plan.group_id: consume(servers, plan) for plan in groups}
        total = sum(len(records) for by_partition in read.values() for records in by_partition.values())
        step.outcome = f"{total:,} records in {len(groups)} groups"
    with shown.step("wait for the cleaner on east") as step:
        gaps = wait_until_cleaned(servers, workload.inventory)
        configure(servers, workload.inventory, KEPT_AS_IT_IS)
        step.outcome = f"{sum(gaps.values()):,} offsets of {workload.inventory} have no record any more"
    with shown.step("remember what a client reads on east") as step:
        ended = ends(servers, workload.topics)
        survivors = read_topics(servers, workload.topics)
        step.outcome = f"{sum(map(len, survivors.values())):,} committed records"
    more = RecordSource(workload)
    more.taken = made
    return Source(workload, survivors, ended, groups, read, more)


def write_more(servers: str, source: Source, records: int) -> Readings:
    """New records to each topic of events; returns what a client that knows of no mirror reads of them."""
    topics = source.workload.event_topics
    before = ends(servers, list(topics))
    for topic, codec in topics.items():
        delivery = Delivery(servers, {"compression.type": codec})
        for record in source.more.take(topic, records):
            delivery.send(topic, source.more.partition(), record)
        delivery.finish()
    return read_partitions(servers, before)
