"""Where a flow stood before somebody recorded the end of its target without its source."""

from dataclasses import replace

from ledger.domain.facts import PartitionPair, SyncCause, SyncKind, source_may_be_gone
from ledger.domain.offsets.position import Position
from ledger.domain.offsets.supersession import RecordedSync
from ledger.domain.operations.partition_events import Settled, SettledByEpoch
from ledger.mirror.partitions.flow_progress import PartitionKey, key_of
from ledger.ports.ledger import LedgerState


class Settlements:
    """Of one flow, as of its driver's claim: nobody can settle it while that driver is the last one."""

    def __init__(self, flow: str, state: LedgerState, producer_id: int) -> None:
        self._flow = flow
        self._state = state
        self._producer_id = producer_id
        self._settled: dict[PartitionKey, SettledByEpoch] = state.settlements(flow)

    def before(self, pair: PartitionPair, at: Position) -> Position | None:
        """None where nothing was settled, or something was recorded since.

        The partition's rows are read where it stands as if it had been settled.
        """
        settled = self._settled.get(key_of(pair))
        if settled is None or not _may_be_settled(at, settled):
            return None
        rows = self._state.recorded_syncs(self._flow, pair.source.topic, pair.source.partition)
        of_source = [row for row in rows if row.sync.source.topic_id == pair.source.topic_id]
        first, last = None, None
        for row in sorted(of_source, key=lambda row: row.place, reverse=True):
            if not _is_settled(row, settled):
                last = row
                break
            first = settled[row.writer_epoch]  # of several the first: something may have come late
        return None if first is None else _before(first, at, last, producer_id=self._producer_id)


def _may_be_settled(position: Position, settled: SettledByEpoch) -> bool:
    return any(
        one.source_start == position.source_offset and one.target_start < position.target_offset
        for one in settled.values()
    )


def _is_settled(row: RecordedSync, settled: SettledByEpoch) -> bool:
    is_unpaired = (row.sync.kind, row.sync.cause) == (SyncKind.UNPAIRED, SyncCause.LOST_SOURCE)
    return is_unpaired and row.writer_epoch in settled


def _before(settled: Settled, at: Position, last: RecordedSync | None, *, producer_id: int) -> Position:
    """Where the flow stood, for a driver that writes with `producer_id` and stands `at` what was settled.

    `last`: what was recorded before that.
    """
    before = replace(
        at,
        source_offset=settled.source_start,
        target_offset=settled.target_start,
        next_sequence=settled.first_sequence,
        source_may_be_gone=last is not None and source_may_be_gone(last.sync.kind, last.sync.cause),
        former_sequence=None,
    )
    if settled.producer_id is None or settled.producer_id == producer_id:
        return before
    return before.with_another_producer(settled.producer_id)
