-- name:    flow_status
-- answers: what has a flow mirrored of each partition so far, and does it still mirror it?
-- grain:   flow, source_topic, source_topic_id, source_partition
-- reads:   current_maps, ended_topics, last_claims, last_partition_events, offset_syncs, writers
-- params:  flow string
-- columns: flow string, source_topic string, source_topic_id string, source_partition int,
--          target_topic string, target_partition int, source_end bigint, target_end bigint,
--          records bigint, bytes bigint, raw_batches bigint, record_path_batches bigint,
--          merged_batches bigint, recovered_rows bigint, lost_offsets bigint, gap_offsets bigint,
--          last_recorded_at_ms bigint, stopped_at_ms bigint, stop_cause string, stop_message string,
--          stop_next string, status string
-- status:  gone, stopped, released, not_started, mirroring
--
-- Counts are of the target incarnation that the flow went to last. records, lost_offsets and gap_offsets are
-- what holds after supersession; bytes, batches and recovered_rows count the work that was done, with what
-- was superseded since. gone: the source topic was deleted, or has another topic id by now, so there is nothing
-- left to copy; a stop is shown all the same. An id that was never recorded as a topic's of the source counts
-- as existing. stopped: the last event of this partition stopped it. released: the flow's last word is that it
-- ended. not_started: it runs, and nothing is recorded yet, not even where it starts. mirroring: neither;
-- whether the driver is alive shows in last_recorded_at_ms, and whether it keeps up in replication_lag.
with last_words as (
    select
        w.event,
        row_number() over (
            order by
                w.writer_epoch desc nulls last,
                w.round desc nulls last,
                w.event nulls last
        ) as age
    from writers as w
    inner join params as p on p.flow = w.flow
),

maps as (
    select m.*
    from current_maps as m
    inner join params as p on p.flow = m.flow
),

worked as (
    select
        m.map_number,
        cast(sum(o.bytes) as bigint) as bytes,
        cast(sum(o.raw_batches) as bigint) as raw_batches,
        cast(sum(o.record_path_batches) as bigint) as record_path_batches,
        cast(sum(o.merged_batches) as bigint) as merged_batches,
        cast(sum(case when o.recovered then 1 else 0 end) as bigint) as recovered_rows,
        max(o.recorded_at_ms) as last_recorded_at_ms
    from offset_syncs as o
    inner join params as p on p.flow = o.flow
    inner join maps as m
        on o.source_topic = m.source_topic
        and o.source_topic_id = m.source_topic_id
        and o.source_partition = m.source_partition
        and o.target_cluster = m.target_cluster
        and o.target_topic = m.target_topic
        and o.target_topic_id = m.target_topic_id
        and o.target_partition = m.target_partition
    group by m.map_number
),

events as (
    select v.*
    from last_partition_events as v
    inner join params as p on p.flow = v.flow
),

partitions as (
    select m.flow, m.source_topic, m.source_topic_id, m.source_partition
    from maps as m
    union
    select v.flow, v.source_topic, v.source_topic_id, v.source_partition
    from events as v
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
    coalesce(w.bytes, 0) as bytes,
    coalesce(w.raw_batches, 0) as raw_batches,
    coalesce(w.record_path_batches, 0) as record_path_batches,
    coalesce(w.merged_batches, 0) as merged_batches,
    coalesce(w.recovered_rows, 0) as recovered_rows,
    coalesce(m.lost_offsets, 0) as lost_offsets,
    coalesce(m.gap_offsets, 0) as gap_offsets,
    w.last_recorded_at_ms,
    v.recorded_at_ms as stopped_at_ms,
    v.cause as stop_cause,
    v.message as stop_message,
    v.next as stop_next,
    case
        when x.topic_id is not null then 'gone'
        when v.kind is not null then 'stopped'
        when c.event = 'released' then 'released'
        when m.source_end is null then 'not_started'
        else 'mirroring'
    end as status
from partitions as a
left join last_words as c on c.age = 1
left join maps as m using (source_topic, source_topic_id, source_partition)
left join worked as w on w.map_number = m.map_number
left join events as v
    on v.source_topic = a.source_topic
    and v.source_topic_id = a.source_topic_id
    and v.source_partition = a.source_partition
    and v.kind = 'partition_stopped'
left join last_claims as s on s.flow = a.flow
left join ended_topics as x
    on x.cluster = s.source_cluster
    and x.topic = a.source_topic
    and x.topic_id = a.source_topic_id
order by
    a.flow nulls last,
    a.source_topic nulls last,
    a.source_topic_id nulls last,
    a.source_partition nulls last
