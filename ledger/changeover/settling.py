"""Settles a flow: its target is read behind what is recorded, and what of it the flow wrote is recorded, unpaired.

For a flow whose driver and whose source are dead. What was copied and not recorded is at the target all the same:
applications that continue there read it, so it is not lost, and translations must not pass it. With the source back,
the flow's next driver voids these rows and pairs the records with the source's ("Settling", PROTOCOL.md).

Run twice, or again after a crash at any point, it comes to the same end: it begins at what is recorded by then. The
operation is appended before the offset syncs that it tells of, so that no such row is without one.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from ledger.changeover.brought import paired
from ledger.clock import Clock
from ledger.config.values import FlowConfig, TargetMode
from ledger.context import Context, driver_operations, require_stopped
from ledger.errors import ClusterUnavailableError, PreconditionError, ProtocolError, RefusedPartitionError
from ledger.facts.identity import FlowProducer, LiveCluster
from ledger.facts.operations import Settled, Why
from ledger.facts.state import FactLog, LedgerState
from ledger.facts.syncs import FlowPosition, OffsetSync, PartitionPair, SyncCause, TopicPartition
from ledger.kafka.cluster import ClusterAdmin, PartitionEnds
from ledger.kafka.copying import Network
from ledger.kafka.partition_reader import PartitionReader
from ledger.mirror.assignment import Assignment
from ledger.mirror.driver import claim_row, claimed_behind
from ledger.mirror.sync_builder import SyncBuilder
from ledger.mirror.tail import ForeignRecords, TargetTail, another_record, unreadable
from ledger.store.session import ClaimedOperations
from ledger.words import counted

# Unrecorded ---------------------------------------------------------------------------------------
# Reads a target partition behind a flow's recorded end, without its source: what of it the flow wrote.


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """`syncs`: the flow's own records, none of them paired; `end`: up to where the target was read.

    `others`: what other writers left between, None: nothing.
    """

    syncs: tuple[OffsetSync, ...]
    end: int
    others: ForeignRecords | None

    @property
    def records(self) -> int:
        return sum(sync.records for sync in self.syncs)


class TargetReading:
    """One partition, from the flow's last recorded record to the target's high watermark.

    The last record is read first: where another one lies there the target has lost its end, and what came since
    is not behind what was recorded.
    """

    def __init__(self, assignment: Assignment, ends: PartitionEnds, network: Network, clock: Clock) -> None:
        self._assignment = assignment
        self._ends = ends
        self._reader = PartitionReader(
            network,
            network.target,
            clock,
            assignment.target,
            committed=False,
            undone="nothing of the partition was settled",
        )
        self._builder = SyncBuilder(assignment)
        self._others: ForeignRecords | None = None

    def read(self) -> Unrecorded:
        """Raises `RefusedPartitionError` where the target does not hold what was recorded, and
        `ClusterUnavailableError` where it cannot be read for half a minute."""
        at = self._assignment.position
        if self._ends.high_watermark < at.target_offset:
            raise RefusedPartitionError(
                f"the target ends at offset {self._ends.high_watermark}, the flow's record of it at "
                f"{at.target_offset}: it lost its end; nothing of the partition was settled. The flow itself finds "
                "what is left of it when its source is back"
            )
        tail = TargetTail(start=self._start())
        while not tail.complete:
            self._add(tail)
            self._take(tail)
        return Unrecorded(self._builder.syncs(), tail.position, self._others)

    def _start(self) -> int:
        at = self._assignment.position
        has_last = at.next_sequence > 0 and at.target_offset > self._ends.log_start
        return max(at.target_offset - 1 if has_last else at.target_offset, self._ends.log_start)

    def _add(self, tail: TargetTail) -> None:
        fetched = self._reader.fetched(tail.position, min_bytes=0)
        try:
            tail.add(fetched.records, high_watermark=fetched.high_watermark)
        except ProtocolError as error:
            raise RefusedPartitionError(unreadable(tail, error).message) from error

    def _take(self, tail: TargetTail) -> None:
        producer, at = self._assignment.producer, self._assignment.position
        while (found := tail.head) is not None:
            tail.pop()
            header = found.header
            if header.base_offset < at.target_offset:
                if (stop := another_record(self._assignment.producer, header, at)) is not None:
                    raise RefusedPartitionError(f"{stop.message}; nothing of the partition was settled")
            elif producer.wrote(header.producer_id):
                self._builder.unpaired(
                    first_sequence=header.base_sequence,
                    target_start=header.base_offset,
                    count=found.written,
                    cause=SyncCause.LOST_SOURCE,
                    producer_id=header.producer_id,
                )
            elif header.count:
                before = self._others
                self._others = (
                    ForeignRecords.beginning(header) if before is None else before.followed_by(header)
                )


# Tails --------------------------------------------------------------------------------------------
# The tails of all target partitions of a flow, whose topics still exist.


@dataclass(frozen=True, slots=True)
class Tail:
    """A partition as it was recorded, and what was read of it; `found` None: `refused` says why nothing was."""

    recorded: FlowPosition
    found: Unrecorded | None
    refused: str | None = None

    @property
    def pair(self) -> PartitionPair:
        return self.recorded.pair

    @property
    def records(self) -> int:
        return 0 if self.found is None else self.found.records

    @property
    def words(self) -> str:
        if self.found is None:
            return f"not settled: {self.refused}"
        return f"{counted(self.records, 'record')} found, up to target offset {self.found.end}"

    @property
    def facts(self) -> dict[str, object]:
        """For a receipt, and as a line for people; `others`: what other writers left there, in words."""
        found, others = self.found, None if self.found is None else self.found.others
        return {
            "topic": self.recorded.source_topic,
            "partition": self.recorded.partition,
            "target_topic": self.recorded.target_topic,
            "source_start": self.recorded.position.source_offset,
            "target_start": self.recorded.position.target_offset,
            "target_end": None if found is None else found.end,
            "records": self.records,
            "others": None
            if others is None
            else f"{others.records} from target offset {others.first.base_offset} on",
            "refused": self.refused,
        }

    def operation(self) -> Settled:
        """What is recorded of one that was read."""
        at, source, target, found = self.recorded.position, self.pair.source, self.pair.target, self.found
        assert found is not None, "a refused partition is not recorded"
        return Settled(
            topic=source.topic,
            topic_id=source.topic_id,
            partition=source.partition,
            target_topic=target.topic,
            target_topic_id=target.topic_id,
            source_start=at.source_offset,
            target_start=at.target_offset,
            target_end=found.end,
            first_sequence=at.next_sequence,
            producer_id=self.recorded.producer_id,
            records=found.records,
            others=0 if found.others is None else found.others.records,
            others_start=None if found.others is None else found.others.first.base_offset,
        )


@dataclass(frozen=True, slots=True)
class SettlePorts:
    """Everything that it talks to; of `network` the target's side only. `source_answers`: asked once, at first."""

    target: ClusterAdmin
    state: LedgerState
    fact_log: FactLog
    operations: ClaimedOperations
    network: Network
    clock: Clock
    sleep: Callable[[float], None]
    source_answers: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Tails:
    """Reads them one after the other, by the flow's producer ids."""

    flow: FlowConfig
    producer: FlowProducer
    ports: SettlePorts

    def read(self, progress: Callable[[str], None]) -> list[Tail]:
        """A line of `progress` for each. Raises `ClusterUnavailableError` when the target does not answer at all."""
        existing = {topic.topic_id for topic in self.ports.target.topics().values()}
        positions = [one for one in self._last() if one.target_topic_id in existing]
        if not positions:
            return []
        ends = self.ports.target.ends([(one.target_topic, one.partition) for one in positions])
        self.ports.network.target.refresh(sorted({one.target_topic for one in positions}))
        tails = []
        for number, one in enumerate(positions, start=1):
            tail = self._tail(one, ends.get((one.target_topic, one.partition)))
            progress(f"{tail.pair.target.words} ({number} of {len(positions)}): {tail.words}")
            tails.append(tail)
        return tails

    def _last(self) -> list[FlowPosition]:
        """By target partition the position that was recorded last: several incarnations of a source may stand there."""
        at_target: dict[TopicPartition, list[FlowPosition]] = {}
        for one in paired(self.ports.state, self.flow):
            at_target.setdefault(one.pair.target, []).append(one)
        found = [some[0] if len(some) == 1 else max(some, key=self._age) for some in at_target.values()]
        return sorted(found, key=lambda one: (one.target_topic, one.target_topic_id, one.partition))

    def _age(self, one: FlowPosition) -> tuple[tuple[int, int], int]:
        rows = self.ports.state.recorded_syncs(self.flow.name, one.source_topic, one.partition)
        places = [row.place[:2] for row in rows if row.sync.source == one.pair.source]
        return max(places, default=(0, 0)), one.position.target_offset

    def _tail(self, recorded: FlowPosition, ends: PartitionEnds | None) -> Tail:
        tail = Tail(recorded, None, "it has no leader at the target; settle again when it has one")
        if ends is None:
            return tail
        assignment = Assignment(
            source=tail.pair.source,
            target=tail.pair.target,
            position=recorded.for_producer(self.producer.current).position,
            producer=self.producer,
            end_offset=None,
            exclusive=self.flow.target_mode is TargetMode.EXCLUSIVE,
        )
        try:
            return Tail(
                recorded, TargetReading(assignment, ends, self.ports.network, self.ports.clock).read()
            )
        except (RefusedPartitionError, ClusterUnavailableError) as error:
            return Tail(recorded, None, str(error))


# Settling -----------------------------------------------------------------------------------------


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SettledFlow:
    """What came of it; `operation_id` None: the flow has no partition at the target, nothing was recorded."""

    flow: str
    operation_id: str | None
    partitions: tuple[Tail, ...]

    @property
    def records(self) -> int:
        return sum(one.records for one in self.partitions)

    @property
    def refused(self) -> dict[PartitionPair, str]:
        return {one.pair: one.refused for one in self.partitions if one.refused is not None}

    @property
    def words(self) -> str:
        read = [one.found for one in self.partitions if one.found is not None]
        with_records = sum(1 for one in read if one.records)
        settled = (
            f"{self.flow}: {counted(self.records, 'record')} copied and not recorded, "
            f"on {with_records} of {counted(len(read), 'partition')} read"
        )
        with_others = sum(1 for one in read if one.others is not None)
        others = f"; records of other writers on {with_others}" if with_others else ""
        return f"{settled}{others}" + (f"; {len(self.refused)} not settled" if self.refused else "")

    def facts(self) -> dict[str, object]:
        """For a receipt."""
        return {
            "flow": self.flow,
            "records": self.records,
            "partitions": [one.facts for one in self.partitions],
        }


def settle(
    flow: FlowConfig,
    ports: SettlePorts,
    why: Why,
    *,
    host: str,
    after: int | None = None,
    progress: Callable[[str], None] = log.info,
) -> SettledFlow:
    """Claim the flow, read the target's tails, record what the flow wrote there, and release the claim.

    `after`: the epoch of the driver that is known to be dead. Raises `PreconditionError` where the source answers,
    another cluster is behind the target's alias, or the flow never ran; `ShutOutError` where a driver claims it
    meanwhile; `ClusterUnavailableError` where the target does not answer. Nothing is recorded then.
    """
    source = _recorded_source(flow, ports)
    # With the producer id of the flow's driver, though it be fenced by now: nothing is written with it.
    row = claim_row(flow, source=source, target=ports.target, state=ports.state, host=host, is_kept=True)
    claimed = claimed_behind(flow, ports.fact_log, ports.state, row, after=after, sleep=ports.sleep)
    with claimed.session.held(flow.heartbeat_seconds) as session:
        ports.operations.begin(session)
        # As the ledger is after the claim: the driver may have recorded until then.
        tails = Tails(flow, claimed.producer, ports).read(progress)
        contents = [tail.operation() for tail in tails if tail.found is not None]
        operation_id = ports.operations.record_parts(contents, why, flow=flow.name) if contents else None
        claimed.append([sync for tail in tails if tail.found is not None for sync in tail.found.syncs])
    return SettledFlow(flow.name, operation_id, tuple(tails))


def _recorded_source(flow: FlowConfig, ports: SettlePorts) -> LiveCluster:
    """The source as claims know it."""
    recorded = ports.state.identities().recorded_id(flow.source)
    if recorded is None or not ports.state.has_run(flow.name):
        raise PreconditionError(
            f"flow {flow.name} has never run: nothing of it can be at {flow.target}; nothing was settled"
        )
    if ports.source_answers():
        raise PreconditionError(
            f"{flow.source} answers: beside it the flow itself finds what it copied and did not record, and pairs it; "
            f"nothing was settled. Run it instead: mirror-ledger run {flow.name} --until-caught-up"
        )
    return LiveCluster(recorded, None)


# Put together -------------------------------------------------------------------------------------
# What a flow wrote to its target and nobody recorded, while its driver and its source are dead.


def settle_flow(
    context: Context, flow_name: str, *, progress: Callable[[str], None], is_promoted: bool = False
) -> SettledFlow:
    """Record what the target holds of the flow behind its record.

    `is_promoted`: no driver of the flow will find that itself, also where the source answers. Raises what `settle`
    does, and `PreconditionError` while a driver of the flow may be at work.
    """
    state, flow = context.state, context.config.enabled_flow(flow_name)
    after = require_stopped(flow, state)
    with context.network(flow.source, flow.target) as network:
        ports = SettlePorts(
            target=context.cluster(flow.target),
            state=state,
            fact_log=context.fact_log,
            operations=driver_operations(),
            network=network,
            clock=context.clock,
            sleep=time.sleep,
            source_answers=lambda: not is_promoted and context.is_reached(flow.source),
        )
        return settle(
            flow,
            ports,
            context.why,
            host=str(context.processes.own()),
            after=after,
            progress=progress,
        )
