-- What groups have read at both sides of a pair, as far as the ledger knows how they moved.

-- Where leader epochs begin in a log, by the maps that read it.
create or replace temporary view log_epochs as
select m.source_log as log_number, s.source_leader_epoch as leader_epoch, min(s.source_start) as epoch_start
from current_syncs as s
inner join map_logs as m using (map_number)
left join map_limits as d using (map_number)
where s.kind in ('copied', 'adopted')
    and s.source_leader_epoch is not null
    and s.source_start < coalesce(d.source_limit, s.source_end)
group by m.map_number, m.source_log, s.source_leader_epoch;

-- Where a log lost its end. is_told: by a map that reads it, so that leader epochs tell of it as well. What flows
-- into it found is one with that when it is of the same offset and about the same time.
create or replace temporary view log_cuts as
select log_number, log_offset, recorded_at_ms, true as is_told
from log_truncations
where is_reader
union
select w.log_number, w.log_offset, w.recorded_at_ms, false as is_told
from log_truncations as w
left join log_truncations as r
    on r.is_reader
    and r.log_number = w.log_number
    and r.log_offset = w.log_offset
    and r.recorded_at_ms between w.recorded_at_ms - 300000 and w.recorded_at_ms + 300000
where not w.is_reader and r.log_number is null;

-- Groups that have read a topic, of whatever partition and incarnation: by a commit, or a recorded move from it or to it.
create or replace temporary view topic_readers as
select cluster, topic, group_id
from committed_topics
union
select to_cluster as cluster, to_topic as topic, group_id
from group_moves
where kind <> 'group_synced'
union
select from_cluster as cluster, from_topic as topic, group_id
from group_moves
where left_offset is not null;

-- The lowest offset that recorded moves, from wherever, have set for a group.
create or replace temporary view set_offsets as
select to_cluster, to_topic, to_topic_id, to_partition, group_id, min(arrived_offset) as set_offset
from group_moves
group by to_cluster, to_topic, to_topic_id, to_partition, group_id;

-- Groups that are asked of each pair: those with a commit on the partition here, or on another one of the topic, and
-- those that a move brought here.
create or replace temporary view asked_readers as
with readers as (
    select cluster, topic, group_id
    from committed_topics
    where is_present = 1
    union
    select to_cluster as cluster, to_topic as topic, group_id
    from group_moves
    where kind <> 'group_synced'
)

select p.pair_number, r.group_id
from pairs as p
inner join readers as r
    on r.cluster = p.here_cluster
    and r.topic = p.here_topic
union
select p.pair_number, c.group_id
from pairs as p
inner join cluster_commits as c
    on c.cluster = p.here_cluster
    and c.topic = p.here_topic
    and c.partition = p.here_partition
inner join committed_topics as r
    on r.cluster = c.cluster
    and r.topic = c.topic
    and r.group_id is not distinct from c.group_id;

-- What is known of each of them: the last known commit here and there, the last recorded move from there to here, the
-- highest commit here that was seen since, or ever where there is none, and whether the group has read the topic there.
create or replace temporary view asked_groups as
with moves as (
    select
        p.pair_number,
        m.*,
        row_number() over (
            partition by p.pair_number, m.group_id
            order by
                m.move_order desc nulls last,
                m.kind nulls last,
                m.arrived_offset nulls last,
                m.left_offset nulls last
        ) as age
    from group_moves as m
    inner join pairs as p
        on p.here_cluster = m.to_cluster
        and p.here_topic = m.to_topic
        and p.here_partition = m.to_partition
        and p.there_cluster = m.from_cluster
        and p.there_topic = m.from_topic
        and p.there_partition = m.from_partition
),

seen as (
    select a.pair_number, a.group_id, max(k.committed_offset) as highest_seen
    from asked_readers as a
    inner join pairs as p using (pair_number)
    inner join cluster_commits as c
        on c.cluster = p.here_cluster
        and c.topic = p.here_topic
        and c.partition = p.here_partition
        and c.group_id is not distinct from a.group_id
    inner join checkpoints as k
        on k.cluster = c.cluster
        and k.topic = c.topic
        and k.partition = c.partition
        and k.group_id is not distinct from c.group_id
        and k.topic_id is not distinct from c.topic_id
    left join moves as m
        on m.pair_number = a.pair_number
        and m.group_id is not distinct from a.group_id
        and m.age = 1
        and m.to_topic_id = p.here_topic_id
    where case
            when m.kind = 'group_synced' then coalesce(k.read_at_ms + 300000 >= m.moved_at_ms, true)
            else coalesce(k.writer_epoch * 4294967296 + k.round > m.seen_order, true)
        end
    group by a.pair_number, a.group_id
)

select
    a.pair_number,
    a.group_id,
    p.here_log,
    p.there_log,
    c.committed_offset,
    c.topic_id,
    c.leader_epoch,
    c.made_after_ms,
    c.first_read_ms,
    c.absence,
    c.absent_since_ms,
    c.metadata,
    case when w.topic is not null then t.committed_offset end as there_offset,
    t.leader_epoch as there_leader_epoch,
    t.made_after_ms as there_made_after_ms,
    m.arrived_offset,
    case when m.from_topic_id = p.there_topic_id then m.left_offset end as left_offset,
    m.left_leader_epoch,
    m.left_made_after_ms,
    v.set_offset,
    w.topic is not null as has_been_there,
    s.highest_seen,
    row_number() over (order by a.pair_number nulls last, a.group_id nulls last) as asked_number
from asked_readers as a
inner join pairs as p using (pair_number)
left join cluster_commits as c
    on c.cluster = p.here_cluster
    and c.topic = p.here_topic
    and c.partition = p.here_partition
    and c.group_id is not distinct from a.group_id
left join cluster_commits as t
    on t.cluster = p.there_cluster
    and t.topic = p.there_topic
    and t.topic_id = p.there_topic_id
    and t.partition = p.there_partition
    and t.group_id is not distinct from a.group_id
left join moves as m
    on m.pair_number = a.pair_number
    and m.group_id is not distinct from a.group_id
    and m.age = 1
    and m.to_topic_id = p.here_topic_id
left join seen as s
    on s.pair_number = a.pair_number
    and s.group_id is not distinct from a.group_id
left join set_offsets as v
    on v.to_cluster = p.there_cluster
    and v.to_topic = p.there_topic
    and v.to_topic_id = p.there_topic_id
    and v.to_partition = p.there_partition
    and v.group_id is not distinct from a.group_id
left join topic_readers as w
    on w.cluster = p.there_cluster
    and w.topic = p.there_topic
    and w.group_id is not distinct from a.group_id;

-- Up to where a group has read: here_to, all below it here; there_to, all below it there; alone_to, all below it there
-- that is there alone; others_to, all below it there that is of others, null where it never read that log. No commit
-- reaches beyond what its log still held when others had been written behind it.
create or replace temporary view group_reads as
with commits as (
    select
        asked_number,
        'here' as role,
        here_log as log_number,
        case when arrived_offset is not null and highest_seen is null then arrived_offset else committed_offset end
            as commit_offset,
        case when arrived_offset is not null and highest_seen is null then null else leader_epoch end as leader_epoch,
        case when arrived_offset is not null and highest_seen is null then null else made_after_ms end as made_after_ms
    from asked_groups
    union all
    select
        asked_number,
        'there' as role,
        there_log as log_number,
        there_offset as commit_offset,
        there_leader_epoch as leader_epoch,
        there_made_after_ms as made_after_ms
    from asked_groups
    union all
    select
        asked_number,
        'left' as role,
        there_log as log_number,
        left_offset as commit_offset,
        left_leader_epoch as leader_epoch,
        left_made_after_ms as made_after_ms
    from asked_groups
    union all
    select
        asked_number,
        'set' as role,
        there_log as log_number,
        set_offset as commit_offset,
        cast(null as int) as leader_epoch,
        cast(null as bigint) as made_after_ms
    from asked_groups
),

by_epoch as (
    select
        c.asked_number,
        c.role,
        c.log_number,
        c.commit_offset,
        c.made_after_ms,
        min(case when e.leader_epoch > c.leader_epoch then e.epoch_start end) as later_start,
        max(case when e.leader_epoch <= c.leader_epoch then e.epoch_start end) as last_start
    from commits as c
    left join log_epochs as e
        on e.log_number = c.log_number
        and c.leader_epoch is not null
    where c.commit_offset is not null
    group by c.asked_number, c.role, c.log_number, c.commit_offset, c.made_after_ms
),

valid as (
    select
        c.asked_number,
        c.role,
        c.commit_offset,
        least(c.commit_offset, c.later_start, min(t.log_offset)) as valid_to
    from by_epoch as c
    left join log_cuts as t
        on t.log_number = c.log_number
        and coalesce(c.made_after_ms <= t.recorded_at_ms + 300000, true)
        and not (t.is_told and coalesce(c.last_start >= t.log_offset, false))
    group by c.asked_number, c.role, c.commit_offset, c.later_start
),

judged as (
    select
        a.asked_number,
        a.pair_number,
        h.valid_to as here_to,
        t.valid_to as last_there,
        l.valid_to as left_to,
        coalesce(t.valid_to, l.valid_to, s.valid_to, 0) as others_to,
        a.has_been_there,
        p.there_end,
        h.commit_offset < greatest(coalesce(a.arrived_offset, 0), coalesce(a.highest_seen, 0)) as is_rewound,
        h.valid_to < h.commit_offset as is_capped
    from asked_groups as a
    inner join pairs as p using (pair_number)
    left join valid as h on h.asked_number = a.asked_number and h.role = 'here'
    left join valid as t on t.asked_number = a.asked_number and t.role = 'there'
    left join valid as l on l.asked_number = a.asked_number and l.role = 'left'
    left join valid as s on s.asked_number = a.asked_number and s.role = 'set'
)

select
    asked_number,
    pair_number,
    coalesce(here_to, 0) as here_to,
    case when left_to is null or coalesce(is_rewound, false) then 0 else least(left_to, last_there) end as there_to,
    case when coalesce(is_rewound, false) then 0 else coalesce(last_there, left_to, 0) end as alone_to,
    case when has_been_there then least(others_to, case when is_rewound then there_end end) end as others_to,
    coalesce(is_rewound, false) as is_rewound,
    coalesce(is_capped, false) as is_capped
from judged;

-- Offsets there with which it is compared what a group would skip and read again that continues at them: none, unless a
-- time is asked about.
create or replace temporary view compared_offsets as
select pair_number, known_end as there_offset
from pairs
where false;
