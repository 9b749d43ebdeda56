-- name:    replication_lag
-- answers: how much of each source partition is not on the target, in records, bytes and time?
-- grain:   flow, source_topic, source_topic_id, source_partition
-- reads:   current_maps, high_watermarks, last_high_watermarks, offset_syncs, writers
-- params:  flow string
-- columns: flow string, source_topic string, source_topic_id string, source_partition int,
--          last_stable bigint, high_watermark bigint, mirrored_end bigint,
--          lag_records bigint, lag_records_to_high_watermark bigint, lag_bytes bigint,
--          behind_since_ms bigint, lag_ms bigint, measured_at_ms bigint, status string
-- status:  unknown, other_incarnation, caught_up, behind
--
-- Lag is measured at the last read of the source's ends (measured_at_ms), to the last stable offset: what
-- lies above it cannot be copied yet. Records are counted as offsets, so gaps of the part not yet copied
-- count too. lag_bytes is an estimate: bytes per source offset so far, times the lag. Ends may be older than
-- the last offset sync: then the lag is 0. A row is a partition of a topic that the flow has a map of; other
-- topics of the source are not its business. Without ends, or without a map of the partition (one that was
-- added, say), the status is unknown. other_incarnation: the flow has a map of this partition, but none of
-- this topic id. A map is what holds after supersession.
with flow_source as (
    select c.flow, c.source_cluster
    from (
        select
            w.flow,
            w.source_cluster,
            row_number() over (
                partition by w.flow
                order by w.writer_epoch desc nulls last
            ) as age
        from writers as w
        inner join params as p on p.flow = w.flow
        where w.event = 'claimed'
    ) as c
    where c.age = 1
),

maps as (
    select m.flow, m.source_topic, m.source_topic_id, m.source_partition, m.source_end
    from current_maps as m
    inner join params as p on p.flow = m.flow
),

copied as (
    select
        o.source_topic,
        o.source_topic_id,
        o.source_partition,
        cast(sum(o.bytes) as double) / nullif(sum(o.source_end - o.source_start), 0) as bytes_per_offset
    from offset_syncs as o
    inner join params as p on p.flow = o.flow
    where o.kind = 'copied'
    group by o.source_topic, o.source_topic_id, o.source_partition
),

ends as (
    select f.flow, h.topic, h.topic_id, h.partition, h.last_stable, h.high_watermark, h.read_at_ms
    from last_high_watermarks as h
    inner join flow_source as f on f.source_cluster = h.cluster
),

mapped_topics as (
    select m.source_topic
    from maps as m
    group by m.source_topic
),

partitions as (
    select m.flow, m.source_topic, m.source_topic_id, m.source_partition
    from maps as m
    union
    select e.flow, e.topic as source_topic, e.topic_id as source_topic_id, e.partition as source_partition
    from ends as e
    inner join mapped_topics as t on t.source_topic = e.topic
),

-- Whether any incarnation of the partition was ever mapped.
known as (
    select m.source_topic, m.source_partition, count(m.source_topic_id) as map_count
    from maps as m
    group by m.source_topic, m.source_partition
),

-- The earliest read that already saw more than is mirrored now.
behind_since as (
    select h.topic, h.topic_id, h.partition, min(h.read_at_ms) as behind_since_ms
    from high_watermarks as h
    inner join flow_source as f on f.source_cluster = h.cluster
    inner join maps as m
        on m.source_topic = h.topic
        and m.source_topic_id = h.topic_id
        and m.source_partition = h.partition
        and m.source_end < h.last_stable
    group by h.topic, h.topic_id, h.partition
),

measured as (
    select
        m.source_topic,
        m.source_topic_id,
        m.source_partition,
        greatest(e.last_stable, m.source_end) - m.source_end as lag_records,
        greatest(e.high_watermark, m.source_end) - m.source_end as lag_records_to_high_watermark,
        c.bytes_per_offset,
        b.behind_since_ms
    from maps as m
    inner join ends as e
        on e.topic = m.source_topic
        and e.topic_id = m.source_topic_id
        and e.partition = m.source_partition
    left join copied as c
        on c.source_topic = m.source_topic
        and c.source_topic_id = m.source_topic_id
        and c.source_partition = m.source_partition
    left join behind_since as b
        on b.topic = m.source_topic
        and b.topic_id = m.source_topic_id
        and b.partition = m.source_partition
)

select
    a.flow,
    a.source_topic,
    a.source_topic_id,
    a.source_partition,
    e.last_stable,
    e.high_watermark,
    m.source_end as mirrored_end,
    d.lag_records,
    d.lag_records_to_high_watermark,
    cast(round(d.lag_records * d.bytes_per_offset) as bigint) as lag_bytes,
    case when d.lag_records > 0 then d.behind_since_ms end as behind_since_ms,
    case when d.lag_records > 0 then e.read_at_ms - d.behind_since_ms end as lag_ms,
    e.read_at_ms as measured_at_ms,
    case
        when e.read_at_ms is null then 'unknown'
        when k.map_count is null then 'unknown'
        when d.lag_records is null then 'other_incarnation'
        when d.lag_records = 0 then 'caught_up'
        else 'behind'
    end as status
from partitions as a
left join maps as m
    on m.source_topic = a.source_topic
    and m.source_topic_id = a.source_topic_id
    and m.source_partition = a.source_partition
left join ends as e
    on e.topic = a.source_topic
    and e.topic_id = a.source_topic_id
    and e.partition = a.source_partition
left join measured as d
    on d.source_topic = a.source_topic
    and d.source_topic_id = a.source_topic_id
    and d.source_partition = a.source_partition
left join known as k
    on k.source_topic = a.source_topic
    and k.source_partition = a.source_partition
order by
    a.flow nulls last,
    a.source_topic nulls last,
    a.source_topic_id nulls last,
    a.source_partition nulls last
