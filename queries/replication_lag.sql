-- name:    replication_lag
-- answers: how much of each source partition is not on the target, in records, bytes and time, and as of when?
-- grain:   flow, source_topic, source_topic_id, source_partition
-- reads:   effective_syncs, ended_topics, high_watermarks, last_claims, last_high_watermarks, last_syncs,
--          offset_syncs, relaying_flows, writers
-- params:  flow string, fresh_since_ms bigint?
-- columns: flow string, source_topic string, source_topic_id string, source_partition int,
--          last_stable bigint, high_watermark bigint, mirrored_end bigint, source_end bigint,
--          lag_records bigint, lag_records_to_high_watermark bigint, lag_bytes bigint,
--          behind_since_ms bigint, lag_ms bigint, lag_ms_bound string, last_known_records bigint,
--          measured_at_ms bigint, recorded_since_ms bigint, status string
-- status:  gone, unknown, other_incarnation, beyond_end, caught_up, behind
--
-- Lag is that of one instant, measured_at_ms: the last time at which the source's ends are known, by a read or by
-- a sign of life of the recorder. mirrored_end is where the flow stood by what it had recorded until then, so
-- newer copies are not set against older ends; source_end is how far the map has come since. What was measured
-- before fresh_since_ms is unknown: all lag columns are null then, last_known_records has what it was. Records
-- are counted to the last stable offset, what lies above it cannot be copied yet; as offsets, so gaps of the part
-- not copied count too. What other flows copied to there is left out, it is not to be copied (PROTOCOL.md,
-- "Loops"). lag_bytes is an estimate: bytes per source offset so far, times the lag.
--
-- lag_ms is how long the first record that is not copied has been there. at_most: counted from the last time at
-- which the source is known to have had no more than is mirrored. at_least: it never was, so counted from the
-- first read; null when there is no other.
--
-- A row is a partition of a topic that the flow has a map of. gone: its topic ended at the source. unknown: not
-- measured lately, never, or not since the flow began with it, or the partition has no map (one that was added,
-- say). other_incarnation: the flow has a map of this partition, but none of this topic id. beyond_end: the flow
-- had copied more than the source had, so the source lost its end, or clocks of two hosts differ.
with flow_source as (
    select c.flow, c.source_cluster, p.fresh_since_ms
    from last_claims as c
    inner join params as p on p.flow = c.flow
),

-- At such a place all ends were what the recorder of the source had recorded last, in the same epoch.
signs as (
    select w.writer_epoch, w.round, w.recorded_at_ms
    from writers as w
    inner join flow_source as f on f.source_cluster = w.source_cluster
    where w.event = 'alive' and w.flow is null
),

last_signs as (
    select s.writer_epoch, max(s.round) as round, max_by(s.recorded_at_ms, s.round) as recorded_at_ms
    from signs as s
    group by s.writer_epoch
),

ends as (
    select
        f.flow,
        h.cluster,
        h.topic,
        h.topic_id,
        h.partition,
        h.last_stable,
        h.high_watermark,
        h.read_at_ms,
        f.fresh_since_ms,
        coalesce(s.recorded_at_ms, h.read_at_ms) as measured_at_ms
    from last_high_watermarks as h
    inner join flow_source as f on f.source_cluster = h.cluster
    left join last_signs as s on s.writer_epoch = h.writer_epoch and s.round > h.round
),

ended as (
    select t.topic, t.topic_id
    from ended_topics as t
    inner join flow_source as f on f.source_cluster = t.cluster
),

maps as (
    select
        m.flow,
        m.source_topic,
        m.source_topic_id,
        m.source_partition,
        m.source_end,
        m.target_cluster,
        m.target_topic,
        m.target_topic_id
    from last_syncs as m
    inner join params as p on p.flow = m.flow
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
    left join ended as x
        on x.topic = e.topic
        and x.topic_id = e.topic_id
    where x.topic_id is null
),

-- Whether any incarnation of the partition was ever mapped.
known as (
    select m.source_topic, m.source_partition, count(m.source_topic_id) as map_count
    from maps as m
    group by m.source_topic, m.source_partition
),

-- What the flow had recorded when the ends were what they are taken for. A sign of life is dated after its look:
-- what was recorded since the read and lies beyond the end came later.
recorded_then as (
    select
        o.source_topic,
        o.source_topic_id,
        o.source_partition,
        o.kind,
        o.source_start,
        o.source_end,
        o.writer_epoch * 4294967296 + o.round as recorded_order
    from offset_syncs as o
    inner join params as p on p.flow = o.flow
    inner join ends as e
        on e.topic = o.source_topic
        and e.topic_id = o.source_topic_id
        and e.partition = o.source_partition
        and e.measured_at_ms >= o.recorded_at_ms
    where e.read_at_ms >= o.recorded_at_ms or o.source_end <= e.high_watermark
),

last_then as (
    select o.source_topic, o.source_topic_id, o.source_partition, max(o.recorded_order) as recorded_order
    from recorded_then as o
    group by o.source_topic, o.source_topic_id, o.source_partition
),

-- As the view last_syncs has it for the last row of all.
stood as (
    select
        o.source_topic,
        o.source_topic_id,
        o.source_partition,
        coalesce(min(case when o.kind = 'superseded' then o.source_start end), max(o.source_end)) as mirrored_end
    from recorded_then as o
    inner join last_then as l
        on l.source_topic = o.source_topic
        and l.source_topic_id = o.source_topic_id
        and l.source_partition = o.source_partition
        and l.recorded_order = o.recorded_order
    group by o.source_topic, o.source_topic_id, o.source_partition
),

-- Copies by flows behind what is mirrored; those of a former life of the target are copied all the same.
written_by_flows as (
    select
        s.source_topic,
        s.source_topic_id,
        s.source_partition,
        cast(
            sum(least(o.target_end, e.high_watermark) - greatest(o.target_start, s.mirrored_end)) as bigint
        ) as offsets_to_high_watermark,
        cast(
            sum(
                greatest(least(o.target_end, e.last_stable) - greatest(o.target_start, s.mirrored_end), 0)
            ) as bigint
        ) as offsets_to_last_stable
    from stood as s
    inner join ends as e
        on e.topic = s.source_topic
        and e.topic_id = s.source_topic_id
        and e.partition = s.source_partition
    inner join maps as m
        on m.source_topic = s.source_topic
        and m.source_topic_id = s.source_topic_id
        and m.source_partition = s.source_partition
    inner join effective_syncs as o
        on o.target_cluster = e.cluster
        and o.target_topic = e.topic
        and o.target_topic_id = e.topic_id
        and o.target_partition = e.partition
        and o.target_start < e.high_watermark
        and o.target_end > s.mirrored_end
    left join relaying_flows as r on r.flow = m.flow
    where
        r.flow is null
        and o.kind in ('copied', 'adopted')
        and not (
            o.source_cluster = m.target_cluster
            and o.source_topic = m.target_topic
            and o.source_topic_id <> m.target_topic_id
        )
    group by s.source_topic, s.source_topic_id, s.source_partition
),

measured as (
    select
        s.source_topic,
        s.source_topic_id,
        s.source_partition,
        s.mirrored_end,
        e.measured_at_ms,
        greatest(e.last_stable, s.mirrored_end) - s.mirrored_end
        - coalesce(w.offsets_to_last_stable, 0) as lag_records,
        greatest(e.high_watermark, s.mirrored_end) - s.mirrored_end
        - coalesce(w.offsets_to_high_watermark, 0) as lag_records_to_high_watermark
    from stood as s
    inner join ends as e
        on e.topic = s.source_topic
        and e.topic_id = s.source_topic_id
        and e.partition = s.source_partition
    left join written_by_flows as w
        on w.source_topic = s.source_topic
        and w.source_topic_id = s.source_topic_id
        and w.source_partition = s.source_partition
),

reads_of_behind as (
    select
        h.topic,
        h.topic_id,
        h.partition,
        h.read_at_ms,
        h.last_stable,
        d.mirrored_end,
        h.writer_epoch,
        h.writer_epoch * 4294967296 + h.round as recorded_order
    from high_watermarks as h
    inner join flow_source as f on f.source_cluster = h.cluster
    inner join measured as d
        on d.source_topic = h.topic
        and d.source_topic_id = h.topic_id
        and d.source_partition = h.partition
    where d.lag_records > 0
),

last_level as (
    select
        h.topic,
        h.topic_id,
        h.partition,
        max(h.recorded_order) as recorded_order,
        max_by(h.writer_epoch, h.recorded_order) as writer_epoch,
        max_by(h.read_at_ms, h.recorded_order) as read_at_ms
    from reads_of_behind as h
    where h.last_stable <= h.mirrored_end
    group by h.topic, h.topic_id, h.partition
),

-- The first read that saw more than is mirrored, and that has held since.
first_behind as (
    select
        h.topic,
        h.topic_id,
        h.partition,
        min(h.recorded_order) as recorded_order,
        min_by(h.read_at_ms, h.recorded_order) as read_at_ms
    from reads_of_behind as h
    left join last_level as l
        on l.topic = h.topic
        and l.topic_id = h.topic_id
        and l.partition = h.partition
    where coalesce(l.recorded_order, -1) < h.recorded_order
    group by h.topic, h.topic_id, h.partition
),

confirmed_level as (
    select l.topic, l.topic_id, l.partition, max(s.recorded_at_ms) as recorded_at_ms
    from last_level as l
    inner join first_behind as b
        on b.topic = l.topic
        and b.topic_id = l.topic_id
        and b.partition = l.partition
    inner join signs as s
        on s.writer_epoch = l.writer_epoch
        and s.writer_epoch * 4294967296 + s.round > l.recorded_order
        and s.writer_epoch * 4294967296 + s.round < b.recorded_order
    group by l.topic, l.topic_id, l.partition
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
        cast(round(d.lag_records * c.bytes_per_offset) as bigint) as lag_bytes,
        coalesce(s.recorded_at_ms, l.read_at_ms, b.read_at_ms) as behind_since_ms,
        case
            when l.read_at_ms is null then nullif(greatest(d.measured_at_ms - b.read_at_ms, 0), 0)
            else greatest(d.measured_at_ms - coalesce(s.recorded_at_ms, l.read_at_ms), 1)
        end as lag_ms,
        case
            when l.read_at_ms is not null then 'at_most'
            when d.measured_at_ms > b.read_at_ms then 'at_least'
        end as lag_ms_bound,
        e.measured_at_ms,
        c.recorded_since_ms,
        case
            when x.topic_id is not null then 'gone'
            when e.measured_at_ms is null then 'unknown'
            when k.map_count is null then 'unknown'
            when m.source_end is null then 'other_incarnation'
            when d.mirrored_end is null then 'unknown'
            when e.measured_at_ms < e.fresh_since_ms then 'unknown'
            when d.mirrored_end > e.high_watermark then 'beyond_end'
            when d.lag_records = 0 then 'caught_up'
            else 'behind'
        end as status
    from partitions as a
    left join ended as x
        on x.topic = a.source_topic
        and x.topic_id = a.source_topic_id
    left join maps as m
        on m.source_topic = a.source_topic
        and m.source_topic_id = a.source_topic_id
        and m.source_partition = a.source_partition
    left join ends as e
        on e.topic = a.source_topic
        and e.topic_id = a.source_topic_id
        and e.partition = a.source_partition
    left join known as k
        on k.source_topic = a.source_topic
        and k.source_partition = a.source_partition
    left join copied as c
        on c.source_topic = a.source_topic
        and c.source_topic_id = a.source_topic_id
        and c.source_partition = a.source_partition
    left join measured as d
        on d.source_topic = a.source_topic
        and d.source_topic_id = a.source_topic_id
        and d.source_partition = a.source_partition
    left join last_level as l
        on l.topic = a.source_topic
        and l.topic_id = a.source_topic_id
        and l.partition = a.source_partition
    left join first_behind as b
        on b.topic = a.source_topic
        and b.topic_id = a.source_topic_id
        and b.partition = a.source_partition
    left join confirmed_level as s
        on s.topic = a.source_topic
        and s.topic_id = a.source_topic_id
        and s.partition = a.source_partition
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
