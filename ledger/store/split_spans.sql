-- Offset syncs of spans that are `wanted` and hold several, by the part of its span that each belongs to: about as many parts
-- as each has offset syncs. They are plain copies that follow each other, as the span says, by rounds and by offsets.
select
    f.*,
    w.hour,
    f.writer_epoch * 4294967296 + f.round as place,
    f.round as first_round,
    f.recorded_at_ms as first_recorded_at_ms,
    f.target_start as span_target_start,
    cast(1 as bigint) as rows,
    not has_gaps(f.gaps) as is_exact,
    true as is_regular,
    f.records as copied,
    end_of_gaps(f.gaps, 'compacted') as compacted_end,
    len(list_filter(f.gaps, lambda gap: gap.cause = 'mirror_write')) > 0 as has_mirror_writes,
    w.span_number * 4294967296
    + (f.round - w.first_round) * cast(ceil(sqrt(w.rows)) as bigint) // (w.round - w.first_round + 1) as span
from facts as f
inner join wanted as w
    on w.flow = f.flow
    and w.source_topic = f.source_topic
    and w.source_topic_id = f.source_topic_id
    and w.source_partition = f.source_partition
    and w.writer_epoch = f.writer_epoch
    and w.kind = f.kind
    and w.first_round <= f.round
    and w.round >= f.round
    and w.source_start <= f.source_start
    and w.source_end >= f.source_end
