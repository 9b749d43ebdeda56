"""What one offset sync says beside its segments: stretches without a copy, unpaired records, and what it must keep.

All ranges are half-open. A sync that breaks the rules of its kind is refused.
"""

from dataclasses import dataclass
from enum import StrEnum

from ledger.errors import InvalidValueError
from ledger.facts.history import expand
from ledger.facts.syncs import GapCause, OffsetSync, SyncCause, SyncKind


class UnmappedKind(StrEnum):
    """What a stretch without a copied record is."""

    GAP = "gap"
    LOST = "lost"


@dataclass(frozen=True, slots=True, order=True)
class Unmapped:
    """Source offsets without a copied record; `target_start` is where the target stood."""

    source_start: int
    source_end: int
    target_start: int
    kind: UnmappedKind
    cause: GapCause | SyncCause

    def __post_init__(self) -> None:
        _check_range(f"a {self.kind} stretch", self.source_start, self.source_end)


@dataclass(frozen=True, slots=True, order=True)
class Unpaired:
    """Target offsets `[target_start, target_end)` hold the flow's own records of unknown source offsets.

    The flow stood at `source_start` when they were found.
    """

    source_start: int
    target_start: int
    target_end: int

    def __post_init__(self) -> None:
        if not 0 <= self.target_start < self.target_end:
            raise InvalidValueError(
                f"an unpaired stretch needs 0 <= target_start < target_end, "
                f"got [{self.target_start}, {self.target_end})"
            )


def unmapped(sync: OffsetSync) -> tuple[Unmapped, ...]:
    """The stretches of one offset sync without a copied record: its gaps, or all of it when it was lost."""
    check_sync(sync)
    if sync.kind is SyncKind.LOST and sync.cause is not None:
        return (
            Unmapped(sync.source_start, sync.source_end, sync.target_start, UnmappedKind.LOST, sync.cause),
        )
    stretches, skipped = [], 0
    for gap in sync.gaps:
        target = sync.target_start + gap.source_start - sync.source_start - skipped
        stretches.append(Unmapped(gap.source_start, gap.source_end, target, UnmappedKind.GAP, gap.cause))
        skipped += gap.source_end - gap.source_start
    return tuple(stretches)


def unpaired(sync: OffsetSync) -> Unpaired:
    return Unpaired(sync.source_start, sync.target_start, sync.target_end)


def check_sync(sync: OffsetSync) -> None:
    match sync.kind:
        case SyncKind.COPIED | SyncKind.ADOPTED:
            expand(sync)
        case SyncKind.LOST:
            _check_lost(sync)
        case SyncKind.STARTED | SyncKind.SUPERSEDED:
            _check_place(sync)
        case SyncKind.UNPAIRED:
            _check_no_source(sync)


def _check_lost(sync: OffsetSync) -> None:
    _check_range("a lost stretch", sync.source_start, sync.source_end)
    if sync.cause is None or sync.gaps or sync.target_end != sync.target_start:
        raise InvalidValueError(
            f"a lost stretch needs a cause, no gaps and no target offsets, got [{sync.source_start}, "
            f"{sync.source_end}) with cause {sync.cause}, {len(sync.gaps)} gaps, "
            f"target [{sync.target_start}, {sync.target_end})"
        )


def _check_place(sync: OffsetSync) -> None:
    """A row that says where the flow continues: no target offsets, and only what is superseded on the source."""
    if sync.kind is SyncKind.STARTED:
        _check_no_source(sync)
    if sync.target_start != sync.target_end or not 0 <= sync.source_start <= sync.source_end or sync.gaps:
        raise InvalidValueError(
            f"a {sync.kind} row needs 0 <= source_start <= source_end, no gaps and no target offsets, got "
            f"[{sync.source_start}, {sync.source_end}), {len(sync.gaps)} gaps, "
            f"target [{sync.target_start}, {sync.target_end})"
        )


def _check_no_source(sync: OffsetSync) -> None:
    if not 0 <= sync.source_start == sync.source_end or sync.gaps:
        raise InvalidValueError(
            f"a row of kind {sync.kind} has no source offsets, got [{sync.source_start}, {sync.source_end}) "
            f"with {len(sync.gaps)} gaps"
        )


def _check_range(what: str, source_start: int, source_end: int) -> None:
    if not 0 <= source_start < source_end:
        raise InvalidValueError(
            f"{what} needs 0 <= source_start < source_end, got [{source_start}, {source_end})"
        )
