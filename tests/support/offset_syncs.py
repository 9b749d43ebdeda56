"""Offset syncs by hand: of a topic that is gone and where copies of it are held, with leader epochs and sequences."""

from collections.abc import Sequence

from ledger.facts.rows import FlowIdentity, sync_row
from ledger.facts.syncs import Gap, GapCause, OffsetSync, SyncCause, SyncKind, TopicPartition

# -- Of a topic that is gone -----------------------------------------------------------------------

LOST = TopicPartition("orders", "lost", 0)
HELD = TopicPartition("orders", "at-b", 0)
ALSO_HELD = TopicPartition("orders", "at-c", 0)
EAST_TO_WEST = FlowIdentity("east-to-west", "east", "west")
ELSEWHERE = FlowIdentity("south-to-west", "south", "west")


def sync(
    source: tuple[int, int],
    target_start: int,
    *,
    origin: TopicPartition = LOST,
    target: TopicPartition = HELD,
    gaps: Sequence[tuple[int, int]] = (),
    kind: SyncKind = SyncKind.COPIED,
) -> OffsetSync:
    records = source[1] - source[0] - sum(end - start for start, end in gaps)
    return OffsetSync(
        source=origin,
        target=target,
        source_leader_epoch=None,
        source_start=source[0],
        source_end=source[1],
        target_start=target_start,
        target_end=target_start + records,
        first_sequence=0,
        gaps=tuple(Gap(start, end, GapCause.CONTROL) for start, end in gaps),
        kind=kind,
        cause=None,
        recovered=False,
        first_timestamp_ms=None,
        last_timestamp_ms=None,
        records=records,
        bytes=0,
        checksum=None,
        raw_batches=0,
        record_path_batches=0,
    )


def stamped(identity: FlowIdentity, round_number: int, found: OffsetSync) -> dict[str, object]:
    """Its row, as the flow records it in a round of its first epoch."""
    stamp = {
        "writer": f"flow:{identity.flow}",
        "writer_epoch": 1,
        "round": round_number,
        "recorded_at_ms": round_number,
    }
    return {**stamp, **sync_row(identity, found)}


# -- With leader epochs and sequences --------------------------------------------------------------

ORIGIN, COPY = TopicPartition("orders", "s", 0), TopicPartition("east.orders", "t", 0)
_NO_GAPS: tuple[Gap, ...] = ()


def row(
    source: tuple[int, int],
    target: tuple[int, int],
    sequence: int,
    *,
    kind: SyncKind = SyncKind.COPIED,
    gaps: tuple[Gap, ...] = _NO_GAPS,
    epoch: int | None = 5,
) -> OffsetSync:
    return OffsetSync(
        source=ORIGIN,
        target=COPY,
        source_leader_epoch=epoch,
        source_start=source[0],
        source_end=source[1],
        target_start=target[0],
        target_end=target[1],
        first_sequence=sequence,
        gaps=gaps,
        kind=kind,
        cause=None if kind is SyncKind.COPIED else SyncCause.RESYNC,
        recovered=False,
        first_timestamp_ms=None,
        last_timestamp_ms=None,
        records=target[1] - target[0],
        bytes=0,
        checksum=None,
        raw_batches=0,
        record_path_batches=0,
    )
