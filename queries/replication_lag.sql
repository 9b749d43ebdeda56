-- name:    replication_lag
-- answers: how much of each source partition is not on the target, in records, bytes and time?
-- grain:   flow, source_topic, source_topic_id, source_partition
-- reads:   high_watermarks, offset_syncs, writers
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
-- the last offset sync: then the lag is 0. Without ends or without any map the status is unknown; that is
-- so for partitions of the source cluster that the flow does not mirror, as well. other_incarnation: the
-- flow has mapped this partition, but no offset of this topic id.
with flow_source as (
    select c.flow, c.source_cluster
    from (
        select
            w.flow,
            w.source_cluster,
            row_number() over (
                partition by w.flow
                order by w.writer_epoch desc nulls last, w.recorded_at_ms desc nulls last
            ) as age
        from writers as w
        inner join params as p on p.flow = w.flow
        where w.event = 'claimed'
    ) as c
    where c.age = 1
),

bounds as (
    select
        o.flow,
        o.source_topic,
        o.source_topic_id,
        o.source_partition,
        o.target_topic_id,
        max(o.source_end) as source_end,
        cast(sum(o.bytes) as bigint) as copied_bytes,
        cast(
            sum(case when o.kind in ('adopted', 'copied') then o.source_end - o.source_start else 0 end) as bigint
        ) as copied_offsets,
        max(o.writer_epoch * 4294967296 + o.round) as last_append
    from offset_syncs as o
    inner join params as p on p.flow = o.flow
    where o.kind in ('adopted', 'copied', 'lost')
    group by o.flow, o.source_topic, o.source_topic_id, o.source_partition, o.target_topic_id
),

-- A recreated target starts its own map; the one that the flow copied to last counts.
maps as (
    select
        b.flow,
        b.source_topic,
        b.source_topic_id,
        b.source_partition,
        b.source_end,
        b.copied_bytes,
        b.copied_offsets,
        row_number() over (
            partition by b.flow, b.source_topic, b.source_topic_id, b.source_partition
            order by b.last_append desc nulls last, b.target_topic_id nulls last
        ) as age
    from bounds as b
),

ends as (
    select
        f.flow,
        h.topic,
        h.topic_id,
        h.partition,
        h.last_stable,
        h.high_watermark,
        h.read_at_ms,
        row_number() over (
            partition by h.topic, h.topic_id, h.partition
            order by
                h.read_at_ms desc nulls last,
                h.recorded_at_ms desc nulls last,
                h.last_stable desc nulls last,
                h.high_watermark desc nulls last
        ) as age
    from high_watermarks as h
    inner join flow_source as f on f.source_cluster = h.cluster
),

partitions as (
    select m.flow, m.source_topic, m.source_topic_id, m.source_partition
    from maps as m
    where m.age = 1
    union
    select e.flow, e.topic as source_topic, e.topic_id as source_topic_id, e.partition as source_partition
    from ends as e
),

-- Whether any incarnation of the partition was ever mapped.
known as (
    select m.source_topic, m.source_partition, count(m.source_topic_id) as map_count
    from maps as m
    group by m.source_topic, m.source_partition
),

-- The earliest read that already saw more than is mirrored now.
behind_since as (
    select e.topic, e.topic_id, e.partition, min(e.read_at_ms) as behind_since_ms
    from ends as e
    inner join maps as m
        on m.source_topic = e.topic
        and m.source_topic_id = e.topic_id
        and m.source_partition = e.partition
        and m.source_end < e.last_stable
    where m.age = 1
    group by e.topic, e.topic_id, e.partition
),

measured as (
    select
        m.source_topic,
        m.source_topic_id,
        m.source_partition,
        greatest(e.last_stable, m.source_end) - m.source_end as lag_records,
        greatest(e.high_watermark, m.source_end) - m.source_end as lag_records_to_high_watermark,
        cast(m.copied_bytes as double) / nullif(m.copied_offsets, 0) as bytes_per_offset,
        b.behind_since_ms
    from maps as m
    inner join ends as e
        on e.topic = m.source_topic
        and e.topic_id = m.source_topic_id
        and e.partition = m.source_partition
        and e.age = m.age
    left join behind_since as b
        on b.topic = m.source_topic
        and b.topic_id = m.source_topic_id
        and b.partition = m.source_partition
    where m.age = 1
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
    and m.age = 1
left join ends as e
    on e.topic = a.source_topic
    and e.topic_id = a.source_topic_id
    and e.partition = a.source_partition
    and e.age = 1
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
