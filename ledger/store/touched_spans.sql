-- Which spans a question about groups of the cluster `here` touches that are to continue at `there`: `touched`. Only of these
-- it matters where each record lies; a group has read all of any other, or nothing.
--
-- `spans` has all, and the views read them as offset syncs. Two rules. (1) A log has a floor: from it on all spans count.
-- It is where one of its maps ends, where records were taken back or lost, or lay at the other side of a map that were, and,
-- of logs that not only the two ways of a pair touch, the lowest offset that a group has come to. Where a span is touched
-- at one side, the floor of the other is not above it. (2) Of a pair of logs that one flow connects each way at most, and
-- no other writes to, spans count around the place of each group: those that hold the place, those that lie beside these
-- at the other side, and what the group has read that lies behind its place there.
create temporary table span_logs as
select cluster, topic, topic_id, partition, row_number() over () as log_number
from (
    select source_cluster as cluster, source_topic as topic, source_topic_id as topic_id, source_partition as partition
    from numbered_spans
    union
    select target_cluster, target_topic, target_topic_id, target_partition
    from numbered_spans
);

create temporary table sides as
select n.span_number, l.log_number, l.cluster, true as is_source, n.flow, n.source_start as side_start,
    n.source_end as side_end, n.kind
from numbered_spans as n
inner join span_logs as l
    on l.cluster = n.source_cluster
    and l.topic = n.source_topic
    and l.topic_id = n.source_topic_id
    and l.partition = n.source_partition
union all
select n.span_number, l.log_number, l.cluster, false as is_source, n.flow, n.span_target_start as side_start,
    n.target_end as side_end, n.kind
from numbered_spans as n
inner join span_logs as l
    on l.cluster = n.target_cluster
    and l.topic = n.target_topic
    and l.topic_id = n.target_topic_id
    and l.partition = n.target_partition;

create temporary table ways as
select distinct s.flow, s.log_number as source_log, t.log_number as target_log
from sides as s
inner join sides as t using (span_number)
where s.is_source and not t.is_source;

-- Where maps of topics, deleted ones too, to current topics end. A way on which nothing is recorded yet, which has no
-- number, ends where its logs begin.
create temporary table map_ends as
with maps as (
    select map_number, flow, source_cluster, source_topic, source_topic_id, source_partition, target_cluster, target_topic,
        target_topic_id, target_partition, source_end, target_end
    from last_syncs
    union all
    select null as map_number, null as flow, source_cluster, source_topic, source_topic_id, source_partition, target_cluster,
        target_topic, target_topic_id, target_partition, 0 as source_end, 0 as target_end
    from partition_ways
)

select m.map_number, m.flow, s.log_number as source_log, t.log_number as target_log, m.source_cluster, m.target_cluster,
    m.source_end, m.target_end, k.topic_id is not null and c.topic_id is not null as is_current
from maps as m
inner join span_logs as s
    on s.cluster = m.source_cluster
    and s.topic = m.source_topic
    and s.topic_id = m.source_topic_id
    and s.partition = m.source_partition
inner join span_logs as t
    on t.cluster = m.target_cluster
    and t.topic = m.target_topic
    and t.topic_id = m.target_topic_id
    and t.partition = m.target_partition
left join last_topics as k
    on k.cluster = m.source_cluster
    and k.topic = m.source_topic
    and k.topic_id = m.source_topic_id
left join current_topics as c
    on c.cluster = m.target_cluster
    and c.topic = m.target_topic
    and c.topic_id = m.target_topic_id
where m.map_number is not null
    or (s.log_number, t.log_number) not in (select (source_log, target_log) from ways);

insert into ways (source_log, target_log)
select source_log, target_log
from map_ends
where map_number is null;

-- Pairs of which the second rule tells.
create temporary table plain_pairs as
with between as (
    select source_log as here_log, target_log as there_log
    from map_ends
    where is_current and source_cluster = getvariable('here') and target_cluster = getvariable('there')
    union
    select target_log as here_log, source_log as there_log
    from map_ends
    where is_current and source_cluster = getvariable('there') and target_cluster = getvariable('here')
)

select b.here_log, b.there_log, count(*) filter (where w.source_log = b.there_log) > 0 as is_brought
from between as b
inner join ways as w on w.target_log in (b.here_log, b.there_log)
group by b.here_log, b.there_log
having bool_and(w.source_log in (b.here_log, b.there_log))
    and count(*) filter (where w.source_log = b.here_log) <= 1
    and count(*) filter (where w.source_log = b.there_log) <= 1;

create temporary table last_moves as
select *
from (
    select
        *,
        row_number() over (
            partition by group_id, to_cluster, to_topic, to_partition, from_cluster, from_topic, from_partition
            order by
                move_order desc nulls last,
                kind nulls last,
                arrived_offset nulls last,
                left_offset nulls last
        ) as age
    from group_moves
)
where age = 1;

-- What groups have read here, and where a move took them from. A group reads all partitions of its topics; nobody (null),
-- of whom one offset is asked, has a place in one partition alone.
create temporary table read_here as
with readers as (
    select topic, group_id
    from committed_topics
    where cluster = getvariable('here') and group_id is not null
    union
    select to_topic as topic, group_id
    from group_moves
    where to_cluster = getvariable('here') and kind <> 'group_synced'
),

moves as (
    select *
    from last_moves
    where to_cluster = getvariable('here') and from_cluster = getvariable('there')
),

places as (
    select l.log_number, l.topic, l.partition, r.group_id
    from readers as r
    inner join span_logs as l on l.cluster = getvariable('here') and l.topic = r.topic
    union
    select l.log_number, l.topic, l.partition, c.group_id
    from cluster_commits as c
    inner join span_logs as l on l.cluster = c.cluster and l.topic = c.topic and l.partition = c.partition
    where c.cluster = getvariable('here')
)

select
    p.log_number,
    p.group_id,
    coalesce(c.committed_offset, m.arrived_offset, 0) as here_offset,
    m.left_offset as there_offset
from places as p
left join cluster_commits as c
    on c.cluster = getvariable('here')
    and c.topic = p.topic
    and c.partition = p.partition
    and c.group_id is not distinct from p.group_id
left join moves as m
    on m.to_topic = p.topic
    and m.to_partition = p.partition
    and m.group_id is not distinct from p.group_id;

-- Up to where they have read what others wrote there.
create temporary table read_there as
with set_back as (
    select to_topic, to_partition, group_id, min(arrived_offset) as set_offset
    from group_moves
    where to_cluster = getvariable('there')
    group by to_topic, to_partition, group_id
),

left_at as (
    select from_topic, from_partition, group_id, min(left_offset) as left_offset
    from last_moves
    where from_cluster = getvariable('there') and to_cluster = getvariable('here')
    group by from_topic, from_partition, group_id
)

select l.log_number, r.group_id, coalesce(c.committed_offset, f.left_offset, s.set_offset, 0) as there_offset
from topic_readers as r
inner join span_logs as l on l.cluster = r.cluster and l.topic = r.topic
left join cluster_commits as c
    on c.cluster = r.cluster
    and c.topic = l.topic
    and c.partition = l.partition
    and c.group_id is not distinct from r.group_id
left join set_back as s
    on s.to_topic = l.topic
    and s.to_partition = l.partition
    and s.group_id is not distinct from r.group_id
left join left_at as f
    on f.from_topic = l.topic
    and f.from_partition = l.partition
    and f.group_id is not distinct from r.group_id
where r.cluster = getvariable('there');

-- Where records were taken back, or a log lost its end (is_truncated), by whose map that is known.
create temporary table lost_ends as
select m.flow, m.source_log, m.source_log as log_number, t.source_start as lost_from, t.recorded_at_ms, true as is_truncated
from source_truncations as t
inner join map_ends as m using (map_number)
union all
select n.flow, o.log_number as source_log, s.log_number, s.side_start as lost_from, n.recorded_at_ms,
    n.cause = 'target_truncated' and not s.is_source as is_truncated
from numbered_spans as n
inner join sides as s using (span_number)
inner join sides as o on o.span_number = n.span_number and o.is_source
where n.kind = 'superseded';

create temporary table own_floors as
with lost as (
    select log_number, min(lost_from) as lost_from
    from lost_ends
    group by log_number
),

bounds as (
    select source_log as log_number, source_end as bound
    from map_ends
    where is_current
    union all
    select target_log as log_number, target_end as bound
    from map_ends
    where is_current
    union all
    select log_number, lost_from as bound
    from lost
    union all
    -- What was copied of it, or from it, is at the other side.
    select o.log_number, o.side_start as bound
    from lost as c
    inner join sides as s on s.log_number = c.log_number and s.side_end > c.lost_from
    inner join sides as o on o.span_number = s.span_number and o.is_source <> s.is_source
    union all
    select log_number, here_offset as bound
    from read_here
    where log_number not in (select here_log from plain_pairs)
    union all
    select log_number, there_offset as bound
    from read_there
    where log_number not in (select there_log from plain_pairs where is_brought)
)

select l.log_number, l.cluster, coalesce(min(b.bound), 9223372036854775807) as floor_offset
from span_logs as l
left join bounds as b using (log_number)
group by l.log_number, l.cluster;

-- Spans touched here lower the floors of other logs, those touched in a third cluster the ones there, and back.
create temporary table floors_by_here as
with touched as (
    select s.span_number
    from sides as s
    inner join own_floors as f using (log_number)
    where f.cluster = getvariable('here') and s.side_end > f.floor_offset
),

lowest as (
    select s.log_number, min(s.side_start) as side_start
    from sides as s
    where s.span_number in (select span_number from touched) and s.cluster <> getvariable('here')
    group by s.log_number
)

select f.log_number, f.cluster, least(f.floor_offset, l.side_start) as floor_offset
from own_floors as f
left join lowest as l using (log_number);

create temporary table floors_by_others as
with touched as (
    select s.span_number
    from sides as s
    inner join floors_by_here as f using (log_number)
    where f.cluster not in (getvariable('here'), getvariable('there')) and s.side_end > f.floor_offset
),

lowest as (
    select s.log_number, min(s.side_start) as side_start
    from sides as s
    where s.span_number in (select span_number from touched) and s.cluster = getvariable('there')
    group by s.log_number
)

select f.log_number, f.cluster, least(f.floor_offset, l.side_start) as floor_offset
from floors_by_here as f
left join lowest as l using (log_number);

create temporary table floors as
with touched as (
    select s.span_number
    from sides as s
    inner join floors_by_others as f using (log_number)
    where f.cluster = getvariable('there') and s.side_end > f.floor_offset
),

lowest as (
    select s.log_number, min(s.side_start) as side_start
    from sides as s
    where s.span_number in (select span_number from touched)
        and s.cluster not in (getvariable('here'), getvariable('there'))
    group by s.log_number
)

select f.log_number, f.cluster, least(f.floor_offset, l.side_start) as floor_offset
from floors_by_others as f
left join lowest as l using (log_number);

-- Spans of plain pairs, either way, at both sides.
create temporary table pair_spans as
select
    p.here_log,
    p.there_log,
    h.span_number,
    h.is_source,
    h.side_start as here_start,
    h.side_end as here_end,
    t.side_start as there_start,
    t.side_end as there_end
from plain_pairs as p
inner join sides as h on h.log_number = p.here_log
inner join sides as t on t.log_number = p.there_log and t.span_number = h.span_number and t.is_source <> h.is_source;

-- Ranges there around the place of each group.
create temporary table windows as
with starts as (
    select l.log_number as there_log, h.log_start
    from span_logs as l
    inner join last_high_watermarks as h
        on h.cluster = l.cluster
        and h.topic = l.topic
        and h.topic_id = l.topic_id
        and h.partition = l.partition
),

asked as (
    select p.here_log, p.there_log, a.here_offset, max(greatest(a.there_offset, t.there_offset)) as there_offset
    from plain_pairs as p
    inner join read_here as a on a.log_number = p.here_log
    left join read_there as t on t.log_number = p.there_log and t.group_id is not distinct from a.group_id
    group by p.here_log, p.there_log, a.here_offset
),

following as (
    select
        *,
        lag(here_end) over (
            partition by here_log, there_log, is_source
            order by here_end, here_start
        ) as last_here_end,
        lead(there_end) over (
            partition by here_log, there_log, is_source
            order by here_end, here_start
        ) as next_there_end
    from pair_spans
    where there_start < there_end
),

-- Of each way the first span with copies that ends behind the place, and the one behind it: the place may lie behind all
-- copies of the first.
begun as (
    select
        a.here_log,
        a.there_log,
        a.here_offset,
        a.there_offset,
        min(x.there_start) as window_start,
        max(greatest(x.there_end, x.next_there_end)) as window_end
    from asked as a
    inner join following as x
        on x.here_log = a.here_log
        and x.there_log = a.there_log
        and x.here_end > a.here_offset
        and coalesce(x.last_here_end <= a.here_offset or x.here_start <= a.here_offset, true)
    group by a.here_log, a.there_log, a.here_offset, a.there_offset
),

read_ends as (
    select b.here_log, b.there_log, b.here_offset, max(x.there_end) as read_end
    from begun as b
    inner join pair_spans as x
        on x.here_log = b.here_log
        and x.there_log = b.there_log
        and x.there_end > b.window_start
        and x.here_start < b.here_offset
    group by b.here_log, b.there_log, b.here_offset
)

select
    b.here_log,
    b.there_log,
    b.window_start,
    greatest(
        b.window_end,
        r.read_end,
        b.there_offset,
        case when p.is_brought and s.log_start > b.window_start then s.log_start end
    ) as window_end
from begun as b
inner join plain_pairs as p using (here_log, there_log)
left join read_ends as r using (here_log, there_log, here_offset)
left join starts as s using (there_log)
union all
select p.here_log, p.there_log, s.log_start as window_start, s.log_start + 1 as window_end
from plain_pairs as p
inner join starts as s using (there_log);

create temporary table touched as
select s.span_number
from sides as s
inner join floors as f using (log_number)
where s.side_end > f.floor_offset
union
select x.span_number
from pair_spans as x
inner join windows as w
    on w.here_log = x.here_log
    and w.there_log = x.there_log
    and x.there_end > w.window_start
    and x.there_start < w.window_end;

-- Of spans that are opened, where copies lie at their source of which it is not read where each is: between those of a span
-- that is not opened others may have written.
create temporary table unread_copies as
with opened as (
    select span_number
    from touched
    union
    select span_number
    from cut_spans
),

unread as (
    select t.log_number, t.side_start, t.side_end
    from numbered_spans as n
    inner join sides as t using (span_number)
    left join opened as o using (span_number)
    where not t.is_source and n.target_end - n.span_target_start > n.records and o.span_number is null
)

select s.span_number, min(u.side_start) as unread_from, max(u.side_end) as unread_to
from opened as o
inner join sides as s using (span_number)
inner join unread as u
    on u.log_number = s.log_number
    and u.side_start < s.side_end
    and u.side_end > s.side_start
where s.is_source
group by s.span_number;

-- Spans of several offset syncs of which it matters when each was recorded, and where it ends: behind a lost end of a log at
-- either side what lay there is in doubt, row by row, that another map has told before or just after that was recorded. And of
-- a leader epoch that tells of a lost end, the first row says when.
create temporary table dated_spans as
select distinct n.span_number
from numbered_spans as n
inner join sides as s using (span_number)
inner join sides as o on o.span_number = n.span_number and o.is_source
inner join lost_ends as c
    on c.log_number = s.log_number
    and c.is_truncated
    and c.lost_from < s.side_end
where n.rows > 1
    and case
        when c.flow = n.flow and c.source_log = o.log_number
            then n.first_recorded_at_ms < c.recorded_at_ms and n.recorded_at_ms >= c.recorded_at_ms
        else n.first_recorded_at_ms <= c.recorded_at_ms + 300000
    end;
