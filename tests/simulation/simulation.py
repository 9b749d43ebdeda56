"""One simulated life of a flow: a workload, a storm of faults, drivers that die and come back, then calm."""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence

from ledger.adapters.memory.fact_log import MemoryFactLog, MemoryLedgerState, MemoryOperationLog
from ledger.adapters.memory.kafka import MemoryCluster
from ledger.adapters.memory.schedule import Actor, Schedule
from ledger.adapters.memory.tables import MemoryLedger
from ledger.adapters.memory.writer_directory import memory_writer_directory
from ledger.config import FlowConfig, TargetMode
from ledger.domain.facts import OffsetSync
from ledger.domain.topic_following import TopicFollowing
from ledger.domain.topics import TopicSelection
from ledger.errors import ClusterUnavailableError, ShutOutError
from ledger.mirror import flow_driver
from ledger.mirror.assignments import StopCause
from ledger.mirror.flow_driver import FlowPorts
from ledger.mirror.flow_topics import FlowTopics
from ledger.mirror.following_record import FollowingRecord
from ledger.mirror.run_summary import RunSummary
from ledger.mirror.source_deletions import SourceDeletions
from ledger.mirror.sync_rows import recorded_sync
from tests.simulation.checks import Copied, check
from tests.simulation.processes import FOREVER_S, Cluster, DriverFactLog, Killed, Process, StormyStop
from tests.simulation.storm import Fault, Storm, StormyWeather
from tests.simulation.workload import MIRROR_PRODUCER_ID, SourcePartition, TopicKind, Workload

_STORM_S = 5.0
_CALM_S = 8.0
_FINAL_S = 120.0
_SURVIVABLE = (Killed, ShutOutError, ClusterUnavailableError)
_OTHER_FLOW = {
    "event": "claimed",
    "host": "elsewhere",
    "flow": "another-flow",
    "source_cluster": "south",
    "source_cluster_id": "cluster-of-south",
    "target_cluster": "east",
    "target_cluster_id": "cluster-of-east",
    "producer_id": MIRROR_PRODUCER_ID,
    "config_hash": None,
}


class Simulation:
    """Everything is drawn from the seed; `story` says what, for whoever reads a failure."""

    def __init__(self, seed: int) -> None:
        self._rng = rng = random.Random(seed)
        self.faults = self._draw_faults()
        self.schedule = Schedule()
        self.source = MemoryCluster("east", self.schedule)
        self.target = MemoryCluster("west", self.schedule)
        self.weather = StormyWeather(rng, loses=Fault.LOST_CONNECTIONS in self.faults)
        self.workload = Workload(rng, self.schedule, self.source, old_timestamps=rng.random() < 0.4)
        self._kinds = self._draw_topics()
        self._flow = self._draw_flow()
        self._ledger = MemoryLedger()
        self._fact_log = MemoryFactLog(self._ledger, self.schedule)
        self._fact_log.claim("flow:another-flow", [], _OTHER_FLOW)
        self._state = MemoryLedgerState(self._ledger)
        self._operations = MemoryOperationLog(self._ledger, self.schedule)
        self._living: list[tuple[Process, Cluster, StormyStop, Actor]] = []
        self._is_over = False
        self.tally: Counter[str] = Counter()
        self.storm = Storm(rng, self.schedule, self.source, self.target, self._own_faults())

    @property
    def story(self) -> str:
        return (
            f"{', '.join(self._kinds)}; target {self._flow.target_mode}, {self._flow.tasks} tasks, rounds of "
            f"{self._flow.round_seconds} s; faults: {', '.join(self.faults) or 'none'}"
        )

    def _draw_faults(self) -> list[Fault]:
        faults = [fault for fault in Fault if self._rng.random() < 0.4]
        if Fault.ZOMBIES in faults and Fault.NODES_RESTART in faults:
            # A zombie may write again what a restarted broker has forgotten: promised to be found, not prevented.
            faults.remove(self._rng.choice((Fault.ZOMBIES, Fault.NODES_RESTART)))
        return faults

    def _draw_topics(self) -> list[TopicKind]:
        kinds = [self._rng.choice(list(TopicKind)) for _ in range(self._rng.randint(1, 3))]
        for number, kind in enumerate(kinds):
            self.workload.add_topic(f"{kind}-{number}", kind, self._rng.randint(1, 3))
        return kinds

    def _draw_flow(self) -> FlowConfig:
        return FlowConfig(
            name="flow",
            source="east",
            target="west",
            topics=(".*",),
            target_mode=self._rng.choice(list(TargetMode)),
            tasks=self._rng.randint(1, 3),
            round_seconds=self._rng.choice((0.25, 0.5, 1.5)),
            topic_refresh_seconds=0.5,
        )

    # -- drivers ---------------------------------------------------------------------------------

    def _own_faults(self) -> dict[Fault, Callable[[], None]]:
        return {
            Fault.TASKS_DIE: self._kill_task,
            Fault.DRIVERS_DIE: self._kill_driver,
            Fault.ZOMBIES: self._lose_sight,
            Fault.COMPACTION: self.workload.compact,
        }

    def _attempts(self) -> list[Process]:
        return [attempt for _, cluster, _, _ in self._living for attempt in cluster.attempts]

    def _kill_task(self) -> None:
        if attempts := self._attempts():
            self._rng.choice(attempts).kill()
            self.tally["tasks killed"] += 1

    def _kill_driver(self) -> None:
        if not self._living:
            return
        process, cluster, _, _ = self._rng.choice(self._living)
        process.kill()
        self.tally["drivers killed"] += 1
        if self._rng.random() < 0.5:
            for attempt in cluster.attempts:
                attempt.kill()

    def _lose_sight(self) -> None:
        """Give up a task attempt or a driver that goes on living."""
        attempts = self._attempts()
        if attempts and self._rng.random() < 0.6:
            self._rng.choice(attempts).is_lost = True
        elif self._living:
            self._rng.choice(self._living)[0].is_lost = True
        self.tally["zombies"] += 1

    def _start_driver(self, *, until_caught_up: bool) -> Actor:
        process = Process("driver")
        writers = memory_writer_directory(self._ledger, f"cluster-of-{self.source.alias}")
        cluster = Cluster(
            self._rng, self.schedule, (self.source, self.target), self.weather, writers, process
        )
        stop = StormyStop(self.schedule, process)
        actor = self.schedule.spawn(
            "driver", lambda: self._drive(process, cluster, stop, until_caught_up=until_caught_up)
        )
        self._living.append((process, cluster, stop, actor))
        return actor

    def _drive(self, process: Process, cluster: Cluster, stop: StormyStop, *, until_caught_up: bool) -> None:
        record = FollowingRecord(self._flow.name, self._operations, self._state)
        topics = FlowTopics(
            TopicSelection(self._flow.topics),
            TopicFollowing(self._flow.naming, 3),
            self.source,
            self.target,
            record,
            SourceDeletions(self.source, self.target, record, delete_topics=False),
        )
        ports = FlowPorts(
            source=self.source,
            target=self.target,
            fact_log=DriverFactLog(self._rng, self.schedule, self._fact_log, process),
            state=self._state,
            operations=self._operations,
            runner=cluster,
            clock=self.schedule,
        )
        flow_driver.run_flow(
            self._flow,
            topics,
            ports,
            host="driver",
            until_caught_up=until_caught_up,
            stop=stop,
            on_round=self._count,
        )

    def _count(self, _summary: RunSummary) -> None:
        self.tally["rounds"] += 1

    def _supervise(self) -> None:
        """Start a driver again whenever the last one has died, or is believed to have."""
        while not self._is_over:
            self._start_driver(until_caught_up=False)
            process, _, _, actor = self._living[-1]
            self.schedule.wait(FOREVER_S, self._is_given_up(process, actor))
            self._bury_the_dead()
            self.schedule.wait(self._rng.uniform(0.01, 0.2))

    def _is_given_up(self, process: Process, actor: Actor) -> Callable[[], bool]:
        return lambda: actor.done or process.is_lost or self._is_over

    def _bury_the_dead(self) -> None:
        for entry in list(self._living):
            actor = entry[3]
            if actor.done:
                self._living.remove(entry)
                if actor.error is not None and not isinstance(actor.error, _SURVIVABLE):
                    raise actor.error
                self.tally[f"drivers ended by {type(actor.error).__name__}"] += 1

    # -- a life ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Storm, calm, one last run until caught up; then everything is checked."""
        self.workload.start()
        self.storm.start(self.faults)
        supervisor = self.schedule.spawn("supervisor", self._supervise)
        self.schedule.wait(_STORM_S, lambda: supervisor.done)
        self._calm_down()
        self.schedule.join(supervisor, seconds=_CALM_S)
        self.schedule.wait(_CALM_S, lambda: all(entry[3].done for entry in self._living))
        self.schedule.wait(_CALM_S)
        self._bury_the_dead()
        assert not self._living, "a driver did not stop"
        self.schedule.join(self._start_driver(until_caught_up=True), seconds=_FINAL_S)
        self._check()

    def _calm_down(self) -> None:
        self._is_over = True
        self.storm.end()
        self.weather.is_over = True
        self.workload.stop()
        for _, _, stop, _ in self._living:
            stop.is_asked = True

    def _rows(self, table: str) -> Sequence[dict[str, object]]:
        return list(self._ledger.at(self._ledger.latest()).relation(table).to_pylist())

    def _check(self) -> None:
        syncs = [recorded_sync(row).sync for row in self._rows("offset_syncs")]
        for partition in self.workload.partitions:
            copied = self._copied(partition, syncs)
            check(copied)
            self._tally_partition(copied)
        is_stopped = any(name.startswith("stopped by") for name in self.tally)
        assert self.tally["records"] > 0 or is_stopped, "nothing was copied"

    def _copied(self, partition: SourcePartition, syncs: Sequence[OffsetSync]) -> Copied:
        target = self._flow.naming.target_name(partition.topic)
        key = (self.source.topic_by_name[partition.topic].topic_id, partition.number)
        own = [sync for sync in syncs if (sync.source.topic_id, sync.source.partition) == key]
        return Copied(
            partition,
            self.workload.log(partition),
            self.target.log(target, partition.number),
            tuple(sorted(own, key=lambda sync: (sync.source_start, sync.target_start))),
            self._allowed_stop(key, partition, (target, partition.number)),
            stops_told=frozenset(StopCause(str(row["reason"])) for row in self._stops(key)),
            is_exclusive=self._flow.target_mode is TargetMode.EXCLUSIVE,
        )

    def _stops(self, key: tuple[str, int]) -> list[dict[str, object]]:
        return [row for row in self._rows("operations") if _is_about(row, key)]

    def _allowed_stop(
        self, key: tuple[str, int], partition: SourcePartition, target: tuple[str, int]
    ) -> StopCause | None:
        """Why the partition stopped; only two reasons are good ones."""
        if key not in self._state.stopped_partitions("flow"):
            return None
        stops = self._stops(key)
        cause = StopCause(str(stops[-1]["reason"]))
        is_exclusive = self._flow.target_mode is TargetMode.EXCLUSIVE
        allowed = {
            StopCause.FOREIGN_WRITE: is_exclusive and target in self.storm.foreign,
            # Cleaned at the source between the write and the recovery: the pairs can no longer be proved.
            StopCause.TAIL_MISMATCH: partition.kind is TopicKind.COMPACTED
            and Fault.COMPACTION in self.faults,
        }
        assert allowed.get(cause), stops
        return cause

    def _tally_partition(self, copied: Copied) -> None:
        if copied.stop is not None:
            self.tally[f"stopped by {copied.stop}"] += 1
        for sync in copied.syncs:
            self.tally["records"] += sync.records
            self.tally["recovered"] += sync.records if sync.recovered else 0
            self.tally["raw batches"] += sync.raw_batches
            self.tally["record path batches"] += sync.record_path_batches
            for gap in sync.gaps:
                self.tally[f"gaps {gap.cause}"] += 1


def _is_about(row: dict[str, object], key: tuple[str, int]) -> bool:
    content = json.loads(str(row["content"]))
    return row["kind"] == "partition_stopped" and (content["topic_id"], content["partition"]) == key
