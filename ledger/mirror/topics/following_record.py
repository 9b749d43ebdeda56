"""What the ledger knows and learns about a flow's target topics: changes by the flow, and findings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ledger.domain.offsets.supersession import SEQUENCED_KINDS, RecordedSync, effective
from ledger.domain.operations.target_changes import AclAction, AclsFollowed, TopicAction, TopicFollowed
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.domain.topics.topic_settings import SettingsChange
from ledger.mirror.findings.finding_log import FindingName, Findings
from ledger.mirror.topics.target_settings import SETTING_FINDINGS
from ledger.ports.clusters import ClusterAdmin, NewTopic
from ledger.ports.ledger import LedgerState, OperationEntry, OperationLog, require_recorded

TOPIC_FINDINGS = (
    *SETTING_FINDINGS,
    FindingName.MORE_PARTITIONS,
    FindingName.PATTERN_MATCHES_NOTHING,
    FindingName.TARGET_NAME_CONFLICT,
    FindingName.TARGET_TOPIC_NOT_CREATED,
    FindingName.PARTITIONS_NOT_ADDED,
    FindingName.SETTINGS_NOT_READ,
    FindingName.SETTINGS_NOT_CHANGED,
    FindingName.NEW_BEHIND_PROMOTION,
    FindingName.SOURCE_TOPIC_DELETED,
    FindingName.TARGET_TOPIC_NOT_DELETED,
    FindingName.ACLS_NOT_READ,
    FindingName.ACLS_NOT_CHANGED,
)


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """The incarnations of a source topic and of the target topic that the flow copied it to."""

    source: str
    source_id: str
    target: str
    target_id: str


class FollowingRecord:
    """Records each change of a target topic; reads nothing before it is asked."""

    def __init__(self, flow: str, operations: OperationLog, state: LedgerState) -> None:
        self.findings = Findings(flow, TOPIC_FINDINGS, operations, state)
        self._flow = flow
        self._operations = operations
        self._state = state
        self._set_by_mirror: dict[str, frozenset[str]] | None = None
        self._created_acls: frozenset[TopicAcl] | None = None

    def set_by_mirror(self) -> dict[str, frozenset[str]]:
        """Names of settings that the flow had set and not removed, by target topic id."""
        if self._set_by_mirror is None:
            self._set_by_mirror = self._state.followed_settings(self._flow)
        return self._set_by_mirror

    def mirrored_topics(self) -> dict[str, MirroredTopic]:
        """What the ledger has offset syncs for, by source topic id."""
        return {
            position.source_topic_id: MirroredTopic(
                position.source_topic,
                position.source_topic_id,
                position.target_topic,
                position.target_topic_id,
            )
            for position in self._state.positions(self._flow)
        }

    def written_target_ids(self) -> frozenset[str]:
        """Ids of target topics that hold records of this flow, as the ledger has it now."""
        positions = self._state.positions(self._flow)
        return frozenset(known.target_topic_id for known in positions if known.position.next_sequence > 0)

    def written_ranges(self, topic: MirroredTopic, partition: int) -> list[tuple[int, int]]:
        """Target offsets of records that the flow wrote, in order, as the ledger has it now; not what it adopted, nor
        what of it was superseded."""
        lives: dict[str, list[RecordedSync]] = {}
        for row in self._state.recorded_syncs(self._flow, topic.source, partition):
            lives.setdefault(row.sync.source.topic_id, []).append(row)
        return sorted(
            (one.target_start, one.target_end)
            for rows in lives.values()
            for one in effective([row.sync for row in sorted(rows, key=lambda row: row.place)])
            if one.kind in SEQUENCED_KINDS and one.target.topic_id == topic.target_id
        )

    def wrote(self, cluster_id: str, producer_id: int) -> bool:
        """Whether a batch of this Kafka cluster is the flow's own."""
        producer = self._state.identities().producers(cluster_id).get(self._flow)
        return producer is not None and producer.wrote(producer_id)

    def was_ever_promoted(self, cluster: str, topic: str) -> bool:
        """Whether applications may have written to a topic of the target."""
        return self._state.requests_and_directions(self._flow)[1].was_ever_promoted(cluster, topic)

    def deleted_source_ids(self, cluster: str) -> frozenset[str]:
        """Ids of topics that a recorder of the source saw deleted, as the ledger has it now."""
        return self._state.deleted_topic_ids(cluster)

    def require_recorded(self, *admins: ClusterAdmin) -> None:
        """Raise `PreconditionError` when another cluster answers behind an alias than the ledger knows."""
        require_recorded(self._state, *admins)

    def created(self, topics: Sequence[NewTopic], topic_ids: Mapping[str, str]) -> None:
        """Topics that were created together; `topic_ids` by name."""
        entries: list[OperationEntry] = []
        for topic in topics:
            done, topic_id = SettingsChange(topic.configuration), topic_ids[topic.name]
            created = TopicFollowed(
                action=TopicAction.CREATED,
                topic=topic.name,
                topic_id=topic_id,
                partitions=topic.partitions,
                change=done,
            )
            entries.append((str(created.action), created))
            self._note_settings(topic_id, done)
        self._operations.record_all(entries, flow=self._flow)

    def partitions_added(self, topic: str, topic_id: str, partitions: int) -> None:
        action = TopicAction.PARTITIONS_ADDED
        self._record(TopicFollowed(action=action, topic=topic, topic_id=topic_id, partitions=partitions))

    def settings_changed(self, topic: str, topic_id: str, change: SettingsChange) -> None:
        action = TopicAction.SETTINGS_CHANGED
        self._record(TopicFollowed(action=action, topic=topic, topic_id=topic_id, change=change))

    def deleted(self, topic: str, topic_id: str) -> None:
        self._record(TopicFollowed(action=TopicAction.DELETED, topic=topic, topic_id=topic_id))

    def created_acls(self) -> frozenset[TopicAcl]:
        """Access control lists that the flow had created and not removed."""
        if self._created_acls is None:
            self._created_acls = self._state.created_acls(self._flow)
        return self._created_acls

    def acls_created(self, acls: Sequence[TopicAcl]) -> None:
        self._record_acls(AclAction.CREATED, acls)
        self._created_acls = self.created_acls() | set(acls)

    def acls_removed(self, acls: Sequence[TopicAcl]) -> None:
        self._record_acls(AclAction.REMOVED, acls)
        self._created_acls = self.created_acls() - set(acls)

    def _record_acls(self, action: AclAction, acls: Sequence[TopicAcl]) -> None:
        self._operations.record(AclsFollowed(action, tuple(acls)), flow=self._flow, reason=str(action))

    def _record(self, followed: TopicFollowed) -> None:
        self._operations.record(followed, flow=self._flow, reason=str(followed.action))
        self._note_settings(followed.topic_id, followed.change)

    def _note_settings(self, topic_id: str, done: SettingsChange) -> None:
        known = self.set_by_mirror()
        known[topic_id] = (known.get(topic_id, frozenset()) | done.to_set.keys()) - set(done.to_remove)
