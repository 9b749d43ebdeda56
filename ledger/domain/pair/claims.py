"""Which offsets of a log rows of flows into it claim: what lies there was written by a mirror.

What supersession took out of a map is claimed all the same while the log holds it (`resync`, `source_truncated`).
Where the log lost its end, nothing from there on is: an application may have written there since. A row without
records claims nothing: behind adopted rows it tells of others' records, too.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ledger.domain.facts import SyncCause, SyncKind, TopicPartition
from ledger.domain.offsets.offset_ranges import OffsetRange, joined, without
from ledger.domain.offsets.translation import Truncation
from ledger.domain.pair.untold import FlowRows, Witness, in_doubt_from, is_same

_CLAIMING = (SyncKind.COPIED, SyncKind.ADOPTED, SyncKind.UNPAIRED)


@dataclass(frozen=True, slots=True)
class Found:
    """What others than a flow know of its target: where it lost its end, and who has read it again since."""

    cuts: tuple[Truncation, ...] = ()
    witnesses: tuple[Witness, ...] = ()


def claims_of(flows: Iterable[tuple[FlowRows, Found]], held: TopicPartition) -> tuple[OffsetRange, ...]:
    """What any of these flows claims of a partition, ascending."""
    claimed = (claim for rows, found in flows for claim in _still_held(rows, held, found))
    return tuple(joined(sorted(claimed)))


def _still_held(rows: FlowRows, held: TopicPartition, found: Found) -> list[OffsetRange]:
    claims: list[OffsetRange] = []
    for row in (row for row in rows if is_same(row.sync.target, held)):
        if row.sync.kind in _CLAIMING and row.sync.records:
            end = in_doubt_from(row, found.cuts, found.witnesses)
            claims.append((row.sync.target_start, row.sync.target_end if end is None else end))
        elif row.sync.cause is SyncCause.TARGET_TRUNCATED:
            claims = below(claims, row.sync.target_end)
    return [(start, end) for start, end in claims if start < end]


def below(ranges: Iterable[OffsetRange], offset: int) -> list[OffsetRange]:
    """What of ranges lies below an offset."""
    return [(start, min(end, offset)) for start, end in ranges if start < offset]


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
