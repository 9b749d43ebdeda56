-- Which spans of a flow's maps the places of commits at its source touch: `touched`. Each that holds one, and the two behind
-- it: the place may lie behind all copies of the first. Where records were taken back, all from there on. And those across
-- the log start of the target: below it nobody asks whether all that lies there is of the map.
create temporary table touched as
with own as (
    select n.span_number, n.kind, m.map_number, n.source_start, n.source_end, n.span_target_start < n.target_end as has_copies
    from numbered_spans as n
    inner join last_syncs as m using (flow, source_topic, source_topic_id, source_partition)
    where n.flow = getvariable('flow')
),

cuts as (
    select map_number, min(cut_offset) as cut_offset
    from (
        select map_number, source_start as cut_offset
        from own
        where kind = 'superseded'
        union all
        select map_number, source_start as cut_offset
        from source_truncations
    )
    group by map_number
),

following as (
    select
        *,
        lag(source_end) over (partition by map_number order by source_end, source_start) as last_end,
        lag(source_end, 2) over (partition by map_number order by source_end, source_start) as end_before
    from own
    where has_copies
)

select f.span_number
from following as f
inner join commit_places as p
    on p.map_number = f.map_number
    and f.source_end > p.place
    and (f.source_start <= p.place or coalesce(f.last_end <= p.place or f.end_before <= p.place, true))
where p.flow = getvariable('flow')
union
select o.span_number
from own as o
inner join commit_places as p
    on p.map_number = o.map_number
    and o.source_start <= p.place
    and o.source_end > p.place
where p.flow = getvariable('flow')
union
select o.span_number
from own as o
inner join cuts as c on c.map_number = o.map_number
where o.source_end > c.cut_offset
union
select n.span_number
from numbered_spans as n
inner join last_high_watermarks as h
    on h.cluster = n.target_cluster
    and h.topic = n.target_topic
    and h.topic_id = n.target_topic_id
    and h.partition = n.target_partition
    and h.log_start > n.span_target_start
    and h.log_start < n.target_end
where n.flow = getvariable('flow');

-- Spans of several offset syncs of which it matters when each was recorded: of a leader epoch that tells of a lost end of the
-- source, the first row says when.
create temporary table dated_spans as
select distinct n.span_number
from numbered_spans as n
inner join last_syncs as m using (flow, source_topic, source_topic_id, source_partition)
inner join source_truncations as t using (map_number)
where n.flow = getvariable('flow')
    and n.rows > 1
    and n.source_end > t.source_start
    and n.first_recorded_at_ms < t.recorded_at_ms
    and n.recorded_at_ms >= t.recorded_at_ms;
