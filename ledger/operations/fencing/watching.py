"""Watching partitions behind a fence until each has been still for its quiet time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ledger.domain.facts import TopicPartition
from ledger.domain.fences.proof import PartitionWatch, quiet_time
from ledger.domain.words.count_words import counted
from ledger.errors import ClusterUnavailableError
from ledger.operations.fencing.parts import AskedFence, FenceParts
from ledger.ports.clusters import PartitionEnds, TopicDescription
from ledger.ports.fencing import OpenTransaction, first_data

_LONGEST_PAUSE_S = 1.0
_SAY_EVERY_S = 10.0
_SURELY_HANGING_MS = 20 * 60_000
"""Coordinators abort after 15 minutes at most unless they are configured otherwise (transaction.max.timeout.ms)."""

Watches = dict[tuple[str, int], PartitionWatch]


@dataclass(slots=True)
class Watching:
    """Of all partitions of fenced topics."""

    asked: AskedFence
    parts: FenceParts
    topics: Mapping[str, TopicDescription]
    pauses: Mapping[tuple[str, int], float]
    _said_s: float = 0.0
    _said: set[str] = field(default_factory=set)

    def watched(self) -> Watches:
        """Until all are still, or the time for it is over.

        Raises `ClusterUnavailableError` when partitions have no leader, or none answers, until then.
        """
        clock = self.parts.clock
        began_s = clock.monotonic()
        deadline_s = began_s + self.asked.wait_s
        watches = self._begun(deadline_s)
        self._said_s = clock.monotonic()
        while (left := self._left(watches)) and clock.monotonic() < deadline_s:
            self._say(watches, left)
            self._pause(left)
            try:
                self._abort(left, clock.monotonic() - began_s)
                watches = self._again(watches)
            except ClusterUnavailableError as error:
                if clock.monotonic() >= deadline_s:
                    raise
                self.parts.say(f"not read: {error}")
        return watches

    def _begun(self, deadline_s: float) -> Watches:
        keys = sorted((name, number) for name, one in self.topics.items() for number in range(one.partitions))
        while True:
            ends = self.parts.reader.ends(keys)
            lacking = [key for key in keys if key not in ends]
            if not lacking:
                break
            if self.parts.clock.monotonic() >= deadline_s:
                raise ClusterUnavailableError(
                    f"{lacking[0][0]} partition {lacking[0][1]} of {self.asked.cluster} has no leader: what was "
                    "written there is unknown; the fence is not proved"
                )
            self.parts.sleep(_LONGEST_PAUSE_S)
        now_s = self.parts.clock.monotonic()
        return {
            (name, number): PartitionWatch(
                topic=name,
                partition=number,
                quiet=quiet_time(self.pauses.get((self.topics[name].topic_id, number)), self.asked.quiet),
                end=ends[name, number].high_watermark,
                last_stable=ends[name, number].last_stable,
                still_since_s=now_s,
                read_at_s=now_s,
            )
            for name, number in keys
        }

    @staticmethod
    def _left(watches: Watches) -> list[PartitionWatch]:
        return [one for one in watches.values() if not one.is_still]

    def _pause(self, left: Sequence[PartitionWatch]) -> None:
        now_s = self.parts.clock.monotonic()
        waits_s = min(one.waits_s(now_s) for one in left)
        self.parts.sleep(min(_LONGEST_PAUSE_S, max(waits_s, 0.05)))

    def _again(self, watches: Watches) -> Watches:
        asked_s = self.parts.clock.monotonic()  # a slow answer is no stillness
        ends = self.parts.reader.ends(list(watches))
        answered_s = self.parts.clock.monotonic()
        after: Watches = {}
        for key, watch in watches.items():
            end = ends.get(key)
            if end is None:
                raise ClusterUnavailableError(f"{key[0]} partition {key[1]} has no leader")
            has_data = self._has_data(watch, end)
            after[key] = watch.after(
                last_stable=end.last_stable,
                high_watermark=end.high_watermark,
                has_data=has_data,
                now_s=answered_s if has_data else asked_s,
            )
        return after

    def _has_data(self, watch: PartitionWatch, ends: PartitionEnds) -> bool:
        """Also where the log lost what it had, or deleted what came since: nobody can read it any more."""
        high_watermark = ends.high_watermark
        if high_watermark < watch.end or ends.log_start > watch.end:
            return True
        found = first_data(
            self.parts.reader, self._at(watch), watch.end, high_watermark, mirrors=self.parts.mirrors
        )
        return found is not None

    def _at(self, watch: PartitionWatch) -> TopicPartition:
        return TopicPartition(watch.topic, self.topics[watch.topic].topic_id, watch.partition)

    def _abort(self, left: Sequence[PartitionWatch], waited_s: float) -> None:
        """By choice alone: what its producer would still have committed is aborted by it."""
        if self.asked.abort_after_s is None or waited_s < self.asked.abort_after_s:
            return
        for watch in left:
            if not watch.has_open_transaction:
                continue
            for one in self.parts.reader.open_transactions(self._at(watch)):
                if (done := self._ended(one)) not in self._said:
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
        open_ = sum(one.has_open_transaction for one in left)
        waits_s = max(one.waits_s(now_s) for one in left)
        transactions = f", {counted(open_, 'partition')} with an open transaction" if open_ else ""
        self.parts.say(
            f"{len(left)} of {counted(len(watches), 'partition')} not proved yet: {waits_s:.0f} s more of stillness"
            f"{transactions}"
        )
