"""Whether the clusters of a flow answer, and since when not: findings with a beginning, raised soon, cleared soon.

Whoever looks at a cluster (`lookout`) says here what it found; `look` records what changed. Nothing here waits for
a cluster, so what is known is recorded also while the rounds wait for one.

What counts as an outage is told by `domain.reach`. A leader may move: partitions without one are told when that has
lasted longer than an election takes.
"""

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ledger.domain.reach import SURE_AFTER_LOOKS, Failing, Instant, failed_again
from ledger.domain.recorded_operations import FindingKey
from ledger.mirror.findings import Finding, FindingName, Findings
from ledger.mirror.troubles import Side
from ledger.ports import Clock

REACH_FINDINGS = (FindingName.SOURCE_UNREACHABLE, FindingName.TARGET_UNREACHABLE)
TOLD_WITHIN_S = 15.0
"""After the first failure."""
_UNLED_AFTER_S = 7.0
_LISTED = 5
_UNREACHABLE = {Side.SOURCE: FindingName.SOURCE_UNREACHABLE, Side.TARGET: FindingName.TARGET_UNREACHABLE}

Partition = tuple[str, int]
"""Topic and partition."""


@dataclass(slots=True)
class _Account:
    """What is known of one cluster. `is_known`, `leaders_known`: not before the first look of this driver."""

    cluster: str
    is_known: bool = False
    failing: Failing | None = None
    leaders_known: bool = False
    unled: dict[Partition, Failing] = field(default_factory=dict)


class ReachWatch:
    """The account of both clusters. Safe to use from several threads; after `close` nothing is recorded any more."""

    def __init__(self, findings: Findings, clock: Clock, clusters: Mapping[Side, str]) -> None:
        self._findings = findings
        self._clock = clock
        self._accounts = {side: _Account(cluster) for side, cluster in clusters.items()}
        self._telling = threading.Lock()
        self._is_closed = False
        self._told: frozenset[FindingKey] | None = None

    # -- what was found --------------------------------------------------------------------------

    def answered(self, side: Side) -> None:
        account = self._accounts[side]
        account.failing, account.is_known = None, True

    def failed(self, side: Side, reason: str, *, began: Instant) -> None:
        """No broker answered a look that began then."""
        account = self._accounts[side]
        account.failing, account.is_known = failed_again(account.failing, reason, began=began), True

    def unled(self, side: Side, partitions: Mapping[Partition, str], *, began: Instant) -> None:
        """All partitions without a leader that answers, and why, as of a look that began then."""
        account = self._accounts[side]
        before = account.unled
        account.unled = {
            at: failed_again(before.get(at), reason, began=began) for at, reason in partitions.items()
        }
        account.leaders_known = True

    def is_failing(self, side: Side) -> bool:
        """Whether the last look failed: then the next one should come soon."""
        return self._accounts[side].failing is not None

    # -- telling ---------------------------------------------------------------------------------

    def look(self) -> None:
        """Record what changed, unless another thread is doing so; raises what an append fails with."""
        if not self._telling.acquire(blocking=False):
            return
        try:
            if not self._is_closed:
                self._report()
        finally:
            self._telling.release()

    def close(self) -> None:
        """Wait for what is being recorded."""
        with self._telling:
            self._is_closed = True

    def _report(self) -> None:
        now = self._clock.monotonic()
        holding = [finding for side in self._accounts for finding in self._holding(side, now)]
        if self._told == (told := frozenset(finding.key for finding in holding)):
            return
        self._findings.report(holding)
        self._told = told

    def _holding(self, side: Side, now: float) -> Iterator[Finding]:
        account, name = self._accounts[side], _UNREACHABLE[side]
        if account.failing is not None and account.failing.is_sure(now):
            yield _of_cluster(name, account.cluster, account.failing)
        elif account.failing is not None or not account.is_known:
            yield from self._kept(name, {None})
        lasting: dict[str, dict[int, Failing]] = defaultdict(dict)
        for (topic, partition), failing in sorted(account.unled.items()):
            if failing.looks >= SURE_AFTER_LOOKS and failing.lasted_s(now) >= _UNLED_AFTER_S:
                lasting[topic][partition] = failing
        for topic, partitions in lasting.items():
            yield _of_topic(name, account.cluster, topic, partitions)
        begun = {topic for topic, _ in account.unled} if account.leaders_known else None
        yield from self._kept(name, begun, but=lasting.keys())

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
    return Finding(name=name, message=message, cluster=cluster, since_ms=failing.since.at_ms)


def _of_topic(name: FindingName, cluster: str, topic: str, partitions: Mapping[int, Failing]) -> Finding:
    since = min((failing.since for failing in partitions.values()), key=lambda instant: instant.at_ms)
    listed = ", ".join(map(str, list(partitions)[:_LISTED]))
    more = f" and {len(partitions) - _LISTED} more" if len(partitions) > _LISTED else ""
    reasons = "; ".join(dict.fromkeys(failing.reason for failing in partitions.values()))
    message = f"{cluster} has no leader that answers for {topic} partition {listed}{more}: {reasons}"
    return Finding(name=name, topic=topic, message=message, cluster=cluster, since_ms=since.at_ms)
