"""Whether the clusters of a flow answer, and since when not: findings with a beginning, raised soon, cleared soon.

Whoever probes a cluster (`lookout`) says here what it found; `record` records what changed. Nothing here waits for
a cluster, so what is known is recorded also while the rounds wait for one.

What counts as an outage is judged by `domain.reach`. A leader may move: partitions without one are reported when
that has lasted longer than an election takes.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ledger.domain.operations.finding_events import FindingKey
from ledger.domain.reach import SURE_AFTER_PROBES, Failing, Instant, failed_again
from ledger.mirror.findings.finding_log import Finding, FindingName, Findings
from ledger.mirror.task.assignments import PartitionResult
from ledger.mirror.task.troubles import Side
from ledger.ports.clock import Clock

REACH_FINDINGS = (
    *(FindingName.SOURCE_UNREACHABLE, FindingName.TARGET_UNREACHABLE),
    *(FindingName.SOURCE_THROTTLED, FindingName.TARGET_THROTTLED),
)
REPORTED_WITHIN_S = 15.0
"""After the first failure."""
_UNLED_AFTER_S = 7.0
_THROTTLED_FROM_MS = 100
"""Shorter pauses cost nothing that a round would notice."""
_CALM_AFTER_S = 15.0
_LISTED = 5
_UNREACHABLE = {Side.SOURCE: FindingName.SOURCE_UNREACHABLE, Side.TARGET: FindingName.TARGET_UNREACHABLE}
_THROTTLED = {Side.SOURCE: FindingName.SOURCE_THROTTLED, Side.TARGET: FindingName.TARGET_THROTTLED}

Partition = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class _Throttled:
    """That a quota holds the flow back since, and did last at (monotonic)."""

    since_ms: int
    last_at: float
    longest_ms: int


@dataclass(slots=True)
class _Account:
    """What is known of one cluster. `is_known`, `leaders_known`: not before the first probe of this driver.

    `unled`: partitions whose leaders did not answer the probe; `troubled`: those that copy tasks could not use.
    """

    cluster: str
    is_known: bool = False
    failing: Failing | None = None
    leaders_known: bool = False
    unled: dict[Partition, Failing] = field(default_factory=dict)
    troubled: dict[Partition, Failing] = field(default_factory=dict)
    has_copied: bool = False
    throttled: _Throttled | None = None


class ReachWatch:
    """The account of both clusters. Safe to use from several threads; after `close` nothing is recorded any more."""

    def __init__(self, findings: Findings, clock: Clock, clusters: Mapping[Side, str]) -> None:
        self._findings = findings
        self._clock = clock
        self._accounts = {side: _Account(cluster) for side, cluster in clusters.items()}
        self._recording = threading.Lock()
        self._is_closed = False
        self._reported: frozenset[FindingKey] | None = None

    # -- what was found --------------------------------------------------------------------------

    def answered(self, side: Side) -> None:
        account = self._accounts[side]
        account.failing, account.is_known = None, True

    def failed(self, side: Side, reason: str, *, began: Instant) -> None:
        """No broker answered a probe that began then."""
        account = self._accounts[side]
        account.failing = failed_again(account.failing, reason, began=began, at_ms=self._clock.now_ms())
        account.is_known = True

    def unled(self, side: Side, partitions: Mapping[Partition, str], *, began: Instant) -> None:
        """All partitions without a leader that answers, and why, as of a probe that began then."""
        account = self._accounts[side]
        account.unled = self._all_failed_again(account.unled, partitions, began)
        account.leaders_known = True

    def copied(self, results: Iterable[PartitionResult], *, began: Instant) -> None:
        """What the tasks of a round that began then met; of no round at all: nothing.

        While a whole cluster does not answer its partitions say nothing of their own.
        """
        troubles: dict[Side, dict[Partition, str]] = defaultdict(dict)
        throttled: dict[Side, int] = defaultdict(int)
        for result in results:
            for side, trouble in result.unreached:
                at = result.assignment.side(side)
                troubles[side][at.topic, at.partition] = trouble
            for side, throttle_ms in result.throttled_ms:
                throttled[side] = max(throttled[side], throttle_ms)
        for side, account in self._accounts.items():
            found = {} if account.failing is not None else troubles[side]
            account.troubled = self._all_failed_again(account.troubled, found, began)
            account.throttled = self._held_back(account.throttled, throttled[side], began)
            account.has_copied = True

    def _all_failed_again(
        self, before: Mapping[Partition, Failing], found: Mapping[Partition, str], began: Instant
    ) -> dict[Partition, Failing]:
        at_ms = self._clock.now_ms()
        return {
            at: failed_again(before.get(at), reason, began=began, at_ms=at_ms) for at, reason in found.items()
        }

    def _held_back(self, before: _Throttled | None, longest_ms: int, began: Instant) -> _Throttled | None:
        now = self._clock.monotonic()
        if longest_ms >= _THROTTLED_FROM_MS:
            return _Throttled(before.since_ms if before else began.at_ms, now, longest_ms)
        return None if before is None or now - before.last_at >= _CALM_AFTER_S else before

    def ended(self) -> None:
        """The run is over: nobody is held back any more."""
        for account in self._accounts.values():
            account.throttled = None
        with self._recording:
            if not self._is_closed:
                self._report()

    def is_failing(self, side: Side) -> bool:
        """Whether the last probe failed: then the next one should come soon."""
        return self._accounts[side].failing is not None

    # -- recording -------------------------------------------------------------------------------

    def record(self) -> bool:
        """Record what changed; raises what an append fails with. False: another thread is doing so."""
        if not self._recording.acquire(blocking=False):
            return False
        try:
            if not self._is_closed:
                self._report()
        finally:
            self._recording.release()
        return True

    def close(self) -> None:
        """Wait for what is being recorded."""
        with self._recording:
            self._is_closed = True

    def _report(self) -> None:
        now = self._clock.monotonic()
        holding = [finding for side in self._accounts for finding in self._holding(side, now)]
        if self._reported == (reported := frozenset(finding.key for finding in holding)):
            return
        self._findings.report(holding)
        self._reported = reported

    def _holding(self, side: Side, now: float) -> Iterator[Finding]:
        account, name = self._accounts[side], _UNREACHABLE[side]
        failing, throttled = account.failing, account.throttled  # other threads set them meanwhile
        if failing is not None and failing.is_sure(now):
            yield _of_cluster(name, account.cluster, failing)
        elif failing is not None or not account.is_known:
            yield from self._kept(name, {None})
        lasting: dict[str, dict[int, Failing]] = defaultdict(dict)
        begun = {**account.troubled, **account.unled}
        for (topic, partition), without in sorted(begun.items()):
            if without.probes >= SURE_AFTER_PROBES and without.lasted_s(now) >= _UNLED_AFTER_S:
                lasting[topic][partition] = without
        for topic, partitions in lasting.items():
            yield _of_topic(name, account.cluster, topic, partitions)
        known = {topic for topic, _ in begun} if account.leaders_known else None
        yield from self._kept(name, known, but=lasting.keys())
        if throttled is not None:
            yield _of_quota(_THROTTLED[side], account.cluster, throttled)
        elif not account.has_copied:
            yield from self._kept(_THROTTLED[side], {None})

    def _kept(
        self, name: FindingName, topics: AbstractSet[str | None] | None, but: AbstractSet[str] = frozenset()
    ) -> Iterator[Finding]:
        """What was raised holds until it is known better; `topics` None: all of them."""
        for found, topic, partition in self._findings.already_open():
            concerned = topic is not None if topics is None else topic in topics
            if found == name and concerned and topic not in but:
                yield Finding(name=name, topic=topic, partition=partition, message="as raised before")


def _of_cluster(name: FindingName, cluster: str, failing: Failing) -> Finding:
    message = f"{cluster} does not answer: {failing.reason}"
    return Finding(name=name, message=message, cluster=cluster, since_ms=failing.since_ms)


def _of_quota(name: FindingName, cluster: str, throttled: _Throttled) -> Finding:
    message = (
        f"{cluster} throttles this flow: its brokers held answers back for up to {throttled.longest_ms} ms"
    )
    return Finding(name=name, message=message, cluster=cluster, since_ms=throttled.since_ms)


def _of_topic(name: FindingName, cluster: str, topic: str, partitions: Mapping[int, Failing]) -> Finding:
    since_ms = min(failing.since_ms for failing in partitions.values())
    listed = ", ".join(map(str, list(partitions)[:_LISTED]))
    more = f" and {len(partitions) - _LISTED} more" if len(partitions) > _LISTED else ""
    reasons = "; ".join(dict.fromkeys(failing.reason for failing in partitions.values()))
    message = f"{cluster} cannot be used for {topic} partition {listed}{more}: {reasons}"
    return Finding(name=name, topic=topic, message=message, cluster=cluster, since_ms=since_ms)
