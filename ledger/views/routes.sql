-- Ways that records take from log to log: a flow's map, or a chain of two.

-- By one flow: its map, or nothing yet where a flow copies between the topics and has recorded nothing of these
-- incarnations (is_begun false). is_relay: it
-- copies also what flows wrote at its source. What was salvaged lies in a topic of its own, which continues no other.
create or replace temporary view direct_routes as
with begun as (
    select
        m.map_number as route_number,
        m.source_log,
        m.target_log,
        true as is_begun,
        least(c.source_start, d.source_limit) as source_start,
        coalesce(d.source_limit, m.source_end) as source_end,
        coalesce(d.target_limit, m.target_end) as target_end
    from map_logs as m
    inner join current_maps as c using (map_number)
    left join map_limits as d using (map_number)
    where c.flow not like '%.salvaged'
        and c.flow not like '%.dead-letters'
),

ways as (
    select s.log_number as source_log, t.log_number as target_log, w.is_relayed
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
)

select
    b.route_number,
    b.source_log,
    b.target_log,
    b.is_begun,
    coalesce(w.is_relayed, false) as is_relay,
    b.source_start,
    b.source_end,
    b.target_end
from begun as b
left join ways as w using (source_log, target_log)
union all
select
    1073741824 + row_number() over (
        order by w.source_log nulls last, w.target_log nulls last
    ) as route_number,
    w.source_log,
    w.target_log,
    false as is_begun,
    w.is_relayed as is_relay,
    0 as source_start,
    0 as source_end,
    0 as target_end
from ways as w
left join begun as b
    on b.source_log = w.source_log
    and b.target_log = w.target_log
where b.route_number is null;

-- Chains of two flows between partitions of current topics, where no flow goes there directly and the second relays: of
-- what the first wrote any other flow carries nothing. Source ends are those of the first flow's source, from which the
-- second has what it has come to.
create or replace temporary view chained_routes as
with chains as (
    select
        a.route_number * 4294967296 + b.route_number as route_number,
        a.route_number as first_route,
        b.route_number as second_route,
        a.source_log,
        b.target_log,
        a.is_begun and b.is_begun as is_begun,
        a.is_relay,
        a.source_end as first_end,
        a.target_end as first_target_end,
        b.source_start as second_start,
        b.source_end as second_end,
        b.target_end
    from direct_routes as a
    inner join direct_routes as b on b.source_log = a.target_log and b.is_relay
    inner join logs as s on s.log_number = a.source_log and s.is_last
    inner join logs as t on t.log_number = b.target_log and t.is_current
    left join direct_routes as d
        on d.source_log = a.source_log
        and d.target_log = b.target_log
    where d.route_number is null and a.source_log <> b.target_log
),

-- The first record of the first map at or behind the places where the second one begins and ends.
origins as (
    select
        c.route_number,
        min(
            case
                when s.target_start + s.source_end - s.source_start > c.second_start
                    then s.source_start + greatest(c.second_start - s.target_start, 0)
            end
        ) as source_start,
        min(
            case
                when s.target_start + s.source_end - s.source_start > c.second_end
                    then s.source_start + greatest(c.second_end - s.target_start, 0)
            end
        ) as source_end
    from chains as c
    inner join map_stretches as s on s.map_number = c.first_route
    group by c.route_number
)

select
    c.route_number,
    c.first_route,
    c.second_route,
    c.source_log,
    c.target_log,
    c.is_begun,
    c.is_relay,
    coalesce(o.source_start, c.first_end) as source_start,
    coalesce(o.source_end, c.first_end) as source_end,
    c.first_end,
    c.first_target_end,
    c.target_end
from chains as c
left join origins as o using (route_number);

-- Stretches of maps and of chains; of a chain what lies at its target, old where either map has taken it out.
create or replace temporary view route_stretches as
with held as (
    select map_number, false as is_old, source_start, source_end, target_start
    from map_stretches
    union all
    select map_number, true as is_old, source_start, sound_end as source_end, target_start
    from old_stretches
    where source_start < sound_end
),

chained as (
    select
        c.route_number,
        a.is_old or b.is_old as is_old,
        greatest(a.source_start, b.source_start - a.target_start + a.source_start) as source_start,
        least(a.source_end, b.source_end - a.target_start + a.source_start) as source_end,
        b.target_start - b.source_start + a.target_start - a.source_start as shift
    from chained_routes as c
    inner join held as a on a.map_number = c.first_route
    inner join held as b
        on b.map_number = c.second_route
        and b.source_start < a.target_start + a.source_end - a.source_start
        and b.source_end > a.target_start
)

select map_number as route_number, is_old, source_start, source_end, target_start
from held
union all
select route_number, is_old, source_start, source_end, source_start + shift as target_start
from chained;

-- All copies on a route: of old ones those of which the source records have not been copied again.
create or replace temporary view route_copies as
with again as (
    select
        o.route_number,
        o.source_start,
        o.source_end,
        o.target_start,
        greatest(s.source_start, o.source_start) as again_start,
        least(s.source_end, o.source_end) as again_end
    from route_stretches as o
    inner join route_stretches as s
        on s.route_number = o.route_number
        and s.source_start < o.source_end
        and s.source_end > o.source_start
    where o.is_old and not s.is_old
    union all
    select route_number, source_start, source_end, target_start, source_end as again_start, source_end as again_end
    from route_stretches
    where is_old
),

rest as (
    select
        route_number,
        target_start - source_start as shift,
        coalesce(
            max(again_end) over (
                partition by route_number, source_start, source_end, target_start
                order by again_start nulls last, again_end nulls last
                rows between unbounded preceding and 1 preceding
            ),
            source_start
        ) as rest_start,
        again_start as rest_end
    from again
)

select route_number, false as is_former, source_start, source_end, target_start
from route_stretches
where not is_old
union all
select route_number, true as is_former, rest_start as source_start, rest_end as source_end, rest_start + shift as target_start
from rest
where rest_start < rest_end;

-- Records at the target of a route that nobody could pair: nowhere in the source before source_start.
create or replace temporary view route_unpaired as
with second_ones as (
    select
        c.route_number,
        u.source_start as middle_start,
        u.target_start,
        u.target_end,
        min(s.source_start + greatest(u.source_start - s.target_start, 0)) as source_start
    from chained_routes as c
    inner join unpaired_stretches as u on u.map_number = c.second_route
    left join map_stretches as s
        on s.map_number = c.first_route
        and s.target_start + s.source_end - s.source_start > u.source_start
    where not u.is_doubted
    group by c.route_number, u.source_start, u.target_start, u.target_end
)

select map_number as route_number, source_start, target_start, target_end
from unpaired_stretches
where not is_doubted
union all
select u.route_number, coalesce(u.source_start, c.first_end) as source_start, u.target_start, u.target_end
from second_ones as u
inner join chained_routes as c using (route_number)
union all
select
    c.route_number,
    u.source_start,
    greatest(u.target_start, s.source_start) + s.target_start - s.source_start as target_start,
    least(u.target_end, s.source_end) + s.target_start - s.source_start as target_end
from chained_routes as c
inner join unpaired_stretches as u on u.map_number = c.first_route
inner join route_stretches as s
    on s.route_number = c.second_route
    and s.source_start < u.target_end
    and s.source_end > u.target_start
where not u.is_doubted;

-- Offsets of either end of a route with records of which it is not known where at the other end they are.
create or replace temporary view route_doubts as
with reached as (
    select c.route_number, c.second_route, c.first_target_end, max(s.source_end) as reached_to
    from chained_routes as c
    inner join route_stretches as s on s.route_number = c.second_route
    group by c.route_number, c.second_route, c.first_target_end
),

-- Of the log in the middle: what the first map is in doubt of, and what the second has read behind its end.
unknown as (
    select c.route_number, c.second_route, d.doubted_start, d.doubted_end
    from chained_routes as c
    inner join map_doubts as d on d.map_number = c.first_route
    where not d.is_source
    union all
    select route_number, second_route, first_target_end as doubted_start, reached_to as doubted_end
    from reached
    where first_target_end < reached_to
)

select map_number as route_number, is_source, doubted_start, doubted_end
from map_doubts
union all
select c.route_number, d.is_source, d.doubted_start, d.doubted_end
from chained_routes as c
inner join map_doubts as d
    on d.is_source and d.map_number = c.first_route
    or not d.is_source and d.map_number = c.second_route
union all
select
    u.route_number,
    false as is_source,
    greatest(u.doubted_start, s.source_start) + s.target_start - s.source_start as doubted_start,
    least(u.doubted_end, s.source_end) + s.target_start - s.source_start as doubted_end
from unknown as u
inner join route_stretches as s
    on s.route_number = u.second_route
    and s.source_start < u.doubted_end
    and s.source_end > u.doubted_start
union all
select
    c.route_number,
    true as is_source,
    greatest(d.doubted_start, s.target_start) + s.source_start - s.target_start as doubted_start,
    least(d.doubted_end, s.target_start + s.source_end - s.source_start)
    + s.source_start - s.target_start as doubted_end
from chained_routes as c
inner join map_doubts as d on d.is_source and d.map_number = c.second_route
inner join route_copies as s
    on s.route_number = c.first_route
    and s.target_start < d.doubted_end
    and s.target_start + s.source_end - s.source_start > d.doubted_start;

-- Offsets of a log that hold what mirrors wrote, by all maps that read it, below the limit of their rows in doubt.
create or replace temporary view log_mirror_writes as
select
    m.source_log as log_number,
    w.source_start,
    least(w.source_end, coalesce(d.source_limit, w.source_end)) as source_end
from mirror_writes as w
inner join map_logs as m using (map_number)
left join map_limits as d using (map_number)
where w.is_current and w.source_start < coalesce(d.source_limit, w.source_end);

-- Offsets of a route's source that it has lost: deleted before they could be copied, or skipped.
create or replace temporary view route_losses as
-- Below the limit of a map's rows in doubt.
with held as (
    select s.map_number, s.source_start, least(s.source_end, coalesce(d.source_limit, s.source_end)) as source_end
    from current_syncs as s
    left join map_limits as d using (map_number)
    where s.kind = 'lost' and s.source_start < coalesce(d.source_limit, s.source_end)
)

select map_number as route_number, source_start, source_end
from held
union all
select
    c.route_number,
    greatest(l.source_start, c.source_start) as source_start,
    least(l.source_end, c.source_end) as source_end
from chained_routes as c
inner join held as l on l.map_number = c.first_route
where l.source_start < c.source_end and l.source_end > c.source_start
union all
select
    c.route_number,
    greatest(l.source_start, s.target_start) + s.source_start - s.target_start as source_start,
    least(l.source_end, s.target_start + s.source_end - s.source_start) + s.source_start - s.target_start as source_end
from chained_routes as c
inner join held as l on l.map_number = c.second_route
inner join map_stretches as s
    on s.map_number = c.first_route
    and s.target_start < l.source_end
    and s.target_start + s.source_end - s.source_start > l.source_start;

-- All routes.
create or replace temporary view routes as
select route_number, source_log, target_log, is_begun, is_relay, source_start, source_end, target_end
from direct_routes
union all
select route_number, source_log, target_log, is_begun, is_relay, source_start, source_end, target_end
from chained_routes;
