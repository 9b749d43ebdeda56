-- name:    flow_findings
-- answers: what needs attention at a flow though nothing stopped?
-- grain:   flow, finding, source_topic, source_partition
-- reads:   operation_contents
-- params:  flow string
-- columns: flow string, finding string, source_topic string, source_partition int, message string,
--          next string, open_since_ms bigint, raised_at_ms bigint
--
-- A finding is open when its last event raised it. Its events are those of the flow's drivers, so their stamps
-- order them. A null topic or partition says that all are concerned; such a finding is cleared as it was raised.
-- open_since_ms is since when it holds: what was said when it was first raised after it had last been cleared, else
-- when that was; raised_at_ms is when it was raised last.
with events as (
    select
        c.flow,
        c.kind,
        c.finding,
        c.topic,
        c.partition,
        c.message,
        c.next,
        coalesce(c.since_ms, c.recorded_at_ms) as since_ms,
        c.recorded_at_ms,
        c.writer_epoch * 4294967296 + c.round as recorded_order
    from operation_contents as c
    inner join params as p on p.flow = c.flow
    where c.kind in ('finding_raised', 'finding_cleared')
),

ordered as (
    select
        e.flow,
        e.kind,
        e.finding,
        e.topic,
        e.partition,
        e.message,
        e.next,
        e.since_ms,
        e.recorded_at_ms,
        e.recorded_order,
        max(case when e.kind = 'finding_cleared' then e.recorded_order end) over (
            partition by e.finding, e.topic, e.partition
        ) as cleared_order,
        row_number() over (
            partition by e.finding, e.topic, e.partition
            order by
                e.recorded_order desc nulls last,
                e.kind desc nulls last,
                e.message asc nulls last,
                e.next asc nulls last
        ) as age
    from events as e
),

dated as (
    select
        o.flow,
        o.kind,
        o.finding,
        o.topic,
        o.partition,
        o.message,
        o.next,
        o.recorded_at_ms,
        o.age,
        min(
            case
                when o.kind = 'finding_raised' and coalesce(o.recorded_order >= o.cleared_order, true)
                    then o.since_ms
            end
        ) over (partition by o.finding, o.topic, o.partition) as open_since_ms
    from ordered as o
)

select
    d.flow,
    d.finding,
    d.topic as source_topic,
    d.partition as source_partition,
    d.message,
    d.next,
    d.open_since_ms,
    d.recorded_at_ms as raised_at_ms
from dated as d
where d.age = 1 and d.kind = 'finding_raised'
order by d.flow nulls last, d.finding nulls last, d.topic nulls last, d.partition nulls last
