"""Findings: what needs attention while a flow runs, raised once and cleared once, in the ledger.

A finding is identified by its name, topic and partition; its message may change without being raised
again. Whoever watches a subject builds a `Findings` of its own for the names of that subject and
reports, after every check, all that hold now: what is new is raised, what is no longer among them is
cleared. Nothing is reported when the check itself failed. What an earlier driver raised is read from the
ledger at the first report.

A new finding needs a name and an entry in `EXPLAINED`.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ledger.facts.operations import FindingCleared, FindingKey, FindingRaised
from ledger.facts.state import LedgerState, OperationEntry, OperationLog
from ledger.words import instant, shell_word


class Side(StrEnum):
    """Which cluster of a copy."""

    SOURCE = "source"
    TARGET = "target"


# Finding log --------------------------------------------------------------------------------------


log = logging.getLogger(__name__)


class FindingName(StrEnum):
    """What a finding says; `EXPLAINED` has the meanings."""

    # About target topics.
    MIN_INSYNC_REPLICAS_ONE = "min_insync_replicas_one"
    UNCLEAN_LEADER_ELECTION = "unclean_leader_election"
    RECOMPRESSED = "recompressed"
    LOG_APPEND_TIME = "log_append_time"
    OLD_RECORDS_REFUSED = "old_records_refused"
    FUTURE_RECORDS_REFUSED = "future_records_refused"
    MAX_MESSAGE_BYTES_BELOW_SOURCE = "max_message_bytes_below_source"
    RETENTION_BELOW_SOURCE = "retention_below_source"
    MORE_PARTITIONS = "more_partitions"
    # About following.
    PATTERN_MATCHES_NOTHING = "pattern_matches_nothing"
    TOPICS_LEFT_OUT = "topics_left_out"
    TARGET_NAME_CONFLICT = "target_name_conflict"
    TARGET_TOPIC_NOT_CREATED = "target_topic_not_created"
    PARTITIONS_NOT_ADDED = "partitions_not_added"
    SETTINGS_NOT_READ = "settings_not_read"
    SETTINGS_NOT_CHANGED = "settings_not_changed"
    NEW_BEHIND_PROMOTION = "new_behind_promotion"
    SOURCE_TOPIC_DELETED = "source_topic_deleted"
    TARGET_TOPIC_NOT_DELETED = "target_topic_not_deleted"
    ACLS_NOT_READ = "acls_not_read"
    ACLS_NOT_CHANGED = "acls_not_changed"
    # About partitions.
    LAST_STABLE_OFFSET_STUCK = "last_stable_offset_stuck"
    TOMBSTONES_MAY_BE_MISSING = "tombstones_may_be_missing"
    BATCHES_CUT = "batches_cut"
    RECORDS_PUT_ASIDE = "records_put_aside"
    TRANSACTIONS_OPEN_AGAIN = "transactions_open_again"
    SOURCE_NOT_COMPARED = "source_not_compared"
    # About the recorders beside the flow.
    RECORDING_STOPPED = "recording_stopped"
    # About the file that it was started with.
    CONFIGURATION_FILE_CHANGED = "configuration_file_changed"
    # About the clusters; the topic is None where it is the whole cluster.
    SOURCE_UNREACHABLE = "source_unreachable"
    TARGET_UNREACHABLE = "target_unreachable"
    SOURCE_THROTTLED = "source_throttled"
    TARGET_THROTTLED = "target_throttled"
    # Of a recorder about its cluster; of no flow.
    CLUSTER_UNREACHABLE = "cluster_unreachable"
    LATE_WRITE = "late_write"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a finding means and what an operator can do about it."""

    meaning: str
    next: str


EXPLAINED: Mapping[FindingName, Explanation] = {
    FindingName.MIN_INSYNC_REPLICAS_ONE: Explanation(
        "one of several replicas may acknowledge alone: what it acknowledged can be lost with it",
        "set min.insync.replicas of the target topic to 2 or more",
    ),
    FindingName.UNCLEAN_LEADER_ELECTION: Explanation(
        "a replica that lags behind may become leader: acknowledged records can vanish",
        "set unclean.leader.election.enable of the target topic to false",
    ),
    FindingName.RECOMPRESSED: Explanation(
        "compression.type is not producer: copied batches do not stay the bytes they were",
        "set compression.type of the target topic to producer",
    ),
    FindingName.LOG_APPEND_TIME: Explanation(
        "message.timestamp.type is LogAppendTime: the times of records do not survive",
        "set message.timestamp.type of the target topic to CreateTime",
    ),
    FindingName.OLD_RECORDS_REFUSED: Explanation(
        "message.timestamp.before.max.ms is set: the target refuses older records, and one stops its partition",
        "set message.timestamp.before.max.ms of the target topic to 9223372036854775807",
    ),
    FindingName.FUTURE_RECORDS_REFUSED: Explanation(
        "message.timestamp.after.max.ms is set: the target refuses records further ahead, and one stops its partition",
        "set message.timestamp.after.max.ms of the target topic to 9223372036854775807",
    ),
    FindingName.MAX_MESSAGE_BYTES_BELOW_SOURCE: Explanation(
        "the target topic can refuse batches that the source accepts",
        "raise max.message.bytes of the target topic",
    ),
    FindingName.RETENTION_BELOW_SOURCE: Explanation(
        "records expire at the target while the source still has them",
        "raise the retention of the target topic, or accept that its history is shorter",
    ),
    FindingName.MORE_PARTITIONS: Explanation(
        "the target topic has more partitions than the source: producers at the target spread keys differently",
        "add partitions at the source, or accept that the surplus gets nothing",
    ),
    FindingName.PATTERN_MATCHES_NOTHING: Explanation(
        "a pattern of the flow does nothing: what was meant by it is not mirrored, or not left out",
        "correct the pattern; or create the topic, or grant DESCRIBE on it to the mirror's principal; a topic that is "
        "left out for its name is mirrored where let_in of the flow matches it",
    ),
    FindingName.TOPICS_LEFT_OUT: Explanation(
        "topics that the flow's patterns select are not mirrored: they are named as bookkeeping or copies are",
        "mirror them by let_in of the flow, or leave them out by exclude",
    ),
    FindingName.TARGET_NAME_CONFLICT: Explanation(
        "a source topic cannot have its target name: not a name, its own, or another topic's; it is not copied",
        "change the flow's rename rules or leave one of the topics out",
    ),
    FindingName.TARGET_TOPIC_NOT_CREATED: Explanation(
        "the target refused to create the topic; its source is not copied, the flow tries again",
        "grant CREATE to the mirror's principal, create the topic, or exclude the setting that was refused",
    ),
    FindingName.PARTITIONS_NOT_ADDED: Explanation(
        "the target topic has fewer partitions than its source and refused more; it is not copied",
        "grant ALTER to the mirror's principal, or add the partitions at the target",
    ),
    FindingName.SETTINGS_NOT_READ: Explanation(
        "settings of the topic may not be described: they do not follow and are not checked",
        "grant DESCRIBE_CONFIGS on the topic to the mirror's principal",
    ),
    FindingName.SETTINGS_NOT_CHANGED: Explanation(
        "the target refused to change settings of the topic; it is copied all the same",
        "grant ALTER_CONFIGS on the topic, or exclude the setting that was refused",
    ),
    FindingName.NEW_BEHIND_PROMOTION: Explanation(
        "a topic that was never mirrored is at the source, over which the target was promoted: nothing copies it",
        "find out who writes there still and delete it, or let it be mirrored: mirror-ledger demote CLUSTER --over "
        "OTHER --topic TOPIC --reason WHY",
    ),
    FindingName.SOURCE_TOPIC_DELETED: Explanation(
        "the source topic was deleted; its target topic is kept",
        'where that was a mistake, its groups continue at the target (RUNBOOK, "A topic was deleted by mistake"); '
        "where it was meant, delete the target topic once nobody needs it, or let delete_topics = true do it",
    ),
    FindingName.TARGET_TOPIC_NOT_DELETED: Explanation(
        "the target refused to delete the topic whose source was deleted; the flow tries again",
        "grant DELETE on the topic to the mirror's principal, or delete it",
    ),
    FindingName.LAST_STABLE_OFFSET_STUCK: Explanation(
        "an open transaction at the source blocks the mirror; what lies behind it would be lost in a failover",
        "find the transaction by kafka-transactions.sh find-hanging at the source, and abort it",
    ),
    FindingName.TOMBSTONES_MAY_BE_MISSING: Explanation(
        "a compacted topic was read later than its tombstones last: deleted keys may remain at the target",
        "stop the flow and compare the keys: mirror-ledger resync-keys FLOW --topic TOPIC",
    ),
    FindingName.BATCHES_CUT: Explanation(
        "the target refused batches: their records were copied in smaller ones, whose bytes are others",
        "raise max.message.bytes of the target topic to have batches copied as they are, or accept it",
    ),
    FindingName.RECORDS_PUT_ASIDE: Explanation(
        "the target refused records within the last day, which are in the dead letter topic alone",
        "read them there: headers say where each is from, and why it was refused. Mend that at the target, or at the "
        "producer. The finding ends a day after the last one",
    ),
    FindingName.TRANSACTIONS_OPEN_AGAIN: Explanation(
        "the source lost markers of transactions whose records were copied, or left out as aborted: they are open "
        "there again, and nothing behind them is copied",
        "let their producers end them; else find them by kafka-transactions.sh find-hanging at the source, and abort "
        "them. What ends otherwise than it was copied is superseded then, as on_source_truncated says",
    ),
    FindingName.SOURCE_NOT_COMPARED: Explanation(
        "whether the source is another one than was copied from could not be found out by the last record; no alarm",
        "nothing, unless the source was restored: then mirror-ledger compare FLOW --read. It ends with a comparison",
    ),
    FindingName.RECORDING_STOPPED: Explanation(
        "groups and ends of a cluster are not recorded at present: answers from the ledger grow old",
        "check the ledger's store, or the recorder's permissions, as the message says; it is tried again by itself",
    ),
    FindingName.CONFIGURATION_FILE_CHANGED: Explanation(
        "the configuration file says something else of the flow than when its driver was started, or cannot be used: "
        "the driver keeps to what it was started with",
        "mirror-ledger reload FLOW --reason WHY, whose receipt says what of it holds from then on; what needs a start: "
        "mirror-ledger stop FLOW --reason WHY, then run it again; or put the file back",
    ),
    FindingName.SOURCE_UNREACHABLE: Explanation(
        "no broker of the source answers, or no leader serves partitions of the topic: nothing is copied from there",
        "check the brokers that the message names, and the network to them; the flow continues by itself",
    ),
    FindingName.TARGET_UNREACHABLE: Explanation(
        "no broker of the target answers, or no leader serves partitions of the topic: nothing is copied to there",
        "check the brokers that the message names, and the network to them; the flow continues by itself",
    ),
    FindingName.SOURCE_THROTTLED: Explanation(
        "a quota makes brokers of the source delay their answers: the copy may fall behind",
        "raise consumer_byte_rate or request_percentage of the mirror's principal or client id, or accept the lag",
    ),
    FindingName.TARGET_THROTTLED: Explanation(
        "a quota makes brokers of the target delay their answers, or the making of topics: the copy may fall behind",
        "raise producer_byte_rate, request_percentage or controller_mutation_rate of the mirror's principal or client "
        "id, or accept the lag",
    ),
    FindingName.CLUSTER_UNREACHABLE: Explanation(
        "no broker of the cluster answers its recorder: what the ledger knows of it grows old",
        "check the brokers that the message names, and the network to them; the recorder continues by itself",
    ),
    FindingName.LATE_WRITE: Explanation(
        "a record was written to a fenced topic behind its fence: an application still writes there",
        "stop it, and fence it again (mirror-ledger fence CLUSTER --reason WHY); what it wrote is at that "
        "cluster alone unless a flow copies it",
    ),
    FindingName.ACLS_NOT_READ: Explanation(
        "access control lists of topics may not be described, or the cluster has none: they do not follow",
        'grant DESCRIBE on both clusters to the mirror\'s principal, or set acls = "none"',
    ),
    FindingName.ACLS_NOT_CHANGED: Explanation(
        "the target refused to change access control lists of its topics",
        'grant ALTER on the target cluster to the mirror\'s principal, or set acls = "none"',
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that holds now; `topic` None: the whole flow, `partition` None: all of the topic.

    `cluster`: the alias that it is about; `since_ms`: when it began; `advice`: with the names that it is about. None:
    nothing is said about it.
    """

    name: FindingName
    topic: str | None = None
    partition: int | None = None
    message: str = field(compare=False)
    cluster: str | None = field(default=None, compare=False)
    since_ms: int | None = field(default=None, compare=False)
    advice: str | None = field(default=None, compare=False)

    def next(self, flow: str | None = None) -> str:
        """What to do about it, with names in the commands."""
        words = self.advice or EXPLAINED[self.name].next
        for word, name in (("FLOW", flow), ("TOPIC", self.topic), ("CLUSTER", self.cluster)):
            words = words if name is None else words.replace(word, shell_word(name))
        return words

    @property
    def key(self) -> FindingKey:
        return str(self.name), self.topic, self.partition


class Findings:
    """The findings of one subject of one flow. Reads nothing before the first report."""

    def __init__(
        self,
        flow: str,
        about: Iterable[FindingName],
        operations: OperationLog,
        state: LedgerState,
    ) -> None:
        self._flow = flow
        self._about = frozenset(str(name) for name in about)
        self._operations = operations
        self._state = state
        self._open: set[FindingKey] | None = None

    def report(self, now: Iterable[Finding]) -> None:
        """Record what changed since the last report; `now` is all of the subject that holds."""
        holding = {finding.key: finding for finding in now}
        assert all(name in self._about for name, _, _ in holding), "a finding of another subject"
        is_open = self.already_open()
        cleared = sorted(is_open - holding.keys(), key=str)
        self._record([self._cleared(key) for key in cleared])
        is_open.difference_update(cleared)
        new = [finding for key, finding in holding.items() if key not in is_open]
        self._record([self._raised(finding) for finding in new])
        is_open.update(finding.key for finding in new)

    def forget(self, finding: Finding) -> None:
        """The finding is cleared, so that the next report raises it with what it says now."""
        if finding.key in self.already_open():
            self._record([self._cleared(finding.key)])
            self.already_open().discard(finding.key)

    def _record(self, entries: Sequence[OperationEntry]) -> None:
        if entries:
            self._operations.record_all(entries, flow=self._flow)

    def already_open(self) -> set[FindingKey]:
        """Findings of the subject that were raised and not cleared, by this driver or an earlier one."""
        if self._open is None:
            recorded = self._state.open_findings(self._flow)
            self._open = {key for key in recorded if key[0] in self._about}
        return self._open

    def _raised(self, finding: Finding) -> OperationEntry:
        since = "" if finding.since_ms is None else f"; since {instant(finding.since_ms)}"
        log.warning(
            "%(flow)s: %(finding)s: %(what)s; %(advice)s",
            {
                "flow": self._flow,
                "finding": finding.name,
                "topic": finding.topic,
                "partition": finding.partition,
                "what": f"{finding.message}{since}",
                "advice": finding.next(self._flow),
            },
        )
        return str(finding.name), raised(finding, self._flow)

    def _cleared(self, key: FindingKey) -> OperationEntry:
        about = {"flow": self._flow, "finding": key[0], "topic": key[1], "of": key[1] or "the flow"}
        log.info("%(flow)s: %(finding)s of %(of)s is over", about)
        return key[0], FindingCleared.of_key(key)


def raised(finding: Finding, flow: str | None = None) -> FindingRaised:
    """What a row says that raises the finding."""
    name, topic, partition = finding.key
    return FindingRaised(
        finding=name,
        topic=topic,
        partition=partition,
        message=finding.message,
        next=finding.next(flow),
        cluster=finding.cluster,
        since_ms=finding.since_ms,
    )
