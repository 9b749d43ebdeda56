-- Where groups continue at another cluster: at the first record that they have not read.

-- Of each group what is unread in each piece: all of it from unread_from on, null where it was read. unplaced_from,
-- alone_from and others_from: the same of what nobody can place, of what lies there alone, and of what is of others on a
-- log that the group has read. is_passed: it is of others on a log that it never read.
create or replace temporary view unread_pieces as
with opened as (
    select
        r.asked_number,
        x.piece_start,
        x.piece_end,
        x.records,
        x.is_other,
        case
            when x.here_end > r.here_to then greatest(x.piece_start + r.here_to - x.here_start, x.piece_start, r.there_to)
        end as paired_from,
        case when x.passed_at > r.here_to then greatest(x.piece_start, r.there_to) end as unplaced_from,
        case when x.is_alone then greatest(x.piece_start, r.alone_to) end as alone_from,
        case when x.is_other and r.others_to is not null then greatest(x.piece_start, r.others_to) end as others_from,
        x.is_other and r.others_to is null as is_passed
    from group_reads as r
    inner join pair_pieces as x using (pair_number)
),

bounded as (
    select
        asked_number,
        piece_start,
        piece_end,
        records,
        is_other,
        is_passed,
        case when unplaced_from < piece_end then unplaced_from end as unplaced_from,
        case when alone_from < piece_end then alone_from end as alone_from,
        case when others_from < piece_end then others_from end as others_from,
        least(paired_from, unplaced_from, alone_from, others_from) as first_unread
    from opened
)

select
    asked_number,
    piece_start,
    piece_end,
    records,
    is_other,
    is_passed,
    unplaced_from,
    alone_from,
    others_from,
    case when first_unread < piece_end then first_unread end as unread_from
from bounded;

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

-- Where each group continues, and what it reads again, never gets to see, or is ahead of; counts are of offsets.
create or replace temporary view group_places as
with floors as (
    select r.asked_number, min(greatest(u.there_from, r.there_to)) as floor_offset
    from group_reads as r
    inner join pairs as p using (pair_number)
    inner join links as k using (here_log, there_log)
    inner join link_unplaced_here as u using (link_number)
    where u.here_end > r.here_to
    group by r.asked_number
),

firsts as (
    select
        u.asked_number,
        min(
            case when u.unread_from is not null and u.piece_end > p.log_start then greatest(u.unread_from, p.log_start) end
        ) as first_unread,
        sum(least(greatest(least(u.piece_end, p.log_start) - u.unread_from, 0), u.records)) as expired
    from unread_pieces as u
    inner join group_reads as r using (asked_number)
    inner join pairs as p using (pair_number)
    group by u.asked_number
),

placed as (
    select
        r.asked_number,
        r.pair_number,
        r.alone_to,
        p.log_start,
        p.known_end,
        p.brought_from,
        coalesce(f.expired, 0) as expired,
        l.floor_offset,
        greatest(
            coalesce(least(l.floor_offset, f.first_unread), greatest(r.alone_to, p.there_end)), p.log_start
        ) as place
    from group_reads as r
    inner join pairs as p using (pair_number)
    left join firsts as f using (asked_number)
    left join floors as l using (asked_number)
),

counted as (
    select
        p.asked_number,
        sum(
            case
                when not u.is_passed
                    then least(
                        greatest(
                            least(u.piece_end, greatest(coalesce(u.unread_from, u.piece_end), p.log_start))
                            - greatest(u.piece_start, p.place),
                            0
                        ),
                        u.records
                    )
                else 0
            end
        ) as repeats,
        sum(case when u.is_other then greatest(u.piece_end - greatest(u.piece_start, p.place), 0) else 0 end) as others,
        max(case when u.unplaced_from <= p.place and p.place < u.piece_end then 1 else 0 end) as is_unplaced,
        max(case when u.alone_from <= p.place and p.place < u.piece_end then 1 else 0 end) as is_alone,
        max(case when u.others_from <= p.place and p.place < u.piece_end then 1 else 0 end) as is_others,
        max(case when u.unread_from <= p.place and p.place < u.piece_end then 1 else 0 end) as is_unread
    from placed as p
    inner join unread_pieces as u using (asked_number)
    group by p.asked_number
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
    p.asked_number,
    p.pair_number,
    p.place,
    l.asked_number is not null as is_lost,
    coalesce(p.floor_offset = p.place, false) or coalesce(c.is_unplaced, 0) = 1 as is_unplaced,
    coalesce(c.is_alone, 0) = 1 as is_alone,
    coalesce(c.is_others, 0) = 1 as is_others,
    coalesce(c.is_unread, 0) = 1 as is_unread,
    cast(coalesce(c.repeats, 0) + greatest(p.alone_to - greatest(p.known_end, p.place), 0) as bigint) as repeats,
    cast(
        coalesce(c.others, 0)
        + case when p.brought_from is null then greatest(p.alone_to - greatest(p.known_end, p.place), 0) else 0 end
        as bigint
    ) as others,
    cast(p.expired as bigint) as expired,
    cast(coalesce(a.ahead, 0) as bigint) as ahead
from placed as p
left join counted as c using (asked_number)
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
