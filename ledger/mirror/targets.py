"""Target topics as they follow their sources: settings, rules, deletions, and what is recorded of that."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ledger.errors import PreconditionError
from ledger.facts.acls import acl_change, wanted_acls
from ledger.facts.findings import Finding, FindingName, Findings
from ledger.facts.operations import AclAction, AclsFollowed, TopicAction, TopicFollowed
from ledger.facts.permissions import Permission
from ledger.facts.state import LedgerState, OperationLog
from ledger.facts.syncs import (
    SEQUENCED_KINDS,
    Absence,
    OffsetRange,
    TopicPartition,
    by_source_incarnation,
    effective,
    without,
)
from ledger.kafka.cluster import AclAdmin, ClusterAdmin, TopicDescription, headers_between, require_recorded
from ledger.mirror.assignment import Hold
from ledger.topics.following import REQUIRED_AT_TARGET, NewTopic, SettingsChange, is_fence
from ledger.topics.naming import TopicNaming

# Target settings ----------------------------------------------------------------------------------
# What the settings of a target topic mean for its copy: raised by drivers as findings, reported by `doctor`
# before.


Settings = Mapping[str, str]

SETTING_FINDINGS = (
    FindingName.MIN_INSYNC_REPLICAS_ONE,
    FindingName.UNCLEAN_LEADER_ELECTION,
    FindingName.RECOMPRESSED,
    FindingName.LOG_APPEND_TIME,
    FindingName.OLD_RECORDS_REFUSED,
    FindingName.FUTURE_RECORDS_REFUSED,
    FindingName.MAX_MESSAGE_BYTES_BELOW_SOURCE,
    FindingName.RETENTION_BELOW_SOURCE,
)
"""All that `concerns` may find."""

_UNLIMITED = -1
_LIMIT = "max.message.bytes"


def target_findings(topic: str, *, source: Settings, target: Settings, replicas: int) -> list[Finding]:
    """What a driver raises about a target topic: not that batches may come that are too large, but when they do
    (`batches_cut`)."""
    return [
        Finding(name=name, topic=topic, message=f"{topic}: {message}")
        for name, message in concerns(source=source, target=target, replicas=replicas).items()
        if name is not FindingName.MAX_MESSAGE_BYTES_BELOW_SOURCE
    ]


def concerns(*, source: Settings, target: Settings, replicas: int) -> dict[FindingName, str]:
    """What is wrong with a target topic, with the values, from the effective settings of a source and a target topic.

    What is not reported is not judged.
    """
    one_may_acknowledge = replicas >= 2 and target.get("min.insync.replicas") == "1"
    is_fenced = is_fence(_LIMIT, source.get(_LIMIT))
    found = {
        FindingName.MIN_INSYNC_REPLICAS_ONE: (
            f"min.insync.replicas is 1 with {replicas} replicas" if one_may_acknowledge else None
        ),
        FindingName.UNCLEAN_LEADER_ELECTION: _is_not(target, "unclean.leader.election.enable", "false"),
        FindingName.RECOMPRESSED: _is_not_required(target, "compression.type"),
        FindingName.LOG_APPEND_TIME: _is_not_required(target, "message.timestamp.type"),
        FindingName.OLD_RECORDS_REFUSED: _is_not_required(target, "message.timestamp.before.max.ms"),
        FindingName.FUTURE_RECORDS_REFUSED: _is_not_required(target, "message.timestamp.after.max.ms"),
        FindingName.MAX_MESSAGE_BYTES_BELOW_SOURCE: (
            None if is_fenced else _below(source, target, _LIMIT, int)
        ),
        FindingName.RETENTION_BELOW_SOURCE: "; ".join(_shorter_retention(source, target)) or None,
    }
    return {name: message for name, message in found.items() if message is not None}


def _is_not_required(target: Settings, name: str) -> str | None:
    return _is_not(target, name, REQUIRED_AT_TARGET[name])


def _is_not(target: Settings, name: str, wanted: str) -> str | None:
    found = target.get(name, wanted)
    return None if found == wanted else f"{name} is {found}"


def _shorter_retention(source: Settings, target: Settings) -> Iterator[str]:
    """Only where the target deletes by age or size at all."""
    if "delete" in target.get("cleanup.policy", "delete"):
        for name in ("retention.ms", "retention.bytes"):
            shorter = _below(source, target, name, _bounded)
            if shorter is not None:
                yield shorter


def _below(source: Settings, target: Settings, name: str, size: Callable[[str], float]) -> str | None:
    if name not in source or name not in target or size(target[name]) >= size(source[name]):
        return None
    return f"{name} is {target[name]}, at the source {source[name]}"


def _bounded(value: str) -> float:
    return float("inf") if int(value) == _UNLIMITED else int(value)


# Following record ---------------------------------------------------------------------------------
# What the ledger knows and learns about a flow's target topics: changes by the flow, and findings.


TOPIC_FINDINGS = (
    *SETTING_FINDINGS,
    FindingName.MORE_PARTITIONS,
    FindingName.PATTERN_MATCHES_NOTHING,
    FindingName.TOPICS_LEFT_OUT,
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
        self.flow = flow
        self.state = state
        self._operations = operations
        self._set_by_mirror: dict[str, frozenset[str]] | None = None
        self._created_acls: frozenset[Permission] | None = None

    def set_by_mirror(self) -> dict[str, frozenset[str]]:
        """Names of settings that the flow had set and not removed, by target topic id."""
        if self._set_by_mirror is None:
            self._set_by_mirror = self.state.followed_settings(self.flow)
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
            for position in self.state.positions(self.flow)
        }

    def created(self, topics: Sequence[NewTopic], topic_ids: Mapping[str, str]) -> None:
        """Topics that were created together; `topic_ids` by name."""
        self.followed(
            *(
                TopicFollowed(
                    action=TopicAction.CREATED,
                    topic=topic.name,
                    topic_id=topic_ids[topic.name],
                    partitions=topic.partitions,
                    change=SettingsChange(topic.configuration),
                )
                for topic in topics
            )
        )

    def followed(self, *done: TopicFollowed) -> None:
        """What was done to topics at once."""
        self._operations.record_all([(str(one.action), one) for one in done], flow=self.flow)
        known = self.set_by_mirror()
        for one in done:
            before = known.get(one.topic_id, frozenset())
            known[one.topic_id] = (before | one.change.to_set.keys()) - set(one.change.to_remove)

    def created_acls(self) -> frozenset[Permission]:
        """Access control lists that the flow had created and not removed."""
        if self._created_acls is None:
            self._created_acls = self.state.created_acls(self.flow)
        return self._created_acls

    def acls_followed(self, action: AclAction, acls: Sequence[Permission]) -> None:
        self._operations.record(AclsFollowed(action, tuple(acls)), flow=self.flow, reason=str(action))
        known = self.created_acls()
        self._created_acls = known | set(acls) if action is AclAction.CREATED else known - set(acls)


# Source deletions ---------------------------------------------------------------------------------
# Source topics that were deleted: the target topic is kept, or deleted if the flow says so.
#
# What a deletion takes may be the last copy there is, so it rests on facts of the ledger: a cluster that
# lost its topics, or another one at its address, says of all of them that they were deleted.


log = logging.getLogger(__name__)

REFRESHES_BEFORE_DELETION = 2
"""A topic that is listed again at the next refresh was not deleted."""


class SourceDeletions:
    """Compares what the flow has mirrored with what the source still has.

    A target topic is deleted only if all of this holds:
        D1  the ledger says that this very incarnation of it holds records of the flow
        D2  the source has said at two refreshes in a row that it has no topic of the name, and has other topics
        D3  a recorder of the source has recorded that this very incarnation of the source topic was deleted
        D4  of two or more topics with such records not more than half were deleted at one refresh
        D5  both clusters are the ones that the ledger knows
        D6  of what lies there now, behind the flow's map and within it, all was written by the flow: what its rows do
            not claim is read, batch by batch
        D7  it was never promoted: applications have not written there
    Else it is kept, and a finding says why.
    """

    def __init__(
        self, source: ClusterAdmin, target: ClusterAdmin, record: FollowingRecord, *, delete_topics: bool
    ) -> None:
        self._source = source
        self._target = target
        self._record = record
        self._delete_topics = delete_topics
        self._refreshes_without: dict[str, int] = {}

    def refresh(
        self,
        mirrored: Iterable[MirroredTopic],
        sources: Mapping[str, TopicDescription],
        targets: Mapping[str, TopicDescription],
    ) -> list[Finding]:
        """Findings about the mirrored topics whose source was deleted; deletes what is to be deleted."""
        target_ids = {name: found.topic_id for name, found in targets.items()}
        remaining = [topic for topic in set(mirrored) if target_ids.get(topic.target) == topic.target_id]
        deleted = [
            topic for topic in remaining if topic.source not in sources and self._is_deleted(topic.source)
        ]
        names = {topic.source for topic in deleted}
        self._refreshes_without = {name: self._refreshes_without.get(name, 0) + 1 for name in names}
        findings = [
            self._judge(topic, remaining, deleted, sources, targets)
            for topic in sorted(deleted, key=lambda topic: topic.source)
        ]
        return [finding for finding in findings if finding is not None]

    def _is_deleted(self, topic: str) -> bool:
        """Asked for by name: a topic that this principal may not see any more was not deleted."""
        try:
            return self._source.is_deleted(topic)
        except PreconditionError as error:
            log.warning(
                "%(topic)s is not listed at the source any more: %(cause)s", {"topic": topic, "cause": error}
            )
            return False

    def _judge(
        self,
        topic: MirroredTopic,
        remaining: Sequence[MirroredTopic],
        deleted: Sequence[MirroredTopic],
        sources: Mapping[str, TopicDescription],
        targets: Mapping[str, TopicDescription],
    ) -> Finding | None:
        state, flow = self._record.state, self._record.flow
        positions = state.positions(flow) if self._delete_topics else ()
        written = {known.target_topic_id for known in positions if known.position.next_sequence > 0}
        if topic.target_id not in written:
            return self._kept(topic)
        doubt = _doubt(_written(deleted, written), _written(remaining, written), sources)
        if doubt is not None:
            return self._kept(topic, doubt)
        if topic.source_id not in state.deleted_topic_ids(self._source.alias):
            return self._kept(topic, f"no recorder of {self._source.alias} has recorded its deletion")
        if state.requests_and_directions(flow)[1].was_ever_promoted(self._target.alias, topic.target):
            return self._kept(
                topic, f"{topic.target} was promoted once, so applications may have written there"
            )
        others = self._of_others(topic, targets[topic.target].partitions)
        is_due = self._refreshes_without[topic.source] >= REFRESHES_BEFORE_DELETION
        return self._delete(topic) if others is None and is_due else self._kept(topic, others)

    def _kept(self, topic: MirroredTopic, reason: str | None = None) -> Finding:
        why = "" if reason is None else f": {reason}"
        source, target = self._source.alias, self._target.alias
        return Finding(
            name=FindingName.SOURCE_TOPIC_DELETED,
            topic=topic.source,
            message=f"{topic.source} was deleted at the source; {topic.target} is kept{why}",
            advice=f"where that was a mistake, its groups continue at {target} by mirror-ledger offsets set --from "
            f"{source} --to {target} --all-groups --topic {topic.source} --accept {Absence.GONE} --reason WHY "
            f'(RUNBOOK, "A topic was deleted by mistake"); '
            f"where it was meant, delete {topic.target} at {target} once nobody needs it",
        )

    def _of_others(self, topic: MirroredTopic, partitions: int) -> str | None:
        """Why it may hold what the flow has not written, by its logs as they are now; None: it holds nothing else."""
        places = [(topic.target, number) for number in range(partitions)]
        ends = self._target.ends(places)
        producers = self._record.state.identities().producers(self._target.cluster_id())
        producer = producers.get(self._record.flow)
        for name, number in places:
            end = ends.get((name, number))
            if end is None:
                return f"partition {number} of {name} has no leader, so nobody knows what it holds"
            at = TopicPartition(name, topic.target_id, number)
            for start, stop in without((end.log_start, end.high_watermark), self._written(topic, number)):
                for header in headers_between(self._target, at, start, stop):
                    if producer is None or not producer.wrote(header.producer_id):
                        offset = max(header.base_offset, start)
                        return f"partition {number} of {name} holds what this flow did not write, at offset {offset}"
        return None

    def _written(self, topic: MirroredTopic, partition: int) -> list[OffsetRange]:
        """Target offsets of records that the flow wrote, in order, as the ledger has it now; not what it adopted, nor
        what of it was superseded."""
        rows = self._record.state.recorded_syncs(self._record.flow, topic.source, partition)
        return sorted(
            (one.target_start, one.target_end)
            for of_source in by_source_incarnation(sorted(rows, key=lambda row: row.place)).values()
            for one in effective([row.sync for row in of_source])
            if one.kind in SEQUENCED_KINDS and one.target.topic_id == topic.target_id
        )

    def _delete(self, topic: MirroredTopic) -> Finding | None:
        try:
            require_recorded(self._record.state, self._source, self._target)
            self._target.delete_topic(topic.target, topic_id=topic.target_id)
        except PreconditionError as error:
            name = FindingName.TARGET_TOPIC_NOT_DELETED
            return Finding(name=name, topic=topic.target, message=str(error))
        log.warning(
            "deleted topic %(target_topic)s: its source %(topic)s was deleted",
            {"target_topic": topic.target, "topic": topic.source},
        )
        deleted = TopicFollowed(action=TopicAction.DELETED, topic=topic.target, topic_id=topic.target_id)
        self._record.followed(deleted)
        return None


def _written(topics: Iterable[MirroredTopic], written: Collection[str]) -> frozenset[str]:
    """Sources of topics that hold records of the flow: a new one outweighs none that was deleted."""
    return frozenset(topic.source for topic in topics if topic.target_id in written)


def _doubt(
    deleted: Collection[str], mirrored: Collection[str], sources: Mapping[str, TopicDescription]
) -> str | None:
    """Why what is missing at this refresh does not count as deleted on purpose (D2, D4); None: it does."""
    if all(topic.internal for topic in sources.values()):
        return "the source has no topics at all"
    if len(mirrored) >= 2 and 2 * len(deleted) > len(mirrored):
        return f"{len(deleted)} of the {len(mirrored)} topics that this flow mirrored were deleted at once"
    return None


# Acl following ------------------------------------------------------------------------------------
# Access control lists of target topics follow those of the source, where the flow says so.


class TopicAdmin(ClusterAdmin, AclAdmin, Protocol):
    """A cluster whose topics are followed, or follow, with the rules of access to them."""


def follow_acls(
    source: TopicAdmin,
    target: AclAdmin,
    record: FollowingRecord,
    naming: TopicNaming,
    topics: Collection[str],
    hold: Hold,
) -> list[Finding]:
    """Create what is wanted for the selected source topics, and remove what this flow had created and nobody wants now.

    What is refused is a finding of the flow. Rules of topics that may not be written to are left as they are; what a
    fence denies at the source, nobody is denied at the target.
    """
    try:
        at_source, at_target = source.topic_acls(), target.topic_acls()
    except PreconditionError as error:
        return [Finding(name=FindingName.ACLS_NOT_READ, message=str(error))]
    fences = record.state.denied_by_fences(source.alias)
    change = acl_change(
        wanted_acls(at_source - fences, naming=naming, topics=topics),
        at_target,
        created_by_mirror=record.created_acls(),
    ).without(lambda acl: hold(acl.resource_name) is not None)
    try:
        if change.to_create:
            target.create_acls(change.to_create)
            record.acls_followed(AclAction.CREATED, change.to_create)
        if change.to_remove:
            target.delete_acls(change.to_remove)
            record.acls_followed(AclAction.REMOVED, change.to_remove)
    except PreconditionError as error:
        return [Finding(name=FindingName.ACLS_NOT_CHANGED, message=str(error))]
    return []
