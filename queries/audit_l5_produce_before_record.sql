-- name:    audit_l5_produce_before_record
-- answers: which offset syncs claim target offsets that the target was later seen not to have?
-- grain:   flow, source_topic, source_topic_id, source_partition, target_topic, target_topic_id,
--          target_partition, source_start, target_end, recorded_at_ms
-- reads:   effective_syncs, high_watermarks
-- params:  none
-- columns: flow string, source_topic string, source_topic_id string, source_partition int,
--          target_topic string, target_topic_id string, target_partition int,
--          source_start bigint, target_end bigint, recorded_at_ms bigint, high_watermark bigint,
--          read_at_ms bigint, status string
-- status:  not_on_target
--
-- high_watermark is the lowest that was read at or after the sync was recorded, read_at_ms the first read
-- below target_end. Recorders and flows date their rows by their own clocks. A target that lost records after
-- they were acknowledged shows here until the flow finds that out and supersedes the claims.
select
    o.flow,
    o.source_topic,
    o.source_topic_id,
    o.source_partition,
    o.target_topic,
    o.target_topic_id,
    o.target_partition,
    o.source_start,
    o.target_end,
    o.recorded_at_ms,
    min(h.high_watermark) as high_watermark,
    min(h.read_at_ms) as read_at_ms,
    'not_on_target' as status
from effective_syncs as o
inner join high_watermarks as h
    on h.cluster = o.target_cluster
    and h.topic = o.target_topic
    and h.topic_id = o.target_topic_id
    and h.partition = o.target_partition
    and h.read_at_ms >= o.recorded_at_ms
    and h.high_watermark < o.target_end
where o.kind in ('copied', 'adopted', 'unpaired')
group by
    o.flow,
    o.source_topic,
    o.source_topic_id,
    o.source_partition,
    o.target_topic,
    o.target_topic_id,
    o.target_partition,
    o.source_start,
    o.target_end,
    o.recorded_at_ms
order by
    o.flow nulls last,
    o.source_topic nulls last,
    o.source_topic_id nulls last,
    o.source_partition nulls last,
    o.target_topic nulls last,
    o.target_topic_id nulls last,
    o.target_partition nulls last,
    o.source_start nulls last,
    o.target_end nulls last,
    o.recorded_at_ms nulls last
