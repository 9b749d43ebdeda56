-- Routes that records take from log to log: maps, each with its inverse where a flow relays on from its target.

-- A flow's map, or nothing yet where a flow copies between the topics and has recorded nothing of these incarnations
-- (is_begun false). is_relay: it copies also what flows wrote at its source. What was salvaged lies in a topic of its own,
-- which continues no other. Inverses have the negative number: where a flow relays on, what came there and went on is of
-- one origin.
create or replace temporary view routes as
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
),

direct as (
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
    where b.route_number is null
)

select route_number, source_log, target_log, false as is_inverse, is_begun, is_relay, source_start, source_end, target_end
from direct
union all
select
    -route_number as route_number,
    target_log as source_log,
    source_log as target_log,
    true as is_inverse,
    is_begun,
    is_relay,
    cast(null as bigint) as source_start,
    target_end as source_end,
    source_end as target_end
from direct
where target_log in (select source_log from direct where is_relay);

-- Stretches of maps, old ones where supersession has taken them out.
create or replace temporary view route_stretches as
select map_number as route_number, false as is_old, source_start, source_end, target_start
from map_stretches
union all
select map_number as route_number, true as is_old, source_start, sound_end as source_end, target_start
from old_stretches
where source_start < sound_end;

-- All copies on a route: of old ones those of which the source records have not been copied again. On an inverse all:
-- what went on from there may be of these alone.
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
where rest_start < rest_end
union all
select
    r.route_number,
    s.is_old as is_former,
    s.target_start as source_start,
    s.target_start + s.source_end - s.source_start as source_end,
    s.source_start as target_start
from routes as r
inner join route_stretches as s on s.route_number = -r.route_number
where r.is_inverse;

-- Records at the target of a route that nobody could pair: nowhere in the source before source_start.
create or replace temporary view route_unpaired as
select map_number as route_number, source_start, target_start, target_end
from unpaired_stretches
where not is_doubted;

-- Offsets of either end of a route with records of which it is not known where at the other end they are: of an inverse
-- also what nobody could pair, and what lies behind the end of its map.
create or replace temporary view route_doubts as
select map_number as route_number, is_source, doubted_start, doubted_end
from map_doubts
union all
select -map_number as route_number, not is_source as is_source, doubted_start, doubted_end
from map_doubts
union all
select -route_number as route_number, true as is_source, target_start as doubted_start, target_end as doubted_end
from route_unpaired
union all
select route_number, true as is_source, source_end as doubted_start, 4611686018427387904 as doubted_end
from routes
where is_inverse;

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

-- Offsets of a route's source that it has lost: deleted before they could be copied, or skipped; below the limit of rows
-- in doubt.
create or replace temporary view route_losses as
select s.map_number as route_number, s.source_start, least(s.source_end, coalesce(d.source_limit, s.source_end)) as source_end
from current_syncs as s
left join map_limits as d using (map_number)
where s.kind = 'lost' and s.source_start < coalesce(d.source_limit, s.source_end);
