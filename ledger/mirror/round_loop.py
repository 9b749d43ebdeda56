"""The rounds of one run of a flow.

A round is one job of a few copy tasks. The facts of round n are appended while round n + 1 runs, so a
driver that dies leaves at most two rounds unrecorded; the next one finds their records on the target.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ledger.config import FlowConfig, OnLoss, TargetMode
from ledger.errors import ClusterUnavailableError
from ledger.mirror.appender import BackgroundAppender
from ledger.mirror.assignments import Assignment, PartitionResult, Stop, StopCause
from ledger.mirror.balancing import split_by_load
from ledger.mirror.flow_progress import FlowProgress
from ledger.mirror.flow_topics import FlowTopics, PartitionPair
from ledger.mirror.run_summary import RunSummary
from ledger.mirror.stop_advice import advice
from ledger.mirror.sync_rows import FlowIdentity, sync_row
from ledger.ports import Clock, ClusterAdmin, LedgerState, OperationLog, PartitionEnds, Row

log = logging.getLogger(__name__)

_IDLE_PAUSE_S = 0.5
_UNAVAILABLE_AFTER_S = 30.0


class RoundRunner(Protocol):
    """Runs the copy tasks of one round and returns a result for every assignment."""

    def run(self, tasks: Sequence[Sequence[Assignment]], *, seconds: float) -> list[PartitionResult]: ...


class StopSignal(Protocol):
    """Set when the driver is to end after the round under way."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


@dataclass(slots=True, kw_only=True)
class RoundLoop:
    """One run; `on_round` is told the summary so far after every round."""

    flow: FlowConfig
    topics: FlowTopics
    source: ClusterAdmin
    target: ClusterAdmin
    state: LedgerState
    operations: OperationLog
    runner: RoundRunner
    clock: Clock
    appender: BackgroundAppender
    progress: FlowProgress
    producer_id: int
    on_round: Callable[[RunSummary], None]
    summary: RunSummary = field(default_factory=RunSummary)
    _followed_at: float = float("-inf")
    _progressed_at: float = 0.0
    _stopped_before: set[tuple[str, int]] = field(default_factory=set)
    _troubles: frozenset[str] = frozenset()

    def run(self, *, until_caught_up: bool, stop: StopSignal) -> RunSummary:
        started_ms = self.clock.now_ms()
        self._progressed_at = self.clock.monotonic()
        self._stopped_before = set(self.state.stopped_partitions(self.flow.name))
        while not self._is_to_end(stop, started_ms):
            self._follow_topics_when_due(until_caught_up)
            assignments = self._assignments()
            if assignments:
                self._round(assignments)
                if until_caught_up:
                    self._check_progress()
            elif until_caught_up:
                break
            else:
                stop.wait(_IDLE_PAUSE_S)
        self.appender.wait()
        return self.summary

    def _is_to_end(self, stop: StopSignal, started_ms: int) -> bool:
        return stop.is_set() or self.state.stop_requested(self.flow.name, since_ms=started_ms)

    # -- topics ----------------------------------------------------------------------------------

    def _follow_topics_when_due(self, until_caught_up: bool) -> None:
        """New topics and partitions join; a run until caught up takes those of its start only."""
        now = self.clock.monotonic()
        is_first = self._followed_at == float("-inf")
        if not is_first and (until_caught_up or now < self._followed_at + self.flow.topic_refresh_seconds):
            return
        self._followed_at = now
        try:
            self._follow_topics(until_caught_up)
        except ClusterUnavailableError as error:
            if is_first:
                raise
            log.warning("%s: topics could not be looked at: %s", self.flow.name, error)

    def _follow_topics(self, until_caught_up: bool) -> None:
        pairs = self.topics.follow(written_topic_ids=self.progress.written_topic_ids)
        new = self.progress.unknown(pairs)
        source_ends = self.source.ends([(p.source.topic, p.source.partition) for p in new]) if new else {}
        target_ends = self.target.ends([(p.target.topic, p.target.partition) for p in new]) if new else {}
        for pair in new:
            source = source_ends.get((pair.source.topic, pair.source.partition))
            target = target_ends.get((pair.target.topic, pair.target.partition))
            if source is None or target is None:
                log.warning("%s: %s has no leader; it is taken on later", self.flow.name, _name(pair))
                self._followed_at = float("-inf") if until_caught_up else self._followed_at
                continue
            self._adopt(pair, source, target, until_caught_up)

    def _adopt(
        self, pair: PartitionPair, source: PartitionEnds, target: PartitionEnds, until_caught_up: bool
    ) -> None:
        stopped = self.progress.adopt(
            pair, source_ends=source, target_ends=target, until_caught_up=until_caught_up
        )
        if stopped is not None:
            self._record_stop(pair, stopped)

    # -- rounds ----------------------------------------------------------------------------------

    def _assignments(self) -> list[Assignment]:
        return self.progress.assignments(
            self.producer_id, exclusive=self.flow.target_mode is TargetMode.EXCLUSIVE
        )

    def _round(self, assignments: Sequence[Assignment]) -> None:
        shares = split_by_load(assignments, self.progress.loads, tasks=self.flow.tasks)
        results = self.runner.run(shares, seconds=self.flow.round_seconds)
        rows = [row for result in results for row in self._take(result)]
        self.appender.submit(rows)
        if rows:
            self._progressed_at = self.clock.monotonic()
        self._report_troubles(results)
        self.summary.rounds += 1
        self.on_round(self.summary)

    def _take(self, result: PartitionResult) -> list[Row]:
        self.progress.take(result)
        self.summary.count(result)
        identity = FlowIdentity(self.flow.name, self.flow.source, self.flow.target)
        rows = [sync_row(identity, sync) for sync in result.syncs]
        if result.stop is not None:
            rows += self._stopped_rows(result, result.stop, identity)
        elif rows:
            self._record_resumed(result)
        return rows

    def _stopped_rows(self, result: PartitionResult, stop: Stop, identity: FlowIdentity) -> list[Row]:
        pair = PartitionPair(result.assignment.source, result.assignment.target)
        if stop.cause is StopCause.SOURCE_OUT_OF_RANGE:
            return self._lost_rows(result, stop, identity)
        self._record_stop(pair, stop)
        return []

    def _lost_rows(self, result: PartitionResult, stop: Stop, identity: FlowIdentity) -> list[Row]:
        """L6: what retention took is a row; the partition goes on only if the flow says so."""
        source = result.assignment.source
        pair = PartitionPair(source, result.assignment.target)
        ends = self.source.ends([(source.topic, source.partition)]).get((source.topic, source.partition))
        if ends is None or ends.log_start <= result.position:
            self._record_stop(pair, stop)
            return []
        goes_on = self.flow.on_loss is OnLoss.CONTINUE
        lost = self.progress.lose(result, ends.log_start, goes_on=goes_on)
        self.summary.lost_offsets += lost.source_end - lost.source_start
        message = (
            f"source offsets {lost.source_start} to {lost.source_end} were deleted before they were copied"
        )
        if goes_on:
            log.warning("%s: %s: %s; going on after them", self.flow.name, _name(pair), message)
        else:
            self._record_stop(pair, Stop(StopCause.SOURCE_OUT_OF_RANGE, message))
        return [sync_row(identity, lost)]

    # -- telling ---------------------------------------------------------------------------------

    def _record_stop(self, pair: PartitionPair, stop: Stop) -> None:
        log.error("%s: %s stopped: %s", self.flow.name, _name(pair), stop.message)
        self.summary.stopped.append(f"{_name(pair)}: {stop.message}")
        content = {
            **_coordinates(pair),
            "cause": str(stop.cause),
            "message": stop.message,
            "next": advice(stop.cause),
        }
        self.operations.record(
            "partition_stopped", flow=self.flow.name, reason=str(stop.cause), content=content
        )

    def _record_resumed(self, result: PartitionResult) -> None:
        source = result.assignment.source
        key = (source.topic_id, source.partition)
        if key in self._stopped_before:
            self._stopped_before.discard(key)
            content = _coordinates(PartitionPair(source, result.assignment.target))
            self.operations.record("partition_resumed", flow=self.flow.name, reason=None, content=content)

    def _report_troubles(self, results: Sequence[PartitionResult]) -> None:
        """Say once what keeps partitions from getting on, and once that it is over."""
        troubles = frozenset(result.trouble for result in results if result.trouble is not None)
        for trouble in troubles - self._troubles:
            log.warning("%s: %s", self.flow.name, trouble)
        if self._troubles and not troubles:
            log.warning("%s: copying again", self.flow.name)
        self._troubles = troubles

    def _check_progress(self) -> None:
        """All that such a run waits for was there when it began: a standstill is a failure, not patience."""
        waited_s = self.clock.monotonic() - self._progressed_at
        if waited_s > _UNAVAILABLE_AFTER_S:
            reasons = sorted(self._troubles) or [
                f"{name} of {end}" for name, end in self.progress.unreached()
            ]
            raise ClusterUnavailableError(
                f"{self.flow.name}: nothing could be copied for {waited_s:.0f} s: {'; '.join(reasons)}; "
                "what was copied before is recorded"
            )


def _name(pair: PartitionPair) -> str:
    return f"{pair.source.topic} partition {pair.source.partition}"


def _coordinates(pair: PartitionPair) -> dict[str, object]:
    return {
        "topic": pair.source.topic,
        "topic_id": pair.source.topic_id,
        "partition": pair.source.partition,
    }
