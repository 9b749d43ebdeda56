"""`fence`: stop applications from writing to topics of a cluster, and prove it.

What is about to be made is recorded before it is made, so that a fence which was begun and not finished is known, and
`unfence` finds all that is to be removed. A second `fence` continues the first: it makes what is lacking, and proves
what is not proved.
"""

import json
import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ledger.changeover.directions import require_not_left
from ledger.changeover.measures import (
    LEAST_MESSAGE_BYTES,
    SETTING,
    AskedFence,
    FenceParts,
    FenceResult,
    Measure,
    Say,
    Shown,
    UnfenceResult,
    failed_hook,
    measure_of,
    places_of,
    run_hook,
)
from ledger.changeover.plans import undo_command
from ledger.clock import HOUR_MS
from ledger.config.mirror import MirrorConfig
from ledger.context import Context
from ledger.errors import ClusterUnavailableError, PreconditionError, UnsafeError, UsageError
from ledger.facts.fences import (
    Evidence,
    Fence,
    FencedPartition,
    FenceHow,
    HookRun,
    LeaderReading,
    PartitionWatch,
    Proof,
    Unfenced,
    least,
    quiet_time,
)
from ledger.facts.operations import Why
from ledger.facts.permissions import Permission
from ledger.facts.syncs import TopicPartition
from ledger.facts.tables import TOPICS
from ledger.kafka.cluster import (
    CoordinatedTransaction,
    OpenTransaction,
    Place,
    TopicDescription,
    first_data,
    live_cluster,
)
from ledger.machine import HookCommand, HookProcesses
from ledger.store.answers import run_query
from ledger.store.catalog import Value
from ledger.topics.following import is_fence
from ledger.words import counted, listed, shell_word

# Watching -----------------------------------------------------------------------------------------
# Reading the partitions behind a fence, all at once, until each is proved.


_LONGEST_PAUSE_S = 1.0
_APART_S = 1.0
"""Between two readings behind a fence, at least."""
_WATCH_POLL_S = 0.2
_SAY_EVERY_S = 10.0
_SURELY_HANGING_MS = 20 * 60_000
"""Coordinators abort after 15 minutes at most unless they are configured otherwise (transaction.max.timeout.ms)."""
_LEAST_REPLICAS = "min.insync.replicas"

Watches = dict[Place, PartitionWatch]


@dataclass(slots=True)
class Watching:
    """Of all partitions of fenced topics; `shown`: what their leaders have shown of the fence.

    `short`: partitions that nobody waits for, by how many replicas have to be in sync: fewer are, and what the leader
    has taken need not be seen before they are back.
    """

    asked: AskedFence
    parts: FenceParts
    measure: Measure
    made: Sequence[Fence]
    topics: Mapping[str, TopicDescription]
    shown: Shown
    short: dict[Place, int] = field(default_factory=dict)
    _said_s: float = 0.0
    _said: set[str] = field(default_factory=set)
    _transactions: Sequence[CoordinatedTransaction] = ()
    _behind: frozenset[Place] = frozenset()
    _pauses: Mapping[tuple[str, int], float] | None = None

    def watched(self) -> Watches:
        """Until all are proved, one cannot be, or the time for it is over.

        Raises `ClusterUnavailableError` when partitions have no leader, or none answers, until then.
        """
        clock = self.parts.clock
        began_s = clock.monotonic()
        self._said_s = began_s - _SAY_EVERY_S
        deadline_s = began_s + self.asked.wait_s
        watches: Watches = {}
        left: list[PartitionWatch] = []
        while True:
            try:
                self._abort(left, clock.monotonic() - began_s)
                watches = self._read_again(watches)
                left = [one for one in watches.values() if not one.is_still]
                self._find_short(left)
            except ClusterUnavailableError as error:
                if clock.monotonic() >= deadline_s:
                    raise
                self.parts.say(f"not read: {error}")
                self.parts.sleep(_LONGEST_PAUSE_S)
                continue
            if not left or self.short or clock.monotonic() >= deadline_s:
                return watches
            self._say(watches, left)
            self._pause(left)

    def why_not(self, watch: PartitionWatch) -> str:
        """Why it is not proved, in words."""
        reading, where = watch.reading, f"{watch.topic} partition {watch.partition}"
        if least := self.short.get((watch.topic, watch.partition)):
            return (
                f"{where}: its leader has {counted(reading.behind, 'record')} from offset {watch.end} on that no "
                f"reader sees before {least} replicas are in sync ({_LEAST_REPLICAS}), and {reading.in_sync} are: "
                "bring replicas back"
            )
        if watch.has_open_transaction:
            advice = "it ends by its time limit; --abort-open-transactions-after S aborts it"
            return f"{where}: a transaction is open from offset {reading.last_stable}; {advice}"
        if reading.behind:
            have = f"its leader has {counted(reading.behind, 'record')} from offset {watch.end} on"
            return f"{where}: {have} that its followers lack, and no reader sees"
        if watch.appended:
            return f"{where}: records were appended behind the fence, the last ones before offset {watch.end}"
        return f"{where}: not read for as long as it has to be still, {watch.quiet.seconds:g} s"

    # -- readings --------------------------------------------------------------------------------

    def _read_again(self, watches: Watches) -> Watches:
        places = places_of(self.topics)
        asked_s, readings = self._readings(places)
        if any(self._is_led_elsewhere(place, reading) for place, reading in readings.items()):
            self.shown = self.measure.shown(self.made, places)
            asked_s, readings = self._readings(places)
        self._transactions = self.parts.control.transactions_in(list(self.topics))
        answered_s = self.parts.clock.monotonic()
        open_at = {place for one in self._transactions for place in one.places}
        return {
            place: self._after(watches.get(place), place, reading, open_at, asked_s, answered_s)
            for place, reading in readings.items()
        }

    def _readings(self, places: Sequence[Place]) -> tuple[float, Mapping[Place, LeaderReading]]:
        """With the time before which they were not asked for: a slow answer is no stillness."""
        asked_s = self.parts.clock.monotonic()
        readings = self.parts.reader.readings(places)
        if lacking := [place for place in places if place not in readings]:
            raise ClusterUnavailableError(
                f"{lacking[0][0]} partition {lacking[0][1]} of {self.asked.cluster} has no leader: what was written "
                "there is unknown; the fence is not proved"
            )
        return asked_s, readings

    def _is_led_elsewhere(self, place: Place, reading: LeaderReading) -> bool:
        shown_by, _ = self.shown.evidence.get(place, (-1, None))
        return shown_by not in (None, reading.leader)

    def _after(
        self,
        watch: PartitionWatch | None,
        place: Place,
        reading: LeaderReading,
        open_at: Collection[Place],
        asked_s: float,
        answered_s: float,
    ) -> PartitionWatch:
        if self._is_led_elsewhere(place, reading):
            raise ClusterUnavailableError(
                f"{place[0]} partition {place[1]} of {self.asked.cluster} is led by broker {reading.leader} now, which "
                f"is not found to keep writers out: {self.shown.lacking or 'leaders change'}"
            )
        evidence = self._evidence(place, reading)
        if watch is None or watch.evidence is not evidence:
            begun = self._begun(place, reading, evidence, asked_s, in_transaction=place in open_at)
            if watch is not None:
                return replace(begun, appended=watch.appended).begun(answered_s)
            return begun.begun(self._still_since(begun, answered_s))
        return watch.after(
            reading,
            in_transaction=place in open_at,
            has_data=self._has_data(watch, reading),
            asked_s=asked_s,
            answered_s=answered_s,
        )

    def _still_since(self, begun: PartitionWatch, answered_s: float) -> float:
        """A log that ends where it did before was still since then; two readings behind the fence are wanted anyway."""
        end, since_s = self.asked.ended_before.get((begun.topic, begun.partition), (None, answered_s))
        if end != begun.end:
            return answered_s
        return min(max(since_s, answered_s - begun.quiet.seconds + _APART_S), answered_s)

    def _evidence(self, place: Place, reading: LeaderReading) -> Evidence:
        """A leader that does not tell where its log ends shows nothing but stillness."""
        _, evidence = self.shown.evidence[place]
        return Evidence.STILLNESS if reading.log_end is None or reading.leader_epoch is None else evidence

    def _begun(
        self,
        place: Place,
        reading: LeaderReading,
        evidence: Evidence,
        asked_s: float,
        *,
        in_transaction: bool,
    ) -> PartitionWatch:
        pause_s = self._longest_pause_s(place) if evidence is Evidence.STILLNESS else None
        return PartitionWatch(
            topic=place[0],
            partition=place[1],
            evidence=evidence,
            quiet=quiet_time(evidence, pause_s, self.asked.quiet, is_empty=reading.is_empty),
            reading=reading,
            still_since_s=None,
            read_at_s=asked_s,
            in_transaction=in_transaction,
        )

    def _longest_pause_s(self, place: Place) -> float | None:
        """Asked for only where stillness is watched, once: the ledger may take seconds to answer."""
        if self._pauses is None:
            self._pauses = self.parts.pauses()
        return self._pauses.get((self.topics[place[0]].topic_id, place[1]))

    def _has_data(self, watch: PartitionWatch, reading: LeaderReading) -> bool:
        """Also where the log lost what it had, or deleted what came since: nobody can read it any more."""
        if reading.high_watermark < watch.end or reading.log_start > watch.end:
            return True
        if reading.high_watermark == watch.end:
            return False
        found = first_data(
            self.parts.reader, self._at(watch), watch.end, reading.high_watermark, mirrors=self.parts.mirrors
        )
        return found is not None

    def _at(self, watch: PartitionWatch) -> TopicPartition:
        return TopicPartition(watch.topic, self.topics[watch.topic].topic_id, watch.partition)

    def _find_short(self, left: Sequence[PartitionWatch]) -> None:
        """Of partitions that were behind at two readings, one after the other."""
        behind = {(one.topic, one.partition): one.reading for one in left if one.reading.behind}
        stays, self._behind = behind.keys() & self._behind, frozenset(behind)
        for place in sorted(stays):
            least = self._least_replicas(place[0], behind[place].leader)
            if least is not None and behind[place].in_sync < least:
                self.short[place] = least

    def _least_replicas(self, topic: str, broker: int) -> int | None:
        """None: the administrator may not read it."""
        try:
            found = self.parts.control.settings_at(broker, [topic], [_LEAST_REPLICAS])
        except PreconditionError:
            return None
        reported = found.get(topic, {}).get(_LEAST_REPLICAS)
        return None if reported is None else int(reported)

    # -- waiting ---------------------------------------------------------------------------------

    def _pause(self, left: Sequence[PartitionWatch]) -> None:
        now_s = self.parts.clock.monotonic()
        waits_s = min(one.waits_s(now_s) if one.is_calm else _WATCH_POLL_S for one in left)
        self.parts.sleep(min(_LONGEST_PAUSE_S, max(waits_s, 0.05)))

    def _abort(self, left: Sequence[PartitionWatch], waited_s: float) -> None:
        """By choice alone: what its producer would still have committed is aborted by it."""
        if self.asked.abort_after_s is None or waited_s < self.asked.abort_after_s:
            return
        held = [watch for watch in left if watch.reading.last_stable < watch.end]
        for watch in held:
            for found in self.parts.reader.open_transactions(self._at(watch)):
                self._tell(self._ended(found))
        held_at = {(watch.topic, watch.partition) for watch in held}
        for one in self._transactions if left else ():
            if one.is_ongoing and not one.places & held_at:  # nothing of it is in a log yet
                self.parts.control.fence_producer(one.transactional_id)
                self._tell(f"a transaction aborted, its producer {one.transactional_id} fenced")

    def _tell(self, done: str) -> None:
        if done not in self._said:
            self.parts.say(done)
            self._said.add(done)

    def _ended(self, one: OpenTransaction) -> str:
        """Abort it in the way that its coordinator notices, if there is one; what was done, in words."""
        control = self.parts.control
        what = (
            f"{one.partition.topic} partition {one.partition.partition}: transaction of producer {one.producer_id} "
            f"from offset {one.start}"
        )
        known = control.coordinated(one.producer_id)
        if known is not None and known.is_ongoing:
            control.fence_producer(known.transactional_id)
            return f"{what} aborted, its producer {known.transactional_id} fenced"
        if known is not None and not known.is_ended:
            return f"{what} is being ended by its coordinator"
        age_ms = None if one.last_timestamp_ms is None else self.parts.clock.now_ms() - one.last_timestamp_ms
        if known is None and (age_ms is None or age_ms < _SURELY_HANGING_MS):
            return (
                f"{what} is shown by no coordinator, and too young to be sure that none waits for it: allow the "
                "administrator to DESCRIBE transactional ids, or wait"
            )
        control.abort_hanging(one)
        return f"{what} aborted, no coordinator waits for it"

    def _say(self, watches: Watches, left: Sequence[PartitionWatch]) -> None:
        now_s = self.parts.clock.monotonic()
        if now_s - self._said_s < _SAY_EVERY_S:
            return
        self._said_s = now_s
        waits_s = max(one.waits_s(now_s) for one in left)
        self.parts.say(
            f"{len(left)} of {counted(len(watches), 'partition')} not proved yet: {waits_s:.0f} s more of stillness"
            f"{self._held_back(left)}"
        )

    def _held_back(self, left: Sequence[PartitionWatch]) -> str:
        open_ = sum(one.has_open_transaction for one in left)
        behind = sum(one.reading.behind > 0 for one in left)
        words = f", {counted(open_, 'partition')} with an open transaction" if open_ else ""
        if open_:
            ids = sorted(one.transactional_id for one in self._transactions if one.is_ongoing)
            words += f" ({', '.join(ids) or 'nobody shows whose'}: it ends with its producer, or by its time limit)"
        return words + (f", {counted(behind, 'partition')} whose followers lack records" if behind else "")


# Standing -----------------------------------------------------------------------------------------
# Whether fences stand now, at the ends that they were proved at.
#
# A proof is about a moment. A request that was authorized before the rules came, and still waited in the
# leader (for the verification of its transaction, for the log's lock), is appended behind it; people lift
# fences, and allow others. So whatever rests on a fence asks this again right before it acts: an apply
# before every step until applications start.


_READINGS = 5


def doubts(fences: Sequence[Fence], parts: FenceParts) -> tuple[str, ...]:
    """Why these fences of a cluster, as recorded, do not stand now, each in words; none: all do.

    Every leader is asked, all at once, and nothing is changed: the topics are those that were fenced, nobody is allowed
    to write by now, leaders have the rules or refuse, and nothing but markers and copies lies behind the ends of the
    proof, in no leader's log. A fence that is open proves nothing, and is left out. Raises `ClusterUnavailableError`.
    """
    kept = [one for one in fences if not one.is_open]
    there = parts.reader.topics() if kept else {}
    others = [words for one in kept if (words := _is_another(one, there.get(one.topic)))]
    same = [one for one in kept if not _is_another(one, there.get(one.topic))]
    found = list(others)
    for how in FenceHow:
        found += _not_refused([one for one in same if one.how == how], there, parts)
    return (*found, *_written(same, parts))


def _is_another(fence: Fence, topic: TopicDescription | None) -> str | None:
    if topic is None:
        return f"{fence.topic} of {fence.cluster} is not there any more"
    if topic.topic_id != fence.topic_id:
        return f"{fence.topic} of {fence.cluster} was created again since it was fenced"
    if topic.partitions != len(fence.partitions):
        were = len(fence.partitions)
        return f"{fence.topic} of {fence.cluster} has {topic.partitions} partitions, and had {were} when it was fenced"
    return None


def _not_refused(
    fences: Sequence[Fence], there: Mapping[str, TopicDescription], parts: FenceParts
) -> list[str]:
    if not fences or fences[0].how == FenceHow.HOOK:
        return []
    topics = {one.topic: there[one.topic] for one in fences}
    asked = AskedFence(
        cluster=fences[0].cluster,
        topics=tuple(topics),
        how=FenceHow(fences[0].how),
        confirmed_super_users=tuple(sorted({user for one in fences for user in one.confirmed})),
        producers_stopped=True,
    )
    measure = measure_of(asked, parts)
    try:
        begun = measure.begun(topics)
    except PreconditionError as error:
        return [str(error)]
    wanted = {one.topic: one for one in begun}
    by_now = [
        f"{', '.join(who)} may {what} {one.topic} of {one.cluster} by now"
        for one in fences
        for what, those, known in (
            ("write to", wanted[one.topic].denied, one.denied),
            ("read", wanted[one.topic].denied_reading or (), one.denied_reading or ()),
        )
        if (who := sorted(set(those) - set(known)))
    ]
    if by_now:
        return by_now
    lacking = measure.shown(begun, places_of(topics)).lacking
    return [] if lacking is None else [f"{asked.cluster} is not fenced any more: {lacking}"]


def _written(fences: Sequence[Fence], parts: FenceParts) -> list[str]:
    ends = {(one.topic, of.partition): (one, of) for one in fences for of in one.partitions}
    readings = _calm_readings(sorted(ends), parts)
    return [
        words
        for place, (fence, known) in sorted(ends.items())
        if (words := _behind_the_end(fence, known, readings.get(place), parts))
    ]


def _calm_readings(places: Sequence[Place], parts: FenceParts) -> Mapping[Place, LeaderReading]:
    """Copies that a mirror writes just now lie behind a high watermark for a moment: these are read again."""
    readings = parts.reader.readings(places) if places else {}
    for _ in range(_READINGS):
        moving = [place for place in places if place not in readings or not _is_calm(readings[place])]
        if not moving:
            break
        parts.sleep(_WATCH_POLL_S)
        readings = {**readings, **parts.reader.readings(moving)}
    return readings


def _is_calm(reading: LeaderReading) -> bool:
    return not reading.behind and reading.last_stable >= reading.high_watermark


def _behind_the_end(
    fence: Fence, known: FencedPartition, reading: LeaderReading | None, parts: FenceParts
) -> str | None:
    where = f"{fence.topic} partition {known.partition} of {fence.cluster}"
    if reading is None:
        return f"{where} has no leader"
    if reading.high_watermark < known.end:
        return f"{where} ends at {reading.high_watermark}, and ended at {known.end} when it was fenced"
    if reading.log_start > known.end:
        return f"{where}: what was written behind offset {known.end}, its end when it was fenced, is deleted"
    at = TopicPartition(fence.topic, fence.topic_id or "", known.partition)
    if first := first_data(parts.reader, at, known.end, reading.high_watermark, mirrors=parts.mirrors):
        return f"{where}: a record was written at offset {first.base_offset} behind the fence, whose end is {known.end}"
    if reading.behind:
        return (
            f"{where}: its leader has records from offset {reading.high_watermark} on that no reader sees yet"
        )
    if reading.last_stable < reading.high_watermark:
        return f"{where}: a transaction is open from offset {reading.last_stable}"
    return None


# Fencing ------------------------------------------------------------------------------------------


_READ_BACK_S = 30.0
_POLL_S = 0.1


def fence(asked: AskedFence, parts: FenceParts, why: Why) -> FenceResult:
    """Fence the topics, prove it and record it.

    Raises `UsageError` and `PreconditionError` where it is refused, with all reasons; `ClusterUnavailableError` where
    the cluster does not answer, and `UnsafeError` where no proof was found in time: both are recorded as unproven
    instead, when `asked.unproven` says why.
    """
    _require_one_way(asked, parts)
    attempt = _Attempt(
        asked, parts, measure_of(asked, parts), why, _Again.of(asked.cluster, why.operation_id)
    )
    try:
        return attempt.carried_out()
    except ClusterUnavailableError as error:
        if asked.unproven is None:
            raise ClusterUnavailableError(
                f"{error}. The fence is not proved: when the cluster answers, {attempt.again.command}; to continue "
                f"without a proof, {attempt.again.unproven}",
                trouble=error.trouble,
            ) from error
        return attempt.given_up()


def leave_open(asked: AskedFence, parts: FenceParts, why: Why) -> FenceResult:
    """Make none, and record that nothing is proved and why to continue (`asked.unproven`); the cluster is not asked.

    What stands is left as it is, so twice is as once.
    """
    stands = {topic: parts.fences.of(asked.cluster, topic) for topic in sorted(asked.topics)}
    lacking = tuple(
        replace(_unmade(asked, parts, topic), override=asked.unproven)
        for topic, one in stands.items()
        if one is None
    )
    active = tuple(one.fence for one in stands.values() if one is not None)
    operation_id = parts.operations.record_parts(lacking, why) if lacking else None
    words = [f"{_named(lacking)} of {asked.cluster} is not fenced: {asked.unproven}"] if lacking else []
    if active:
        words.append(f"the fence of {_named(active)} of {asked.cluster} is left as it is")
    return FenceResult(operation_id, "; ".join(words), (*lacking, *active))


def _unmade(asked: AskedFence, parts: FenceParts, topic: str) -> Fence:
    return Fence(
        cluster=asked.cluster,
        cluster_id=parts.identities.recorded_id(asked.cluster),
        topic=topic,
        topic_id=asked.known_ids.get(topic),
        how=asked.how,
        proof=Proof.UNPROVEN,
    )


def refusal(asked: AskedFence, parts: FenceParts) -> str | None:
    """Why such a fence would be refused now, with all reasons; None: it would not. Changes and records nothing."""
    try:
        _require_one_way(asked, parts)
        attempt = _Attempt(asked, parts, measure_of(asked, parts), Why(), _Again.of(asked.cluster, None))
        attempt.measure.begun(attempt.topics())
    except ClusterUnavailableError as error:
        return None if asked.unproven is not None else str(error)
    except (PreconditionError, UsageError) as error:
        return str(error)
    return None


def _require_one_way(asked: AskedFence, parts: FenceParts) -> None:
    """What another way has made for a topic would be forgotten."""
    for topic in asked.topics:
        stands = parts.fences.of(asked.cluster, topic)
        if stands is None or stands.fence.how == asked.how:
            continue
        made = stands.fence
        if made.denied or made.former or made.hook is not None:
            raise PreconditionError(
                f"{topic} of {asked.cluster} is fenced ({made.how}) already, {stands.made_by}: lift that first "
                f"(mirror-ledger unfence {asked.cluster} --topic {topic} --reason WHY); nothing was changed or recorded"
            )


@dataclass(frozen=True, slots=True)
class _Again:
    """What people type behind an attempt that failed: to continue, without a proof, of other topics, to lift it."""

    command: str
    unproven: str
    restart: str
    lift: str

    @classmethod
    def of(cls, cluster: str, operation_id: str | None) -> "_Again":
        """`operation_id`: of the apply that the fence is a step of; None: it is a command of its own."""
        if operation_id is None:
            command, lift = "run fence again", f"lift it: mirror-ledger unfence {cluster} --reason WHY"
            return cls(command, "--accept unproven=REASON", command, lift)
        undo = f"undo it ({undo_command(operation_id)})"
        return cls(
            "apply the plan again",
            f"{undo} and plan with --accept unproven=REASON",
            f"{undo} and plan again",
            undo,
        )


@dataclass(slots=True)
class _Attempt:
    asked: AskedFence
    parts: FenceParts
    measure: Measure
    why: Why
    again: _Again
    _recorded: dict[str, Fence] = field(default_factory=dict)
    """By topic what this attempt has recorded last."""

    def carried_out(self) -> FenceResult:
        parts, asked = self.parts, self.asked
        parts.identities.require(asked.cluster, live_cluster(parts.reader))
        topics = self.topics()
        try:
            begun = self.measure.begun(topics)
        except PreconditionError as error:
            if asked.how is FenceHow.CLOSED and self.why.operation_id is None:
                named = "".join(
                    f" --topic {shell_word(one)}" for one in asked.topics if len(asked.topics) <= 10
                )
                error.lines += (
                    f"Once producers are stopped: mirror-ledger fence {asked.cluster} --how shut --accept "
                    f"producers_stopped --reason WHY{named}",
                )
            raise
        if proved := self._proved_before(begun):
            return proved
        self._record_begun(begun)
        made = self.measure.make(begun)
        if made != begun:
            self._record(made)
        watching = Watching(asked, parts, self.measure, made, topics, self._required(made, topics))
        watches = watching.watched()
        self._required(made, topics)
        self._require_same(topics)
        return self._concluded(made, list(watches.values()), watching)

    def given_up(self) -> FenceResult:
        """Unproven, by the operator's word; what was made of it, by this attempt or an earlier one, stays recorded."""
        rows = [
            replace(self._known(topic), proof=Proof.UNPROVEN, override=self.asked.unproven)
            for topic in sorted(self.asked.topics)
        ]
        self._record(rows)
        away = f"{self.asked.cluster} did not answer; continued without a proof"
        words = f"{_named(rows)} is not proved to be fenced: {away}"
        return FenceResult(self.why.operation_id, words, tuple(rows))

    def _known(self, topic: str) -> Fence:
        asked, stands = self.asked, self.parts.fences.of(self.asked.cluster, topic)
        if topic in self._recorded:
            return self._recorded[topic]
        if stands is not None:
            return stands.fence
        return _unmade(asked, self.parts, topic)

    def topics(self) -> dict[str, TopicDescription]:
        found = self.parts.reader.topics()
        if missing := [name for name in self.asked.topics if name not in found]:
            raise UsageError(
                f"{self.asked.cluster} has no topic {', '.join(missing)}, or does not show it; nothing was changed or "
                "recorded"
            )
        return {name: found[name] for name in sorted(self.asked.topics)}

    def _require_same(self, topics: Mapping[str, TopicDescription]) -> None:
        now = self.topics()
        for name, before in topics.items():
            if (now[name].topic_id, now[name].partitions) != (before.topic_id, before.partitions):
                raise UnsafeError(
                    f"{name} of {self.asked.cluster} was created again, or given partitions, while it was watched: the "
                    f"fence is not proved; {self.again.restart}"
                )

    def _proved_before(self, begun: Sequence[Fence]) -> FenceResult | None:
        """What stands, where it is proved and nothing has changed since."""
        found = []
        for fence_ in begun:
            stands = self.parts.fences.of(fence_.cluster, fence_.topic)
            if stands is None or stands.fence.is_open:
                return None
            made = stands.fence
            of_this = (made.cluster_id, made.topic_id) == (fence_.cluster_id, fence_.topic_id)
            if not of_this or made.rules != fence_.rules or made.is_for_reading != fence_.is_for_reading:
                return None
            found.append(made)
        if doubts(found, self.parts):
            return None
        also = _for_reading(found)
        return FenceResult(None, f"{_named(found)} is fenced{also} and proved already", tuple(found))

    def _record_begun(self, begun: Sequence[Fence]) -> None:
        """Unless it stands so already, from an attempt that did not end."""
        of_each = [self.parts.fences.of(one.cluster, one.topic) for one in begun]
        last = [stands for stands in of_each if stands is not None]
        if [stands.fence for stands in last] == list(begun) and self.why.operation_id is None:
            self.why = replace(self.why, operation_id=last[-1].operation_id)
            return
        self._record(begun)

    def _record(self, rows: Sequence[Fence]) -> None:
        operation_id = self.parts.operations.record_parts(rows, self.why)
        self.why = replace(self.why, operation_id=operation_id)
        self._recorded |= {one.topic: one for one in rows}

    def _required(self, made: Sequence[Fence], topics: Mapping[str, TopicDescription]) -> Shown:
        """What leaders show, once each has everything: brokers learn of a change one after the other."""
        clock, said = self.parts.clock, set[str]()
        deadline_s = clock.monotonic() + _READ_BACK_S
        while lacking := (shown := self.measure.shown(made, places_of(topics))).lacking:
            has_failed = any(one.hook is not None and one.hook.exit_code != 0 for one in made)
            if has_failed or clock.monotonic() >= deadline_s:
                raise PreconditionError(
                    f"the fence of {_named(made)} of {self.asked.cluster} is not complete: {lacking}. It is recorded "
                    f"as begun; {self.again.command}, or {self.again.lift}"
                )
            if lacking not in said:
                self.parts.say(f"brokers learn of the fence, for {_READ_BACK_S:g} s at most: {lacking}")
                said.add(lacking)
            self.parts.sleep(_POLL_S)
        return shown

    def _concluded(
        self, made: Sequence[Fence], watches: Sequence[PartitionWatch], watching: Watching
    ) -> FenceResult:
        proved = [self._proved(one, watches) for one in made]
        left = [one for one in watches if not one.is_still]
        if not left:
            self._record(proved)
            return FenceResult(self.why.operation_id, self._words(proved), tuple(proved))
        reasons = list(map(watching.why_not, left))
        if self.asked.unproven is not None:
            overridden = [
                replace(one, override=self.asked.unproven) if one.is_open else one for one in proved
            ]
            self._record(overridden)
            words = f"{_named(proved)} is not proved, and continued without: {'; '.join(reasons)}"
            return FenceResult(self.why.operation_id, words, tuple(overridden))
        if done := [one for one in proved if not one.is_open]:
            self._record(done)
        waited = "" if watching.short else f" after {self.asked.wait_s:g} s"
        raise UnsafeError(
            f"{counted(len(left), 'partition')} of {self.asked.cluster} not proved{waited}:",
            *listed(reasons),
            f"What was made stays. To continue, {self.again.command}; to continue without a proof, "
            f"{self.again.unproven}",
        )

    def _proved(self, made: Fence, watches: Sequence[PartitionWatch]) -> Fence:
        partitions = tuple(
            FencedPartition(
                partition=one.partition,
                end=one.end,
                last_stable=one.reading.last_stable,
                quiet_ms=int(one.quiet.seconds * 1000),
                is_telling=one.quiet.is_telling,
                proof=str(one.proof),
                evidence=str(one.evidence),
                leader_epoch=one.reading.leader_epoch,
            )
            for one in watches
            if one.topic == made.topic
        )
        return replace(made, proof=least(Proof(one.proof) for one in partitions), partitions=partitions)

    def _words(self, proved: Sequence[Fence]) -> str:
        by_proof = {proof: [one for one in proved if one.proof == proof] for proof in Proof}
        parts = [
            f"{_named(found)} is fenced{_for_reading(found)}: {proof}"
            for proof, found in by_proof.items()
            if found
        ]
        known = all(one.super_users is not None for one in proved)
        hidden = "" if known or self.asked.how != FenceHow.CLOSED else _HIDDEN_SUPER_USERS
        return "; ".join(parts) + hidden


_HIDDEN_SUPER_USERS = "; the brokers do not say who is a super user: no rule stops these"


def _for_reading(fences: Sequence[Fence]) -> str:
    found = [one for one in fences if one.is_for_reading]
    if not found:
        return ""
    return ", for reading too" if len(found) == len(fences) else f", {_named(found)} for reading too"


def _named(fences: Sequence[Fence]) -> str:
    return ", ".join(one.topic for one in fences)


# Lifting ------------------------------------------------------------------------------------------
# `unfence`: remove exactly the rules that the rows of a fence list, set back exactly what it has changed.


def unfence(
    cluster: str,
    topics: Collection[str] | None,
    parts: FenceParts,
    why: Why,
    hook: HookCommand | None = None,
) -> UnfenceResult:
    """Lift the fences that stand, and record it; twice is as once. Where nothing was made no cluster is asked.

    `topics` None: all of the cluster. `hook`: ends what another hook has stopped.
    Raises `PreconditionError` when another cluster answers than the recorded one, the hook fails, or a broker still has
    a rule after 30 s: then nothing is recorded, and the fence stands as far as the ledger knows.
    """
    chosen = [one for one in parts.fences.at(cluster) if topics is None or one.fence.topic in topics]
    if not chosen:
        return UnfenceResult(None, f"no topic of {cluster} that was named is fenced", ())
    if hook is not None or any(one.fence.is_made for one in chosen):
        parts.identities.require(cluster, live_cluster(parts.reader))
    fences, run = [one.fence for one in chosen], None
    if hook is not None:
        run = run_hook(parts, hook, "unfence", cluster, [one.topic for one in fences])
        if run.exit_code != 0:
            raise PreconditionError(
                f"{failed_hook(run)}; the fences of {cluster} stand, nothing was recorded"
            )
    _remove_rules(parts, fences)
    restored = _set_back(parts, [one for one in fences if SETTING in one.former])
    lifted = [_lifted(parts, one, run, restored.get(one.topic, {})) for one in fences]
    return UnfenceResult(parts.operations.record_parts(lifted, why), _words(lifted), tuple(lifted))


def _remove_rules(parts: FenceParts, fences: Sequence[Fence]) -> None:
    rules = frozenset(rule for one in fences for rule in one.rules)
    if not rules:
        return
    if there := sorted(rules & parts.control.topic_acls()):
        parts.control.delete_acls(there)
    described = parts.reader.topics()
    names = [one.topic for one in fences if one.topic in described]
    deadline_s = parts.clock.monotonic() + _READ_BACK_S
    parts.say(f"brokers are asked whether the rules are removed, for {_READ_BACK_S:g} s at most")
    while left := _still_there(parts, rules, names):
        if parts.clock.monotonic() >= deadline_s:
            raise PreconditionError(
                f"{left} still has rules that were deleted; the fences stand as far as the ledger knows: run unfence "
                "again"
            )
        parts.sleep(_POLL_S)


def _still_there(parts: FenceParts, rules: frozenset[Permission], topics: Sequence[str]) -> str | None:
    for broker in sorted(set(parts.control.leaders(topics).values())) if topics else ():
        if rules & parts.control.acls_at(broker):
            return f"broker {broker}"
    return "the cluster" if rules & parts.control.topic_acls() else None


def _lifted(
    parts: FenceParts, fence: Fence, hook: HookRun | None, restored: Mapping[str, str | None]
) -> Unfenced:
    return Unfenced(
        cluster=fence.cluster,
        cluster_id=parts.reader.cluster_id() if fence.is_made else fence.cluster_id or "",
        topic=fence.topic,
        topic_id=fence.topic_id,
        how=fence.how,
        denied=fence.denied,
        denied_reading=fence.denied_reading,
        restored=restored,
        hook=hook if fence.how == FenceHow.HOOK else None,
    )


def _set_back(parts: FenceParts, fences: Sequence[Fence]) -> dict[str, dict[str, str | None]]:
    """By topic; nothing, where the topic is another one by now or somebody has changed the setting since."""
    described = parts.reader.topics() if fences else {}
    former = {
        one.topic: one.former[SETTING]
        for one in fences
        if one.topic in described and described[one.topic].topic_id == one.topic_id
    }
    now = parts.control.configurations(sorted(former)) if former else {}
    own = {topic: now[topic].get(SETTING) for topic in former}
    if ours := {
        topic: former[topic] for topic in former if own[topic] == LEAST_MESSAGE_BYTES != former[topic]
    }:
        parts.control.change_setting(SETTING, ours)
    for topic in sorted(former):
        if own[topic] not in (former[topic], LEAST_MESSAGE_BYTES):
            parts.say(f"{topic}: {SETTING} was changed since, to {own[topic]}: it is left so")
    return {
        topic: {SETTING: value} for topic, value in former.items() if topic in ours or own[topic] == value
    }


def _words(lifted: Sequence[Unfenced]) -> str:
    rules = sum(len(one.denied) + len(one.denied_reading or ()) for one in lifted)
    names = ", ".join(one.topic for one in lifted)
    return f"{names} of {lifted[0].cluster} is fenced no more: {rules} rules removed"


# Put together -------------------------------------------------------------------------------------
# Fences of topics, as `fence` and `unfence` make and lift them.


def fence_topics(context: Context, asked: AskedFence, say: Say) -> FenceResult:
    """Fence topics of a cluster; none named: all that flows of the configuration read there."""
    asked = topics_to_fence(context, asked)
    return fence(asked, fence_parts(context, asked.cluster, say), context.why)


def refused_fence(context: Context, asked: AskedFence) -> str | None:
    """Why it would be refused now, None: it would not; changes nothing."""
    return refusal(asked, fence_parts(context, asked.cluster))


def topics_to_fence(context: Context, asked: AskedFence) -> AskedFence:
    """With the topics named that are meant; raises `UsageError` where there is none."""
    known = _known_ids(context, asked.cluster)
    topics = asked.topics or _read_by_flows(
        context.config, asked.cluster, _listed(fence_parts(context, asked.cluster), known)
    )
    if not topics:
        raise UsageError(
            f"no flow of the configuration reads a topic of {asked.cluster}: name topics by --topic; nothing was "
            "changed or recorded"
        )
    return replace(asked, topics=tuple(sorted(set(topics))), known_ids=known)


def leave_topics_open(context: Context, asked: AskedFence) -> FenceResult:
    """Record that topics of a cluster are not fenced, and why that is enough; it may be unreachable."""
    asked = replace(asked, known_ids=_known_ids(context, asked.cluster))
    return leave_open(asked, fence_parts(context, asked.cluster), context.why)


def _known_ids(context: Context, cluster: str) -> dict[str, str]:
    return {one.topic: one.topic_id for one in context.state.last_topic_states(cluster)}


def unfence_topics(
    context: Context,
    cluster: str,
    topics: Collection[str] | None,
    say: Say,
    hook: HookCommand | None = None,
) -> UnfenceResult:
    """Lift fences of a cluster."""
    parts = fence_parts(context, cluster, say)
    if context.why.operation_id is None:
        # A fence `shut` would stop what is mirrored back as well: it is lifted before that.
        kept = [
            one.fence.topic
            for one in parts.fences.at(cluster)
            if one.fence.how != FenceHow.SHUT and (topics is None or one.fence.topic in topics)
        ]
        require_not_left(
            cluster,
            kept,
            context.config.clusters,
            context.state.directions(),
            undone="nothing was lifted or recorded",
        )
    return unfence(cluster, topics, parts, context.why, hook)


def fence_parts(context: Context, cluster: str, say: Say = lambda _line: None) -> FenceParts:
    """What fences of a cluster are made with: the mirror's credentials read, those of an administrator change."""
    return FenceParts(
        reader=context.cluster(cluster),
        control=context.administered(cluster),
        operations=context.operations,
        hooks=HookProcesses(context.config.secrets(os.environ)),
        clock=context.clock,
        sleep=time.sleep,
        say=say,
        mirror=context.config.cluster(cluster).mirror_principal,
        administrator=context.config.cluster(cluster).administrator,
        identities=context.state.identities(),
        fences=context.state.fences(),
        pauses=lambda: write_pauses(context, cluster),
        recorded_limits=lambda: recorded_limits(context, cluster),
    )


def recorded_limits(context: Context, cluster: str) -> dict[str, str | None]:
    """By topic of a cluster its own `max.message.bytes` as recorded last, None: it had none; no fence is among them."""
    rows = context.ledger.now((TOPICS.name,)).rows(TOPICS.name, [("cluster", "=", cluster)])
    found = {}
    for row in sorted(rows, key=lambda row: (row["writer_epoch"], row["round"])):
        limit = json.loads(row["configuration"]).get(SETTING)
        if not is_fence(SETTING, limit):
            found[row["topic"]] = limit
    return found


def write_pauses(context: Context, cluster: str) -> Mapping[tuple[str, int], float]:
    """By topic id and partition for how many seconds its writers paused at most in the last hour."""
    asked: dict[str, Value] = {"cluster": cluster, "since_ms": context.clock.now_ms() - HOUR_MS}
    rows = run_query(context.snapshot(), "write_pauses", asked).to_pylist()
    return {
        (row["topic_id"], row["partition"]): row["longest_pause_ms"] / 1000
        for row in rows
        if row["longest_pause_ms"] is not None
    }


def _listed(parts: FenceParts, known: Mapping[str, str]) -> list[str]:
    """Names of the cluster's topics; where it does not answer those that a recorder has seen."""
    try:
        return [topic.name for topic in parts.reader.topics().values() if not topic.internal]
    except ClusterUnavailableError:
        return list(known)


def _read_by_flows(config: MirrorConfig, cluster: str, names: list[str]) -> tuple[str, ...]:
    selections = [
        config.topic_selection(flow.name) for flow in config.enabled_flows if flow.source == cluster
    ]
    return tuple(name for name in names if any(one.selects(name) for one in selections))
