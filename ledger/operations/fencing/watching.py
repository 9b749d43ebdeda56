"""Reading the partitions behind a fence, all at once, until each is proved."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ledger.domain.facts import TopicPartition
from ledger.domain.fences.proof import Evidence, LeaderReading, PartitionWatch, quiet_time
from ledger.domain.fences.receipts import Fence
from ledger.domain.words.count_words import counted
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.operations.fencing.measures import Measure, Shown, places_of
from ledger.operations.fencing.parts import AskedFence, FenceParts
from ledger.ports.clusters import TopicDescription
from ledger.ports.fencing import CoordinatedTransaction, OpenTransaction, Place, first_data

_LONGEST_PAUSE_S = 1.0
_POLL_S = 0.2
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
        began_s = self._said_s = clock.monotonic()
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
            return replace(begun, appended=watch.appended if watch is not None else 0).begun(answered_s)
        return watch.after(
            reading,
            in_transaction=place in open_at,
            has_data=self._has_data(watch, reading),
            asked_s=asked_s,
            answered_s=answered_s,
        )

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
        told = found.get(topic, {}).get(_LEAST_REPLICAS)
        return None if told is None else int(told)

    # -- waiting ---------------------------------------------------------------------------------

    def _pause(self, left: Sequence[PartitionWatch]) -> None:
        now_s = self.parts.clock.monotonic()
        waits_s = min(one.waits_s(now_s) if one.is_calm else _POLL_S for one in left)
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

    @staticmethod
    def _held_back(left: Sequence[PartitionWatch]) -> str:
        open_ = sum(one.has_open_transaction for one in left)
        behind = sum(one.reading.behind > 0 for one in left)
        words = f", {counted(open_, 'partition')} with an open transaction" if open_ else ""
        return words + (f", {counted(behind, 'partition')} whose followers lack records" if behind else "")
