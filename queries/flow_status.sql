-- name:    flow_status
-- answers: what has a flow mirrored of each partition so far, and is it still going on?
-- grain:   flow, source_topic, source_topic_id, source_partition
-- reads:   gaps, high_watermarks, offset_syncs, partition_events, writers
-- params:  flow string
-- columns: flow string, source_topic string, source_topic_id string, source_partition int,
--          target_topic string, target_partition int, source_end bigint, target_end bigint,
--          records bigint, bytes bigint, raw_batches bigint, record_path_batches bigint,
--          recovered_rows bigint, lost_offsets bigint, gap_offsets bigint, last_recorded_at_ms bigint,
--          lag_records bigint, stop_cause string, stop_message string, stop_next string, status string
-- status:  stopped, released, not_started, mirroring
--
-- Counts are of the target incarnation that the flow copied to last. stopped: the last event of this
-- partition stopped it. released: the flow's last word is that it ended. not_started: it runs, and nothing
-- is recorded yet. mirroring: neither; whether the driver lives shows in last_recorded_at_ms and lag_records,
-- which is null when the source's end was never read.
with claims as (
    select
        w.flow,
        w.source_cluster,
        w.event,
        row_number() over (
            partition by w.flow, w.event
            order by w.writer_epoch desc nulls last, w.recorded_at_ms desc nulls last
        ) as age,
        row_number() over (
            partition by w.flow
            order by
                w.writer_epoch desc nulls last,
                w.recorded_at_ms desc nulls last,
                w.round desc nulls last,
                w.event nulls last
        ) as age_of_all
    from writers as w
    inner join params as p on p.flow = w.flow
),

bounds as (
    select
        o.flow,
        o.source_topic,
        o.source_topic_id,
        o.source_partition,
        o.target_topic,
        o.target_topic_id,
        o.target_partition,
        max(o.source_end) as source_end,
        max(o.target_end) as target_end,
        cast(sum(o.records) as bigint) as records,
        cast(sum(o.bytes) as bigint) as bytes,
        cast(sum(o.raw_batches) as bigint) as raw_batches,
        cast(sum(o.record_path_batches) as bigint) as record_path_batches,
        cast(sum(case when o.recovered then 1 else 0 end) as bigint) as recovered_rows,
        max(o.recorded_at_ms) as last_recorded_at_ms,
        max(o.writer_epoch * 4294967296 + o.round) as last_append
    from offset_syncs as o
    inner join params as p on p.flow = o.flow
    where o.kind in ('adopted', 'copied', 'lost')
    group by
        o.flow,
        o.source_topic,
        o.source_topic_id,
        o.source_partition,
        o.target_topic,
        o.target_topic_id,
        o.target_partition
),

maps as (
    select
        b.flow,
        b.source_topic,
        b.source_topic_id,
        b.source_partition,
        b.target_topic,
        b.target_topic_id,
        b.target_partition,
        b.source_end,
        b.target_end,
        b.records,
        b.bytes,
        b.raw_batches,
        b.record_path_batches,
        b.recovered_rows,
        b.last_recorded_at_ms,
        row_number() over (
            partition by b.flow, b.source_topic, b.source_topic_id, b.source_partition
            order by
                b.last_append desc nulls last,
                b.target_topic_id nulls last,
                b.target_topic nulls last,
                b.target_partition nulls last
        ) as age
    from bounds as b
),

unmapped as (
    select
        g.source_topic,
        g.source_topic_id,
        g.source_partition,
        g.target_topic,
        g.target_topic_id,
        g.target_partition,
        cast(
            sum(case when g.kind = 'lost' then g.source_end - g.source_start else 0 end) as bigint
        ) as lost_offsets,
        cast(
            sum(case when g.kind = 'gap' then g.source_end - g.source_start else 0 end) as bigint
        ) as gap_offsets
    from gaps as g
    inner join params as p on p.flow = g.flow
    group by
        g.source_topic,
        g.source_topic_id,
        g.source_partition,
        g.target_topic,
        g.target_topic_id,
        g.target_partition
),

-- Of events recorded together the stop counts.
events as (
    select
        v.flow,
        v.source_topic,
        v.source_topic_id,
        v.source_partition,
        v.kind,
        v.cause,
        v.message,
        v.next,
        row_number() over (
            partition by v.source_topic, v.source_topic_id, v.source_partition
            order by
                v.recorded_at_ms desc nulls last,
                v.kind desc nulls last,
                v.cause nulls last,
                v.message nulls last,
                v.next nulls last
        ) as age
    from partition_events as v
    inner join params as p on p.flow = v.flow
),

partitions as (
    select m.flow, m.source_topic, m.source_topic_id, m.source_partition
    from maps as m
    union
    select v.flow, v.source_topic, v.source_topic_id, v.source_partition
    from events as v
),

ends as (
    select
        h.topic,
        h.topic_id,
        h.partition,
        h.last_stable,
        row_number() over (
            partition by h.topic, h.topic_id, h.partition
            order by
                h.read_at_ms desc nulls last, h.recorded_at_ms desc nulls last, h.last_stable desc nulls last
        ) as age
    from high_watermarks as h
    inner join claims as c on c.source_cluster = h.cluster
    where c.event = 'claimed' and c.age = 1
),

measured as (
    select
        m.source_topic,
        m.source_topic_id,
        m.source_partition,
        greatest(e.last_stable, m.source_end) - m.source_end as lag_records
    from maps as m
    inner join ends as e
        on e.topic = m.source_topic
        and e.topic_id = m.source_topic_id
        and e.partition = m.source_partition
        and e.age = m.age
    where m.age = 1
)

select
    a.flow,
    a.source_topic,
    a.source_topic_id,
    a.source_partition,
    m.target_topic,
    m.target_partition,
    m.source_end,
    m.target_end,
    coalesce(m.records, 0) as records,
    coalesce(m.bytes, 0) as bytes,
    coalesce(m.raw_batches, 0) as raw_batches,
    coalesce(m.record_path_batches, 0) as record_path_batches,
    coalesce(m.recovered_rows, 0) as recovered_rows,
    coalesce(u.lost_offsets, 0) as lost_offsets,
    coalesce(u.gap_offsets, 0) as gap_offsets,
    m.last_recorded_at_ms,
    d.lag_records,
    v.cause as stop_cause,
    v.message as stop_message,
    v.next as stop_next,
    case
        when v.kind is not null then 'stopped'
        when c.event = 'released' then 'released'
        when m.source_end is null then 'not_started'
        else 'mirroring'
    end as status
from partitions as a
left join claims as c on c.age_of_all = 1
left join maps as m
    on m.source_topic = a.source_topic
    and m.source_topic_id = a.source_topic_id
    and m.source_partition = a.source_partition
    and m.age = 1
left join unmapped as u
    on u.source_topic = m.source_topic
    and u.source_topic_id = m.source_topic_id
    and u.source_partition = m.source_partition
    and u.target_topic = m.target_topic
    and u.target_topic_id = m.target_topic_id
    and u.target_partition = m.target_partition
left join events as v
    on v.source_topic = a.source_topic
    and v.source_topic_id = a.source_topic_id
    and v.source_partition = a.source_partition
    and v.age = 1
    and v.kind = 'partition_stopped'
left join measured as d
    on d.source_topic = a.source_topic
    and d.source_topic_id = a.source_topic_id
    and d.source_partition = a.source_partition
order by
    a.flow nulls last,
    a.source_topic nulls last,
    a.source_topic_id nulls last,
    a.source_partition nulls last
