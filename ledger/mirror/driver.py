"""Drives one run of a flow: claims its writer epoch, lets its rounds run, releases the epoch."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

from ledger.clock import Clock, StopSignal
from ledger.config.values import FlowConfig
from ledger.errors import LedgerUnavailableError, PreconditionError
from ledger.facts.cut_offsets import Cut
from ledger.facts.findings import FindingName, Findings, Side
from ledger.facts.identity import ClusterIdentities, FlowProducer, LiveCluster
from ledger.facts.roles import APPLY_WRITER, writer_of
from ledger.facts.state import FactLog, LedgerState
from ledger.facts.syncs import RecordedSync, SyncCause
from ledger.facts.tables import Row
from ledger.kafka.cluster import ClusterAdmin, live_cluster
from ledger.mirror.direction import DirectionWatch
from ledger.mirror.progress import (
    Heartbeat,
    LoopPrevention,
    RestoredByOtherFlow,
    RunProgress,
    RunSummary,
    config_hash,
)
from ledger.mirror.requests import MovedPartitions, RequestHandler
from ledger.mirror.rounds import RoundLoop, RoundRunner
from ledger.mirror.starts import AlsoCopiedBy, CutStarts, OtherFlows, Settlements, StartPositions
from ledger.mirror.states import FlowProgress, ForeignWriters, PartitionState
from ledger.mirror.stops import StopEvents, StopPolicies, loss_cause
from ledger.mirror.topics import FlowTopics
from ledger.mirror.watches import (
    PARTITION_FINDINGS,
    REACH_FINDINGS,
    RUN_FINDINGS,
    PartitionWatch,
    ReachWatch,
    RunWatch,
    Troubles,
)
from ledger.recorders.findings import PlanWatch
from ledger.store.session import (
    FLOW_TABLES,
    AppendExecutor,
    ClaimedOperations,
    WriterSession,
    claim_row_of,
    one_thread,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlowPorts:
    """Everything that a driver talks to."""

    source: ClusterAdmin
    target: ClusterAdmin
    fact_log: FactLog
    state: LedgerState
    operations: ClaimedOperations
    runner: RoundRunner
    clock: Clock
    executor: AppendExecutor = field(default_factory=one_thread)


def run_flow(
    flow: FlowConfig,
    topics: FlowTopics,
    ports: FlowPorts,
    *,
    host: str,
    until_caught_up: bool,
    stop: StopSignal,
    on_round: Callable[[RunProgress], None],
    on_claimed: Callable[[], None] = lambda: None,
    restored_by_other_flow: RestoredByOtherFlow = lambda _topic: frozenset(),
    also_copied_by: AlsoCopiedBy = lambda _topic: frozenset(),
    last_stop: int | None = None,
    after: int | None = None,
    troubles: Mapping[FindingName, Troubles] = MappingProxyType({}),
    looking_out: Callable[[ReachWatch], AbstractContextManager[object]] = nullcontext,
    from_cut: Cut | None = None,
    beside: Callable[[WriterSession], AbstractContextManager[object]] = nullcontext,
) -> RunSummary:
    """Copy until caught up with the ends as of now, or until asked to stop.

    `troubles`: by finding what there is to be said of the run beside its clusters, asked once a round.
    `last_stop`: stops up to this place among operations were meant for earlier drivers, None: all that there are.
    `after`: the epoch that this one is to follow, None: any.
    `looking_out` is the context in which somebody tells the watch whether the clusters answer, `beside` one in which
    others append under the same claim. `from_cut`: partitions that it is about begin there, or continue behind it.

    Raises `PreconditionError` when the flow may not start and `ShutOutError` when another driver has
    taken over; what was copied until then is found by that driver. `UnsafeError`: there was nothing to catch up with.
    """
    if last_stop is None:
        last_stop = ports.state.requests(flow.name).last_stop
    directions = DirectionWatch(flow, ports.state, from_cut, ports.state.directions())
    known_positions = ports.state.positions(flow.name)
    row = claim_row(
        flow,
        source=live_cluster(ports.source),
        target=ports.target,
        state=ports.state,
        host=host,
        is_renewed=lambda known: any(
            map(_at_cut(flow, ports, directions, known).needs_another_producer, known_positions)
        ),
        is_kept=directions.are_promoted({position.target_topic for position in known_positions}),
    )
    is_first_run = not ports.state.has_run(flow.name)
    session = WriterSession.claimed(
        ports.fact_log, writer_of(flow.name), FLOW_TABLES, row, executor=ports.executor, after=after
    )
    log.info("%s: begins as writer epoch %d", flow.name, session.epoch)
    ports.operations.begin(session)
    on_claimed()
    run = _Run.of(flow, ports, str(row["target_cluster_id"]), directions)
    with session, looking_out(run.reach), beside(session):
        loop = RoundLoop(
            flow=flow,
            topics=topics,
            source=ports.source,
            target=ports.target,
            state=ports.state,
            runner=ports.runner,
            clock=ports.clock,
            session=session,
            progress=run.progress,
            start_positions=run.start_positions(also_copied_by, is_first_run=is_first_run),
            stop_policies=run.stop_policies(),
            handler=run.request_handler(),
            foreign_writers=run.foreign_writers(),
            stop_events=run.stop_events,
            watch=run.partition_watch(),
            selection=LoopPrevention(flow, ports.state, restored_by_other_flow),
            run_watch=RunWatch(run.findings(RUN_FINDINGS), troubles),
            reach=run.reach,
            heartbeat=Heartbeat(flow, session, ports.clock),
            directions=run.directions,
            plans=PlanWatch(lambda: ports.state.last_claim(APPLY_WRITER), ports.clock),
            producer=run.producer,
            last_stop=last_stop,
            on_round=on_round,
            summary=RunSummary(),
        )
        with _reporting_a_lost_ledger(flow.name):
            summary = loop.run(until_caught_up=until_caught_up, stop=stop)
    session.release()
    if until_caught_up:
        topics.require_selected()
    return summary


@dataclass(frozen=True, slots=True)
class _Run:
    """What the parts of a claimed run share, and the parts that are made of it."""

    flow: FlowConfig
    ports: FlowPorts
    target_cluster_id: str
    producer: FlowProducer
    progress: FlowProgress
    stop_events: StopEvents
    reach: ReachWatch
    directions: DirectionWatch
    at_cut: CutStarts

    @classmethod
    def of(
        cls, flow: FlowConfig, ports: FlowPorts, target_cluster_id: str, directions: DirectionWatch
    ) -> Self:
        """As the ledger is after the claim."""
        # Two first drivers may each have allocated an id: the first claim's is the flow's.
        producer = ports.state.identities().producers(target_cluster_id)[flow.name]
        reach = ReachWatch(
            Findings(flow.name, REACH_FINDINGS, ports.operations, ports.state),
            ports.clock,
            {Side.SOURCE: flow.source, Side.TARGET: flow.target},
        )
        at_cut = _at_cut(flow, ports, directions, producer)
        directions.needs_another_producer = at_cut.needs_another_producer
        directions.is_fenced = lambda: ports.state.identities().is_fenced(flow.name, target_cluster_id)
        return cls(
            flow=flow,
            ports=ports,
            target_cluster_id=target_cluster_id,
            producer=producer,
            progress=FlowProgress(ports.state.positions(flow.name), producer),
            stop_events=StopEvents(flow.name, ports.operations),
            reach=reach,
            directions=directions,
            at_cut=at_cut,
        )

    def findings(self, about: Collection[FindingName]) -> Findings:
        return Findings(self.flow.name, about, self.ports.operations, self.ports.state)

    def start_positions(self, also_copied_by: AlsoCopiedBy, *, is_first_run: bool) -> StartPositions:
        state = self.ports.state
        return StartPositions(
            self.flow,
            self.ports.source,
            self.progress,
            state.stopped_partitions(self.flow.name),
            state.acceptances(self.flow.name),
            is_first_run,
            OtherFlows(self.flow.name, state, also_copied_by),
            self.directions.hold,
            self.at_cut,
            Settlements(self.flow.name, state, self.producer.current).before,
        )

    def stop_policies(self) -> StopPolicies:
        return StopPolicies(
            self.flow,
            self.ports.source,
            self.ports.target,
            self.producer,
            self._recorded_syncs,
            self._cause_of_loss,
        )

    def _recorded_syncs(self, state: PartitionState) -> Sequence[RecordedSync]:
        source = state.pair.source
        return self.ports.state.recorded_syncs(self.flow.name, source.topic, source.partition)

    def _cause_of_loss(self, state: PartitionState) -> SyncCause:
        topic = state.pair.source.topic
        return loss_cause(self.ports.source.configurations([topic]).get(topic, {}))

    def request_handler(self) -> RequestHandler:
        moved = MovedPartitions(
            self.progress,
            self.ports.source,
            self.ports.target,
            lambda states: self.stop_events.resumed([state.pair for state in states]),
            self.directions.hold,
        )
        return RequestHandler(self.flow.name, moved, self.ports.operations)

    def foreign_writers(self) -> ForeignWriters:
        state = self.ports.state
        return ForeignWriters(self.ports.target, lambda: state.identities().producers(self.target_cluster_id))

    def partition_watch(self) -> PartitionWatch:
        return PartitionWatch(
            self.findings(PARTITION_FINDINGS),
            self.ports.source,
            self.ports.clock,
            stuck_after_s=self.flow.open_transaction_seconds,
        )


def _at_cut(
    flow: FlowConfig, ports: FlowPorts, directions: DirectionWatch, producer: FlowProducer
) -> CutStarts:
    return CutStarts(flow, ports.source, ports.target, ports.state, producer, directions.cut_of)


@contextmanager
def _reporting_a_lost_ledger(flow: str) -> Iterator[None]:
    """At once: it cannot be recorded, and what is under way may take its time to end."""
    try:
        yield
    except LedgerUnavailableError as error:
        log.error(
            "%s: ends, for the ledger is not there: %s; what was copied is found by the next run", flow, error
        )
        raise


def claim_row(
    flow: FlowConfig,
    *,
    source: LiveCluster,
    target: ClusterAdmin,
    state: LedgerState,
    host: str,
    is_renewed: Callable[[FlowProducer], bool] = lambda _known: False,
    is_kept: bool = False,
) -> Row:
    """The row of `writers` by which a driver claims the flow; may allocate the flow's producer id.

    `is_renewed`: whether the flow needs another id than those that it has, for another reason than that markers have
    shut its id out of partitions. `is_kept`: these do not count, for nothing is written there.

    Raises `PreconditionError` when another cluster answers behind an alias than the recorded one.
    """
    at_target = live_cluster(target)
    identities = state.identities()
    identities.require(flow.source, source)
    identities.require(flow.target, at_target)
    known = identities.producers(at_target.cluster_id).get(flow.name)
    is_fenced = identities.is_fenced(flow.name, at_target.cluster_id)
    if known is not None and not (is_renewed(known) or (is_fenced and not is_kept)):
        return claim_row_with(flow, source, at_target, host=host, producer_id=known.current)
    return claim_row_with(
        flow,
        source,
        at_target,
        host=host,
        producer_id=_new_producer_id(flow, target, identities, at_target.cluster_id),
        former_producer_id=None if known is None else known.current,
    )


def claim_row_with(
    flow: FlowConfig,
    at_source: LiveCluster,
    at_target: LiveCluster,
    *,
    host: str,
    producer_id: int,
    former_producer_id: int | None = None,
) -> Row:
    """The same where it is known already which clusters answer, and the producer id."""
    return claim_row_of(
        host,
        flow=flow.name,
        source_cluster=flow.source,
        source_cluster_id=at_source.cluster_id,
        target_cluster=flow.target,
        target_cluster_id=at_target.cluster_id,
        producer_id=producer_id,
        former_producer_id=former_producer_id,
        source_metadata_offset=at_source.metadata_offset,
        target_metadata_offset=at_target.metadata_offset,
        config_hash=config_hash(flow),
    )


def _new_producer_id(
    flow: FlowConfig, target: ClusterAdmin, identities: ClusterIdentities, target_cluster_id: str
) -> int:
    """A producer id for the flow at this target: recorded with the claim, before any write.

    Brokers hand ids out in blocks of their own, so the next id may be lower than the last; one that was given
    before proves that the cluster was formatted again.
    """
    allocated = target.allocate_producer_id()
    if allocated in identities.mirror_ids(target_cluster_id):
        raise PreconditionError(
            f"cluster {flow.target} gave producer id {allocated}, which the ledger has for the same cluster id "
            f"{target_cluster_id} already: the cluster was formatted again, so ownership of batches cannot be proved; "
            f"nothing was copied. If that is meant: mirror-ledger accept-cluster {flow.target} --cluster-id "
            f"{target_cluster_id} --rebuilt --reason WHY"
        )
    return allocated
