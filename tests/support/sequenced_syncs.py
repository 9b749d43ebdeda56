"""Offset syncs by hand, of one partition and its copy, with leader epochs and sequences."""

from ledger.facts.syncs import Gap, OffsetSync, SyncCause, SyncKind, TopicPartition

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
