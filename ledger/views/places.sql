-- Where groups continue at another cluster: at the first record that they have not read.

-- Ranges there of each class. A link is a class, because its records lie in one order at both sides. `below`: how many
-- records of the class lie below range_start there.
create or replace temporary view counted_ranges as
select
    pair_number,
    class,
    class_number,
    here_start,
    range_start,
    range_end - range_start as length,
    cast(
        coalesce(
            sum(range_end - range_start) over (
                partition by class_number
                order by range_start nulls last
                rows between unbounded preceding and 1 preceding
            ),
            0
        ) as bigint
    ) as below
from there_ranges
where class <> 'single';

-- The classes that each pair has.
create or replace temporary view pair_classes as
select pair_number, class, class_number, sum(length) as records
from counted_ranges
group by pair_number, class, class_number;

-- For each class and point of either log (where groups have read up to, and where the log there begins): how many of its
-- records lie below the point, and where the first one at the point or behind it lies there.
create or replace temporary view point_counts as
with points as (
    select pair_number, true as is_here, here_to as point
    from group_reads
    union
    select pair_number, false as is_here, there_to as point
    from group_reads
    union
    select pair_number, false as is_here, alone_to as point
    from group_reads
    union
    select pair_number, false as is_here, others_to as point
    from group_reads
    union
    select pair_number, false as is_here, log_start as point
    from pairs
),

events as (
    select class_number, true as is_here, here_start as bound, 0 as is_point, below, range_start, length
    from counted_ranges
    where class = 'paired'
    union all
    select class_number, false as is_here, range_start as bound, 0 as is_point, below, range_start, length
    from counted_ranges
    union all
    select
        c.class_number,
        n.is_here,
        n.point as bound,
        1 as is_point,
        cast(null as bigint) as below,
        cast(null as bigint) as range_start,
        cast(null as bigint) as length
    from points as n
    inner join pair_classes as c using (pair_number)
    where n.point is not null and (c.class = 'paired' or not n.is_here)
),

found as (
    select
        *,
        max(case when is_point = 0 then bound end) over so_far as last_bound,
        max(below) over so_far as last_below,
        max(below + length) over so_far as last_end,
        max(range_start) over so_far as last_start,
        min(range_start) over (
            partition by class_number, is_here
            order by bound desc nulls last
            rows between unbounded preceding and current row
        ) as next_start
    from events
    window so_far as (
        partition by class_number, is_here
        order by bound nulls last, is_point nulls last
        rows between unbounded preceding and current row
    )
)

select
    class_number,
    is_here,
    bound as point,
    coalesce(least(last_below + bound - last_bound, last_end), 0) as below,
    case when bound - last_bound < last_end - last_below then last_start + bound - last_bound else next_start end as next_start
from found
where is_point = 1;

-- For each group and class: how many records are read (read_below), and from where on the others are unread (unread_from,
-- null where all is read that is not expired). A group that never read the log there waits for none of others.
create or replace temporary view class_reads as
with counted as (
    select
        r.asked_number,
        c.class,
        c.class_number,
        greatest(h.below, t.below) as read_below,
        s.below as start_below,
        case
            when t.next_start is not null and s.next_start is not null and (h.point is null or h.next_start is not null)
                then greatest(h.next_start, t.next_start, s.next_start)
        end as unread_from
    from group_reads as r
    inner join pairs as p using (pair_number)
    inner join pair_classes as c using (pair_number)
    left join point_counts as h
        on h.class_number = c.class_number
        and h.is_here
        and h.point = r.here_to
    inner join point_counts as t
        on t.class_number = c.class_number
        and not t.is_here
        and t.point = case c.class when 'paired' then r.there_to when 'alone' then r.alone_to else r.others_to end
    inner join point_counts as s
        on s.class_number = c.class_number
        and not s.is_here
        and s.point = p.log_start
)

select
    asked_number,
    class,
    class_number,
    read_below,
    unread_from,
    greatest(start_below - read_below, 0) as expired
from counted;

-- The same for single ranges: they are read up to read_end. unplaced_from, alone_from: where begins what is unread for that
-- reason.
create or replace temporary view range_reads as
with opened as (
    select
        r.asked_number,
        x.range_start,
        x.range_end,
        p.log_start,
        case
            when x.here_start is not null
                then greatest(x.range_start + r.here_to - x.here_start, x.range_start, r.there_to)
        end as paired_from,
        case when x.passed_at > r.here_to then greatest(x.range_start, r.there_to) end as unplaced_from,
        case when x.is_alone then greatest(x.range_start, r.alone_to) end as alone_from
    from group_reads as r
    inner join pairs as p using (pair_number)
    inner join there_ranges as x using (pair_number)
    where x.class = 'single'
),

ended as (
    select *, least(range_end, paired_from, unplaced_from, alone_from) as read_end
    from opened
)

select
    asked_number,
    range_start,
    range_end,
    read_end,
    case when read_end < range_end and log_start < range_end then greatest(read_end, log_start) end as unread_from,
    case when unplaced_from < range_end and log_start < range_end then greatest(unplaced_from, log_start) end as unplaced_from,
    case when alone_from < range_end and log_start < range_end then greatest(alone_from, log_start) end as alone_from,
    greatest(least(range_end, log_start) - read_end, 0) as expired
from ended;

-- Groups of which the way there has lost the record here that they would read next, and no other has brought or taken it.
create or replace temporary view group_losses as
with lost as (
    select r.asked_number, r.pair_number, r.here_to
    from group_reads as r
    inner join pairs as p using (pair_number)
    inner join links as k using (here_log, there_log)
    inner join link_losses as l using (link_number)
    where l.lost_start <= r.here_to and l.lost_end > r.here_to
    group by r.asked_number, r.pair_number, r.here_to
),

at_both as (
    select n.asked_number
    from lost as n
    inner join pairs as p using (pair_number)
    inner join links as k using (here_log, there_log)
    inner join link_stretches as s using (link_number)
    where s.here_start <= n.here_to and s.here_start + s.length > n.here_to
    group by n.asked_number
)

select n.asked_number
from lost as n
left join at_both as b using (asked_number)
where b.asked_number is null;

-- Where each group continues, with the first unread of each kind.
create or replace temporary view first_unreads as
with floors as (
    select r.asked_number, min(greatest(u.there_from, r.there_to)) as floor_offset
    from group_reads as r
    inner join pairs as p using (pair_number)
    inner join links as k using (here_log, there_log)
    inner join link_unplaced_here as u using (link_number)
    where u.here_end > r.here_to
    group by r.asked_number
),

unread as (
    select
        asked_number,
        unread_from,
        cast(null as bigint) as unplaced_from,
        case when class = 'alone' then unread_from end as alone_from,
        case when class = 'others' then unread_from end as others_from,
        expired
    from class_reads
    union all
    select
        asked_number,
        unread_from,
        unplaced_from,
        alone_from,
        cast(null as bigint) as others_from,
        expired
    from range_reads
),

firsts as (
    select
        asked_number,
        min(unread_from) as first_unread,
        min(unplaced_from) as unplaced_from,
        min(alone_from) as alone_from,
        min(others_from) as others_from,
        sum(expired) as expired
    from unread
    group by asked_number
)

select
    r.asked_number,
    r.pair_number,
    r.alone_to,
    p.known_end,
    p.brought_from,
    greatest(
        coalesce(least(l.floor_offset, f.first_unread), greatest(r.alone_to, p.there_end)), p.log_start
    ) as place,
    l.floor_offset,
    f.first_unread,
    f.unplaced_from,
    f.alone_from,
    f.others_from,
    coalesce(f.expired, 0) as expired
from group_reads as r
inner join pairs as p using (pair_number)
left join firsts as f using (asked_number)
left join floors as l using (asked_number);

-- For each class: how many records lie below each place, and below the offsets that places are compared with.
create or replace temporary view place_counts as
with points as (
    select pair_number, place as point
    from first_unreads
    union
    select c.pair_number, greatest(c.there_offset, p.log_start) as point
    from compared_offsets as c
    inner join pairs as p using (pair_number)
),

events as (
    select class_number, range_start as bound, 0 as is_point, below, length
    from counted_ranges
    union all
    select c.class_number, n.point as bound, 1 as is_point, cast(null as bigint) as below, cast(null as bigint) as length
    from points as n
    inner join pair_classes as c using (pair_number)
),

found as (
    select
        *,
        max(case when is_point = 0 then bound end) over so_far as last_bound,
        max(below) over so_far as last_below,
        max(below + length) over so_far as last_end
    from events
    window so_far as (
        partition by class_number
        order by bound nulls last, is_point nulls last
        rows between unbounded preceding and current row
    )
)

select class_number, bound as point, coalesce(least(last_below + bound - last_bound, last_end), 0) as below
from found
where is_point = 1;

-- Where each group continues, and what it reads again, never gets to see, or is ahead of; counts are of offsets.
create or replace temporary view group_places as
with repeated as (
    select c.asked_number, sum(greatest(c.read_below - n.below, 0)) as repeats
    from class_reads as c
    inner join first_unreads as f using (asked_number)
    inner join place_counts as n on n.class_number = c.class_number and n.point = f.place
    group by c.asked_number
),

behind as (
    select f.asked_number, c.records - n.below as others
    from first_unreads as f
    inner join pair_classes as c on c.pair_number = f.pair_number and c.class = 'others'
    inner join place_counts as n on n.class_number = c.class_number and n.point = f.place
),

in_ranges as (
    select f.asked_number, sum(greatest(x.read_end - greatest(x.range_start, f.place), 0)) as repeats
    from first_unreads as f
    inner join range_reads as x using (asked_number)
    group by f.asked_number
),

aheads as (
    select r.asked_number, sum(least(x.piece_end, r.here_to) - x.piece_start) as ahead
    from group_reads as r
    inner join ahead_pieces as x
        on x.pair_number = r.pair_number
        and x.piece_start < r.here_to
    group by r.asked_number
)

select
    f.asked_number,
    f.pair_number,
    f.place,
    l.asked_number is not null as is_lost,
    coalesce(f.floor_offset = f.place, false) or coalesce(f.unplaced_from = f.place, false) as is_unplaced,
    coalesce(f.alone_from = f.place, false) as is_alone,
    coalesce(f.others_from = f.place, false) as is_others,
    coalesce(f.first_unread = f.place, false) as is_unread,
    cast(
        coalesce(c.repeats, 0) + coalesce(x.repeats, 0) + greatest(f.alone_to - greatest(f.known_end, f.place), 0) as bigint
    ) as repeats,
    cast(
        coalesce(b.others, 0)
        + case when f.brought_from is null then greatest(f.alone_to - greatest(f.known_end, f.place), 0) else 0 end
        as bigint
    ) as others,
    cast(f.expired as bigint) as expired,
    cast(coalesce(a.ahead, 0) as bigint) as ahead
from first_unreads as f
left join repeated as c using (asked_number)
left join behind as b using (asked_number)
left join in_ranges as x using (asked_number)
left join aheads as a using (asked_number)
left join group_losses as l using (asked_number);

-- Pairs with when the last row was recorded of the map that was recorded longest ago. is_first: where a topic goes to one
-- of the same name at a cluster, and to others there too, a group that reads it continues in the first.
create or replace temporary view recorded_pairs as
with same_names as (
    select here_cluster, here_topic, there_cluster
    from pairs
    where here_topic = there_topic
    group by here_cluster, here_topic, there_cluster
),

link_routes as (
    select here_log, there_log, to_here as route_number
    from links
    union all
    select here_log, there_log, to_there as route_number
    from links
),

recorded as (
    select k.here_log, k.there_log, min(m.recorded_at_ms) as map_recorded_at_ms
    from link_routes as k
    inner join last_syncs as m on m.map_number = abs(k.route_number)
    group by k.here_log, k.there_log
)

select p.*, w.map_recorded_at_ms, s.here_topic is null or p.there_topic = p.here_topic as is_first
from pairs as p
left join same_names as s using (here_cluster, here_topic, there_cluster)
inner join recorded as w using (here_log, there_log);

-- The pairs that answers are about, unless they are asked for by a flow: of topics that are at both sides.
create or replace temporary view answered_pairs as
select p.*
from recorded_pairs as p
inner join logs as h on h.log_number = p.here_log and h.is_current
where p.is_first;

-- Between which partitions of two clusters a flow has copied, of whatever incarnation, seen from either side.
create or replace temporary view copied_ways as
select
    flow,
    source_cluster as here_cluster,
    source_topic as here_topic,
    source_partition as here_partition,
    target_cluster as there_cluster,
    target_topic as there_topic,
    target_partition as there_partition
from last_syncs
union
select
    flow,
    target_cluster as here_cluster,
    target_topic as here_topic,
    target_partition as here_partition,
    source_cluster as there_cluster,
    source_topic as there_topic,
    source_partition as there_partition
from last_syncs;

-- The last known commit of each group on each partition, and those partitions of the topics that it reads on which it
-- never had one.
create or replace temporary view read_partitions as
select
    cluster,
    group_id,
    topic,
    partition,
    committed_offset,
    absence,
    absent_since_ms,
    first_read_ms,
    metadata
from cluster_commits
union all
select
    r.cluster,
    r.group_id,
    h.topic,
    h.partition,
    cast(null as bigint) as committed_offset,
    cast(null as string) as absence,
    cast(null as bigint) as absent_since_ms,
    cast(null as bigint) as first_read_ms,
    cast(null as string) as metadata
from committed_topics as r
inner join current_topics as t
    on t.cluster = r.cluster
    and t.topic = r.topic
inner join last_high_watermarks as h
    on h.cluster = t.cluster
    and h.topic = t.topic
    and h.topic_id = t.topic_id
left join cluster_commits as c
    on c.cluster = h.cluster
    and c.topic = h.topic
    and c.partition = h.partition
    and c.group_id is not distinct from r.group_id
where r.is_present = 1 and c.cluster is null;
