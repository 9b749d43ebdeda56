"""The parts that commands are wired from: a checked configuration in, adapters and what stands on them out."""

import getpass
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from ledger.adapters.delta.background_maintenance import BackgroundMaintenance
from ledger.adapters.delta.fact_log import DeltaFactLog
from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.mirror_producers import KeptMirrorProducers
from ledger.adapters.delta.upkeeps import table_upkeeps
from ledger.adapters.kafka.admin.cluster_admin import KafkaAdmin
from ledger.adapters.kafka.connection.reach import KafkaReach
from ledger.adapters.kafka.network.kafka_network import KafkaNetwork
from ledger.adapters.kafka.network.kept_networks import KeptNetwork
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.spark.rounds import MirrorProducersFactory
from ledger.adapters.system import SystemClock
from ledger.config.flow import FlowConfig
from ledger.config.mirror import MirrorConfig
from ledger.domain.topics.topic_following import TopicFollowing
from ledger.domain.writer_roles import writer_of
from ledger.mirror.driver.take_over import require_free
from ledger.mirror.findings.lookout import Lookout, Watched
from ledger.mirror.findings.reach_watch import ReachWatch
from ledger.mirror.task.assignments import CopyLimits
from ledger.mirror.task.mirror_producers import no_mirror_producers
from ledger.mirror.task.troubles import Side
from ledger.mirror.topics.acl_following import AclFollowing
from ledger.mirror.topics.flow_topics import FlowTopics
from ledger.mirror.topics.following_record import FollowingRecord
from ledger.mirror.topics.source_deletions import SourceDeletions
from ledger.ports.ledger import require_recorded
from ledger.recording.mirrored_partitions import MirroredPartitions, WithFormer, copied_topics
from ledger.recording.observation import Partitions, RecorderSettings, Subject
from ledger.recording.operation_log import ClaimedOperations, OperatorOperations
from ledger.recording.recorder import ClusterRecorder

_REQUEST_TIMEOUT_S = 30.0


def background_maintenance(config: MirrorConfig) -> BackgroundMaintenance:
    """For a process that appends: it keeps the tables of its ledger while it runs."""
    return BackgroundMaintenance(table_upkeeps(config.ledger))


def cluster_admin(config: MirrorConfig, cluster: str) -> closing[KafkaAdmin]:
    """A connection that ends with the command: one that is left open keeps searching for its brokers."""
    return closing(KafkaAdmin(cluster, config.cluster(cluster), SystemClock()))


@contextmanager
def both_clusters(
    config: MirrorConfig, flow: FlowConfig, state: DeltaLedgerState
) -> Iterator[tuple[KafkaAdmin, KafkaAdmin, KafkaNetwork]]:
    """For a command that reads and writes beside no driver: admins of source and target, and links to both.

    Raises `PreconditionError` where another cluster answers behind an alias than the ledger knows.
    """
    clusters = config.cluster(flow.source), config.cluster(flow.target)
    with (
        cluster_admin(config, flow.source) as source,
        cluster_admin(config, flow.target) as target,
        closing(KafkaNetwork(*clusters, request_timeout_s=_REQUEST_TIMEOUT_S)) as network,
    ):
        require_recorded(state, source, target)
        yield source, target, network


def flow_topics(
    config: MirrorConfig,
    flow: FlowConfig,
    source: KafkaAdmin,
    target: KafkaAdmin,
    state: DeltaLedgerState,
    operations: ClaimedOperations,
) -> FlowTopics:
    following = TopicFollowing(
        flow.naming, target.broker_count(), flow.replication_factor, flow.settings_following
    )
    record = FollowingRecord(flow.name, operations, state)
    deletions = SourceDeletions(source, target, record, delete_topics=flow.delete_topics)
    acls = AclFollowing(flow.acls, flow.naming, source, target, record)
    return FlowTopics(
        config.topic_selection(flow.name), following, source, target, record, deletions, acls, SystemClock()
    )


def lookout(config: MirrorConfig, flow: FlowConfig, topics: FlowTopics, watch: ReachWatch) -> Lookout:
    watched = {
        Side.SOURCE: Watched(KafkaReach(config.cluster(flow.source)), topics.source_partitions),
        Side.TARGET: Watched(KafkaReach(config.cluster(flow.target)), topics.target_partitions),
    }
    return Lookout(watch, watched, SystemClock())


def worker_networks(config: MirrorConfig, flow: FlowConfig, limits: CopyLimits) -> KeptNetwork:
    return KeptNetwork(
        config.cluster(flow.source), config.cluster(flow.target), limits.request_timeout_ms / 1000
    )


def mirror_producers_of(
    config: MirrorConfig, flow: FlowConfig, source_cluster_id: str
) -> MirrorProducersFactory:
    return no_mirror_producers if flow.relay else KeptMirrorProducers(config.ledger.path, source_cluster_id)


def cluster_recorder(
    config: MirrorConfig,
    admin: KafkaAdmin,
    fact_log: DeltaFactLog,
    state: DeltaLedgerState,
    subjects: frozenset[Subject],
    *,
    partitions_of_one: Partitions | None = None,
) -> ClusterRecorder:
    """For all enabled flows that touch the cluster, whichever of them brings it: one process records a cluster.

    `partitions_of_one`: those of the flow that a driver runs. Where no other one touches the cluster nobody has to ask
    the cluster for them.
    """
    flows = [flow for flow in config.enabled_flows if admin.alias in (flow.source, flow.target)]
    known = partitions_of_one if len(flows) == 1 else None
    mirrored = known or MirroredPartitions(config, admin, flows)
    return ClusterRecorder(
        admin,
        fact_log,
        state,
        SystemClock(),
        replace(RecorderSettings.of_flows(flows), subjects=subjects),
        partitions=WithFormer(mirrored, admin, copied_topics(state, admin.alias)),
        processes=LocalProcesses(),
    )


def operator_operations(config: MirrorConfig) -> OperatorOperations:
    return OperatorOperations(DeltaFactLog(config.ledger.path, SystemClock()), operator=getpass.getuser())


def driver_operations() -> ClaimedOperations:
    return ClaimedOperations(operator=getpass.getuser())


def require_stopped(flow: FlowConfig, state: DeltaLedgerState) -> None:
    """Raise `PreconditionError` while a driver of the flow may be at work."""
    require_free(
        flow,
        state.last_claim(writer_of(flow.name)),
        LocalProcesses(),
        now_ms=SystemClock().now_ms(),
        way_out=f"Stop it first: mirror-ledger stop {flow.name}",
    )
