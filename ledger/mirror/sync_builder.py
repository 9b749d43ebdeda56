"""Turns acknowledged steps of one partition into offset syncs."""

from dataclasses import replace

from ledger.facts.syncs import Gap, GapCause, OffsetSync, SyncCause, SyncKind
from ledger.kafka.batches import BatchHeader, next_sequence, payload_checksum
from ledger.mirror.assignment import Assignment
from ledger.mirror.cleaned_tail import Pairing
from ledger.mirror.steps import Copy, Skip

GAPS_PER_SYNC = 10_000
"""An offset sync ends behind the batch with which it has so many gaps: rows stay small enough to be read one by one."""


class SyncBuilder:
    """Collects what is proved to be on the target, in source order.

    A new offset sync begins where the target range breaks (somebody else's records lie between), where
    recovered batches end and where the source's leader epoch changes, so that one sync is one contiguous
    target range of one origin, and a truncation of the source can be placed between two of them. And after
    `GAPS_PER_SYNC`. `gap_count`: gaps collected so far.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._finished: list[OffsetSync] = []
        self.position = assignment.position
        self.gap_count = 0
        self._last_gap: Gap | None = None
        self._open()

    def _open(self) -> None:
        self._source_start = self.position.source_offset
        self._target_start = self.position.target_offset
        self._first_sequence = self.position.next_sequence
        self._gaps: list[Gap] = []
        self._recovered = False
        self._former_producer_id: int | None = None
        self._records = self._bytes = self._raw = self._record_path = self._merged = self._checksum = 0
        self._first_timestamp_ms: int | None = None
        self._last_timestamp_ms: int | None = None

    @property
    def ends_in_hole(self) -> bool:
        """The last offsets behind us had been removed by a cleaner."""
        last = self._last_gap
        return (
            last is not None
            and last.cause is GapCause.COMPACTED
            and last.source_end == self.position.source_offset
        )

    def skip(self, step: Skip) -> None:
        """Source offsets without a record to copy are behind us."""
        self._enter_epoch(step.leader_epoch)
        self._add_gap(step.gap)
        self.position = replace(self.position, source_offset=step.source_end)
        self._close_if_full()

    def copied(
        self, step: Copy, *, base_offset: int, recovered: bool, producer_id: int | None = None
    ) -> None:
        """The step's records are on the target from `base_offset` on; `producer_id`: whose, if found there."""
        former_producer_id = self._former(producer_id)
        self._enter_epoch(step.leader_epoch)
        sequence = self.position.next_sequence
        self._enter_row((recovered, former_producer_id), base_offset, sequence, step.base_timestamp)
        for gap in step.gaps:
            self._add_gap(gap)
        self._records += step.count
        self._bytes += len(step.batch)
        self._checksum = payload_checksum(step.batch, self._checksum)
        self._raw += step.raw
        self._record_path += not step.raw
        self._merged += len(step.ends)
        self._last_timestamp_ms = max(step.max_timestamp, self._last_timestamp_ms or step.max_timestamp)
        following = next_sequence(sequence, step.count if former_producer_id is None else 0)
        self.position = self.position.copied_up_to(step.source_end, base_offset + step.count, following)
        self._count_former(step.count, former_producer_id)
        self._close_if_full()

    def unpaired(
        self,
        *,
        first_sequence: int,
        target_start: int,
        count: int,
        cause: SyncCause,
        producer_id: int | None = None,
    ) -> None:
        """Records of this flow at the target have no source offset that could be identified.

        With a former producer id `first_sequence` is of that one, and is not recorded.
        """
        self.end_row()
        former_producer_id = self._former(producer_id)
        found = self._unpaired(
            self.position.next_sequence if former_producer_id is not None else first_sequence,
            target_start,
            count,
            cause,
            former_producer_id,
        )
        before = self._finished[-1] if self._finished else None
        if before is not None and _continues(before, found):
            self._finished[-1] = replace(
                before, target_end=target_start + count, records=before.records + count
            )
        else:
            self._finished.append(found)
        self.position = replace(self.position, target_offset=target_start + count)
        self._count(count, first_sequence, former_producer_id)
        self._open()

    def found_cleaned(
        self, found: Pairing, *, first_sequence: int, leader_epoch: int | None, producer_id: int | None
    ) -> None:
        """Records of a tail that cleaners have been at; how they were sent, nobody knows any more."""
        former_producer_id = self._former(producer_id)
        self._enter_epoch(leader_epoch)
        origin = True, former_producer_id
        self._enter_row(origin, found.place.target_start, first_sequence, found.first_timestamp)
        self._records += found.place.count
        self._last_timestamp_ms = max(found.last_timestamp, self._last_timestamp_ms or found.last_timestamp)
        self.position = replace(
            self.position,
            source_offset=found.source_end,
            target_offset=found.place.target_start + found.place.count,
        )
        self._count(found.place.count, first_sequence, former_producer_id)

    def former_next(self, producer_id: int) -> int | None:
        """The next sequence of a former producer id; None when it is not known any more."""
        known = self.position.former_sequence
        return known[1] if known is not None and known[0] == producer_id else None

    def _former(self, producer_id: int | None) -> int | None:
        return None if producer_id is None else self._assignment.producer.as_former(producer_id)

    def _count(self, count: int, first_sequence: int, former_producer_id: int | None) -> None:
        """Records have a sequence of the producer id that they were written with."""
        if former_producer_id is None:
            self.position = replace(self.position, next_sequence=next_sequence(first_sequence, count))
        else:
            self._count_former(count, former_producer_id)

    def _count_former(self, count: int, former_producer_id: int | None) -> None:
        known = None if former_producer_id is None else self.former_next(former_producer_id)
        if former_producer_id is not None and known is not None:
            self.position = replace(
                self.position, former_sequence=(former_producer_id, next_sequence(known, count))
            )

    def repeated(self, *, first_sequence: int, target_start: int, count: int, producer_id: int) -> None:
        """Records of this flow came late and are there a second time; its next sequence stays what it is."""
        following, former = self.position.next_sequence, self.position.former_sequence
        self.unpaired(
            first_sequence=first_sequence,
            target_start=target_start,
            count=count,
            cause=SyncCause.REPEATED,
            producer_id=producer_id,
        )
        self.position = replace(self.position, next_sequence=following, former_sequence=former)
        self._first_sequence = following

    def expired(self, *, target_end: int, next_sequence: int, first: BatchHeader | None) -> None:
        """The target's log begins behind the flow's position: what it may have written up to there was deleted.

        `first`: the flow's own first batch that is left; one with a former producer id tells where that one stands.
        """
        self.end_row()
        expired = self._unpaired(next_sequence, self.position.target_offset, 0, SyncCause.RETENTION, None)
        self._finished.append(replace(expired, target_end=target_end, recovered=False))
        self.position = replace(self.position, target_offset=target_end, next_sequence=next_sequence)
        if first is not None and self._former(first.producer_id) is not None:
            self.position = replace(self.position, former_sequence=(first.producer_id, first.base_sequence))
        self._open()

    def syncs(self) -> tuple[OffsetSync, ...]:
        """Everything collected; the builder is finished with."""
        self.end_row()
        return tuple(self._finished)

    def _enter_epoch(self, leader_epoch: int | None) -> None:
        if leader_epoch is None or leader_epoch == self.position.leader_epoch:
            return
        self.end_row()
        self.position = replace(self.position, leader_epoch=leader_epoch)

    def _enter_row(
        self, origin: tuple[bool, int | None], target_start: int, first_sequence: int, first_timestamp: int
    ) -> None:
        """Records of an `origin` follow: whether they were recovered, and with which former producer id written."""
        is_former = origin[1] is not None
        follows = target_start == self.position.target_offset and (
            is_former or first_sequence == self.position.next_sequence
        )
        if self._records and not (follows and origin == (self._recovered, self._former_producer_id)):
            self.end_row()
        if not self._records:
            self._recovered, self._former_producer_id = origin
            self._target_start, self._first_timestamp_ms = target_start, first_timestamp
            if not is_former:
                self._first_sequence = first_sequence

    def _add_gap(self, gap: Gap) -> None:
        last = self._gaps[-1] if self._gaps else None
        if last is not None and last.source_end == gap.source_start and last.cause is gap.cause:
            self._gaps[-1] = Gap(last.source_start, gap.source_end, gap.cause)
        else:
            self._gaps.append(gap)
            self.gap_count += 1
        self._last_gap = self._gaps[-1]

    def _close_if_full(self) -> None:
        if len(self._gaps) >= GAPS_PER_SYNC:
            self.end_row()

    def end_row(self) -> None:
        """What comes next is recorded in a row of its own."""
        if self.position.source_offset > self._source_start:
            self._finished.append(self._sync())
        self._open()

    def _sync(self) -> OffsetSync:
        return OffsetSync(
            source=self._assignment.source,
            target=self._assignment.target,
            source_leader_epoch=self.position.leader_epoch,
            source_start=self._source_start,
            source_end=self.position.source_offset,
            target_start=self._target_start,
            target_end=self._target_start + self._records,
            first_sequence=self._first_sequence,
            gaps=tuple(self._gaps),
            kind=SyncKind.COPIED,
            cause=None,
            recovered=self._recovered,
            first_timestamp_ms=self._first_timestamp_ms,
            last_timestamp_ms=self._last_timestamp_ms,
            records=self._records,
            bytes=self._bytes,
            checksum=self._checksum if self._raw + self._record_path else None,
            raw_batches=self._raw,
            record_path_batches=self._record_path,
            merged_batches=self._merged or None,
            former_producer_id=self._former_producer_id,
        )

    def _unpaired(
        self,
        first_sequence: int,
        target_start: int,
        count: int,
        cause: SyncCause,
        former_producer_id: int | None,
    ) -> OffsetSync:
        return OffsetSync(
            source=self._assignment.source,
            target=self._assignment.target,
            source_leader_epoch=self.position.leader_epoch,
            source_start=self.position.source_offset,
            source_end=self.position.source_offset,
            target_start=target_start,
            target_end=target_start + count,
            first_sequence=first_sequence,
            kind=SyncKind.UNPAIRED,
            cause=cause,
            recovered=True,
            records=count,
            former_producer_id=former_producer_id,
        )


def _continues(before: OffsetSync, found: OffsetSync) -> bool:
    counted = before.records if before.former_producer_id is None else 0
    return (
        before.kind is SyncKind.UNPAIRED
        and before.cause is found.cause
        and before.former_producer_id == found.former_producer_id
        and before.target_end == found.target_start
        and next_sequence(before.first_sequence, counted) == found.first_sequence
    )
