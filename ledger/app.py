"""Wiring: one function per command, called by the command line and by the jobs.

Functions take a checked configuration and return values; they print nothing. Whatever may fail without
Spark (configuration, ledger, brokers) is tried before a session is started.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from ledger import answer_wiring, catalog
from ledger.adapters.delta.examination import DeltaLedgerProbe
from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.maintenance import Merging, TableUpkeep, Upkeep, maintain
from ledger.adapters.delta.reading import DeltaLedger, DeltaSnapshot, open_ledger
from ledger.adapters.delta.state import DeltaLedgerState
from ledger.adapters.delta.tables import create_tables
from ledger.adapters.delta.upkeeps import table_upkeeps
from ledger.adapters.kafka.admin import KafkaAdmin
from ledger.adapters.kafka.append_probe import KafkaTargetProbe
from ledger.adapters.kafka.network import KafkaNetwork
from ledger.adapters.kafka.probes import KafkaClusterProbe
from ledger.adapters.machine import LocalMachine
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.spark.merging import merge_on_spark
from ledger.adapters.spark.rounds import SparkRoundRunner
from ledger.adapters.system import SystemClock
from ledger.config.flow import FlowConfig
from ledger.config.mirror import MirrorConfig
from ledger.doctor.examination import Examination
from ledger.doctor.findings import Finding
from ledger.domain.operations.flow_events import DriverStarting
from ledger.domain.operations.receipts import Receipt
from ledger.domain.operations.requests import Request, StopRequest
from ledger.domain.writer_roles import LastClaim, RoleVerdict, writer_of
from ledger.errors import LedgerUnavailableError, PreconditionError
from ledger.mirror.driver import flow_driver
from ledger.mirror.driver.configuration_change import record_change
from ledger.mirror.driver.flow_driver import FlowPorts
from ledger.mirror.driver.round_loop import StopSignal
from ledger.mirror.driver.run_progress import RunProgress
from ledger.mirror.driver.run_summary import RunSummary
from ledger.mirror.driver.scope_reduction import require_scope
from ledger.mirror.driver.take_over import require_free
from ledger.mirror.requests.known_flow import KnownFlow
from ledger.mirror.task.assignments import CopyLimits
from ledger.operations import flow_report
from ledger.operations.adoption import adopting
from ledger.operations.adoption.adopting import AdoptionPorts
from ledger.operations.adoption.readers import require_at_rest
from ledger.operations.adoption.verdicts import Consent, PartitionAdoption
from ledger.operations.driver_report import when_taken_up
from ledger.operations.key_resync import resyncing
from ledger.operations.key_resync.resyncing import PartitionKeys, ResyncPorts
from ledger.operations.receipts import wait_for_receipt
from ledger.operations.requests import judge, require_complete
from ledger.ports.ledger import require_recorded
from ledger.recording.alone import record_once, record_until
from ledger.recording.background import BackgroundRecorders
from ledger.recording.mirrored_partitions import MirroredPartitions
from ledger.recording.observation import RecorderSettings, Subject
from ledger.schema import OPERATIONS, WRITERS
from ledger.status_wiring import driver_of
from ledger.wiring import (
    background_maintenance,
    cluster_admin,
    cluster_recorder,
    driver_operations,
    flow_topics,
    lookout,
    operator_operations,
    worker_networks,
    writer_directories,
)

SessionFactory = Callable[[], SparkSession]
Partitions = Sequence[tuple[str, int]]


# Writing ---------------------------------------------------------------------------------------


def init_ledger(config: MirrorConfig) -> list[str]:
    """Create the ledger's tables; returns the names of those that were created now."""
    ledger = config.ledger
    return create_tables(ledger.path, now_ms=SystemClock().now_ms(), keep_hours=ledger.keep_superseded_hours)


def maintain_ledger(
    config: MirrorConfig, *, dry_run: bool, session: SessionFactory | None = None
) -> tuple[list[Upkeep], list[LedgerUnavailableError]]:
    """Merge, and remove what is superseded, table by table; in a dry run only say what would be done.

    With a session its workers write the merged files. Returns what was done, and why tables were left out.
    """
    open_ledger(config.ledger.path)
    merging: Merging = TableUpkeep.merge
    if session is not None and not dry_run:
        merging = partial(merge_on_spark, session().sparkContext)
    done: list[Upkeep] = []
    failed: list[LedgerUnavailableError] = []
    for upkeep in table_upkeeps(config.ledger):
        try:
            done.append(upkeep.planned() if dry_run else maintain(upkeep, merging=merging))
        except LedgerUnavailableError as error:
            failed.append(error)
    return done, failed


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

    Raises `PreconditionError` while another driver may be at work on it, unless told to take it over,
    and when the configuration leaves out topics that were mirrored, unless told that this is meant.
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
                writer_directories(config, flow, source.cluster_id()),
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
                returned_elsewhere=config.returned_elsewhere(flow_name),
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


def adopt_flow(
    config: MirrorConfig,
    flow_name: str,
    *,
    topics: Sequence[str],
    consent: Consent,
    dry_run: bool = False,
) -> list[PartitionAdoption]:
    """Take over what something else has mirrored for a flow; in a dry run nothing is claimed or recorded."""
    flow = config.flow(flow_name)
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    network = closing(
        KafkaNetwork(config.cluster(flow.source), config.cluster(flow.target), request_timeout_s=30.0)
    )
    with (
        cluster_admin(config, flow.source) as source,
        cluster_admin(config, flow.target) as target,
        network as links,
    ):
        require_recorded(state, source, target)
        fact_log = DeltaFactLog(config.ledger.path, SystemClock())
        existing = flow_topics(config, flow, source, target, state, driver_operations()).existing()
        pairs = adopting.of_topics(existing, topics)
        ports = AdoptionPorts(source, target, state, links, SystemClock())
        if dry_run:
            return adopting.preview(flow, pairs, ports, consent, wait=time.sleep)
        return adopting.adopt(
            flow,
            pairs,
            ports,
            consent,
            fact_log=fact_log,
            host=str(LocalProcesses().own()),
            wait=time.sleep,
            require_readers_at_rest=lambda: require_at_rest(
                flow,
                config.readers_of(flow.target, [pair.target.topic for pair in pairs]),
                state.last_claim,
                LocalProcesses(),
                SystemClock(),
            ),
        )


def resync_keys(
    config: MirrorConfig,
    flow_name: str,
    *,
    topic: str,
    partition: int | None,
    dry_run: bool = False,
) -> list[PartitionKeys]:
    """Delete at a flow's target what its source has no record of; in a dry run nothing is written."""
    flow = config.enabled_flow(flow_name)
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    resyncing.require_exclusive(flow)
    require_free(
        flow,
        state.last_claim(writer_of(flow.name)),
        LocalProcesses(),
        now_ms=SystemClock().now_ms(),
        way_out=f"Stop it first: mirror-ledger stop {flow.name}",
    )
    network = closing(
        KafkaNetwork(config.cluster(flow.source), config.cluster(flow.target), request_timeout_s=30.0)
    )
    with (
        cluster_admin(config, flow.source) as source,
        cluster_admin(config, flow.target) as target,
        network as links,
    ):
        require_recorded(state, source, target)
        fact_log = DeltaFactLog(config.ledger.path, SystemClock())
        operations = driver_operations()
        existing = flow_topics(config, flow, source, target, state, operations).existing()
        pairs = resyncing.chosen(existing, topic, partition)
        resyncing.require_compacted(source, topic)
        ports = ResyncPorts(source, target, state, operations, links, SystemClock())
        if dry_run:
            return resyncing.preview(flow, pairs, ports)
        return resyncing.resync(
            flow,
            pairs,
            ports,
            fact_log=fact_log,
            host=str(LocalProcesses().own()),
        )


def record_cluster(
    config: MirrorConfig,
    cluster: str,
    subjects: frozenset[Subject],
    *,
    stop: StopSignal,
    once: bool,
) -> Mapping[str, int]:
    """Record one cluster for all flows that touch it, once or until asked to stop; returns rows by table.

    Raises `ClusterUnavailableError` when the cluster does not answer at the start, or the one look that was asked for.
    """
    config.cluster(cluster)
    flows = [flow for flow in config.enabled_flows if cluster in (flow.source, flow.target)]
    if not flows:
        raise PreconditionError(
            f"no flow of {config.file} that is enabled touches cluster {cluster}; nothing was recorded"
        )
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    with cluster_admin(config, cluster) as admin:
        return _record(config, admin, flows, state, subjects, stop=stop, once=once)


def _record(
    config: MirrorConfig,
    admin: KafkaAdmin,
    flows: Sequence[FlowConfig],
    state: DeltaLedgerState,
    subjects: frozenset[Subject],
    *,
    stop: StopSignal,
    once: bool,
) -> Mapping[str, int]:
    require_recorded(state, admin)
    fact_log = DeltaFactLog(config.ledger.path, SystemClock())
    mirrored = MirroredPartitions(config, admin, flows)
    settings = replace(RecorderSettings.of_flows(flows), subjects=subjects)
    recorder = cluster_recorder(admin, fact_log, state, settings, mirrored)
    if recorder.take_role() is RoleVerdict.IN_USE:
        raise PreconditionError(f"{recorder.writer} is held by a running recorder; nothing was recorded")
    with ExitStack() as at_the_end:
        at_the_end.callback(recorder.release)
        if not once:
            at_the_end.enter_context(background_maintenance(config))
        return record_once(recorder, stop) if once else record_until(stop, recorder)


def request_stop(
    config: MirrorConfig, flow_name: str, *, reason: str | None, ticket: str | None = None
) -> str:
    """Leave a request in the ledger that a running driver of the flow sees; returns its operation id."""
    config.flow(flow_name)
    open_ledger(config.ledger.path)
    return operator_operations(config).record(StopRequest(), flow=flow_name, reason=reason, ticket=ticket)


@dataclass(frozen=True, slots=True)
class Requested:
    """A request held against the ledger: what it does; no operation id: there was nothing to do."""

    operation_id: str | None
    words: str
    taken_up: str


def request(
    config: MirrorConfig, flow_name: str, ask: Request, *, reason: str | None, ticket: str | None
) -> Requested:
    """Leave a request in the ledger that the flow's driver answers with a receipt.

    Raises `UsageError` or `PreconditionError`, and records nothing, when it makes no sense as things stand.
    """
    require_complete(ask)
    flow = config.flow(flow_name)
    judged_by = (*catalog.query("flow_status").reads, WRITERS.name, OPERATIONS.name)
    at = DeltaLedger(config.ledger.path).now(catalog.needed(judged_by).tables)
    answer_wiring.require_flow(config, at, flow_name)
    requests = flow_report.requests_of(_operations_of(at, flow_name))
    status_rows = answer_wiring.run_query(at, "flow_status", {"flow": flow_name}).to_pylist()
    judged = judge(ask, KnownFlow.of(flow_name, status_rows, requests))
    driver = driver_of(at, flow, status_rows, at_ms=SystemClock().now_ms(), is_now=True)
    taken_up = when_taken_up(flow_name, driver)
    if not judged.is_needed:
        return Requested(None, judged.words, taken_up)
    operation_id = operator_operations(config).record(ask, flow=flow_name, reason=reason, ticket=ticket)
    return Requested(operation_id, judged.words, taken_up)


def await_receipt(config: MirrorConfig, flow_name: str, operation_id: str, *, seconds: float) -> Receipt:
    """The driver's receipt of a request that was done; raises when it was refused or none came in time."""
    ledger = DeltaLedger(config.ledger.path)

    def receipts() -> list[Receipt]:
        return flow_report.receipts_of(_operations_of(ledger.now([OPERATIONS.name]), flow_name))

    return wait_for_receipt(operation_id, receipts, seconds=seconds, clock=SystemClock(), sleep=time.sleep)


# Examining -------------------------------------------------------------------------------------


def examine(
    config: MirrorConfig, flow_names: Sequence[str], *, probe: bool, retention_share: float
) -> list[Finding]:
    """Check all that the flows need, or else all that are enabled; with `probe`, in topics of its own at targets."""
    flows = [config.flow(name) for name in flow_names] or list(config.enabled_flows)
    clusters = {alias: config.cluster(alias) for flow in flows for alias in (flow.source, flow.target)}
    clock = SystemClock()
    with ExitStack() as opened:
        examination = Examination(
            config=config,
            flows=flows,
            left_out=[] if flow_names else [flow for flow in config.flows.values() if not flow.enabled],
            clusters={
                alias: opened.enter_context(closing(KafkaClusterProbe(cluster, clock)))
                for alias, cluster in clusters.items()
            },
            targets={
                flow.target: opened.enter_context(closing(KafkaTargetProbe(clusters[flow.target], clock)))
                for flow in flows
                if probe
            },
            ledger=DeltaLedgerProbe(config.ledger.path),
            machine=LocalMachine(),
            clock=clock,
            retention_share=retention_share,
        )
        return list(examination.findings())


def _operations_of(at: DeltaSnapshot, flow_name: str) -> list[dict[str, Any]]:
    return at.rows(OPERATIONS.name, [("flow", "=", flow_name)])
