"""What the results of rounds say about partitions that are copied: transactions that hang, tombstones read too late.

A cleaner drops a tombstone `delete.retention.ms` after it was written. A mirror that reads a compacted
topic later than that may never have seen it: the target then keeps a value whose key was deleted. That is
not over when the mirror has caught up, so the finding stays until the keys were compared.
"""

from collections.abc import Iterable, Sequence

from ledger.domain.operations.finding_events import FindingKey
from ledger.mirror.findings.finding_log import Finding, FindingName, Findings
from ledger.mirror.findings.hanging_transactions import StableOffset, observed
from ledger.mirror.task.assignments import PartitionResult
from ledger.ports.clock import Clock
from ledger.ports.clusters import ClusterAdmin

PARTITION_FINDINGS = (FindingName.LAST_STABLE_OFFSET_STUCK, FindingName.TOMBSTONES_MAY_BE_MISSING)
_SETTINGS_LAST_S = 60.0
_Key = tuple[str, int]
"""Source topic and partition."""


class PartitionWatch:
    """Raises and clears the findings of `PARTITION_FINDINGS` of one flow."""

    def __init__(
        self, findings: Findings, source: ClusterAdmin, clock: Clock, *, stuck_after_s: float
    ) -> None:
        self._findings = findings
        self._source = source
        self._clock = clock
        self._stuck_after_s = stuck_after_s
        self._stable: dict[_Key, StableOffset] = {}
        self._late: dict[_Key, Finding] | None = None
        self._tombstones_last_ms: dict[str, int | None] = {}
        self._settings_read_at = float("-inf")

    def check(self, results: Sequence[PartitionResult], *, begun: Iterable[_Key]) -> None:
        """Judge one round; `begun`: partitions that are copied for the first time and never were at their end."""
        if self._late is None:
            self._late = {key: _late_before(*key) for key in _partitions(self._findings.already_open())}
        now_s = self._clock.monotonic()
        for result in results:
            self._note_ends(result, now_s)
        first = frozenset(begun)
        self._note_late([result for result in results if _key(result) not in first])
        stuck = [self._stuck(key, ends) for key, ends in self._stable.items() if self._is_stuck(ends, now_s)]
        self._findings.report([*stuck, *self._late.values()])

    def _note_ends(self, result: PartitionResult, now_s: float) -> None:
        if result.source_ends is not None:
            last_stable, high_watermark = result.source_ends
            self._stable[_key(result)] = observed(
                self._stable.get(_key(result)),
                last_stable=last_stable,
                high_watermark=high_watermark,
                now_s=now_s,
            )

    def _is_stuck(self, ends: StableOffset, now_s: float) -> bool:
        return ends.is_stuck(now_s, after_s=self._stuck_after_s)

    def _stuck(self, key: _Key, ends: StableOffset) -> Finding:
        return Finding(
            name=FindingName.LAST_STABLE_OFFSET_STUCK,
            topic=key[0],
            partition=key[1],
            message=f"an open transaction holds source offset {ends.last_stable} since {self._stuck_after_s:.0f} s or "
            f"more; {ends.held_back} offsets behind it are not copied",
        )

    def _note_late(self, results: Sequence[PartitionResult]) -> None:
        assert self._late is not None
        copied = [(result, first) for result in results if (first := _oldest_ms(result)) is not None]
        self._read_settings({_key(result)[0] for result, _ in copied})
        for result, first_ms in copied:
            topic, partition = _key(result)
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


def _key(result: PartitionResult) -> _Key:
    return result.assignment.source.topic, result.assignment.source.partition


def _oldest_ms(result: PartitionResult) -> int | None:
    """When the first record copied in the round was written, as far as its batch says."""
    found = [sync.first_timestamp_ms for sync in result.syncs if sync.first_timestamp_ms is not None]
    return min(found, default=None)


def _partitions(is_open: Iterable[FindingKey]) -> list[_Key]:
    return [
        (topic, partition)
        for name, topic, partition in is_open
        if name == FindingName.TOMBSTONES_MAY_BE_MISSING and topic is not None and partition is not None
    ]


def _late_before(topic: str, partition: int) -> Finding:
    return Finding(
        name=FindingName.TOMBSTONES_MAY_BE_MISSING,
        topic=topic,
        partition=partition,
        message="found by an earlier driver",
    )
