-- Stretches in which nothing of a flow's driver was recorded for longer than it may be silent, and how each began.
-- Parameters: flow, since_ms and until_ms, which bound them, and silent_ms.
with signs as (
    select w.recorded_at_ms, w.event
    from writers as w
    inner join params as p on w.writer = 'flow:' || p.flow
    where w.recorded_at_ms <= p.until_ms
    union all
    select s.recorded_at_ms, 'alive' as event
    from offset_syncs as s
    inner join params as p on s.writer = 'flow:' || p.flow
    where s.recorded_at_ms <= p.until_ms
),
by_time as (
    select g.recorded_at_ms, max(case when g.event = 'released' then 1 else 0 end) as is_released
    from signs as g
    group by g.recorded_at_ms
),
stretches as (
    select b.recorded_at_ms as start_ms, b.is_released,
        coalesce(lead(b.recorded_at_ms) over (order by b.recorded_at_ms), p.until_ms) as end_ms
    from by_time as b
    cross join params as p
)
select greatest(t.start_ms, p.since_ms) as start_ms, t.end_ms,
    case when t.is_released = 1 then 'released' else 'silent' end as how
from stretches as t
cross join params as p
where t.end_ms > p.since_ms and t.end_ms - t.start_ms > p.silent_ms
order by start_ms
