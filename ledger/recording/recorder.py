"""The recorder of one cluster: takes the role, reads, appends what changed, gives the role back.

A call that found something appends one round; its number is the same in each table that it touches.
Ends that stay what they were are confirmed at every heartbeat, by a heartbeat or else row by row.
What the ledger holds is remembered only after the append was read back, so a failed append is repeated
by the next call.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace

from ledger.domain.cluster_identity import LiveCluster
from ledger.domain.facts import HighWatermark, TopicState, WriterEvent
from ledger.domain.writer_roles import (
    APPLY_WRITER,
    LastClaim,
    ProcessMark,
    ProcessTable,
    RoleVerdict,
    recorder_of,
    verdict_here,
)
from ledger.errors import ClusterUnavailableError, OtherClusterError, PreconditionError, ShutOutError
from ledger.mirror.findings.finding_log import FindingName
from ledger.ports.clock import Clock, now_by
from ledger.ports.clusters import ClusterAdmin, live_cluster
from ledger.ports.ledger import FactLog, Row
from ledger.recording.changes.group_offsets import offsets_by_key
from ledger.recording.changes.groups import groups_by_id
from ledger.recording.changes.high_watermarks import (
    HighWatermarkKey,
    changed_high_watermarks,
    high_watermarks_by_key,
)
from ledger.recording.changes.permissions import PermissionRecord
from ledger.recording.changes.topic_states import topic_changes, topic_row
from ledger.recording.end_confirmation import EndConfirmation
from ledger.recording.findings.late_writes import LateWrites
from ledger.recording.findings.outage_record import OutageRecord
from ledger.recording.group_record import GroupRecord
from ledger.recording.observation import Observation, Observer, Partitions, RecorderSettings, Subject
from ledger.recording.operation_log import ClaimedOperations, random_id
from ledger.recording.plan_watch import PlanWatch
from ledger.recording.recording_state import RecordingState
from ledger.recording.writer_session import RECORDER_TABLES, WriterSession
from ledger.schema import HIGH_WATERMARKS, PERMISSIONS, TOPICS

log = logging.getLogger(__name__)

_EVERYTHING_CHANGED = frozenset({Subject.CHECKPOINTS, Subject.HIGH_WATERMARKS, Subject.TOPICS})
_BEFORE = {
    RoleVerdict.HOLDER_DEAD: "the one that did has died",
    RoleVerdict.HOLDER_SILENT: "the one that did has recorded nothing for three full sweeps",
}
_SWEPT = frozenset({Subject.CHECKPOINTS, Subject.HIGH_WATERMARKS})
"""What always changes; who carries out a plan waits for it."""


@dataclass(frozen=True, slots=True)
class RecordedRound:
    """What one call appended; no round number when nothing had changed."""

    round_number: int | None
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Memory:
    """What the ledger holds, as far as this epoch knows.

    `all_ends_known_at_ms`: when the last read of ends began, if none was missing and all are in the ledger.
    """

    session: WriterSession
    cluster: LiveCluster
    outage: OutageRecord
    late_writes: LateWrites
    groups: GroupRecord
    high_watermarks: dict[HighWatermarkKey, HighWatermark]
    topics: Mapping[str, TopicState]
    permissions: PermissionRecord
    confirmation: EndConfirmation
    unread_topics: Mapping[str, str] = field(default_factory=dict)
    all_ends_known_at_ms: int | None = None
    last_read: dict[Subject, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _EndsToRecord:
    """Rows of one read; whether they have all ends that were read, or a heartbeat confirms the others."""

    rows: list[HighWatermark]
    are_all: bool = False
    with_sign: bool = False


class ClusterRecorder:
    """Records one cluster while it holds the role `recorder:ALIAS`. Safe to call from several threads."""

    def __init__(
        self,
        admin: ClusterAdmin,
        fact_log: FactLog,
        ledger_state: RecordingState,
        clock: Clock,
        settings: RecorderSettings,
        *,
        partitions: Partitions,
        processes: ProcessTable,
        new_id: Callable[[], str] = random_id,
    ) -> None:
        self.writer = recorder_of(admin.alias)
        self._admin = admin
        self._fact_log = fact_log
        self._state = ledger_state
        self._clock = clock
        self._settings = settings
        self._processes = processes
        self._new_id = new_id
        self._observer = Observer(admin, clock, settings, partitions)
        self._plans = PlanWatch(lambda: ledger_state.last_claim(APPLY_WRITER), clock)
        self._lock = threading.RLock()
        self._memory: _Memory | None = None
        self._last_said: str | None = None

    @property
    def holds_role(self) -> bool:
        return self._memory is not None

    def take_role(self) -> RoleVerdict:
        """Claim the role if it is free; the verdict says why, or why not."""
        with self._lock:
            if self._memory is not None:
                return RoleVerdict.HELD
            last = self._state.last_claim(self.writer)
            verdict = verdict_here(
                last,
                self._processes,
                now_ms=self._clock.now_ms(),
                heartbeat_ms=int(self._settings.full_sweep_seconds * 1000),
            )
            if verdict.is_free:
                self._claim()
            self._say_role(verdict, last)
            return verdict

    def _say_role(self, verdict: RoleVerdict, last: LastClaim | None) -> None:
        """Who records the cluster, once until that changes; a driver that finds another at it asks again and again."""
        if verdict.is_free:
            said = f"groups, offsets and topics of cluster {self._admin.alias} are recorded by this process from now on"
            said += f" ({_BEFORE[verdict]})" if verdict in _BEFORE else ""
        else:
            mark = ProcessMark.parse(last.host) if last is not None else self._processes.own()
            said = (
                f"cluster {self._admin.alias} is recorded by process {mark.pid} on host {mark.host} already; this one "
                "takes over when it ends"
            )
        log.log(logging.DEBUG if said == self._last_said else logging.INFO, "%s", said)
        self._last_said = said

    def record_once(self) -> RecordedRound:
        """Read groups, ends and topics now, and append what changed since the last read."""
        return self._record(_EVERYTHING_CHANGED)

    def record_last(self) -> RecordedRound:
        """As `record_once`, and confirm the ends that did not change: nobody may read again for long."""
        return self._record(_EVERYTHING_CHANGED, confirm_ends=True)

    def record_due(self) -> RecordedRound:
        """Read what is due by its pace; nothing due, nothing read."""
        return self._record(frozenset())

    def release(self) -> None:
        """Give the role back; without the role nothing happens."""
        with self._lock:
            if self._memory is None:
                return
            self._memory.session.release()
            self._memory = None

    def _claim(self) -> None:
        alias, live = self._admin.alias, live_cluster(self._admin)
        self._state.identities().require(alias, live)
        session = WriterSession.claimed(self._fact_log, self.writer, RECORDER_TABLES, self._claim_row(live))
        operations = ClaimedOperations(operator=self.writer, new_id=self._new_id)
        operations.begin(session)
        found = self._state.findings_of(self.writer)
        self._memory = _Memory(
            session=session,
            cluster=live,
            outage=OutageRecord(
                alias,
                operations,
                is_open=any(name == FindingName.CLUSTER_UNREACHABLE for name, _, _ in found),
            ),
            late_writes=LateWrites(
                alias,
                live.cluster_id,
                self._admin,
                operations,
                {key for key in found if key[0] == FindingName.LATE_WRITE},
            ),
            groups=self._known_groups(),
            high_watermarks=high_watermarks_by_key(self._state.last_high_watermarks(alias)),
            topics={state.topic: state for state in self._state.last_topic_states(alias)},
            permissions=self._known_permissions(live),
            confirmation=EndConfirmation(
                self._settings.high_watermark_seconds, self._settings.heartbeat_seconds
            ),
        )

    def _known_groups(self) -> GroupRecord:
        alias = self._admin.alias
        return GroupRecord(
            self.writer,
            self._observer,
            offsets_by_key(self._state.last_checkpoints(alias)),
            groups_by_id(self._state.last_groups(alias)),
            offsets_by_key(self._state.last_share_offsets(alias)),
        )

    def _known_permissions(self, live: LiveCluster) -> PermissionRecord:
        alias, cluster_id = self._admin.alias, live.cluster_id
        return PermissionRecord(alias, cluster_id, self._state.last_permissions(alias, cluster_id))

    def _require_same_cluster(self, memory: _Memory) -> None:
        """Nothing of another cluster is recorded: by it all groups and topics would have been deleted."""
        found = self._admin.cluster_id()
        if found != memory.cluster.cluster_id:
            raise OtherClusterError(
                f"another cluster answers behind {self._admin.alias}: its Kafka cluster id is {found}, {self.writer} "
                f"claimed with {memory.cluster.cluster_id}; nothing is recorded"
            )

    def _claim_row(self, cluster: LiveCluster) -> Row:
        return {
            "event": str(WriterEvent.CLAIMED),
            "host": str(self._processes.own()),
            "flow": None,
            "source_cluster": self._admin.alias,
            "source_cluster_id": cluster.cluster_id,
            "target_cluster": None,
            "target_cluster_id": None,
            "producer_id": None,
            "former_producer_id": None,
            "source_metadata_offset": cluster.metadata_offset,
            "target_metadata_offset": None,
            "config_hash": None,
            "shut_out": None,
        }

    def _record(self, asked: frozenset[Subject], *, confirm_ends: bool = False) -> RecordedRound:
        with self._lock:
            if self._memory is None:
                raise PreconditionError(f"{self.writer} does not hold its role; nothing was recorded")
            subjects = (asked | self._due(self._memory)) & self._settings.subjects
            if not subjects:
                return RecordedRound(None)
            memory = self._memory
            seen = self._observed(memory, subjects)
            ends = self._ends_to_record(memory, seen, swept=Subject.SWEEP in subjects, asked=confirm_ends)
            recorded = self._append(memory, seen, subjects, ends)
            self._confirm(memory, seen, ends)
            memory.last_read |= dict.fromkeys(subjects, self._clock.monotonic())
            self._watch_fences(memory, seen)
            return recorded

    def _watch_fences(self, memory: _Memory, seen: Observation) -> None:
        """After the rows: who reads of a late write finds the end that it is about."""
        if seen.high_watermarks is None:
            return
        fences = self._state.fences()
        if fences.at(self._admin.alias) or memory.late_writes.open_keys:
            with self._giving_up_when_shut_out():
                memory.late_writes.seen(fences, self._state.identities(), seen.high_watermarks)

    def _observed(self, memory: _Memory, subjects: frozenset[Subject]) -> Observation:
        """What the cluster says; that it says nothing, or says something again, is recorded before."""
        began = now_by(self._clock)
        try:
            seen = self._observer.observe(subjects)
            self._require_same_cluster(memory)
        except ClusterUnavailableError as error:
            with self._giving_up_when_shut_out():
                memory.outage.failed(str(error), began=began, now=now_by(self._clock))
            raise
        with self._giving_up_when_shut_out():
            memory.outage.answered()
        return seen

    @contextmanager
    def _giving_up_when_shut_out(self) -> Iterator[None]:
        try:
            yield
        except ShutOutError:
            self._memory = None
            raise

    def _due(self, memory: _Memory) -> frozenset[Subject]:
        now = self._clock.monotonic()
        due = frozenset(
            subject
            for subject in Subject
            if subject not in memory.last_read
            or now - memory.last_read[subject] >= self._seconds_between(subject)
        )
        return due | _SWEPT if Subject.SWEEP in due else due

    def _seconds_between(self, subject: Subject) -> float:
        seconds = self._settings.seconds_between(subject)
        return self._plans.at_most(seconds) if subject in _SWEPT else seconds

    def _append(
        self, memory: _Memory, seen: Observation, subjects: frozenset[Subject], ends: _EndsToRecord
    ) -> RecordedRound:
        groups = memory.groups.rows(seen, swept=Subject.SWEEP in subjects)
        high_watermarks = ends.rows
        unread_before = memory.unread_topics
        states = self._topics_to_record(memory, seen)
        topics = topic_changes(memory.topics, states, unread_before=unread_before)
        rows: dict[str, list[Row]] = {
            **groups.by_table(),
            HIGH_WATERMARKS.name: [asdict(row) for row in _with_their_read(memory, seen, ends)],
            TOPICS.name: [topic_row(change) for change in topics],
            PERMISSIONS.name: memory.permissions.rows(seen.permissions),
        }
        recorded = self._append_round(memory, {table: found for table, found in rows.items() if found})
        memory.groups.recorded(groups)
        memory.high_watermarks |= high_watermarks_by_key(high_watermarks)
        memory.topics = states
        memory.permissions.recorded(seen.permissions)
        return recorded

    def _ends_to_record(
        self, memory: _Memory, seen: Observation, *, swept: bool, asked: bool
    ) -> _EndsToRecord:
        """Those that changed; all on a full sweep, and to confirm what a heartbeat cannot: that confirms all."""
        changed = _high_watermark_rows(memory, seen, swept)
        if seen.high_watermarks is None:
            return _EndsToRecord(changed)
        is_due = memory.confirmation.is_due(self._clock.monotonic(), changed=bool(changed))
        if swept or not (is_due or asked):
            return _EndsToRecord(changed, are_all=swept)
        if memory.confirmation.has_all_ends and seen.ends_are_complete:
            return _EndsToRecord(changed, with_sign=True)
        return _EndsToRecord(_high_watermark_rows(memory, seen, True), are_all=True)

    def _confirm(self, memory: _Memory, seen: Observation, ends: _EndsToRecord) -> None:
        """After the rows: what did not change is what it was."""
        if ends.with_sign:
            with self._giving_up_when_shut_out():
                memory.session.alive()
        if seen.high_watermarks is not None:
            memory.confirmation.was_read(is_complete=seen.ends_are_complete, are_all_recorded=ends.are_all)
            memory.all_ends_known_at_ms = seen.ends_read_at_ms if memory.confirmation.has_all_ends else None
        if ends.with_sign or ends.are_all:
            memory.confirmation.confirmed(self._clock.monotonic())

    def _topics_to_record(self, memory: _Memory, seen: Observation) -> Mapping[str, TopicState]:
        """What was read; a topic that may not be described stays as it was until it may, or was deleted."""
        if seen.topics is None:
            return memory.topics
        missing = memory.topics.keys() - seen.topics.keys() - seen.unread.keys()
        unread = {**seen.unread, **self._observer.hidden(sorted(missing))}
        self._say_unread(memory, unread)
        memory.unread_topics = unread
        return {**{name: memory.topics[name] for name in unread if name in memory.topics}, **seen.topics}

    def _say_unread(self, memory: _Memory, unread: Mapping[str, str]) -> None:
        """Once, when it begins and when it is over."""
        for name in sorted(unread.keys() - memory.unread_topics.keys()):
            log.warning(
                "%s: topic %s is not recorded until it may be described: %s", self.writer, name, unread[name]
            )
        for name in sorted(memory.unread_topics.keys() - unread.keys()):
            log.info("%s: topic %s is recorded again", self.writer, name)

    def _append_round(self, memory: _Memory, rows: Mapping[str, list[Row]]) -> RecordedRound:
        if not rows:
            return RecordedRound(None)
        with self._giving_up_when_shut_out():
            number = memory.session.append_round(rows)
        return RecordedRound(number, {table: len(found) for table, found in rows.items()})


def _with_their_read(memory: _Memory, seen: Observation, ends: _EndsToRecord) -> list[HighWatermark]:
    """The rows, each with what its read says of the ends that have none, and of the time before."""
    confirms = seen.ends_are_complete and (ends.are_all or memory.confirmation.has_all_ends)
    return [
        replace(row, confirms_others=confirms, previous_read_at_ms=memory.all_ends_known_at_ms)
        for row in ends.rows
    ]


def _high_watermark_rows(memory: _Memory, seen: Observation, swept: bool) -> list[HighWatermark]:
    if seen.high_watermarks is None:
        return []
    read = high_watermarks_by_key(seen.high_watermarks)
    return changed_high_watermarks({} if swept else memory.high_watermarks, read)
