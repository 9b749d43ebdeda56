-- name:    cluster_reach
-- answers: when did which cluster, or leaders of a topic, not answer, and who saw it?
-- grain:   writer, finding, topic, recorded_at_ms
-- reads:   operation_contents
-- params:  none
-- columns: cluster string, writer string, flow string, finding string, topic string, what string,
--          since_ms bigint, recorded_at_ms bigint, until_ms bigint, message string
-- status:  none
--
-- All outages, the latest first. flow is null for what a recorder saw, topic where the whole cluster did not answer.
-- what is unreachable or throttled. since_ms is when the first request that failed was made; until_ms when it was
-- recorded that it is over, null while that is not recorded. A writer's stamps order what it saw.
with events as (
    select
        c.writer,
        c.flow,
        c.kind,
        c.finding,
        c.topic,
        c.cluster,
        c.message,
        case
            when c.finding in ('source_throttled', 'target_throttled') then 'throttled'
            else 'unreachable'
        end as what,
        coalesce(c.since_ms, c.recorded_at_ms) as since_ms,
        c.recorded_at_ms,
        c.writer_epoch * 4294967296 + c.round as recorded_order
    from operation_contents as c
    where c.kind in ('finding_raised', 'finding_cleared')
        and c.finding in (
            'source_unreachable',
            'target_unreachable',
            'cluster_unreachable',
            'source_throttled',
            'target_throttled'
        )
),

followed as (
    select
        e.*,
        lag(e.kind) over (
            partition by e.writer, e.finding, e.topic order by e.recorded_order nulls last
        ) as previous_kind
    from events as e
),

changes as (
    select
        f.*,
        lead(f.recorded_at_ms) over (
            partition by f.writer, f.finding, f.topic order by f.recorded_order nulls last
        ) as until_ms
    from followed as f
    where coalesce(f.previous_kind <> f.kind, true)
)

select
    d.cluster,
    d.writer,
    d.flow,
    d.finding,
    d.topic,
    d.what,
    d.since_ms,
    d.recorded_at_ms,
    d.until_ms,
    d.message
from changes as d
where d.kind = 'finding_raised'
order by
    d.since_ms desc nulls last,
    d.writer nulls last,
    d.finding nulls last,
    d.topic nulls last,
    d.recorded_at_ms desc nulls last
