"""The ports of a simulated driver: what it does to the ledger and to clusters, until it dies."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from ledger.clock import Clock
from ledger.facts.state import WriterClaim
from ledger.facts.syncs import WriterEvent
from ledger.facts.tables import Row
from ledger.topics.following import NewTopic
from tests.simulation.crash_points import CrashPoint
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.simulation.ledger.tables import MemoryLedger
from tests.simulation.processes import Process


class DriverFactLog(MemoryFactLog):
    """The fact log as one driver sees it: an append under way when the driver dies is made or not."""

    def __init__(
        self, ledger: MemoryLedger, clock: Clock, rng: random.Random, schedule: Schedule, process: Process
    ) -> None:
        super().__init__(ledger, clock)
        self._rng = rng
        self._schedule = schedule
        self._process = process

    def claim(self, writer: str, tables: Sequence[str], row: Row, *, after: int | None = None) -> WriterClaim:
        self._pass_time(0.1)
        claim = super().claim(writer, tables, row, after=after)
        self._process.reach(CrashPoint.CLAIM_RECORDED)
        self._pass_time(0.1)
        return claim

    def _between_commits(self) -> None:
        self._process.reach(CrashPoint.EPOCH_CLAIMED_ON_ONE_TABLE)
        self._pass_time(0.2)

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        if table == "operations":
            self._process.check()
            super().append(claim, table, round_number, rows)
            self._process.reach(CrashPoint.OPERATION_RECORDED)
            return
        self._pass_time(0.4)
        super().append(claim, table, round_number, rows)
        is_release = any(row.get("event") == WriterEvent.RELEASED for row in rows)
        self._process.reach(CrashPoint.RELEASED if is_release else CrashPoint.FACTS_APPENDED)
        self._pass_time(0.2)

    def _pass_time(self, at_most_s: float) -> None:
        self._schedule.wait(self._rng.uniform(0, at_most_s), lambda: self._process.is_killed)
        self._process.check()


class DriverAdmin:
    """Implements `ClusterAdmin`: what a driver asks of a cluster, until it dies."""

    def __init__(self, cluster: MemoryCluster, process: Process) -> None:
        self._cluster = cluster
        self._process = process

    def __getattr__(self, name: str) -> Any:
        self._process.check()
        return getattr(self._cluster, name)

    def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, configuration: Mapping[str, str]
    ) -> None:
        self._process.check()
        self._cluster.create_topic(
            name, partitions=partitions, replication_factor=replication_factor, configuration=configuration
        )
        self._process.reach(CrashPoint.TOPIC_CREATED)

    def create_topics(self, wanted: Sequence[NewTopic]) -> dict[str, str]:
        self._process.check()
        created = self._cluster.create_topics(wanted)
        self._process.reach(CrashPoint.TOPIC_CREATED)
        return created

    def add_partitions(self, name: str, *, total: int) -> None:
        self._process.check()
        self._cluster.add_partitions(name, total=total)
        self._process.reach(CrashPoint.PARTITIONS_ADDED)

    def allocate_producer_id(self) -> int:
        self._process.check()
        allocated = self._cluster.allocate_producer_id()
        self._process.reach(CrashPoint.PRODUCER_ID_ALLOCATED)
        return allocated
