-- name:    replication_lag
-- answers: how much of each source partition is not on the target, in records, bytes and time, and as of when?
-- grain:   flow, source_topic, source_topic_id, source_partition
-- reads:   ended_topics, last_claims, last_syncs, measured_ends, offset_syncs, open_transactions, partition_lags
-- params:  flow string, fresh_since_ms bigint?
-- columns: flow string, source_topic string, source_topic_id string, source_partition int,
--          last_stable bigint, high_watermark bigint, mirrored_end bigint, source_end bigint,
--          lag_records bigint, lag_records_to_high_watermark bigint, open_since_ms bigint, lag_bytes bigint,
--          behind_since_ms bigint, lag_ms bigint, lag_ms_bound string, last_known_records bigint,
--          measured_at_ms bigint, recorded_since_ms bigint, status string
-- status:  gone, unknown, other_incarnation, beyond_end, caught_up, behind
--
-- Lag is that of one instant, measured_at_ms: the last time at which the source's ends are known, by a read or by
-- a heartbeat of the recorder. mirrored_end is where the flow stood by what it had recorded until then, so
-- newer copies are not compared with older ends; source_end is how far the map has come since. What was measured
-- before fresh_since_ms is unknown: all lag columns are null then, last_known_records has what it was. Records
-- are counted to the last stable offset, what lies above it cannot be copied yet; as offsets, so gaps of the part
-- not copied count too. open_since_ms is the first read that saw records above this last stable offset, behind a
-- transaction that is open; null where there are none. What other flows copied to there is left out, and what was
-- decided to stay there: neither is to be copied (PROTOCOL.md, "Loops", "Extras"). lag_bytes is an estimate: bytes per source offset so far, times the lag.
--
-- lag_ms is how long the first record that is to be copied has been there. at_most: counted from the last time at
-- which the source is known to have had none. at_least: it never was, so counted from the
-- first read; null when there is no other.
--
-- A row is a partition of a topic that the flow has a map of. gone: its topic was deleted or recreated at the
-- source. unknown: not measured lately, never, or not since the flow began with it, or the partition has no map (one that was added,
-- say). other_incarnation: the flow has a map of this partition, but none of this topic id. beyond_end: the flow
-- had copied more than the source had, so the source lost its end, or clocks of two hosts differ.
with ends as (
    select e.*, t.open_since_ms, c.flow, p.fresh_since_ms
    from measured_ends as e
    left join open_transactions as t using (cluster, topic, topic_id, partition)
    inner join last_claims as c on c.source_cluster = e.cluster
    inner join params as p on p.flow = c.flow
),

maps as (
    select m.flow, m.source_topic, m.source_topic_id, m.source_partition, m.source_end
    from last_syncs as m
    inner join params as p on p.flow = m.flow
),

-- Whether any incarnation of the partition was ever mapped.
known as (
    select m.source_topic, m.source_partition, count(m.source_topic_id) as map_count
    from maps as m
    group by m.source_topic, m.source_partition
),

copied as (
    select
        o.source_topic,
        o.source_topic_id,
        o.source_partition,
        min(o.recorded_at_ms) as recorded_since_ms,
        cast(sum(case when o.kind = 'copied' then o.bytes end) as double)
        / nullif(sum(case when o.kind = 'copied' then o.source_end - o.source_start end), 0) as bytes_per_offset
    from offset_syncs as o
    inner join params as p on p.flow = o.flow
    group by o.source_topic, o.source_topic_id, o.source_partition
),

partitions as (
    select m.flow, m.source_topic, m.source_topic_id, m.source_partition
    from maps as m
    union
    select e.flow, e.topic as source_topic, e.topic_id as source_topic_id, e.partition as source_partition
    from ends as e
    left join ended_topics as x using (cluster, topic, topic_id)
    where x.topic_id is null and e.topic in (select m.source_topic from maps as m)
),

judged as (
    select
        a.flow,
        a.source_topic,
        a.source_topic_id,
        a.source_partition,
        e.last_stable,
        e.high_watermark,
        d.mirrored_end,
        m.source_end,
        case when d.mirrored_end <= e.high_watermark then d.lag_records end as lag_records,
        d.lag_records_to_high_watermark,
        e.open_since_ms,
        cast(round(d.lag_records * c.bytes_per_offset) as bigint) as lag_bytes,
        coalesce(d.level_at_ms, d.behind_at_ms) as behind_since_ms,
        case
            when d.level_at_ms is null then nullif(greatest(d.measured_at_ms - d.behind_at_ms, 0), 0)
            else greatest(d.measured_at_ms - d.level_at_ms, 1)
        end as lag_ms,
        case
            when d.level_at_ms is not null then 'at_most'
            when d.measured_at_ms > d.behind_at_ms then 'at_least'
        end as lag_ms_bound,
        e.measured_at_ms,
        c.recorded_since_ms,
        case
            when x.topic_id is not null then 'gone'
            when e.measured_at_ms is null or k.map_count is null then 'unknown'
            when m.source_end is null then 'other_incarnation'
            when d.mirrored_end is null then 'unknown'
            when e.measured_at_ms < e.fresh_since_ms then 'unknown'
            when d.mirrored_end > e.high_watermark then 'beyond_end'
            when d.lag_records = 0 then 'caught_up'
            else 'behind'
        end as status
    from partitions as a
    left join last_claims as f on f.flow = a.flow
    left join ended_topics as x
        on x.cluster = f.source_cluster
        and x.topic = a.source_topic
        and x.topic_id = a.source_topic_id
    left join maps as m using (source_topic, source_topic_id, source_partition)
    left join ends as e
        on e.topic = a.source_topic
        and e.topic_id = a.source_topic_id
        and e.partition = a.source_partition
    left join known as k using (source_topic, source_partition)
    left join copied as c using (source_topic, source_topic_id, source_partition)
    left join partition_lags as d
        on d.flow = a.flow
        and d.source_topic = a.source_topic
        and d.source_topic_id = a.source_topic_id
        and d.source_partition = a.source_partition
)

select
    j.flow,
    j.source_topic,
    j.source_topic_id,
    j.source_partition,
    j.last_stable,
    j.high_watermark,
    j.mirrored_end,
    j.source_end,
    case when j.status in ('caught_up', 'behind') then j.lag_records end as lag_records,
    case
        when j.status in ('caught_up', 'behind') then j.lag_records_to_high_watermark
    end as lag_records_to_high_watermark,
    j.open_since_ms,
    case when j.status in ('caught_up', 'behind') then j.lag_bytes end as lag_bytes,
    case when j.status = 'behind' then j.behind_since_ms end as behind_since_ms,
    case when j.status = 'behind' then j.lag_ms end as lag_ms,
    case when j.status = 'behind' then j.lag_ms_bound end as lag_ms_bound,
    j.lag_records as last_known_records,
    j.measured_at_ms,
    j.recorded_since_ms,
    j.status
from judged as j
order by
    j.flow nulls last,
    j.source_topic nulls last,
    j.source_topic_id nulls last,
    j.source_partition nulls last
