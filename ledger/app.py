"""Wiring: one function per command, called by the command line and by the jobs.

Functions take a checked configuration and return values; they print nothing. Whatever may fail without
Spark (configuration, ledger, brokers) is tried before a session is started.
"""

import getpass
from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.sql import SparkSession

from ledger import catalog
from ledger.adapters.delta.reading import DeltaLedger, DeltaSnapshot, open_ledger
from ledger.adapters.delta.state import DeltaLedgerState, DeltaOperationLog
from ledger.adapters.delta.tables import create_tables
from ledger.adapters.duck import engine
from ledger.adapters.kafka.admin import KafkaAdmin
from ledger.adapters.kafka.worker_networks import KeptNetwork
from ledger.adapters.spark.fact_log import DeltaFactLog
from ledger.adapters.spark.rounds import SparkRoundRunner
from ledger.adapters.system import SystemClock, process_identity
from ledger.catalog import Value
from ledger.config import FlowConfig, MirrorConfig
from ledger.domain.topics import TopicFollowing
from ledger.errors import UsageError
from ledger.mirror import flow_driver
from ledger.mirror.assignments import CopyLimits
from ledger.mirror.flow_driver import FlowPorts
from ledger.mirror.flow_topics import FlowTopics
from ledger.mirror.round_loop import StopSignal
from ledger.mirror.run_summary import RunSummary

SessionFactory = Callable[[], SparkSession]


def init_ledger(config: MirrorConfig) -> list[str]:
    """Create the ledger's tables; returns the names of those that were created now."""
    return create_tables(config.ledger.path, now_ms=SystemClock().now_ms())


def run_flow(
    config: MirrorConfig,
    flow_name: str,
    *,
    session: SessionFactory,
    until_caught_up: bool,
    stop: StopSignal,
    on_round: Callable[[RunSummary], None],
) -> RunSummary:
    """Run a flow with its recorders until caught up or asked to stop."""
    flow = config.flow(flow_name)
    ledger = open_ledger(config.ledger.path)
    clock = SystemClock()
    source, target = _admin(config, flow.source), _admin(config, flow.target)
    topics = FlowTopics(
        config.topic_selection(flow_name),
        TopicFollowing(
            flow.naming, target.broker_count(), flow.replication_factor, flow.configuration_exclude
        ),
        source,
        target,
    )
    source.broker_count()
    spark = session()
    limits = CopyLimits()
    ports = FlowPorts(
        source=source,
        target=target,
        fact_log=DeltaFactLog(spark, config.ledger.path, clock),
        state=DeltaLedgerState(ledger),
        operations=_operations(config),
        runner=SparkRoundRunner(spark.sparkContext, _network(config, flow, limits), limits),
        clock=clock,
    )
    return flow_driver.run_flow(
        flow,
        topics,
        ports,
        host=process_identity(),
        until_caught_up=until_caught_up,
        stop=stop,
        on_round=on_round,
    )


def request_stop(config: MirrorConfig, flow_name: str, *, reason: str | None) -> str:
    """Leave a request in the ledger that a running driver of the flow sees; returns its operation id."""
    config.flow(flow_name)
    open_ledger(config.ledger.path)
    return _operations(config).record("stop", flow=flow_name, reason=reason, content={})


def _admin(config: MirrorConfig, cluster: str) -> KafkaAdmin:
    return KafkaAdmin(cluster, config.cluster(cluster), SystemClock())


def _network(config: MirrorConfig, flow: FlowConfig, limits: CopyLimits) -> KeptNetwork:
    return KeptNetwork(
        config.cluster(flow.source), config.cluster(flow.target), limits.request_timeout_ms / 1000
    )


def _operations(config: MirrorConfig) -> DeltaOperationLog:
    return DeltaOperationLog(config.ledger.path, SystemClock(), operator=getpass.getuser())
