"""Which topics a flow copies, with all that follows them, wired from a checked configuration. No Spark."""

from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.kafka.admin import KafkaAdmin
from ledger.mirror.targets import FollowingRecord
from ledger.mirror.topics import FlowTopics
from ledger.store.session import ClaimedOperations
from ledger.store.state import DeltaLedgerState
from ledger.topics.following import TopicFollowing


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
    return FlowTopics(
        config.topic_selection(flow.name),
        following,
        source,
        target,
        FollowingRecord(flow.name, operations, state),
        SystemClock(),
        delete_topics=flow.delete_topics,
        acls=flow.acls,
    )
