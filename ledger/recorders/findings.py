"""What a recorder finds of its cluster that needs attention: outages, records behind fences, plans at work."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ledger.clock import Clock, Instant
from ledger.errors import PreconditionError
from ledger.facts.fences import Fences
from ledger.facts.findings import Finding, FindingName, raised
from ledger.facts.identity import ClusterIdentities
from ledger.facts.operations import FindingCleared, FindingKey, OperationContent
from ledger.facts.roles import Failing, LastClaim, failed_again
from ledger.facts.state import OperationEntry, OperationLog
from ledger.facts.syncs import HighWatermark, TopicPartition
from ledger.kafka.cluster import LogReader, first_data

# Late writes --------------------------------------------------------------------------------------
# Records that are written behind fences of a cluster: a finding of its recorder for each partition.


log = logging.getLogger(__name__)
_LATE_WRITE = FindingName.LATE_WRITE
_Place = tuple[str, int]


@dataclass(slots=True)
class LateWrites:
    """Of one cluster in one epoch; `open_keys`: what earlier epochs have raised and not cleared."""

    cluster: str
    cluster_id: str
    reader: LogReader
    operations: OperationLog
    open_keys: set[FindingKey]
    _checked: dict[_Place, tuple[int, int]] = field(default_factory=dict)
    """By partition the end of its fence, and up to where nothing but markers lies behind that."""

    def seen(self, fences: Fences, identities: ClusterIdentities, ends: Iterable[HighWatermark]) -> None:
        """Raise what is late now, and clear what is late no longer."""
        by_place = {(end.topic, end.partition): end for end in ends}
        mirrors = identities.mirror_ids(self.cluster_id)
        late: dict[FindingKey, str] = {}
        known: set[FindingKey] = set()
        for place, fence_end in self._fenced(fences, by_place).items():
            key: FindingKey = (_LATE_WRITE, *place)
            end = by_place[place]
            message = self._late(end, fence_end, mirrors)
            if message is not None:
                late[key] = message
            elif end.log_start > fence_end:
                known.add(key)  # what was appended behind the fence is deleted: what was said of it holds
        unread = {key for key in self.open_keys if self._is_unread(key, fences, by_place)}
        self._record(late, self.open_keys & (known | unread))

    def _fenced(self, fences: Fences, ends: Mapping[_Place, HighWatermark]) -> dict[_Place, int]:
        """Ends of fences, of partitions that were read and are of the topic that was fenced."""
        return {
            (fence.topic, one.partition): one.end
            for fence in (active.fence for active in fences.at(self.cluster))
            for one in fence.partitions
            if (end := ends.get((fence.topic, one.partition))) is not None and end.topic_id == fence.topic_id
        }

    def _is_unread(self, key: FindingKey, fences: Fences, ends: Mapping[_Place, HighWatermark]) -> bool:
        """Whether the fence is there still, and the partition could not be read this time."""
        _, topic, partition = key
        if topic is None or partition is None:
            return False
        return (topic, partition) not in ends and fences.of(self.cluster, topic) is not None

    def _late(self, end: HighWatermark, fence_end: int, mirrors: frozenset[int]) -> str | None:
        """What an application wrote behind the fence, in words; None: nothing."""
        place = end.topic, end.partition
        known_end, checked = self._checked.get(place, (fence_end, fence_end))
        start = max(checked if known_end == fence_end else fence_end, end.log_start)
        at = TopicPartition(end.topic, end.topic_id, end.partition)
        where = f"{at.words} of {self.cluster}"
        try:
            found = first_data(self.reader, at, start, end.high_watermark, mirrors=mirrors)
        except PreconditionError as error:
            return f"{where}: something was appended behind its fence at {fence_end}, and cannot be read: {error}"
        if found is None:
            self._checked[place] = fence_end, max(start, end.high_watermark)
            return None
        who = f" by producer {found.producer_id}" if found.producer_id >= 0 else ""
        return f"{where}: a record was written{who} at offset {found.base_offset}, behind its fence at {fence_end}"

    def _record(self, late: Mapping[FindingKey, str], kept: set[FindingKey]) -> None:
        holding = late.keys() | kept
        entries: list[OperationEntry] = [
            self._raised(key, message) for key, message in sorted(late.items()) if key not in self.open_keys
        ]
        entries += [
            (str(_LATE_WRITE), FindingCleared.of_key(key))
            for key in sorted(self.open_keys - holding, key=str)
        ]
        if entries:
            self.operations.record_all(entries, flow=None)
        self.open_keys = set(holding)

    def _raised(self, key: FindingKey, message: str) -> OperationEntry:
        _, topic, partition = key
        finding = Finding(
            name=_LATE_WRITE, topic=topic, partition=partition, message=message, cluster=self.cluster
        )
        log.warning(
            "%(finding)s: %(what)s; %(advice)s",
            {
                "finding": _LATE_WRITE,
                "cluster": self.cluster,
                "topic": topic,
                "partition": partition,
                "what": message,
                "advice": finding.next(),
            },
        )
        return str(_LATE_WRITE), raised(finding)


# Outage record ------------------------------------------------------------------------------------
# What a recorder says of its cluster while that does not answer: a finding of its own, raised once, cleared
# once.


_OUTAGE = FindingName.CLUSTER_UNREACHABLE


class OutageRecord:
    """Of one cluster in one epoch; `is_open`: an earlier epoch has raised the finding and not cleared it."""

    def __init__(self, cluster: str, operations: OperationLog, *, is_open: bool) -> None:
        self._cluster = cluster
        self._operations = operations
        self._is_open = is_open
        self._failing: Failing | None = None

    def failed(self, reason: str, *, began: Instant, now: Instant) -> None:
        """A read that began then has failed by now; records it once that is sure."""
        self._failing = failed_again(self._failing, reason, began=began, at_ms=now.at_ms)
        if not self._is_open and self._failing.is_sure(now.monotonic):
            finding = Finding(
                name=_OUTAGE,
                message=f"{self._cluster} does not answer: {reason}",
                cluster=self._cluster,
                since_ms=self._failing.since_ms,
            )
            self._record(raised(finding))
            self._is_open = True

    def answered(self) -> None:
        self._failing = None
        if self._is_open:
            self._record(FindingCleared.of_key((_OUTAGE, None, None)))
            self._is_open = False

    def _record(self, content: OperationContent) -> None:
        self._operations.record(content, flow=None, reason=str(_OUTAGE))


# Plan watch ---------------------------------------------------------------------------------------
# Whether a plan is carried out now: what is waited for then is to come soon.
#
# Applications may have no cluster to write to meanwhile. That all is copied, and that the mirror has
# stopped for a promotion, is known at the end of a round of its driver; where groups stand, when a recorder
# has read them.


SOON_S = 1.0
_ASKED_EVERY_S = 5.0
_SILENT_S = 30.0
"""Who carries out a plan records something every ten seconds at least."""


class PlanWatch:
    """As one process sees it; `last_claim`: of the role of who carries out plans.

    A plan may be left in the middle. Silence is measured by this process's own clock, from when something was heard.
    """

    def __init__(self, last_claim: Callable[[], LastClaim | None], clock: Clock) -> None:
        self._last_claim = last_claim
        self._clock = clock
        self._asked_at = float("-inf")
        self._is_at_work = False
        self._heard: tuple[int, int] | None = None
        self._heard_at = 0.0

    def at_most(self, seconds: float) -> float:
        """A pace of so many seconds, which is quicker while a plan is carried out."""
        now = self._clock.monotonic()
        if now - self._asked_at >= (SOON_S if self._is_at_work else min(seconds, _ASKED_EVERY_S)):
            self._asked_at, self._is_at_work = now, self._hears(now)
        return min(seconds, SOON_S) if self._is_at_work else seconds

    def _hears(self, now: float) -> bool:
        claim = self._last_claim()
        if claim is None or claim.released:
            return False
        heard = (claim.epoch, claim.last_recorded_at_ms)
        if heard != self._heard:
            self._heard, self._heard_at = heard, now
        return now - self._heard_at <= _SILENT_S
