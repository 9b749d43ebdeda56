-- name:    audit_l1_tiling
-- answers: where do offset syncs not tile the source: a hole, an overlap, a stretch without a cause?
-- grain:   flow, source_topic, source_topic_id, source_partition, target_topic, target_topic_id,
--          target_partition, source_start, source_end, status, finding
-- reads:   effective_syncs, gaps
-- params:  none
-- columns: flow string, source_topic string, source_topic_id string, source_partition int,
--          target_topic string, target_topic_id string, target_partition int,
--          source_start bigint, source_end bigint, expected_start bigint, finding bigint, status string
-- status:  hole, overlap, late_start, no_cause
--
-- What holds after supersession must tile; rows that say only where the flow stood must lie where one ends and
-- the next starts. A map may start anywhere, so its first row is never a hole. late_start: a row says that the
-- flow starts here, and is not the first of the map (one that a resync at once begins again is). finding numbers rows that are otherwise equal.
with stretches as (
    select
        o.flow,
        o.source_topic,
        o.source_topic_id,
        o.source_partition,
        o.target_topic,
        o.target_topic_id,
        o.target_partition,
        o.source_start,
        o.source_end,
        max(o.source_end) over (
            partition by
                o.flow,
                o.source_topic,
                o.source_topic_id,
                o.source_partition,
                o.target_topic,
                o.target_topic_id,
                o.target_partition
            order by
                o.source_start nulls last,
                o.source_end nulls last,
                o.target_start nulls last,
                o.target_end nulls last,
                case when o.kind = 'started' then 0 else 1 end nulls last
            rows between unbounded preceding and 1 preceding
        ) as expected_start,
        o.kind
    from effective_syncs as o
),

findings as (
    select s.*, 'hole' as status
    from stretches as s
    where s.source_start > s.expected_start
    union all
    select s.*, 'overlap' as status
    from stretches as s
    where s.source_start < s.expected_start
    union all
    select s.*, 'late_start' as status
    from stretches as s
    where s.kind = 'started' and s.expected_start is not null
    union all
    select
        g.flow,
        g.source_topic,
        g.source_topic_id,
        g.source_partition,
        g.target_topic,
        g.target_topic_id,
        g.target_partition,
        g.source_start,
        g.source_end,
        cast(null as bigint) as expected_start,
        g.kind,
        'no_cause' as status
    from gaps as g
    where g.cause is null
)

select
    f.flow,
    f.source_topic,
    f.source_topic_id,
    f.source_partition,
    f.target_topic,
    f.target_topic_id,
    f.target_partition,
    f.source_start,
    f.source_end,
    f.expected_start,
    cast(
        row_number() over (
            partition by
                f.flow,
                f.source_topic,
                f.source_topic_id,
                f.source_partition,
                f.target_topic,
                f.target_topic_id,
                f.target_partition,
                f.source_start,
                f.source_end,
                f.status
            order by f.expected_start nulls last
        ) as bigint
    ) as finding,
    f.status
from findings as f
order by
    f.flow nulls last,
    f.source_topic nulls last,
    f.source_topic_id nulls last,
    f.source_partition nulls last,
    f.target_topic nulls last,
    f.target_topic_id nulls last,
    f.target_partition nulls last,
    f.source_start nulls last,
    f.source_end nulls last,
    f.status nulls last,
    finding nulls last
