"""What holds of a flow's offset syncs: the order in which they were recorded, and what was superseded.

A `superseded` row voids what was recorded before it, or beside it in its round, about source offsets from its
`source_start` on. What lies across is cut there. The row itself stays: the flow goes on where it says.
"""

from collections.abc import Sequence
from dataclasses import replace

from ledger.domain.facts import Gap, OffsetSync, SyncKind

SEQUENCED_KINDS = frozenset({SyncKind.COPIED, SyncKind.UNPAIRED})
"""Kinds of rows whose records the flow itself wrote, each with a sequence of its own."""


def recording_order(
    *, writer_epoch: int, round_number: int, kind: str, source_start: int, source_end: int, target_end: int
) -> tuple[int, int, bool, int, int]:
    """The key that sorts the rows of one partition, oldest first; the last one tells where the flow stands.

    Within a round the rows follow the source, and a superseded row comes last: of two the lower one.
    """
    if kind == SyncKind.SUPERSEDED:
        return writer_epoch, round_number, True, -source_start, target_end
    return writer_epoch, round_number, False, source_end, target_end


def effective(syncs: Sequence[OffsetSync]) -> list[OffsetSync]:
    """The offset syncs of one partition after supersession, oldest first as they are given.

    A superseded row comes back with an empty source range: where the flow goes on.
    """
    kept: list[OffsetSync] = []
    cut: int | None = None
    for sync in reversed(syncs):
        if cut is None or sync.source_start < cut:
            kept.append(_below(_as_it_holds(sync), cut))
        if sync.kind is SyncKind.SUPERSEDED:
            cut = sync.source_start if cut is None else min(cut, sync.source_start)
    return kept[::-1]


def _as_it_holds(sync: OffsetSync) -> OffsetSync:
    return replace(sync, source_end=sync.source_start) if sync.kind is SyncKind.SUPERSEDED else sync


def _below(sync: OffsetSync, cut: int | None) -> OffsetSync:
    """The part of a row below `cut`; its bytes, batches and times stay those of the whole."""
    if cut is None or sync.source_end <= cut:
        return sync
    gaps = tuple(
        Gap(gap.source_start, min(gap.source_end, cut), gap.cause)
        for gap in sync.gaps
        if gap.source_start < cut
    )
    shorter = replace(sync, source_end=cut, gaps=gaps, checksum=None)
    if sync.kind is SyncKind.LOST:
        return shorter
    records = cut - sync.source_start - sum(gap.source_end - gap.source_start for gap in gaps)
    return replace(shorter, records=records, target_end=sync.target_start + records)
