"""A run of a flow: its driver, the recorders and the maintenance beside it."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace

from ledger.clock import StopSignal, SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.context import background_maintenance, cluster_admin, driver_operations, operator_operations
from ledger.errors import FencedProducerError, ShutOutError
from ledger.facts.cut_offsets import Cut
from ledger.facts.findings import FindingName, Side
from ledger.facts.operations import DriverStarting
from ledger.facts.roles import LastClaim, writer_of
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import require_recorded
from ledger.kafka.leaders import KafkaFencing
from ledger.kafka.network import KeptNetwork
from ledger.kafka.reach import KafkaReach
from ledger.machine import LocalProcesses
from ledger.mirror import driver
from ledger.mirror.assignment import CopyLimits
from ledger.mirror.flow_topics import flow_topics
from ledger.mirror.former_drivers import shut_out_former_drivers
from ledger.mirror.progress import (
    ConfigurationFile,
    RunEnd,
    RunProgress,
    RunSummary,
    record_change,
    require_scope,
)
from ledger.mirror.rounds import FlowRun
from ledger.mirror.spark import SessionFactory, SparkRoundRunner
from ledger.mirror.starts import require_usable
from ledger.mirror.watches import Prober, Watched
from ledger.offsets.syncing import syncing
from ledger.recorders.observation import Subject
from ledger.recorders.run import BackgroundRecorders, cluster_recorder
from ledger.roles import require_free
from ledger.store.append_durations import AppendDurations
from ledger.store.ledger_copy import require_no_copy
from ledger.store.log import DeltaFactLog
from ledger.store.producers import KeptMirrorProducers, no_mirror_producers
from ledger.store.session import ClaimedOperations
from ledger.store.state import DeltaLedgerState, followed_state

# Mirroring ----------------------------------------------------------------------------------------


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Connected:
    """Both clusters of a flow, which have answered and are the recorded ones, and a Spark session."""

    flow: FlowConfig
    source: KafkaAdmin
    target: KafkaAdmin
    runner: SparkRoundRunner


@dataclass(frozen=True, slots=True)
class Begun:
    """A process that is about to claim a flow, the claim before it, and its place among operations.

    Who asked the flow to end before that meant others. A standby goes by the same place: what this driver takes for
    its stop is not followed.
    """

    host: str
    last: LastClaim | None
    at: int


def run_flow(
    config: MirrorConfig,
    flow_name: str,
    *,
    session: SessionFactory,
    until_caught_up: bool,
    take_over: bool = False,
    allow_scope_reduction: bool = False,
    recorded: frozenset[Subject] = frozenset(Subject),
    from_cut: str | None = None,
    stop: StopSignal,
    reload: threading.Event | None = None,
    on_round: Callable[[RunProgress], None],
    appends: AppendDurations | None = None,
) -> RunSummary:
    """Run a flow until caught up or asked to stop; what is `recorded` of its clusters, recorders append beside it.

    `appends` gets what its appends to the ledger take, and those of the recorders.
    `from_cut`: the operation whose cut of the opposite flow it begins at. Raises `PreconditionError` while another
    driver may be at work on it, unless it is to be taken over, when the configuration leaves out topics that were
    mirrored, unless that is meant, and where it cannot begin at the cut.
    """
    flow = config.enabled_flow(flow_name)
    require_no_copy(config.ledger.path)
    state = followed_state(config.ledger.path)
    cut = None if from_cut is None else state.cut(from_cut)
    if cut is not None:
        require_usable(flow, cut)
    if not take_over:
        last = state.last_claim(writer_of(flow.name))
        require_free(flow, last, LocalProcesses(), now_ms=SystemClock().now_ms())
    begun = begin(
        config,
        flow,
        state,
        allow_scope_reduction=allow_scope_reduction,
        until_caught_up=until_caught_up,
    )
    with connected(config, flow, state, session) as connections:
        return drive(
            config,
            connections,
            state,
            begun,
            until_caught_up=until_caught_up,
            recorded=recorded,
            stop=stop,
            on_round=on_round,
            from_cut=cut,
            reload=reload,
            appends=appends,
        )


def begin(
    config: MirrorConfig,
    flow: FlowConfig,
    state: DeltaLedgerState,
    *,
    allow_scope_reduction: bool,
    until_caught_up: bool = False,
) -> Begun:
    """Record that this process is about to run the flow.

    A claim comes after the clusters have answered and Spark has started: until then this is all that tells of the
    process, and all that is left of it when it ends before.
    """
    host = str(LocalProcesses().own())
    last = state.last_claim(writer_of(flow.name))
    require_same_scope(config, flow, state, allow_scope_reduction=allow_scope_reduction)
    starting = DriverStarting(host, until_caught_up)
    operator_operations(config).record(starting, flow=flow.name, reason=None)
    began_at = state.driver_began_at(flow.name, host)
    assert began_at is not None, "it was recorded"
    return Begun(host, last, began_at)


def require_same_scope(
    config: MirrorConfig, flow: FlowConfig, state: DeltaLedgerState, *, allow_scope_reduction: bool
) -> None:
    """Raise `PreconditionError` when topics that were mirrored are left out, unless that is meant."""
    require_scope(
        flow.name,
        config.topic_selection(flow.name),
        state.positions(flow.name),
        state.accepted_reductions(flow.name),
        operator_operations(config),
        allow_reduction=allow_scope_reduction,
    )


@contextmanager
def connected(
    config: MirrorConfig, flow: FlowConfig, state: DeltaLedgerState, session: SessionFactory
) -> Iterator[Connected]:
    """Everything that takes long to begin, except the claim."""
    with cluster_admin(config, flow.source) as source, cluster_admin(config, flow.target) as target:
        require_recorded(state, source, target)
        limits = CopyLimits()
        runner = SparkRoundRunner(
            session().sparkContext,
            KeptNetwork(
                source.connection.reached, target.connection.reached, limits.request_timeout_ms / 1000
            ),
            no_mirror_producers
            if flow.relay
            else KeptMirrorProducers(config.ledger.path, source.cluster_id()),
            limits,
        )
        runner.start_worker()  # while topics and positions are read
        yield Connected(flow, source, target, runner)


def drive(
    config: MirrorConfig,
    connections: Connected,
    state: DeltaLedgerState,
    begun: Begun,
    *,
    until_caught_up: bool,
    recorded: frozenset[Subject],
    stop: StopSignal,
    on_round: Callable[[RunProgress], None],
    on_claimed: Callable[[], None] = lambda: None,
    after: int | None = None,
    from_cut: Cut | None = None,
    reload: threading.Event | None = None,
    appends: AppendDurations | None = None,
) -> RunSummary:
    """Claim the flow and run it, with the recorders of its clusters and the maintenance beside it.

    `after`: the epoch that is to be followed, None: any. Raises `ShutOutError` when there is a later one.
    `from_cut`: where it begins, of the opposite flow. `reload`: set when the configuration file is to be read again,
    as it is by a request: what a running driver can follow of it holds under the next epoch of the same process.
    """
    if (restored_by := state.restored_by()) is not None:
        _shut_out_former_drivers(config, connections.flow, state, restored_by)
    summary = RunSummary()
    while True:
        file = ConfigurationFile(
            config,
            connections.flow.name,
            refusal="a run until caught up keeps what it began with" if until_caught_up else None,
            asked=reload or threading.Event(),
        )
        _drive_once(
            file,
            connections,
            state,
            begun,
            summary,
            until_caught_up=until_caught_up,
            recorded=recorded,
            stop=stop,
            on_round=on_round,
            on_claimed=on_claimed,
            after=after,
            from_cut=from_cut,
            appends=appends,
        )
        if summary.end is not RunEnd.RELOADED or file.accepted is None:
            return summary
        config, flow = file.accepted, file.accepted.flow(connections.flow.name)
        after = _own_epoch(flow, state, begun.host)
        connections, begun = (
            replace(connections, flow=flow),
            replace(begun, last=state.last_claim(writer_of(flow.name))),
        )
        summary.end, on_claimed = None, lambda: None


def _drive_once(
    file: ConfigurationFile,
    connections: Connected,
    state: DeltaLedgerState,
    begun: Begun,
    summary: RunSummary,
    *,
    until_caught_up: bool,
    recorded: frozenset[Subject],
    stop: StopSignal,
    on_round: Callable[[RunProgress], None],
    on_claimed: Callable[[], None],
    after: int | None,
    from_cut: Cut | None,
    appends: AppendDurations | None,
) -> None:
    """Until it ends or its configuration is another; what it does is added to `summary`, and how it ended."""
    config, flow, source, target = file.config, connections.flow, connections.source, connections.target
    fact_log = DeltaFactLog(config.ledger.path, SystemClock(), appends)
    operations = driver_operations()
    topics = flow_topics(config, flow, source, target, state, operations)
    sides = ((source, topics.source_partitions), (target, topics.target_partitions)) if recorded else ()
    recorders = [
        cluster_recorder(config, admin, fact_log, state, recorded, partitions_of_one=partitions)
        for admin, partitions in sides
    ]
    with background_maintenance(config), BackgroundRecorders(recorders) as background:

        def claimed() -> None:
            on_claimed()
            background.start()
            _record_configuration(flow, state, operations, begun.last)

        run = FlowRun(
            flow=flow,
            topics=topics,
            source=source,
            target=target,
            fact_log=fact_log,
            state=state,
            operations=operations,
            runner=connections.runner,
            clock=SystemClock(),
            host=begun.host,
            until_caught_up=until_caught_up,
            stop=stop,
            on_round=on_round,
            on_claimed=claimed,
            restored_by_other_flow=config.restored_by_other_flow(flow.name),
            also_copied_by=config.also_copied_by(flow.name),
            last_stop=begun.at,
            after=after,
            troubles={
                FindingName.RECORDING_STOPPED: lambda: background.troubles,
                FindingName.CONFIGURATION_FILE_CHANGED: file.troubles,
            },
            probing=lambda watch: Prober(
                watch,
                {
                    Side.SOURCE: Watched(KafkaReach(source.connection.reached), topics.source_partitions),
                    Side.TARGET: Watched(KafkaReach(target.connection.reached), topics.target_partitions),
                },
                SystemClock(),
            ),
            from_cut=from_cut,
            file=file,
            summary=summary,
            beside=lambda session: syncing(config, flow, target, session),
            while_away=nullcontext if appends is None else lambda: appends.waiting(SystemClock()),
        )
        while True:
            try:
                driver.run_flow(run)
                return
            except FencedProducerError as error:
                log.warning("%(cause)s; this process claims it again", {"flow": flow.name, "cause": error})
            own = _own_epoch(flow, state, begun.host)
            run = replace(run, on_claimed=lambda: None, after=own)


def _shut_out_former_drivers(
    config: MirrorConfig, flow: FlowConfig, state: DeltaLedgerState, restored_by: str
) -> None:
    as_administrator = config.cluster(flow.target).for_administration
    with closing(KafkaFencing(flow.target, as_administrator, SystemClock())) as target:
        selection, operations = config.topic_selection(flow.name), operator_operations(config)
        shut_out_former_drivers(flow, selection, target, state, operations, restored_by=restored_by)


def _own_epoch(flow: FlowConfig, state: DeltaLedgerState, host: str) -> int:
    """The flow's last epoch; raises `ShutOutError` where it is another process's by now."""
    last = state.last_claim(writer_of(flow.name))
    assert last is not None, "this process claimed it"
    if last.host != host:
        raise ShutOutError(f"{flow.name} was claimed by {last.host} meanwhile; nothing more was copied")
    return last.epoch


def _record_configuration(
    flow: FlowConfig, state: DeltaLedgerState, operations: ClaimedOperations, last: LastClaim | None
) -> None:
    last_hash = last.config_hash if last is not None else None
    known = state.configuration(flow.name, last_hash) if last_hash is not None else None
    record_change(flow, operations, last_hash=last_hash, last_configuration=known)
