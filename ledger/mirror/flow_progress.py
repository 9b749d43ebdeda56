"""Where a running flow stands on each partition: from the ledger at the start, from its rounds afterwards."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ledger.domain.facts import OffsetSync, SyncCause, SyncKind
from ledger.mirror.assignments import Assignment, PartitionResult, Stop, StopCause
from ledger.mirror.flow_topics import PartitionPair
from ledger.ports import FlowPosition, PartitionEnds

PartitionKey = tuple[str, int]
"""Source topic id and partition."""


@dataclass(slots=True)
class _Standing:
    """One partition that the flow takes care of."""

    pair: PartitionPair
    position: int
    target_end: int
    next_sequence: int
    stop_at: int | None = None
    stop: Stop | None = None
    copied_bytes: int = 0

    @property
    def has_reached_end(self) -> bool:
        return self.stop_at is not None and self.position >= self.stop_at


def key_of(pair: PartitionPair) -> PartitionKey:
    return pair.source.topic_id, pair.source.partition


class FlowProgress:
    """Positions of all partitions of a flow. Offsets of different topic ids are never mixed."""

    def __init__(self, positions: Iterable[FlowPosition]) -> None:
        self._recorded = {(p.source_topic_id, p.partition): p for p in positions}
        self._recorded_ids: dict[str, set[str]] = {}
        for position in self._recorded.values():
            self._recorded_ids.setdefault(position.source_topic, set()).add(position.source_topic_id)
        self._standings: dict[PartitionKey, _Standing] = {}

    @property
    def written_topic_ids(self) -> frozenset[str]:
        """Target topic ids that this flow has offset syncs for, or has written to since."""
        return frozenset(
            {position.target_topic_id for position in self._recorded.values()}
            | {standing.pair.target.topic_id for standing in self._standings.values()}
        )

    def unknown(self, pairs: Sequence[PartitionPair]) -> list[PartitionPair]:
        return [pair for pair in pairs if key_of(pair) not in self._standings]

    def adopt(
        self,
        pair: PartitionPair,
        *,
        source_ends: PartitionEnds,
        target_ends: PartitionEnds,
        until_caught_up: bool,
    ) -> Stop | None:
        """Take a partition on, at its recorded position or at the log start; returns why it may not be copied."""
        recorded = self._recorded.get(key_of(pair))
        standing = _recorded_standing(pair, recorded) or _fresh_standing(pair, source_ends, target_ends)
        standing.stop_at = source_ends.last_stable if until_caught_up else None
        standing.stop = self._incarnation_stop(pair, recorded) or _truncation_stop(standing, source_ends)
        self._standings[key_of(pair)] = standing
        if standing.stop is None:
            self._recorded_ids.setdefault(pair.source.topic, set()).add(pair.source.topic_id)
        return standing.stop

    def _incarnation_stop(self, pair: PartitionPair, recorded: FlowPosition | None) -> Stop | None:
        known_ids = self._recorded_ids.get(pair.source.topic, set())
        if recorded is None and known_ids and pair.source.topic_id not in known_ids:
            return Stop(
                StopCause.SOURCE_TOPIC_GONE,
                f"{pair.source.topic} was recreated at the source: its topic id is {pair.source.topic_id}, this flow "
                f"copied {', '.join(sorted(known_ids))}; nothing of the new topic was copied",
            )
        if recorded is not None and recorded.target_topic_id != pair.target.topic_id:
            return Stop(
                StopCause.TARGET_TOPIC_GONE,
                f"{pair.target.topic} was recreated at the target: its topic id is {pair.target.topic_id}, this flow "
                f"wrote to {recorded.target_topic_id}; nothing was written to the new topic",
            )
        return None

    def assignments(self, producer_id: int, *, exclusive: bool) -> list[Assignment]:
        """What the next round is to copy: every partition that is neither stopped nor at its end."""
        return [
            Assignment(
                source=standing.pair.source,
                target=standing.pair.target,
                position=standing.position,
                target_end=standing.target_end,
                next_sequence=standing.next_sequence,
                producer_id=producer_id,
                stop_at=standing.stop_at,
                exclusive=exclusive,
            )
            for standing in self._standings.values()
            if standing.stop is None and not standing.has_reached_end
        ]

    @property
    def loads(self) -> Mapping[PartitionKey, int]:
        """Bytes that each partition brought in its last round."""
        return {key: standing.copied_bytes for key, standing in self._standings.items()}

    def unreached(self) -> list[tuple[str, int]]:
        """Partitions that are neither stopped nor at the end that they are to reach: where they are, and the end."""
        return [
            (
                f"{standing.pair.source.topic} partition {standing.pair.source.partition} at {standing.position}",
                end,
            )
            for standing in self._standings.values()
            if (end := standing.stop_at) is not None and standing.stop is None and standing.position < end
        ]

    def take(self, result: PartitionResult) -> None:
        """A task's result becomes the position of the next round."""
        standing = self._standings[(result.assignment.source.topic_id, result.assignment.source.partition)]
        standing.position = result.position
        standing.target_end = result.target_end
        standing.next_sequence = result.next_sequence
        standing.stop = result.stop
        standing.copied_bytes = sum(sync.bytes for sync in result.syncs)

    def lose(self, result: PartitionResult, log_start: int, *, goes_on: bool) -> OffsetSync:
        """Source offsets up to the log start were gone before they could be copied (L6): the fact to record."""
        source = result.assignment.source
        standing = self._standings[(source.topic_id, source.partition)]
        lost = OffsetSync(
            source=source,
            target=result.assignment.target,
            source_leader_epoch=None,
            source_start=standing.position,
            source_end=log_start,
            target_start=standing.target_end,
            target_end=standing.target_end,
            first_sequence=standing.next_sequence,
            gaps=(),
            kind=SyncKind.LOST,
            cause=SyncCause.RETENTION,
            recovered=False,
            first_timestamp_ms=None,
            last_timestamp_ms=None,
            records=0,
            bytes=0,
            checksum=None,
            raw_batches=0,
            record_path_batches=0,
        )
        standing.position = log_start
        if goes_on:
            standing.stop = None
        return lost


def _recorded_standing(pair: PartitionPair, recorded: FlowPosition | None) -> _Standing | None:
    if recorded is None:
        return None
    return _Standing(pair, recorded.source_end, recorded.target_end, recorded.next_sequence)


def _fresh_standing(pair: PartitionPair, source: PartitionEnds, target: PartitionEnds) -> _Standing:
    """A partition without a recorded sync: from the source's log start, reading all that the target holds."""
    return _Standing(pair, source.log_start, target.log_start, next_sequence=0)


def _truncation_stop(standing: _Standing, source: PartitionEnds) -> Stop | None:
    if standing.position <= source.high_watermark:
        return None
    return Stop(
        StopCause.SOURCE_OUT_OF_RANGE,
        f"{standing.pair.source.topic} partition {standing.pair.source.partition} ends at {source.high_watermark} at "
        f"the source, this flow has copied up to {standing.position}: the source lost records; nothing was copied",
    )
