"""Transactions whose markers a source has lost with the end of its log: whether they are committed is open again.

An unclean leader lacks the last markers of its log. Then transactions that were copied as committed, or left out as
aborted, are open there once more, and may end otherwise. Once all are decided that began before the end that was left,
the log is compared with what was copied. Where a transaction has ended otherwise the flow copies again from its first
record on: in the order of the source, so that no committed record is missing.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ledger.facts.history import expand
from ledger.facts.syncs import (
    MAPPED,
    GapCause,
    OffsetRange,
    OffsetSync,
    RecordedSync,
    Share,
    TopicPartition,
    joined,
    share_of,
)
from ledger.kafka.batches import BatchHeader
from ledger.kafka.cluster import ClusterAdmin, headers_between

_SEARCHED_OFFSETS = 100_000
"""How far before the end a transaction is searched for at least: brokers abort those that are open for long."""


def has_lost_markers(recorded: Iterable[RecordedSync]) -> bool:
    """Whether a source that has lost its end may have lost a marker: transactions were seen there, and that which
    ended the last one need not be recorded yet."""
    ends = (GapCause.CONTROL, GapCause.ABORTED)
    return any(gap.cause in ends for row in recorded for gap in row.sync.gaps)


def first_ended_otherwise(
    source: ClusterAdmin,
    partition: TopicPartition,
    held: Sequence[OffsetSync],
    *,
    log_start: int,
    end: int,
    open_from: int | None,
) -> int | None:
    """The first source offset of a transaction that ended behind `end`, and otherwise than it was copied; None: none.

    `held`: what holds of the partition's rows. `open_from`: where the first one began that was seen open again, None:
    none was seen so. All of them have to be decided.
    """
    aborted = {producer_id: first for producer_id, first in source.aborted_at(partition, end) if first < end}
    begin = min([end - _SEARCHED_OFFSETS, *aborted.values(), *([] if open_from is None else [open_from])])
    left_out, copied = _outcomes(held)
    unended: defaultdict[int, list[BatchHeader]] = defaultdict(list)
    for header in headers_between(source, partition, max(begin, log_start), end):
        if header.is_control:
            unended.pop(header.producer_id, None)
        elif header.is_transactional and header.count:
            unended[header.producer_id].append(header)
    changed = [
        header.base_offset
        for producer_id, headers in unended.items()
        for header in headers
        if _holds(copied if producer_id in aborted else left_out, header)
    ]
    return min(changed, default=None)


def _outcomes(held: Sequence[OffsetSync]) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """Source offsets that were left out as aborted, and those that were copied."""
    aborted = (
        (gap.source_start, gap.source_end)
        for sync in held
        for gap in sync.gaps
        if gap.cause is GapCause.ABORTED
    )
    copied = (
        (segment.source_start, segment.source_end)
        for sync in held
        if sync.kind in MAPPED
        for segment in expand(sync)
    )
    return list(joined(sorted(aborted))), list(joined(sorted(copied)))


def _holds(ranges: Sequence[OffsetRange], header: BatchHeader) -> bool:
    return share_of(ranges, header.base_offset, header.end_offset) is not Share.NONE
