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
with claimed as (
    select
        flow,
        source_topic,
        source_topic_id,
        source_partition,
        target_cluster,
        target_topic,
        target_topic_id,
        target_partition,
        source_start,
        target_end,
        recorded_at_ms
    from effective_syncs
    where kind in ('copied', 'adopted', 'unpaired')
),

-- The lowest reading from each instant on: no claim has to be compared with each reading.
followed as (
    select
        c.*,
        min(c.read) over (
            partition by c.target_cluster, c.target_topic, c.target_topic_id, c.target_partition
            order by c.recorded_at_ms desc
        ) as lowest
    from (
        select
            *,
            cast(null as bigint) as read
        from claimed
        union all
        select
            null as flow,
            null as source_topic,
            null as source_topic_id,
            null as source_partition,
            cluster as target_cluster,
            topic as target_topic,
            topic_id as target_topic_id,
            partition as target_partition,
            null as source_start,
            null as target_end,
            read_at_ms as recorded_at_ms,
            high_watermark as read
        from high_watermarks
    ) as c
)

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
    o.lowest as high_watermark,
    min(h.read_at_ms) as read_at_ms,
    'not_on_target' as status
from followed as o
inner join high_watermarks as h
    on h.cluster = o.target_cluster
    and h.topic = o.target_topic
    and h.topic_id = o.target_topic_id
    and h.partition = o.target_partition
    and h.read_at_ms >= o.recorded_at_ms
    and h.high_watermark < o.target_end
where o.lowest < o.target_end
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
    o.recorded_at_ms,
    o.lowest
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
