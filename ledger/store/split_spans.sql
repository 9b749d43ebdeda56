-- Offset syncs that were opened, of spans that hold several, by the part of its span that each belongs to: about as many
-- parts as each of them has. They are plain copies that follow each other, as the span says, by rounds and by offsets.
select
    *,
    writer_epoch * 4294967296 + round as place,
    round as first_round,
    recorded_at_ms as first_recorded_at_ms,
    target_start as span_target_start,
    cast(1 as bigint) as rows,
    not has_gaps(gaps) as is_exact,
    true as is_regular,
    records as copied,
    end_of_gaps(gaps, 'compacted') as compacted_end,
    len(list_filter(gaps, lambda gap: gap.cause = 'mirror_write')) > 0 as has_mirror_writes,
    span_number * 4294967296
    + (round - span_first_round) * cast(ceil(sqrt(span_rows)) as bigint) // (span_last_round - span_first_round + 1) as span
from opened
