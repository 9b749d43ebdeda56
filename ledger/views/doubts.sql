-- What maps say of records that another flow found to be lost: rows in doubt.

-- Segments of what each map holds. There are millions, and several views read them, these columns alone.
create or replace temporary view map_segments as
select map_number, source_start, source_end, target_start
from segments
where is_current;

-- Source offsets that hold what flows wrote there, by the maps that left them out.
create or replace temporary view mirror_writes as
with written as (
    select map_number, is_current, explode(gaps) as gap
    from effective_syncs
    where end_of_gaps(gaps, 'mirror_write') is not null
)

select map_number, is_current, gap.source_start as source_start, gap.source_end as source_end
from written
where gap.cause = 'mirror_write';

-- Ends of logs that a flow found lost, and that come back by decision, with the log that they come back from. They were
-- found while no driver of that way was at work: what it wrote since is younger, whatever clocks say.
create or replace temporary view returning_cuts as
select l.map_number, m.target_log, o.source_start as log_offset, o.recorded_at_ms
from offset_syncs as o
inner join last_syncs as l using (flow, source_topic, source_topic_id, source_partition)
inner join map_logs as m on m.map_number = l.map_number
where o.cause = 'returning'
group by l.map_number, m.target_log, o.source_start, o.recorded_at_ms;

-- Rows that say what lies at a target, in doubt from an offset of it on: another flow found its end lost there, and
-- they may be older. Not those that a flow has seen again as mirrors' records since, where one source alone is copied
-- to that target.
create or replace temporary view doubted_rows as
with doubted as (
    select
        l.map_number,
        o.writer_epoch * 4294967296 + o.round as recorded_order,
        o.kind,
        o.source_start,
        o.target_start,
        o.target_end,
        c.log_number,
        c.log_offset,
        c.recorded_at_ms,
        greatest(o.target_start, c.log_offset) as doubted_from
    from log_truncations as c
    inner join logs as g on g.log_number = c.log_number
    inner join offset_syncs as o
        on o.target_cluster = g.cluster
        and o.target_topic = g.topic
        and o.target_topic_id = g.topic_id
        and o.target_partition = g.partition
        and o.target_end > c.log_offset
        and o.recorded_at_ms <= c.recorded_at_ms + 300000
    inner join last_syncs as l using (flow, source_topic, source_topic_id, source_partition)
    inner join map_logs as w on w.map_number = l.map_number
    left join returning_cuts as r
        on c.is_reader and r.map_number = c.map_number and r.target_log = w.source_log
        and r.log_offset = c.log_offset and r.recorded_at_ms = c.recorded_at_ms
    where l.map_number <> c.map_number and r.map_number is null
        and (o.kind in ('copied', 'adopted') or o.kind = 'unpaired' and o.records > 0)
),

sources as (
    select target_log, source_log
    from map_logs
    union
    select t.log_number as target_log, s.log_number as source_log
    from partition_ways as w
    inner join logs as s
        on s.cluster = w.source_cluster
        and s.topic = w.source_topic
        and s.topic_id = w.source_topic_id
        and s.partition = w.source_partition
    inner join logs as t
        on t.cluster = w.target_cluster
        and t.topic = w.target_topic
        and t.topic_id = w.target_topic_id
        and t.partition = w.target_partition
),

-- Logs that are copied to from one source alone.
of_one_source as (
    select target_log
    from sources
    group by target_log
    having count(*) = 1
),

witnesses as (
    select
        d.map_number,
        d.recorded_order,
        d.kind,
        d.source_start,
        d.target_start,
        d.target_end,
        d.log_offset,
        d.recorded_at_ms,
        d.doubted_from,
        t.map_number as witness
    from doubted as d
    inner join of_one_source as w on w.target_log = d.log_number
    inner join log_truncations as t
        on t.log_number = d.log_number
        and t.is_reader
        and (
            t.log_offset = d.log_offset and t.recorded_at_ms = d.recorded_at_ms
            or t.log_offset <= d.log_offset and t.recorded_at_ms > d.recorded_at_ms + 300000
        )
    group by
        d.map_number,
        d.recorded_order,
        d.kind,
        d.source_start,
        d.target_start,
        d.target_end,
        d.log_offset,
        d.recorded_at_ms,
        d.doubted_from,
        t.map_number
),

seen as (
    select
        w.map_number, w.recorded_order, w.kind, w.source_start, w.target_start, w.log_offset, w.recorded_at_ms
    from witnesses as w
    inner join mirror_writes as g
        on g.map_number = w.witness
        and g.source_start < w.target_end
        and g.source_end > w.doubted_from
    group by
        w.map_number,
        w.recorded_order,
        w.kind,
        w.source_start,
        w.target_start,
        w.target_end,
        w.log_offset,
        w.recorded_at_ms,
        w.doubted_from,
        w.witness
    having sum(least(g.source_end, w.target_end) - greatest(g.source_start, w.doubted_from))
        = w.target_end - w.doubted_from
)

select d.map_number, d.recorded_order, d.kind, d.source_start, d.target_start, min(d.doubted_from) as doubted_from
from doubted as d
left join seen as s
    on s.map_number = d.map_number
    and s.recorded_order = d.recorded_order
    and s.kind = d.kind
    and s.source_start = d.source_start
    and s.target_start = d.target_start
    and s.log_offset = d.log_offset
    and s.recorded_at_ms = d.recorded_at_ms
where s.map_number is null
group by d.map_number, d.recorded_order, d.kind, d.source_start, d.target_start;

-- Maps of which others' findings leave a part alone: what lies below the source offset source_limit. target_limit:
-- where the target ends then; null when the source alone lost its end.
create or replace temporary view map_limits as
with source_doubts as (
    select m.map_number, c.log_offset, c.recorded_at_ms, max(r.source_leader_epoch) as epoch_below
    from map_logs as m
    inner join log_truncations as c
        on c.log_number = m.source_log
        and c.map_number <> m.map_number
    left join effective_syncs as r
        on r.map_number = m.map_number
        and r.source_start < c.log_offset
    group by m.map_number, c.log_offset, c.recorded_at_ms
),

source_limits as (
    select d.map_number, min(d.log_offset) as source_limit
    from source_doubts as d
    inner join effective_syncs as r
        on r.map_number = d.map_number
        and r.source_end > d.log_offset
        and r.recorded_at_ms <= d.recorded_at_ms + 300000
    where coalesce(r.source_leader_epoch <= d.epoch_below, true)
    group by d.map_number
),

target_limits as (
    select r.map_number, min(d.doubted_from) as target_limit
    from effective_syncs as r
    inner join doubted_rows as d
        on d.map_number = r.map_number
        and d.recorded_order = r.writer_epoch * 4294967296 + r.round
        and d.kind = r.kind
        and d.source_start = r.source_start
        and d.target_start = r.target_start
        and d.doubted_from < r.target_end
    where r.is_current
    group by r.map_number
),

-- The first row that reaches beyond the target's end.
first_beyond as (
    select l.map_number, l.target_limit, min(r.target_start) as target_start
    from target_limits as l
    inner join effective_syncs as r
        on r.map_number = l.map_number
        and r.is_current
        and r.records > 0
        and r.target_end > l.target_limit
    group by l.map_number, l.target_limit
),

restarts as (
    select
        f.map_number,
        f.target_limit,
        min(
            case
                when f.target_limit > r.target_start and r.kind <> 'unpaired'
                    then s.source_start + f.target_limit - s.target_start
                else r.source_start
            end
        ) as source_limit
    from first_beyond as f
    inner join effective_syncs as r
        on r.map_number = f.map_number
        and r.is_current
        and r.records > 0
        and r.target_start = f.target_start
    left join map_segments as s
        on s.map_number = f.map_number
        and s.target_start <= f.target_limit
        and s.target_start + s.source_end - s.source_start > f.target_limit
    group by f.map_number, f.target_limit
)

select
    coalesce(s.map_number, t.map_number) as map_number,
    least(s.source_limit, t.source_limit) as source_limit,
    case when coalesce(t.source_limit < s.source_limit, true) then t.target_limit end as target_limit
from source_limits as s
full outer join restarts as t on t.map_number = s.map_number;
