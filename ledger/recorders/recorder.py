"""The recorder of one cluster: takes the role, reads, appends what changed, gives the role back.

A call that found something appends one round; its number is the same in each table that it touches.
Ends that stay what they were are confirmed at every heartbeat, by a heartbeat or else row by row.
What the ledger holds is remembered only after the append was read back, so a failed append is repeated
by the next call.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ledger.clock import Clock, now_by
from ledger.errors import ClusterUnavailableError, OtherClusterError, PreconditionError, ShutOutError
from ledger.facts.codec import encode
from ledger.facts.findings import FindingName
from ledger.facts.groups import MOVING, GroupEvent, GroupFact, ShareOffset, UnreadGroup
from ledger.facts.identity import LiveCluster
from ledger.facts.roles import (
    APPLY_WRITER,
    LastClaim,
    ProcessMark,
    ProcessTable,
    RoleVerdict,
    recorder_of,
    verdict_here,
)
from ledger.facts.state import FactLog, LedgerState
from ledger.facts.syncs import Absence, Checkpoint, HighWatermark, TopicState
from ledger.facts.tables import CHECKPOINTS, GROUPS, HIGH_WATERMARKS, PERMISSIONS, SHARE_OFFSETS, TOPICS, Row
from ledger.kafka.cluster import ClusterAdmin, GroupListing, live_cluster
from ledger.recorders.changes import (
    HighWatermarkKey,
    OffsetKey,
    PermissionRecord,
    changed_groups,
    changed_high_watermarks,
    changed_offsets,
    group_fact,
    groups_by_id,
    high_watermarks_by_key,
    not_read_again,
    offsets_by_key,
    to_be_explained,
    topic_changes,
    topic_row,
)
from ledger.recorders.findings import LateWrites, OutageRecord, PlanWatch
from ledger.recorders.observation import (
    GroupsRead,
    Observation,
    Observer,
    Partitions,
    RecorderSettings,
    Subject,
)
from ledger.store.session import RECORDER_TABLES, ClaimedOperations, WriterSession, claim_row_of, random_id

# Group record -------------------------------------------------------------------------------------
# What the ledger holds of the groups of one cluster, their commits and share-partition offsets; what a read
# adds.


log = logging.getLogger(__name__)

_HIDDEN = UnreadGroup(GroupEvent.HIDDEN)
_MOVING = UnreadGroup(GroupEvent.UNAVAILABLE, MOVING)


@dataclass(frozen=True, slots=True)
class GroupRows:
    """What one read adds."""

    checkpoints: Sequence[Checkpoint] = ()
    groups: Sequence[GroupFact] = ()
    share_offsets: Sequence[ShareOffset] = ()

    def by_table(self) -> dict[str, list[Row]]:
        return {
            CHECKPOINTS.name: list(map(encode, self.checkpoints)),
            GROUPS.name: list(map(encode, self.groups)),
            SHARE_OFFSETS.name: list(map(encode, self.share_offsets)),
        }


@dataclass(slots=True)
class GroupRecord:
    """What is recorded, as far as this epoch knows; `recorded` follows the append of what `rows` returned.

    `of_former`: commits that were made on a topic of which another one has taken the place. None: nothing was read yet.
    """

    writer: str
    observer: Observer
    checkpoints: dict[OffsetKey, Checkpoint]
    groups: dict[str | None, GroupFact]
    share_offsets: dict[OffsetKey, ShareOffset]
    of_former: frozenset[OffsetKey] | None = None

    def rows(self, seen: Observation, *, swept: bool) -> GroupRows:
        """`swept`: unchanged commits are appended as well."""
        if seen.groups is None:
            return GroupRows()
        read = self._by_their_topics(offsets_by_key(seen.groups.checkpoints))
        shared = offsets_by_key(seen.groups.share_offsets)
        last = not_read_again(self.checkpoints, read) if swept else self.checkpoints
        unlisted = self._unlisted(seen.groups)
        was_read = self._was_read(seen, unlisted)
        missing = to_be_explained(last, read, was_read=was_read)
        unshared = to_be_explained(self.share_offsets, shared, was_read=was_read)
        absences = self._absences([*missing, *unshared], seen, unlisted)
        rows = GroupRows(
            changed_offsets(
                last, read, absences={key: absences[key] for key in missing}, read_at_ms=seen.read_at_ms
            ),
            changed_groups(self.groups, self._facts(seen.groups, unlisted, seen.read_at_ms)),
            changed_offsets(
                self.share_offsets,
                shared,
                absences={key: absences[key] for key in unshared},
                read_at_ms=seen.read_at_ms,
            ),
        )
        self._say(rows)
        return rows

    def recorded(self, rows: GroupRows) -> None:
        self.checkpoints |= offsets_by_key(rows.checkpoints)
        self.groups |= groups_by_id(rows.groups)
        self.share_offsets |= offsets_by_key(rows.share_offsets)

    def _by_their_topics(self, read: Mapping[OffsetKey, Checkpoint]) -> dict[OffsetKey, Checkpoint]:
        """Clusters keep commits by name. One that lies beyond the end of a topic when it is first seen there was made
        on the one before, and is recorded with the id of that, until the group commits another offset."""
        others = {
            key: (self.checkpoints[key], row)
            for key, row in read.items()
            if key in self.checkpoints and row.committed_offset and row.topic_id
            if self.checkpoints[key].topic_id not in (None, row.topic_id)
        }
        ends = self.observer.admin.ends(sorted({key[1:] for key in others})) if others else {}
        known, found = self.of_former, set[OffsetKey]()
        for key, (last, row) in others.items():
            end, offset = ends.get(key[1:]), row.committed_offset or 0
            is_same = last.committed_offset == offset and (known is None or key in known)
            if is_same or (end is not None and offset > end.high_watermark):
                found.add(key)
        for group, topic, partition in sorted(found - (known or frozenset())):
            log.warning(
                "%(writer)s: what group %(group)s has committed for partition %(partition)d of topic %(topic)s was "
                "made on the topic of that name before it was created again",
                {"writer": self.writer, "group": group, "topic": topic, "partition": partition},
            )
        self.of_former = frozenset(found)
        return {**read, **{key: replace(read[key], topic_id=others[key][0].topic_id) for key in found}}

    def _unlisted(self, read: GroupsRead) -> Mapping[str, UnreadGroup]:
        """What became of the groups that are recorded and were not listed; deleted ones are asked for once.

        Where all groups are shown, one that exists all the same is not hidden: its coordinator was moving.
        """
        known = {fact.group_id for fact in self.groups.values() if fact.event is not GroupEvent.GONE}
        known |= {row.group_id for row in self.checkpoints.values() if row.absence is not Absence.GONE}
        known |= {row.group_id for row in self.share_offsets.values() if row.absence is not Absence.GONE}
        asked = sorted(
            name for name in known - read.listed.keys() if name is not None and self._records(name)
        )
        found = self.observer.admin.unlisted_groups(asked) if asked else {}
        if not read.all_listed:
            return found
        return {name: _MOVING if why == _HIDDEN else why for name, why in found.items()}

    def _was_read(
        self, seen: Observation, unlisted: Mapping[str, UnreadGroup]
    ) -> Callable[[OffsetKey], bool]:
        """Whether an offset that is not among those read is not there, or not shown; else nobody could read it."""
        assert seen.groups is not None
        unread = {**seen.groups.unread, **unlisted}
        unavailable = {name for name, why in unread.items() if why.event is GroupEvent.UNAVAILABLE}
        return lambda key: (
            self._records(key[0]) and key[0] not in unavailable and key[1] not in seen.unsettled
        )

    def _absences(
        self, keys: Collection[OffsetKey], seen: Observation, unlisted: Mapping[str, UnreadGroup]
    ) -> dict[OffsetKey, Absence]:
        """Why offsets are missing that an earlier read found.

        A cluster lists to a principal what that may describe, and says nothing about the rest: so groups and
        topics that were not listed are asked for by name. What is not certainly deleted is `hidden`.
        """
        assert seen.groups is not None
        unshown = {**seen.groups.unread, **unlisted}
        hidden_groups = {group for group, why in unshown.items() if why.event is GroupEvent.HIDDEN}
        hidden_topics = self.observer.hidden(sorted({topic for _, topic, _ in keys} - seen.topic_names))
        return {
            key: Absence.HIDDEN if key[0] in hidden_groups or key[1] in hidden_topics else Absence.GONE
            for key in keys
        }

    def _facts(
        self, read: GroupsRead, unlisted: Mapping[str, UnreadGroup], read_at_ms: int
    ) -> list[GroupFact]:
        listing = GroupEvent.ALL_LISTED if read.all_listed else GroupEvent.PERMITTED_LISTED
        facts: list[tuple[str | None, GroupListing | None, UnreadGroup]] = [
            (None, None, UnreadGroup(listing))
        ]
        for name, group in read.listed.items():
            facts.append((name, group, read.unread.get(name) or UnreadGroup(GroupEvent.PRESENT)))
        for name, why in unlisted.items():
            last = self.groups.get(name)
            known = None if last is None else GroupListing(name, last.group_type, None, last.protocol_type)
            facts.append((name, known, why))
        return [group_fact(self.observer.admin.alias, *fact, read_at_ms) for fact in facts]

    def _records(self, group: str) -> bool:
        return self.observer.settings.records_group(group)

    def _say(self, rows: GroupRows) -> None:
        hidden = {(row.group_id, row.topic) for row in rows.checkpoints if row.absence is Absence.HIDDEN}
        for group, topic in sorted(hidden):
            log.warning(
                "%(writer)s: commits of group %(group)s for topic %(topic)s are not shown to this principal any more; "
                "what was recorded last is the last that is known",
                {"writer": self.writer, "group": group, "topic": topic},
            )
        for fact in rows.groups:
            if fact.event is GroupEvent.UNAVAILABLE:
                log.warning(
                    "%(writer)s: offsets of group %(group)s are not recorded until they can be read: %(cause)s",
                    {"writer": self.writer, "group": fact.group_id, "cause": fact.reason},
                )


# End confirmation ---------------------------------------------------------------------------------
# When ends that did not change are confirmed: what is appended only when it changes does not tell how old
# it is.
#
# At every heartbeat; and, as soon as all ends stand still, after a short while that doubles: what a flow
# has caught up with is soon measured to be so, and a cluster at rest costs a row for each heartbeat.


@dataclass(slots=True)
class EndConfirmation:
    """Of one recorder in one epoch; `first_seconds`: after how long a standstill is confirmed first."""

    first_seconds: float
    heartbeat_seconds: float
    _confirmed_at: float = float("-inf")
    _changed_at: float = float("-inf")
    _wait_seconds: float = 0.0

    def is_due(self, now: float, *, changed: bool) -> bool:
        """At a read that found that some ends `changed`, or none; `now` is monotonic."""
        if changed:
            self._changed_at, self._wait_seconds = now, self.first_seconds
        since = max(self._confirmed_at, self._changed_at)
        is_at_rest = not changed and now - since >= self._wait_seconds
        return is_at_rest or now - self._confirmed_at >= self.heartbeat_seconds

    def confirmed(self, now: float) -> None:
        """All ends that were read are in the ledger as of this read."""
        self._confirmed_at = now
        self._wait_seconds = min(2 * max(self._wait_seconds, self.first_seconds), self.heartbeat_seconds)


# End record ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EndRows:
    """What one read adds; whether it has all ends that were read, or a heartbeat is to confirm the others."""

    rows: Sequence[HighWatermark] = ()
    are_all: bool = False
    with_heartbeat: bool = False


@dataclass(slots=True)
class EndRecord:
    """What is recorded of ends, as far as this epoch knows; `recorded` follows the append of what `rows` returned.

    `has_all`: every partition has a row of this epoch, and none was missing at the last read; that one began at
    `all_known_at_ms`. Then a heartbeat confirms all at once.
    """

    confirmation: EndConfirmation
    ends: dict[HighWatermarkKey, HighWatermark]
    has_all: bool = False
    all_known_at_ms: int | None = None

    def rows(self, seen: Observation, now: float, *, swept: bool, confirm: bool) -> EndRows:
        """Those that changed; of a full sweep, and to confirm, all where a heartbeat cannot confirm them."""
        if seen.high_watermarks is None:
            return EndRows()
        read = high_watermarks_by_key(seen.high_watermarks)
        if swept and self.has_all and seen.ends_are_complete:
            swept, confirm = False, True
        rows = changed_high_watermarks({} if swept else self.ends, read)
        is_due = self.confirmation.is_due(now, changed=bool(rows)) or confirm
        with_heartbeat = is_due and not swept and self.has_all and seen.ends_are_complete
        are_all = swept or (is_due and not with_heartbeat)
        if are_all:
            rows = changed_high_watermarks({}, read)
        confirms = seen.ends_are_complete and (are_all or self.has_all)
        rows = [
            replace(row, confirms_others=confirms, previous_read_at_ms=self.all_known_at_ms) for row in rows
        ]
        return EndRows(rows, are_all, with_heartbeat)

    def recorded(self, found: EndRows, seen: Observation, now: float) -> None:
        self.ends |= high_watermarks_by_key(found.rows)
        if seen.high_watermarks is not None:
            self.has_all = seen.ends_are_complete and (found.are_all or self.has_all)
            self.all_known_at_ms = seen.ends_read_at_ms if self.has_all else None
        if found.with_heartbeat or found.are_all:
            self.confirmation.confirmed(now)


# Topic record -------------------------------------------------------------------------------------


@dataclass(slots=True)
class TopicRecord:
    """What is recorded of topics, as far as this epoch knows; `recorded` follows the append of what `read` led to.

    `unread`: topics that may not be described, with the reason.
    """

    writer: str
    observer: Observer
    states: Mapping[str, TopicState]
    unread: Mapping[str, str] = field(default_factory=dict)

    def read(self, seen: Observation) -> tuple[list[Row], Mapping[str, TopicState]]:
        """The rows to append, and the states after them."""
        unread_before, states = self.unread, self._states(seen)
        changes = topic_changes(self.states, states, unread_before=unread_before)
        return [topic_row(change) for change in changes], states

    def recorded(self, states: Mapping[str, TopicState]) -> None:
        self.states = states

    def _states(self, seen: Observation) -> Mapping[str, TopicState]:
        """What was read; a topic that may not be described stays as it was until it may, or was deleted."""
        if seen.topics is None:
            return self.states
        missing = self.states.keys() - seen.topics.keys() - seen.unread.keys()
        unread = {**seen.unread, **self.observer.hidden(sorted(missing))}
        for name in sorted(unread.keys() - self.unread.keys()):
            log.warning(
                "%(writer)s: topic %(topic)s is not recorded until it may be described: %(cause)s",
                {"writer": self.writer, "topic": name, "cause": unread[name]},
            )
        for name in sorted(self.unread.keys() - unread.keys()):
            log.info("%(writer)s: topic %(topic)s is recorded again", {"writer": self.writer, "topic": name})
        self.unread = unread
        return {**{name: self.states[name] for name in unread if name in self.states}, **seen.topics}


# Recorder -----------------------------------------------------------------------------------------


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
    """What the ledger holds, as far as this epoch knows."""

    session: WriterSession
    cluster: LiveCluster
    outage: OutageRecord
    late_writes: LateWrites
    groups: GroupRecord
    ends: EndRecord
    topics: TopicRecord
    permissions: PermissionRecord
    last_read: dict[Subject, float] = field(default_factory=dict)


def recorder_verdict(
    settings: RecorderSettings, claim: LastClaim | None, processes: ProcessTable, *, now_ms: int
) -> RoleVerdict:
    """Whether a cluster is being recorded, as far as this host can see; a full sweep is a recorder's heartbeat."""
    heartbeat_ms = int(settings.full_sweep_seconds * 1000)
    return verdict_here(claim, processes, now_ms=now_ms, heartbeat_ms=heartbeat_ms)


class ClusterRecorder:
    """Records one cluster while it holds the role `recorder:ALIAS`. Safe to call from several threads."""

    def __init__(
        self,
        admin: ClusterAdmin,
        fact_log: FactLog,
        ledger_state: LedgerState,
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
            verdict = recorder_verdict(self._settings, last, self._processes, now_ms=self._clock.now_ms())
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
        row = claim_row_of(
            str(self._processes.own()),
            source_cluster=self._admin.alias,
            source_cluster_id=live.cluster_id,
            source_metadata_offset=live.metadata_offset,
            brokers=",".join(self._admin.brokers()) or None,
        )
        session = WriterSession.claimed(self._fact_log, self.writer, RECORDER_TABLES, row)
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
            groups=GroupRecord(
                self.writer,
                self._observer,
                offsets_by_key(self._state.last_checkpoints(alias)),
                groups_by_id(self._state.last_groups(alias)),
                offsets_by_key(self._state.last_share_offsets(alias)),
            ),
            ends=EndRecord(
                EndConfirmation(self._settings.high_watermark_seconds, self._settings.heartbeat_seconds),
                high_watermarks_by_key(self._state.last_high_watermarks(alias)),
            ),
            topics=TopicRecord(
                self.writer,
                self._observer,
                {state.topic: state for state in self._state.last_topic_states(alias)},
            ),
            permissions=PermissionRecord(
                alias, live.cluster_id, self._state.last_permissions(alias, live.cluster_id)
            ),
        )

    def _require_same_cluster(self, memory: _Memory) -> None:
        """Nothing of another cluster is recorded: by it all groups and topics would have been deleted."""
        found = self._admin.cluster_id()
        if found != memory.cluster.cluster_id:
            raise OtherClusterError(
                f"another cluster answers behind {self._admin.alias}: its Kafka cluster id is {found}, {self.writer} "
                f"claimed with {memory.cluster.cluster_id}; nothing is recorded"
            )

    def _record(self, asked: frozenset[Subject], *, confirm_ends: bool = False) -> RecordedRound:
        with self._lock:
            if self._memory is None:
                raise PreconditionError(f"{self.writer} does not hold its role; nothing was recorded")
            subjects = (asked | self._due(self._memory)) & self._settings.subjects
            if not subjects:
                return RecordedRound(None)
            memory = self._memory
            seen = self._observed(memory, subjects)
            recorded = self._append(memory, seen, swept=Subject.SWEEP in subjects, confirm_ends=confirm_ends)
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
        self, memory: _Memory, seen: Observation, *, swept: bool, confirm_ends: bool
    ) -> RecordedRound:
        """One round of all that changed; what did not change of the ends is confirmed after it."""
        groups = memory.groups.rows(seen, swept=swept)
        ends = memory.ends.rows(seen, self._clock.monotonic(), swept=swept, confirm=confirm_ends)
        topics, states = memory.topics.read(seen)
        rows: dict[str, list[Row]] = {
            **groups.by_table(),
            HIGH_WATERMARKS.name: list(map(encode, ends.rows)),
            TOPICS.name: topics,
            PERMISSIONS.name: memory.permissions.rows(seen.permissions),
        }
        recorded = self._append_round(memory, {table: found for table, found in rows.items() if found})
        memory.groups.recorded(groups)
        memory.topics.recorded(states)
        memory.permissions.recorded(seen.permissions)
        if ends.with_heartbeat:
            with self._giving_up_when_shut_out():
                memory.session.alive(brokers=",".join(self._admin.brokers()) or None)
        memory.ends.recorded(ends, seen, self._clock.monotonic())
        return recorded

    def _append_round(self, memory: _Memory, rows: Mapping[str, list[Row]]) -> RecordedRound:
        if not rows:
            return RecordedRound(None)
        with self._giving_up_when_shut_out():
            number = memory.session.append_round(rows)
        return RecordedRound(number, {table: len(found) for table, found in rows.items()})
