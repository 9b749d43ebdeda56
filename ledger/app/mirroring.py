"""A run of a flow: its driver, the recorders and the maintenance beside it."""

from collections.abc import Callable
from dataclasses import replace

from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.spark.rounds import SparkRoundRunner
from ledger.adapters.spark.session import SessionFactory
from ledger.adapters.system import SystemClock
from ledger.app.wiring import (
    background_maintenance,
    cluster_admin,
    cluster_recorder,
    driver_operations,
    flow_topics,
    lookout,
    mirror_producers_of,
    operator_operations,
    worker_networks,
)
from ledger.config.flow import FlowConfig
from ledger.config.mirror import MirrorConfig
from ledger.domain.operations.flow_events import DriverStarting
from ledger.domain.writer_roles import LastClaim, writer_of
from ledger.mirror.driver import flow_driver
from ledger.mirror.driver.configuration_change import record_change
from ledger.mirror.driver.flow_driver import FlowPorts
from ledger.mirror.driver.round_loop import StopSignal
from ledger.mirror.driver.run_progress import RunProgress
from ledger.mirror.driver.run_summary import RunSummary
from ledger.mirror.driver.scope_reduction import require_scope
from ledger.mirror.driver.take_over import require_free
from ledger.mirror.task.assignments import CopyLimits
from ledger.ports.ledger import require_recorded
from ledger.recording.background import BackgroundRecorders
from ledger.recording.observation import RecorderSettings, Subject


def run_flow(
    config: MirrorConfig,
    flow_name: str,
    *,
    session: SessionFactory,
    until_caught_up: bool,
    take_over: bool = False,
    allow_scope_reduction: bool = False,
    recorded: frozenset[Subject] = frozenset(Subject),
    stop: StopSignal,
    on_round: Callable[[RunProgress], None],
) -> RunSummary:
    """Run a flow until caught up or asked to stop; what is `recorded` of its clusters, recorders append beside it.

    Raises `PreconditionError` while another driver may be at work on it, unless it is to be taken over,
    and when the configuration leaves out topics that were mirrored, unless that is meant.
    """
    flow = config.enabled_flow(flow_name)
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    last = state.last_claim(writer_of(flow.name))
    last_stop = state.requests(flow.name).last_stop
    if not take_over:
        require_free(flow, last, LocalProcesses(), now_ms=SystemClock().now_ms())
    require_scope(
        flow.name,
        config.topic_selection(flow.name),
        state.positions(flow.name),
        state.accepted_reductions(flow.name),
        operator_operations(config),
        allow_reduction=allow_scope_reduction,
    )
    host = str(LocalProcesses().own())
    # A claim comes after the clusters have answered and Spark has started: until then this is all that tells of the
    # process, and all that is left of it when it ends before.
    operator_operations(config).record(DriverStarting(host), flow=flow.name, reason=None)
    fact_log = DeltaFactLog(config.ledger.path, SystemClock())
    operations = driver_operations()
    with cluster_admin(config, flow.source) as source, cluster_admin(config, flow.target) as target:
        require_recorded(state, source, target)
        topics = flow_topics(config, flow, source, target, state, operations)
        source.broker_count()
        spark = session()
        limits = CopyLimits()
        ports = FlowPorts(
            source=source,
            target=target,
            fact_log=fact_log,
            state=state,
            operations=operations,
            runner=SparkRoundRunner(
                spark.sparkContext,
                worker_networks(config, flow, limits),
                mirror_producers_of(config, flow, source.cluster_id()),
                limits,
            ),
            clock=SystemClock(),
        )
        settings = replace(RecorderSettings.of_flows([flow]), subjects=recorded)
        sides = ((source, topics.source_partitions), (target, topics.target_partitions)) if recorded else ()
        recorders = [
            cluster_recorder(admin, fact_log, state, settings, partitions) for admin, partitions in sides
        ]
        with background_maintenance(config), BackgroundRecorders(recorders) as background:

            def claimed() -> None:
                background.start()
                _record_configuration(flow, state, ports, last)

            return flow_driver.run_flow(
                flow,
                topics,
                ports,
                host=host,
                until_caught_up=until_caught_up,
                stop=stop,
                on_claimed=claimed,
                on_round=on_round,
                restored_by_other_flow=config.restored_by_other_flow(flow_name),
                also_copied_by=config.also_copied_by(flow_name),
                last_stop=last_stop,
                recording_troubles=lambda: background.troubles,
                looking_out=lambda watch: lookout(config, flow, topics, watch),
            )


def _record_configuration(
    flow: FlowConfig, state: DeltaLedgerState, ports: FlowPorts, last: LastClaim | None
) -> None:
    last_hash = last.config_hash if last is not None else None
    known = state.configuration(flow.name, last_hash) if last_hash is not None else None
    record_change(flow, ports.operations, last_hash=last_hash, last_configuration=known)
