-- Pairs of partitions of current topics at two clusters, and which records lie at both: links. Here is where a group has
-- committed, there is where it shall continue.

-- What links a pair: a route that has brought records from there to here, one that has taken some from here to there,
-- or two of one origin. So a chain is seen from its middle: by the inverse of a route that leads there, and a relay that
-- leads on, where none goes directly. Those of a pair count when something is recorded of one of them. Here a topic may be
-- deleted: who has read it continues there.
create or replace temporary view links as
with chains as (
    select f.route_number as first_route, n.route_number as next_route
    from routes as f
    inner join routes as n on n.source_log = f.source_log and n.is_relay and not n.is_inverse
    left join routes as d
        on d.source_log = f.target_log
        and d.target_log = n.target_log
        and not d.is_inverse
    where f.is_inverse and d.route_number is null
),

found as (
    select 'brought' as direction, route_number as to_here, cast(null as bigint) as to_there
    from routes
    where not is_inverse
    union all
    select 'taken' as direction, cast(null as bigint) as to_here, route_number as to_there
    from routes
    where not is_inverse
    union all
    select 'of one origin' as direction, h.route_number as to_here, t.route_number as to_there
    from routes as h
    inner join routes as t on t.source_log = h.source_log
    where not h.is_inverse and not t.is_inverse
    union all
    select 'of one origin' as direction, first_route as to_here, next_route as to_there
    from chains
    union all
    select 'of one origin' as direction, next_route as to_here, first_route as to_there
    from chains
),

between as (
    select
        coalesce(h.target_log, t.source_log) as here_log,
        coalesce(t.target_log, h.source_log) as there_log,
        f.direction,
        f.to_here,
        f.to_there,
        coalesce(h.is_begun, true) and coalesce(t.is_begun, true) as is_begun
    from found as f
    left join routes as h on h.route_number = f.to_here
    left join routes as t on t.route_number = f.to_there
),

begun as (
    select here_log, there_log
    from between
    where is_begun
    group by here_log, there_log
)

select
    f.here_log,
    f.there_log,
    f.direction,
    f.to_here,
    f.to_there,
    row_number() over (
        order by
            f.here_log nulls last,
            f.there_log nulls last,
            f.to_here nulls last,
            f.to_there nulls last
    ) as link_number
from between as f
inner join begun as b using (here_log, there_log)
inner join logs as h on h.log_number = f.here_log and h.is_last
inner join logs as t on t.log_number = f.there_log and t.is_current
where h.cluster <> t.cluster;

-- Records of one origin that lie at both sides, each stretch with its first offset at the origin.
create or replace temporary view origin_stretches as
select
    k.link_number,
    greatest(h.source_start, t.source_start) as origin_start,
    h.target_start + greatest(h.source_start, t.source_start) - h.source_start as here_start,
    t.target_start + greatest(h.source_start, t.source_start) - t.source_start as there_start,
    least(h.source_end, t.source_end) - greatest(h.source_start, t.source_start) as length,
    h.is_former or t.is_former as is_former
from links as k
inner join route_copies as h on h.route_number = k.to_here
inner join route_copies as t
    on t.route_number = k.to_there
    and t.source_start < h.source_end
    and t.source_end > h.source_start
where k.direction = 'of one origin';

-- Records of a link that lie at both sides: those from here_start on are, in order, those from there_start on.
create or replace temporary view link_stretches as
select k.link_number, c.target_start as here_start, c.source_start as there_start, c.source_end - c.source_start as length,
    c.is_former
from links as k
inner join route_copies as c on c.route_number = k.to_here
where k.direction = 'brought'
union all
select k.link_number, c.source_start as here_start, c.target_start as there_start, c.source_end - c.source_start as length,
    c.is_former
from links as k
inner join route_copies as c on c.route_number = k.to_there
where k.direction = 'taken'
union all
select link_number, here_start, there_start, length, is_former
from origin_stretches;

-- Records here that the way there has lost.
create or replace temporary view link_losses as
select k.link_number, l.source_start as lost_start, l.source_end as lost_end
from links as k
inner join route_losses as l
    on l.route_number = case when k.direction = 'taken' then k.to_there else -k.to_here end
union all
select
    k.link_number,
    c.target_start + greatest(l.source_start - c.source_start, 0) as lost_start,
    c.target_start + least(l.source_end, c.source_end) - c.source_start as lost_end
from links as k
inner join route_losses as l on l.route_number = k.to_there
inner join route_copies as c
    on c.route_number = k.to_here
    and c.source_start < l.source_end
    and c.source_end > l.source_start
where k.direction = 'of one origin';

-- Up to where each link goes. there_end: up to where it reaches there. decided_to: all below it there was copied to
-- here, or shall not be. taken_to: all below it here was copied to there, or shall not be. here_start: the first
-- offset here that it knows of. Null where that does not apply. brings_copies: what flows wrote there comes to here, too.
create or replace temporary view link_ends as
with copied as (
    select
        route_number,
        min(target_start) as target_start,
        max(case when is_former then source_end end) as former_end,
        max(case when is_former then target_start + source_end - source_start end) as former_target_end
    from route_copies
    group by route_number
)

select
    k.link_number,
    k.here_log,
    k.there_log,
    case
        when k.direction = 'brought' then greatest(h.source_end, hc.former_end)
        when t.is_inverse then greatest(t.target_end, tc.former_target_end)
        else t.target_end
    end as there_end,
    case when k.direction = 'brought' then h.source_end when t.is_inverse then t.target_end end as decided_to,
    case when k.direction = 'taken' then t.source_end when h.is_inverse then h.target_end end as taken_to,
    case when k.direction = 'taken' then t.source_start else hc.target_start end as here_start,
    coalesce(case when k.direction = 'brought' then h.is_relay else t.is_inverse and t.is_relay end, false) as brings_copies
from links as k
left join routes as h on h.route_number = k.to_here
left join routes as t on t.route_number = k.to_there
left join copied as hc on hc.route_number = k.to_here
left join copied as tc on tc.route_number = k.to_there;

-- Records of one origin that lie at one side alone: the other has not come to them. What a chain's middle has of its own
-- comes to no inverse.
create or replace temporary view link_alone as
with sides as (
    select link_number, true as is_there, to_there as route_number, to_here as other_route
    from links
    where direction = 'of one origin'
    union all
    select link_number, false as is_there, to_here as route_number, to_there as other_route
    from links
    where direction = 'of one origin'
),

behind as (
    select
        s.link_number,
        s.is_there,
        greatest(c.source_start, o.source_end) as source_start,
        c.source_end,
        c.target_start - c.source_start as shift,
        s.other_route
    from sides as s
    inner join route_copies as c using (route_number)
    inner join routes as o on o.route_number = s.other_route
    where not o.is_inverse and c.source_end > o.source_end
),

held as (
    select
        b.link_number,
        b.is_there,
        b.source_start,
        b.source_end,
        b.shift,
        greatest(c.source_start, b.source_start) as held_start,
        least(c.source_end, b.source_end) as held_end
    from behind as b
    inner join route_copies as c
        on c.route_number = b.other_route
        and c.is_former
        and c.source_start < b.source_end
        and c.source_end > b.source_start
    union all
    select link_number, is_there, source_start, source_end, shift, source_end as held_start, source_end as held_end
    from behind
),

rest as (
    select
        link_number,
        is_there,
        shift,
        coalesce(
            max(held_end) over (
                partition by link_number, is_there, source_start, source_end, shift
                order by held_start nulls last, held_end nulls last
                rows between unbounded preceding and 1 preceding
            ),
            source_start
        ) as rest_start,
        held_start as rest_end
    from held
)

select link_number, is_there, rest_start + shift as alone_start, rest_end + shift as alone_end
from rest
where rest_start < rest_end;

-- Records there of which nobody knows where they lie here. They count as read by who has come to passed_at here, where
-- the map continues behind them; null: by nobody.
create or replace temporary view link_unplaced_there as
with unplaced as (
    select k.link_number, u.target_start as there_start, u.target_end as there_end,
        min(s.source_start + greatest(u.source_start - s.source_start, 0)) as passed_at
    from links as k
    inner join route_unpaired as u on u.route_number = k.to_there
    left join route_stretches as s
        on s.route_number = k.to_there
        and not s.is_old
        and s.source_end > u.source_start
    where k.direction = 'taken'
    group by k.link_number, u.source_start, u.target_start, u.target_end
    union all
    select link_number, there_start, there_end, max(passed_at) as passed_at
    from (
        select
            k.link_number,
            u.source_start,
            u.target_start as there_start,
            u.target_end as there_end,
            s.here_start + greatest(u.source_start - s.origin_start, 0) as passed_at,
            rank() over (
                partition by k.link_number, u.source_start, u.target_start, u.target_end
                order by greatest(s.origin_start, u.source_start) nulls last
            ) as place
        from links as k
        inner join route_unpaired as u on u.route_number = k.to_there
        left join origin_stretches as s
            on s.link_number = k.link_number
            and s.origin_start + s.length > u.source_start
        where k.direction = 'of one origin'
    ) as following
    where place = 1
    group by link_number, source_start, there_start, there_end
    union all
    select k.link_number, d.doubted_start as there_start, d.doubted_end as there_end, cast(null as bigint) as passed_at
    from links as k
    inner join route_doubts as d
        on d.route_number = k.to_there
        and not d.is_source
    union all
    select k.link_number, d.doubted_start as there_start, d.doubted_end as there_end, cast(null as bigint) as passed_at
    from links as k
    inner join route_doubts as d
        on d.route_number = k.to_here
        and d.is_source
    where k.direction = 'brought'
    union all
    select
        k.link_number,
        greatest(d.doubted_start, c.source_start) + c.target_start - c.source_start as there_start,
        least(d.doubted_end, c.source_end) + c.target_start - c.source_start as there_end,
        cast(null as bigint) as passed_at
    from links as k
    inner join route_doubts as d
        on d.route_number = k.to_here
        and d.is_source
    inner join route_copies as c
        on c.route_number = k.to_there
        and c.source_start < d.doubted_end
        and c.source_end > d.doubted_start
    where k.to_here < 0 or k.to_there < 0
),

-- By another map of the pair: what came back from there after it had been lost there, say.
paired as (
    select u.link_number, u.there_start, u.there_end, s.link_number as by_link
    from (select link_number, there_start, there_end from unplaced group by link_number, there_start, there_end) as u
    inner join links as k on k.link_number = u.link_number
    inner join links as o on o.here_log = k.here_log and o.there_log = k.there_log
    inner join link_stretches as s
        on s.link_number = o.link_number
        and s.there_start < u.there_end
        and s.there_start + s.length > u.there_start
    group by u.link_number, u.there_start, u.there_end, s.link_number
    having sum(least(s.there_start + s.length, u.there_end) - greatest(s.there_start, u.there_start))
        >= u.there_end - u.there_start
)

select u.link_number, u.there_start, u.there_end, u.passed_at
from unplaced as u
left join (select link_number, there_start, there_end from paired group by link_number, there_start, there_end) as p
    on p.link_number = u.link_number and p.there_start = u.there_start and p.there_end = u.there_end
where p.link_number is null;

-- Records here of which nobody knows where they lie there: nowhere below there_from.
create or replace temporary view link_unplaced_here as
with placed as (
    select
        k.link_number,
        k.direction,
        k.to_there,
        u.source_start,
        u.target_start,
        u.target_end,
        min(c.target_start + greatest(u.source_start - c.source_start, 0)) as there_from
    from links as k
    inner join route_unpaired as u on u.route_number = k.to_here
    left join route_copies as c
        on c.route_number = k.to_there
        and c.source_end > u.source_start
    group by k.link_number, k.direction, k.to_there, u.source_start, u.target_start, u.target_end
),

paired as (
    select p.link_number, p.target_start, p.target_end, s.link_number as by_link
    from (select link_number, target_start, target_end from placed group by link_number, target_start, target_end) as p
    inner join links as k on k.link_number = p.link_number
    inner join links as o on o.here_log = k.here_log and o.there_log = k.there_log
    inner join link_stretches as s
        on s.link_number = o.link_number
        and s.here_start < p.target_end
        and s.here_start + s.length > p.target_start
    group by p.link_number, p.target_start, p.target_end, s.link_number
    having sum(least(s.here_start + s.length, p.target_end) - greatest(s.here_start, p.target_start))
        >= p.target_end - p.target_start
)

select
    p.link_number,
    p.target_end as here_end,
    case when p.direction = 'brought' then p.source_start else coalesce(p.there_from, t.target_end) end as there_from
from placed as p
left join routes as t on t.route_number = p.to_there
left join (select link_number, target_start, target_end from paired group by link_number, target_start, target_end) as c
    on c.link_number = p.link_number and c.target_start = p.target_start and c.target_end = p.target_end
where c.link_number is null;
