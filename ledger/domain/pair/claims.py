"""Which offsets of a log rows of flows into it claim: what lies there was written by a mirror.

What supersession took out of a map is claimed all the same while the log holds it (`resync`, `source_truncated`).
Where the log lost its end, nothing from there on is: an application may have written there since. A row without
records claims nothing: behind adopted rows it tells of others' records, too.
"""

from collections.abc import Iterable

from ledger.domain.facts import SyncCause, SyncKind, TopicPartition
from ledger.domain.offset_ranges import OffsetRange, joined, without
from ledger.domain.pair.untold import FlowRows, is_same

_CLAIMING = (SyncKind.COPIED, SyncKind.ADOPTED, SyncKind.UNPAIRED)


def claims_of(flows: Iterable[FlowRows], held: TopicPartition) -> tuple[OffsetRange, ...]:
    """What any of these flows claims of a partition, ascending."""
    return tuple(joined(sorted(found for rows in flows for found in _still_held(rows, held))))


def _still_held(rows: FlowRows, held: TopicPartition) -> list[OffsetRange]:
    found: list[OffsetRange] = []
    for sync in (row.sync for row in rows if is_same(row.sync.target, held)):
        if sync.kind in _CLAIMING and sync.records:
            found.append((sync.target_start, sync.target_end))
        elif sync.cause is SyncCause.TARGET_TRUNCATED:
            found = [(start, min(end, sync.target_end)) for start, end in found if start < sync.target_end]
    return found


def leftover(ranges: Iterable[OffsetRange], taken: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Ranges less others, ascending; neither needs to be in an order."""
    in_order = sorted(taken)
    return tuple(left for one in joined(sorted(ranges)) for left in without(one, in_order))


def shared(ranges: Iterable[OffsetRange], start: int, end: int | None = None) -> tuple[OffsetRange, ...]:
    """What of ranges lies in `[start, end)`, ascending; `end` None: anything from `start` on."""
    cut = (
        (max(first, start), last if end is None else min(last, end)) for first, last in joined(sorted(ranges))
    )
    return tuple((first, last) for first, last in cut if first < last)


def count(ranges: Iterable[OffsetRange]) -> int:
    """How many offsets ranges hold that are apart from each other."""
    return sum(end - start for start, end in ranges)
