-- name:    audit_l3_once
-- answers: which target offsets are claimed twice, by one flow or by two?
-- grain:   target_cluster, target_topic, target_topic_id, target_partition, target_start, finding
-- reads:   effective_syncs, segments
-- params:  none
-- columns: target_cluster string, target_topic string, target_topic_id string, target_partition int,
--          target_start bigint, target_end bigint, claimed_to bigint, flow string, source_topic string,
--          source_topic_id string, source_partition int, source_start bigint, finding bigint, status string
-- status:  claimed_twice
--
-- A row is a claim, a segment or an unpaired stretch, whose target range starts below what others claim
-- (claimed_to), in the order of target offsets. What was superseded claims nothing, nor does an unpaired
-- stretch without records of the flow, nor what was adopted by the maps of others: it is theirs. finding numbers
-- the claims that start at one target offset.
with theirs as (
    select flow, writer_epoch, round
    from effective_syncs
    where cause = 'through'
    group by flow, writer_epoch, round
),

claims as (
    select
        s.target_cluster,
        s.target_topic,
        s.target_topic_id,
        s.target_partition,
        s.target_start,
        s.target_start + (s.source_end - s.source_start) as target_end,
        s.flow,
        s.source_topic,
        s.source_topic_id,
        s.source_partition,
        s.source_start,
        s.source_end
    from segments as s
    left join theirs as t
        on t.flow = s.flow
        and t.writer_epoch = s.writer_epoch
        and t.round = s.round
    where t.flow is null
    union all
    select
        u.target_cluster,
        u.target_topic,
        u.target_topic_id,
        u.target_partition,
        u.target_start,
        u.target_end,
        u.flow,
        u.source_topic,
        u.source_topic_id,
        u.source_partition,
        u.source_start,
        u.source_end
    from effective_syncs as u
    where u.kind = 'unpaired' and u.records > 0
),

ordered as (
    select
        s.*,
        row_number() over (
            partition by
                s.target_cluster,
                s.target_topic,
                s.target_topic_id,
                s.target_partition
            order by
                s.target_start nulls last,
                s.flow nulls last,
                s.source_topic nulls last,
                s.source_topic_id nulls last,
                s.source_partition nulls last,
                s.source_start nulls last,
                s.source_end nulls last
        ) as place
    from claims as s
),

claimed as (
    select
        o.*,
        max(o.target_end) over (
            partition by
                o.target_cluster,
                o.target_topic,
                o.target_topic_id,
                o.target_partition
            order by o.place nulls last
            rows between unbounded preceding and 1 preceding
        ) as claimed_to
    from ordered as o
)

select
    c.target_cluster,
    c.target_topic,
    c.target_topic_id,
    c.target_partition,
    c.target_start,
    c.target_end,
    c.claimed_to,
    c.flow,
    c.source_topic,
    c.source_topic_id,
    c.source_partition,
    c.source_start,
    cast(
        row_number() over (
            partition by
                c.target_cluster,
                c.target_topic,
                c.target_topic_id,
                c.target_partition,
                c.target_start
            order by c.place nulls last
        ) as bigint
    ) as finding,
    'claimed_twice' as status
from claimed as c
where c.target_start < c.claimed_to
order by
    c.target_cluster nulls last,
    c.target_topic nulls last,
    c.target_topic_id nulls last,
    c.target_partition nulls last,
    c.target_start nulls last,
    finding nulls last
