-- name:    flow_findings
-- answers: what needs attention at a flow though nothing stopped?
-- grain:   flow, finding, source_topic, source_partition
-- reads:   operation_contents
-- params:  flow string
-- columns: flow string, finding string, source_topic string, source_partition int, message string,
--          next string, open_since_ms bigint, raised_at_ms bigint
--
-- A finding is open when its last event raised it; of events recorded together the raising one counts. A null
-- topic or partition says that all are concerned; such a finding is cleared as it was raised. open_since_ms is
-- when it was first raised after it had last been cleared, raised_at_ms when it was raised last.
with events as (
    select
        c.flow,
        c.kind,
        c.finding,
        c.topic,
        c.partition,
        c.message,
        c.next,
        c.recorded_at_ms,
        max(case when c.kind = 'finding_cleared' then c.recorded_at_ms end) over (
            partition by c.finding, c.topic, c.partition
        ) as cleared_at_ms,
        row_number() over (
            partition by c.finding, c.topic, c.partition
            order by
                c.recorded_at_ms desc nulls last,
                c.kind desc nulls last,
                c.message asc nulls last,
                c.next asc nulls last
        ) as age
    from operation_contents as c
    inner join params as p on p.flow = c.flow
    where c.kind in ('finding_raised', 'finding_cleared')
),

dated as (
    select
        e.flow,
        e.kind,
        e.finding,
        e.topic,
        e.partition,
        e.message,
        e.next,
        e.recorded_at_ms,
        e.age,
        min(
            case
                when e.kind = 'finding_raised' and coalesce(e.recorded_at_ms >= e.cleared_at_ms, true)
                    then e.recorded_at_ms
            end
        ) over (partition by e.finding, e.topic, e.partition) as open_since_ms
    from events as e
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
