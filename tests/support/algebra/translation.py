"""Commits, and where the source truncated what they were made on.

A commit cannot lie beyond the first record of a leader epoch later than its own: what lay there when it was made
was truncated by the source (an unclean leader election), and a consumer there is put back to that place
(KIP-320). Without an epoch a commit counts as made before a truncation of the source was recorded, unless the
group is known to have committed another offset after that. Both times are read from clocks of different hosts,
which are taken to agree within `MARGIN_MS`.

A truncation is recorded as such where the driver met it. Where the target had lost its copies first, the driver was
back at offsets that the source had still: that it truncated others is known by the leader epochs of what was copied
before and after. Where it truncated what was not copied yet, a recorder may have seen its log reach further under an
earlier leader epoch than to where a later one begins.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ledger.clock import MARGIN_MS
from ledger.facts.syncs import LOST_AT_SOURCE, Absence, GapCause, OffsetSync, SyncKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a group had committed when that was last known.

    `topic_id` None: nobody knows which incarnation of the topic it belongs to. `made_after_ms`: when the group was last
    seen with another offset, or with none; None when it never was. `first_read_ms`: when it was first seen with this
    one. `absence`: why it is not there any more.
    """

    offset: int
    topic_id: str | None
    leader_epoch: int | None = None
    made_after_ms: int | None = None
    first_read_ms: int | None = None
    absence: Absence | None = None


@dataclass(frozen=True, slots=True)
class Truncation:
    """The source was found to hold nothing of what it had held from `source_start` on."""

    source_start: int
    recorded_at_ms: int

    def may_be_after(self, at_ms: int | None) -> bool:
        """Whether the source lost its end after a time, as far as clocks can tell; None: nobody knows the time."""
        return at_ms is None or at_ms <= self.recorded_at_ms + MARGIN_MS


@dataclass(frozen=True, slots=True)
class SeenEnd:
    """How far a recorder saw the source's log reach when its leader was of this epoch."""

    leader_epoch: int
    high_watermark: int


def truncations_of(
    rows: Iterable[tuple[OffsetSync, int]], seen: Iterable[SeenEnd] = ()
) -> tuple[Truncation, ...]:
    """What the rows of one source incarnation tell, each with its `recorded_at_ms`; superseded rows among them."""
    known = list(rows)
    met = [Truncation(sync.source_start, at) for sync, at in known if sync.cause in LOST_AT_SOURCE]
    starts = {cut.source_start for cut in met}
    return (*met, *(cut for cut in _between_epochs(known, list(seen)) if cut.source_start not in starts))


@dataclass(slots=True)
class _EpochSpan:
    """What rows of one leader epoch cover; `begins_by`: a batch of it began there or before."""

    source_start: int
    begins_by: int
    recorded_at_ms: int

    def take(self, sync: OffsetSync, recorded_at_ms: int) -> None:
        self.source_start = min(self.source_start, sync.source_start)
        self.begins_by = min(self.begins_by, _begins_by(sync))
        self.recorded_at_ms = min(self.recorded_at_ms, recorded_at_ms)


def _between_epochs(rows: Iterable[tuple[OffsetSync, int]], seen: Sequence[SeenEnd]) -> Iterator[Truncation]:
    """Where a leader epoch begins below what was copied, or seen, of an earlier one.

    An adopted row may have been written when rows still held several epochs, so none begins with it.
    """
    ends: dict[int, int] = {}
    began: dict[int, _EpochSpan] = {}
    for sync, at in rows:
        epoch = sync.source_leader_epoch
        if epoch is None or sync.kind not in (SyncKind.COPIED, SyncKind.ADOPTED):
            continue
        ends[epoch] = max(ends.get(epoch, 0), sync.source_end)
        if sync.kind is SyncKind.COPIED:
            began.setdefault(epoch, _EpochSpan(sync.source_start, _begins_by(sync), at)).take(sync, at)
    for epoch, span in began.items():
        is_copied = any(earlier < epoch and end > span.source_start for earlier, end in ends.items())
        is_seen = any(end.leader_epoch < epoch and end.high_watermark > span.begins_by for end in seen)
        if is_copied or is_seen:
            yield Truncation(span.source_start, span.recorded_at_ms)


def _begins_by(sync: OffsetSync) -> int:
    """A row may begin with what a cleaner had taken, of whatever epoch that was."""
    cleaned = (gap.source_end for gap in sync.gaps if gap.cause is GapCause.COMPACTED)
    return max(cleaned, default=sync.source_start)
