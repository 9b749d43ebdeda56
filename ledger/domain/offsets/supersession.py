"""What holds of a flow's offset syncs: order of recording, supersession, and where to continue after a truncation.

A `superseded` row voids what was recorded before it, or beside it in its round, about source offsets from its
`source_start` on. What lies across is cut there. The row itself stays: the flow continues where it says.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ledger.domain.facts import SEQUENCE_MODULUS, Gap, OffsetSync, SyncKind
from ledger.domain.offsets.position import Position

SEQUENCED_KINDS = frozenset({SyncKind.COPIED, SyncKind.UNPAIRED})
"""Kinds of rows whose records the flow itself wrote, each with a sequence of its own."""

_PLACED = frozenset({SyncKind.STARTED, SyncKind.UNPAIRED})


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

    A superseded row comes back with an empty source range: where the flow continues. What has no source offsets
    and lies just there holds when the target continues behind it.
    """
    return [sync for _, sync in numbered_effective(syncs)]


def numbered_effective(syncs: Sequence[OffsetSync]) -> list[tuple[int, OffsetSync]]:
    """The same, each with the place of its row among those given."""
    kept: list[tuple[int, OffsetSync]] = []
    later: list[OffsetSync] = []
    for index, sync in reversed(list(enumerate(syncs))):
        if not any(_voids(superseded, sync) for superseded in later):
            kept.append((index, _below(_as_it_holds(sync), later)))
        if sync.kind is SyncKind.SUPERSEDED:
            later.append(sync)
    return kept[::-1]


def _voids(superseded: OffsetSync, sync: OffsetSync) -> bool:
    """Whether nothing of an earlier row holds after a superseded one."""
    if sync.source_start != superseded.source_start or sync.kind not in _PLACED:
        return sync.source_start >= superseded.source_start
    goes_on_there = sync.target.topic_id == superseded.target.topic_id
    return not (goes_on_there and sync.target_end <= superseded.target_end)


def _as_it_holds(sync: OffsetSync) -> OffsetSync:
    return replace(sync, source_end=sync.source_start) if sync.kind is SyncKind.SUPERSEDED else sync


def _below(sync: OffsetSync, later: Sequence[OffsetSync]) -> OffsetSync:
    """What later superseded rows leave of a row; its bytes, batches and times stay those of the whole."""
    cut = min((superseded.source_start for superseded in later), default=sync.source_end)
    if sync.source_end <= cut:
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


@dataclass(frozen=True, slots=True)
class RecordedSync:
    """An offset sync with the place at which it was recorded.

    `producer_id`: the flow's at that time; None when it has had one only.
    """

    writer_epoch: int
    round: int
    sync: OffsetSync
    producer_id: int | None = None

    @property
    def written_with(self) -> int | None:
        """The producer id of its records; None when the flow has had one only."""
        former = self.sync.former_producer_id
        return self.producer_id if former is None else former

    def counts_for(self, producer_id: int) -> bool:
        """Whether its records have sequences of this producer id."""
        return self.sync.former_producer_id is None and self.producer_id in (None, producer_id)

    @property
    def place(self) -> tuple[int, int, bool, int, int]:
        """Sorts the rows of one partition, oldest first."""
        return recording_order(
            writer_epoch=self.writer_epoch,
            round_number=self.round,
            kind=self.sync.kind,
            source_start=self.sync.source_start,
            source_end=self.sync.source_end,
            target_end=self.sync.target_end,
        )


def holding(recorded: Iterable[RecordedSync]) -> list[OffsetSync]:
    """What still holds of a partition's rows, oldest first, the supersessions themselves left out."""
    oldest_first = [row.sync for row in sorted(recorded, key=lambda row: row.place)]
    return [sync for sync in effective(oldest_first) if sync.kind is not SyncKind.SUPERSEDED]


def by_source_incarnation(recorded: Iterable[RecordedSync]) -> dict[str, list[RecordedSync]]:
    """The rows of one partition by the topic id that its source had."""
    found: dict[str, list[RecordedSync]] = {}
    for row in recorded:
        found.setdefault(row.sync.source.topic_id, []).append(row)
    return found


def restart_after_target_truncation(
    holding_there: Iterable[OffsetSync], target_end: int, *, next_sequence: int
) -> Position | None:
    """The first source offset whose record the target lost when its log ends at `target_end`.

    `holding_there`: what holds of one incarnation of the source in that log, oldest first. None when nothing of
    it reaches past that end.
    """
    before: OffsetSync | None = None
    for sync in holding_there:
        if sync.records and sync.target_end > target_end:
            kept = max(target_end - sync.target_start, 0)
            epoch_of = sync if kept else before
            return Position(
                # A gap at its start may be of the same leader epoch as the sync, and is recorded again with it.
                source_offset=_source_of(sync, kept) if kept else sync.source_start,
                target_offset=target_end,
                next_sequence=next_sequence,
                leader_epoch=None if epoch_of is None else epoch_of.source_leader_epoch,
            )
        before = sync
    return None


def _source_of(sync: OffsetSync, records: int) -> int:
    """The source offset of the record after the first `records` of a sync; where it stands, for an unpaired one."""
    if sync.kind is SyncKind.UNPAIRED:
        return sync.source_start
    offset = sync.source_start
    for gap in sync.gaps:
        if offset + records < gap.source_start:
            break
        records -= gap.source_start - offset
        offset = gap.source_end
    return offset + records


def sequence_at(
    recorded: Iterable[RecordedSync], target_topic_id: str, target_offset: int, *, producer_id: int
) -> int | None:
    """The sequence of the flow's record at a target offset, or of the next one, with one of its producer ids.

    It is that of the log: it counts what a supersession took out of the map, and what other incarnations of
    the source left there. None when nothing that was written with that id lies there or behind.
    """
    rows = [row for row in _written(recorded, target_topic_id) if row.counts_for(producer_id)]
    claim = _claim(rows, target_offset)
    if claim is not None:
        sync = claim.sync
        return (sync.first_sequence + target_offset - sync.target_start) % SEQUENCE_MODULUS
    following = [row.sync for row in rows if row.sync.target_start >= target_offset and row.sync.records]
    return min(following, key=lambda sync: sync.target_start).first_sequence if following else None


def is_as_recorded(
    recorded: Iterable[RecordedSync],
    target_topic_id: str,
    target_offset: int,
    *,
    producer_id: int,
    sequence: int,
) -> bool:
    """Whether what was recorded at a target offset is a record of that producer id and sequence."""
    claim = _claim(_written(recorded, target_topic_id), target_offset)
    if claim is None or claim.written_with not in (None, producer_id):
        return False
    if claim.sync.former_producer_id is not None:
        return True  # its sequence is not recorded
    wanted = claim.sync.first_sequence + target_offset - claim.sync.target_start
    return wanted % SEQUENCE_MODULUS == sequence


def _written(recorded: Iterable[RecordedSync], target_topic_id: str) -> list[RecordedSync]:
    """Rows of records that the flow wrote to a target, oldest first."""
    return [
        row
        for row in sorted(recorded, key=lambda row: row.place)
        if row.sync.kind in SEQUENCED_KINDS and row.sync.target.topic_id == target_topic_id
    ]


def _claim(oldest_first: Sequence[RecordedSync], target_offset: int) -> RecordedSync | None:
    """The row whose record lies at an offset; of two claims the later counts."""
    claims = (row for row in reversed(oldest_first) if _covers(row.sync, target_offset))
    return next(claims, None)


def _covers(sync: OffsetSync, target_offset: int) -> bool:
    return bool(sync.records) and sync.target_start <= target_offset < sync.target_end


@dataclass(frozen=True, slots=True)
class CommonEnd:
    """Up to where the source still holds what was copied, and the leader epoch of the last batch there."""

    source_end: int
    leader_epoch: int | None


def common_end(recorded: Iterable[RecordedSync], *, epoch: int | None, end: int) -> CommonEnd:
    """Where what was copied and what the source holds part, when it ends leader epoch `epoch` at `end`.

    The smaller of both ends of the last common epoch (KIP-101: how a follower truncates); `epoch` None: only
    `end` is known.
    """
    syncs = holding(recorded)
    later_epochs = [
        sync.source_start
        for sync in syncs
        if epoch is not None and sync.source_leader_epoch is not None and sync.source_leader_epoch > epoch
    ]
    source_end = min([end, *later_epochs])
    below = [sync for sync in syncs if sync.source_start < source_end]
    return CommonEnd(source_end, below[-1].source_leader_epoch if below else None)
