-- name:    stray_records
-- answers: which offsets of a flow's target topics were written by none of the recorded flows, and when?
-- grain:   flow, target_topic, target_topic_id, target_partition, target_start
-- reads:   effective_syncs, last_high_watermarks, last_syncs
-- params:  flow string
-- columns: flow string, target_cluster string, target_topic string, target_topic_id string, target_partition int,
--          target_start bigint, target_end bigint, offsets bigint, since_ms bigint, until_ms bigint,
--          measured_at_ms bigint, status string
-- status:  unknown, not_recorded, before, stray, undetermined
--
-- Of use where all applications publish to one topic (<T>_REPLICA, say) and flows alone write to another (<T>): there
-- each stray offset is somebody who publishes to <T> directly. Where applications may write to the target too, the rows
-- are simply theirs. Control records cannot be told from records: a transaction's marker, and the abort marker of a
-- producer id, are an offset that no flow wrote. Nor can batches that a flow wrote and could not pair, where no row has
-- them.
--
-- Looked at are the target partitions that the flow went to last, in that incarnation, and what rows of all flows
-- (copied, adopted, unpaired) claim there, after supersession. What accept-foreign accepted is stray all the same.
-- before: in front of the first claim, from the log start on. stray: between two claims, whose rows were recorded at
-- since_ms and until_ms; a row is recorded about a round after its records were appended. undetermined: a flow passed it
-- and could not tell what it was (unpaired without records: retention at the target, or behind what was adopted).
-- not_recorded: behind the last claim, up to the high watermark read at measured_at_ms: strays, or copies that are not
-- recorded yet. unknown: no end of that incarnation was ever read, so nobody knows what lies behind the last claim, nor
-- how much of what lies before the first one was ever there.
with targets as (
    select m.flow, m.target_cluster, m.target_topic, m.target_topic_id, m.target_partition
    from last_syncs as m
    inner join params as p on p.flow = m.flow
    group by m.flow, m.target_cluster, m.target_topic, m.target_topic_id, m.target_partition
),

ends as (
    select t.*, h.log_start, h.high_watermark, h.read_at_ms as measured_at_ms
    from targets as t
    left join last_high_watermarks as h
        on h.cluster = t.target_cluster
        and h.topic = t.target_topic
        and h.topic_id = t.target_topic_id
        and h.partition = t.target_partition
),

-- Behind all claims the high watermark, null where it is not known.
claims as (
    select
        t.target_topic_id,
        t.target_partition,
        o.target_start,
        o.target_end,
        case when o.kind = 'unpaired' and o.records = 0 then 'passed' else 'claim' end as what,
        o.recorded_at_ms
    from targets as t
    inner join effective_syncs as o
        on o.target_cluster = t.target_cluster
        and o.target_topic_id = t.target_topic_id
        and o.target_partition = t.target_partition
    where o.kind in ('copied', 'adopted', 'unpaired') and o.target_start < o.target_end
    union all
    select
        e.target_topic_id,
        e.target_partition,
        e.high_watermark as target_start,
        e.high_watermark as target_end,
        'end' as what,
        cast(null as bigint) as recorded_at_ms
    from ends as e
),

ordered as (
    select
        c.*,
        max(c.target_end) over (
            partition by c.target_topic_id, c.target_partition
            order by c.target_start nulls last, c.target_end nulls last
            rows between unbounded preceding and 1 preceding
        ) as claimed_to,
        lag(c.recorded_at_ms) over (
            partition by c.target_topic_id, c.target_partition
            order by c.target_start nulls last, c.target_end nulls last
        ) as since_ms
    from claims as c
),

found as (
    select
        o.target_topic_id,
        o.target_partition,
        coalesce(o.claimed_to, e.log_start, 0) as target_start,
        o.target_start as target_end,
        o.since_ms,
        o.recorded_at_ms as until_ms,
        case
            when o.target_start is null or coalesce(o.claimed_to, e.log_start) is null then 'unknown'
            when o.what = 'end' then 'not_recorded'
            when o.claimed_to is null then 'before'
            else 'stray'
        end as status
    from ordered as o
    inner join ends as e using (target_topic_id, target_partition)
    where coalesce(o.target_start > coalesce(o.claimed_to, e.log_start, 0), true)
    union all
    select
        c.target_topic_id,
        c.target_partition,
        c.target_start,
        c.target_end,
        cast(null as bigint) as since_ms,
        c.recorded_at_ms as until_ms,
        'undetermined' as status
    from claims as c
    where c.what = 'passed'
)

select
    e.flow,
    e.target_cluster,
    e.target_topic,
    e.target_topic_id,
    e.target_partition,
    f.target_start,
    f.target_end,
    f.target_end - f.target_start as offsets,
    f.since_ms,
    f.until_ms,
    e.measured_at_ms,
    f.status
from found as f
inner join ends as e using (target_topic_id, target_partition)
order by
    e.flow nulls last,
    e.target_topic nulls last,
    e.target_topic_id nulls last,
    e.target_partition nulls last,
    f.target_start nulls last
