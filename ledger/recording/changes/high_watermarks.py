"""Which ends of partitions are worth a row: those that changed, all on a full sweep."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ledger.domain.facts import HighWatermark

HighWatermarkKey = tuple[str, int]
"""Topic and partition of a cluster."""


def high_watermark_key(row: HighWatermark) -> HighWatermarkKey:
    return row.topic, row.partition


def high_watermarks_by_key(rows: Sequence[HighWatermark]) -> dict[HighWatermarkKey, HighWatermark]:
    return {high_watermark_key(row): row for row in rows}


def changed_high_watermarks(
    last: Mapping[HighWatermarkKey, HighWatermark], read: Mapping[HighWatermarkKey, HighWatermark]
) -> list[HighWatermark]:
    """Rows to append, by topic and partition; another topic id is a change."""
    changed = [row for key, row in read.items() if key not in last or not _same(last[key], row)]
    return sorted(changed, key=high_watermark_key)


def _same(last: HighWatermark, now: HighWatermark) -> bool:
    """Whatever the rows say of the read itself."""
    return _end_alone(now) == _end_alone(last)


def _end_alone(row: HighWatermark) -> HighWatermark:
    return replace(row, read_at_ms=0, confirms_others=None, previous_read_at_ms=None)
