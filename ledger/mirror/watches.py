"""What is watched while a flow runs, and raised as a finding: clusters, partitions, recording, transactions."""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType
from typing import Self

from ledger.clock import Clock, Instant, now_by
from ledger.errors import MirrorLedgerError, ShutOutError
from ledger.facts.findings import Finding, FindingName, Findings, Side
from ledger.facts.operations import FindingKey
from ledger.facts.roles import SURE_AFTER_PROBES, Failing, failed_again
from ledger.kafka.cluster import ClusterAdmin, ReachProbe
from ledger.mirror.assignment import PartitionResult
from ledger.threads import beside
from ledger.words import some_of

# Reach watch --------------------------------------------------------------------------------------
# Whether the clusters of a flow answer, and since when not: findings with a beginning, raised soon, cleared
# soon.
#
# Whoever probes a cluster (`Prober`) says here what it found; `record` records what changed. Nothing here
# waits for a cluster, so what is known is recorded also while the rounds wait for one.
#
# What counts as an outage is judged by `facts.roles`. A leader may move: partitions without one are
# reported when that has lasted longer than an election takes.


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

    def held_back(self, side: Side, wait_ms: int) -> None:
        """A quota keeps what is to be made there waiting for so long."""
        account = self._accounts[side]
        account.throttled = self._held_back(account.throttled, wait_ms, now_by(self._clock))

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
            self._report()
        finally:
            self._recording.release()
        return True

    def close(self) -> None:
        """Wait for what is being recorded."""
        with self._recording:
            self._is_closed = True

    def _report(self) -> None:
        if self._is_closed:
            return
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
            message = f"{account.cluster} does not answer: {failing.reason}"
            yield Finding(name=name, message=message, cluster=account.cluster, since_ms=failing.since_ms)
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
            message = (
                f"{account.cluster} throttles this flow: its brokers held answers back for up to "
                f"{throttled.longest_ms} ms"
            )
            yield Finding(
                name=_THROTTLED[side], message=message, cluster=account.cluster, since_ms=throttled.since_ms
            )
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


def _of_topic(name: FindingName, cluster: str, topic: str, partitions: Mapping[int, Failing]) -> Finding:
    since_ms = min(failing.since_ms for failing in partitions.values())
    listed = some_of(list(map(str, partitions)), "partition", at_most=5)
    reasons = "; ".join(dict.fromkeys(failing.reason for failing in partitions.values()))
    message = f"{cluster} cannot be used for {topic} partition {listed}: {reasons}"
    return Finding(name=name, topic=topic, message=message, cluster=cluster, since_ms=since_ms)


# Partition watch ----------------------------------------------------------------------------------
# What the results of rounds say about partitions that are copied: transactions that hang, tombstones read
# too late, batches that the target takes in parts only, records that it does not take at all.
#
# The mirror reads committed records, so it gets no further than the last stable offset: the begin of the
# oldest open transaction. A transaction whose producer and coordinator have forgotten it stays open for
# ever; what lies behind it would be lost in a failover.
#
# A cleaner drops a tombstone `delete.retention.ms` after it was written. A mirror that reads a compacted
# topic later than that may never have seen it: the target then keeps a value whose key was deleted. That is
# not over when the mirror has caught up, so the finding stays until the keys were compared.
#
# What the target refused has happened once, and is over when it happens no more: a day without another one says so, of
# batches that were cut also one that was taken whole.


PARTITION_FINDINGS = (
    FindingName.LAST_STABLE_OFFSET_STUCK,
    FindingName.TOMBSTONES_MAY_BE_MISSING,
    FindingName.BATCHES_CUT,
    FindingName.RECORDS_PUT_ASIDE,
    FindingName.TRANSACTIONS_OPEN_AGAIN,
    FindingName.SOURCE_NOT_COMPARED,
)
NOT_COMPARED = (
    "what was copied last was not compared with the source: one side has deleted it, or it lies too far back"
)
_SETTINGS_LAST_S = 60.0
_REFUSED_LAST_S = 86_400.0
_Key = tuple[str, int]
"""Source topic and partition."""


@dataclass(frozen=True, slots=True)
class _Held:
    """An open transaction holds so many offsets from `last_stable` on, and that offset for how long, at least."""

    last_stable: int
    offsets: int
    since_s: float


@dataclass(frozen=True, slots=True)
class _Refused:
    """What the target refused of a partition, last at an instant."""

    finding: Finding
    at_s: float


class PartitionWatch:
    """Raises and clears the findings of `PARTITION_FINDINGS` of one flow."""

    def __init__(
        self, findings: Findings, source: ClusterAdmin, clock: Clock, *, stuck_after_s: float
    ) -> None:
        self._findings = findings
        self._source = source
        self._clock = clock
        self._stuck_after_s = stuck_after_s
        self._held: dict[_Key, _Held] = {}
        self._late: dict[_Key, Finding] | None = None
        self._cut: dict[_Key, _Refused] = {}
        self._aside: dict[_Key, _Refused] = {}
        self._of_states: list[Finding] = []
        self._tombstones_last_ms: dict[str, int | None] = {}
        self._settings_read_at = float("-inf")

    def check(
        self,
        results: Sequence[PartitionResult],
        *,
        begun: Iterable[_Key],
        reopened: Mapping[_Key, str] = MappingProxyType({}),
        uncompared: Mapping[_Key, bool | None] = MappingProxyType({}),
    ) -> None:
        """Judge one round; `begun`: partitions that are copied for the first time and never were at their end.

        `reopened`: what is open again, of partitions whose source lost markers of transactions. `uncompared`: whether
        the source could not be compared; None: as an earlier driver left it.
        """
        self._begin()
        now_s = self._clock.monotonic()
        for result in results:
            self._note_ends(result, now_s)
            self._note_cut(result)
        first = frozenset(begun)
        self._note_late([result for result in results if result.assignment.source.place not in first])
        before = self._of_earlier_drivers(FindingName.SOURCE_NOT_COMPARED)
        holding = [(FindingName.TRANSACTIONS_OPEN_AGAIN, at, what) for at, what in reopened.items()]
        holding += [
            (FindingName.SOURCE_NOT_COMPARED, at, NOT_COMPARED)
            for at, is_so in uncompared.items()
            if is_so or (is_so is None and at in before)
        ]
        self._of_states = [
            Finding(
                name=name, topic=topic, partition=partition, message=f"{topic} partition {partition}: {what}"
            )
            for name, (topic, partition), what in holding
        ]
        self._report()

    def put_aside(self, at: _Key, message: str) -> None:
        """A record is in the dead letter topic: that is said before the ledger has it, so that no crash hides it."""
        self._begin()
        finding = Finding(name=FindingName.RECORDS_PUT_ASIDE, topic=at[0], partition=at[1], message=message)
        self._aside[at] = _Refused(finding, self._clock.monotonic())
        self._report()

    def _begin(self) -> None:
        """Take up what earlier drivers have found; when it was last refused is not known, so it counts as of now."""
        if self._late is None:
            self._late = self._of_earlier_drivers(FindingName.TOMBSTONES_MAY_BE_MISSING)
            now_s = self._clock.monotonic()
            for held, name in (
                (self._cut, FindingName.BATCHES_CUT),
                (self._aside, FindingName.RECORDS_PUT_ASIDE),
            ):
                held |= {at: _Refused(one, now_s) for at, one in self._of_earlier_drivers(name).items()}

    def _report(self) -> None:
        assert self._late is not None
        now_s = self._clock.monotonic()
        stuck = [
            self._stuck(key, held)
            for key, held in self._held.items()
            if now_s - held.since_s >= self._stuck_after_s
        ]
        refused = [
            one.finding
            for held in (self._cut, self._aside)
            for one in held.values()
            if now_s - one.at_s < _REFUSED_LAST_S
        ]
        self._findings.report([*stuck, *self._late.values(), *refused, *self._of_states])

    def _of_earlier_drivers(self, raised: FindingName) -> dict[_Key, Finding]:
        return {
            (topic, partition): Finding(
                name=raised, topic=topic, partition=partition, message="found by an earlier driver"
            )
            for name, topic, partition in self._findings.already_open()
            if name == raised and topic is not None and partition is not None
        }

    def _note_cut(self, result: PartitionResult) -> None:
        """It holds until records were copied of which no batch was cut, or for a day."""
        topic, partition = at = result.assignment.source.place
        if not any(sync.records for sync in result.syncs):
            return
        if result.cut is not None:
            message = (
                f"{topic} partition {partition}: the target refused a batch {result.cut}; its records were copied in "
                "smaller batches"
            )
            finding = Finding(name=FindingName.BATCHES_CUT, topic=topic, partition=partition, message=message)
            self._cut[at] = _Refused(finding, self._clock.monotonic())
        else:
            self._cut.pop(at, None)

    def _note_ends(self, result: PartitionResult, now_s: float) -> None:
        if result.source_ends is None:
            return
        last_stable, high_watermark = result.source_ends
        before = self._held.pop(result.assignment.source.place, None)
        if high_watermark > last_stable:
            since_s = before.since_s if before and before.last_stable == last_stable else now_s
            self._held[result.assignment.source.place] = _Held(
                last_stable, high_watermark - last_stable, since_s
            )

    def _stuck(self, key: _Key, held: _Held) -> Finding:
        return Finding(
            name=FindingName.LAST_STABLE_OFFSET_STUCK,
            topic=key[0],
            partition=key[1],
            message=f"an open transaction holds source offset {held.last_stable} since {self._stuck_after_s:.0f} s or "
            f"more; {held.offsets} offsets behind it are not copied",
        )

    def _note_late(self, results: Sequence[PartitionResult]) -> None:
        assert self._late is not None
        copied = [(result, first) for result in results if (first := _oldest_ms(result)) is not None]
        self._read_settings({result.assignment.source.place[0] for result, _ in copied})
        for result, first_ms in copied:
            topic, partition = result.assignment.source.place
            lasts_ms = self._tombstones_last_ms.get(topic)
            behind_ms = self._clock.now_ms() - first_ms
            if lasts_ms is not None and behind_ms > lasts_ms:
                message = (
                    f"records were copied {behind_ms // 1000} s after they were written, tombstones of this topic "
                    f"last {lasts_ms // 1000} s: some may have been cleaned away unread"
                )
                self._late[(topic, partition)] = Finding(
                    name=FindingName.TOMBSTONES_MAY_BE_MISSING,
                    topic=topic,
                    partition=partition,
                    message=message,
                )

    def _read_settings(self, topics: set[str]) -> None:
        """How long tombstones last, by compacted topic; None for the others."""
        now_s = self._clock.monotonic()
        if now_s > self._settings_read_at + _SETTINGS_LAST_S:
            self._tombstones_last_ms.clear()
            self._settings_read_at = now_s
        unknown = sorted(topics - self._tombstones_last_ms.keys())
        if unknown:
            answer = self._source.topic_settings(unknown)
            for topic in unknown:
                settings = answer.read.get(topic)
                effective = {} if settings is None else settings.effective
                is_compacted = "compact" in effective.get("cleanup.policy", "")
                lasts = effective.get("delete.retention.ms")
                self._tombstones_last_ms[topic] = int(lasts) if is_compacted and lasts is not None else None


def _oldest_ms(result: PartitionResult) -> int | None:
    """When the first record copied in the round was written, as far as its batch says."""
    found = [sync.first_timestamp_ms for sync in result.syncs if sync.first_timestamp_ms is not None]
    return min(found, default=None)


# Prober -------------------------------------------------------------------------------------------
# Probes the clusters of a flow in threads of its own, so that no round and no call of the driver is in the
# way.
#
# A cluster is asked every few seconds, sooner after it did not answer. Leaders are asked more seldom where
# that takes long, which is where there are many partitions.


log = logging.getLogger(__name__)

_EVERY_S = 3.0
_AFTER_A_FAILURE_S = 1.0
_LEADERS_SHARE = 20
"""Leaders that all answered are probed again when so many times as long as the probe took has passed."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A cluster to probe, and the partitions of it whose leaders have to answer."""

    probe: ReachProbe
    partitions: Callable[[], Sequence[Partition]]


class Prober:
    """A context in which the clusters are probed; after it nothing is recorded any more."""

    def __init__(self, watch: ReachWatch, watched: Mapping[Side, Watched], clock: Clock) -> None:
        self._watch = watch
        self._watched = watched
        self._clock = clock
        self._ended = threading.Event()
        self._recording = threading.Lock()
        self._has_failed = False

    def __enter__(self) -> Self:
        for side in self._watched:
            beside(self._work, side, name=f"prober-{side}").start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._watch.close()

    def _work(self, side: Side) -> None:
        watched = self._watched[side]
        leaders_at = float("-inf")
        try:
            while not self._ended.is_set():
                began = now_by(self._clock)
                partitions = watched.partitions() if began.monotonic >= leaders_at else ()
                if self._probe(side, watched, partitions, began) and partitions:
                    took_s = self._clock.monotonic() - began.monotonic
                    leaders_at = began.monotonic + _LEADERS_SHARE * took_s
                self._record()
                self._ended.wait(_AFTER_A_FAILURE_S if self._watch.is_failing(side) else _EVERY_S)
        except Exception:  # the end of a thread: nobody waits for it who could tell
            if not self._ended.is_set():  # else the process ends, and no thread can be started any more
                log.exception("the %s is not probed any more", side)
        finally:
            watched.probe.close()

    def _probe(self, side: Side, watched: Watched, partitions: Sequence[Partition], began: Instant) -> bool:
        """Whether all was as it should be."""
        try:
            unled = watched.probe.leaderless(partitions)
        except MirrorLedgerError as error:
            self._watch.failed(side, str(error), began=began)
            return False
        self._watch.answered(side)
        if partitions:
            self._watch.unled(side, unled, began=began)
        return not unled

    def _record(self) -> None:
        """What could not be recorded is logged once, until something could be; threads take turns."""
        with self._recording:
            try:
                if self._watch.record():  # what another thread is trying has not succeeded yet
                    self._has_failed = False
            except ShutOutError:
                self._ended.set()  # the driver finds out by itself
            except (MirrorLedgerError, OSError) as error:
                if not self._has_failed:
                    log.warning("whether clusters answer is not recorded for now: %s", error)
                self._has_failed = True


# Run watch ----------------------------------------------------------------------------------------
# Tells in the ledger when what a run has beside its clusters needs attention, and when it does no more: the
# recorders beside it, the configuration file that it was started with.


RUN_FINDINGS = (FindingName.RECORDING_STOPPED, FindingName.CONFIGURATION_FILE_CHANGED)
Troubles = Callable[[], Mapping[str, str]]
"""By subject what is wrong with it; empty when nothing is."""


class RunWatch:
    """Checks once a round; costs nothing while nothing changes."""

    def __init__(self, findings: Findings, troubles: Mapping[FindingName, Troubles]) -> None:
        self._findings = findings
        self._troubles = troubles
        self._reported: Mapping[FindingName, frozenset[str]] | None = None

    def check(self) -> None:
        found = {name: troubles for name, ask in self._troubles.items() if (troubles := ask())}
        now = {name: frozenset(troubles) for name, troubles in found.items()}
        if self._reported == now:
            return
        self._reported = now
        self._findings.report(
            [
                Finding(
                    name=name, message="; ".join(f"{about}: {what}" for about, what in sorted(one.items()))
                )
                for name, one in found.items()
            ]
        )
