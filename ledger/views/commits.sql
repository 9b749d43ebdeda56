-- Commits of groups, as recorders saw them.

-- What was seen of each group on a partition of a cluster in the last round, and in the last one with a commit; age 1 is the
-- last look. known_order is that of the last round with a commit. commit_number stands for the group and the partition.
create or replace temporary view commit_looks as
with grains as (
    select
        cluster,
        group_id,
        topic,
        partition,
        last_order,
        known_order,
        row_number() over (
            order by cluster nulls last, group_id nulls last, topic nulls last, partition nulls last
        ) as commit_number
    from (
        select
            c.cluster,
            c.group_id,
            c.topic,
            c.partition,
            max(c.writer_epoch * 4294967296 + c.round) as last_order,
            max(
                case when c.committed_offset is not null then c.writer_epoch * 4294967296 + c.round end
            ) as known_order
        from checkpoints as c
        group by c.cluster, c.group_id, c.topic, c.partition
    ) as g
)

select
    c.*,
    g.commit_number,
    g.known_order,
    row_number() over (
        partition by g.commit_number
        order by
            c.writer_epoch desc nulls last,
            c.round desc nulls last,
            c.recorded_at_ms desc nulls last,
            c.read_at_ms desc nulls last,
            c.committed_offset asc nulls last,
            c.topic_id asc nulls last
    ) as age
from checkpoints as c
inner join grains as g
    on g.cluster = c.cluster
    and g.topic = c.topic
    and g.partition = c.partition
    and g.group_id is not distinct from c.group_id
where c.writer_epoch * 4294967296 + c.round in (g.last_order, g.known_order);

-- The last known commit of each group on a partition of a cluster; commit_number stands for these in joins.
-- One recorder writes a cluster's checkpoints, so (writer_epoch, round) orders them. Within a round: the later read,
-- then a commit before its absence, then the lower offset, which repeats rather than skips. made_after_ms: when the
-- group was last seen with another offset, or with none. first_read_ms: when it was first seen with the offset since.
-- absence: why the commit is not there any more, null while it is. absent_since_ms: when that was first seen.
create or replace temporary view cluster_commits as
with aged as (
    select *
    from commit_looks
),

known as (
    select *
    from (
        select *, row_number() over (partition by commit_number order by age nulls last) as known_age
        from aged
        where committed_offset is not null
    ) as k
    where known_age = 1
),

-- The last look before it that saw another offset, or none.
differing as (
    select c.commit_number, max(k.writer_epoch * 4294967296 + k.round) as differing_order
    from known as c
    inner join checkpoints as k
        on k.cluster = c.cluster
        and k.topic = c.topic
        and k.partition = c.partition
        and k.group_id is not distinct from c.group_id
    where k.writer_epoch * 4294967296 + k.round < c.known_order
        and coalesce(k.committed_offset <> c.committed_offset, true)
    group by c.commit_number
),

looks as (
    select
        c.commit_number,
        max(
            case
                when k.writer_epoch * 4294967296 + k.round < c.known_order
                    and coalesce(k.committed_offset <> c.committed_offset, true) then k.read_at_ms
            end
        ) as made_after_ms,
        min(
            case
                when k.committed_offset = c.committed_offset
                    and k.writer_epoch * 4294967296 + k.round > coalesce(d.differing_order, -1) then k.read_at_ms
            end
        ) as first_read_ms,
        min(
            case when k.writer_epoch * 4294967296 + k.round > c.known_order then k.read_at_ms end
        ) as absent_since_ms
    from known as c
    inner join checkpoints as k
        on k.cluster = c.cluster
        and k.topic = c.topic
        and k.partition = c.partition
        and k.group_id is not distinct from c.group_id
    left join differing as d on d.commit_number = c.commit_number
    group by c.commit_number
),

-- The same of looks that were recorded with the commit.
looks_beside as (
    select
        c.commit_number,
        max(
            case
                when c.age < a.age and coalesce(a.committed_offset <> c.committed_offset, true)
                    then a.read_at_ms
            end
        ) as made_after_ms,
        min(case when a.age < c.age then a.read_at_ms end) as absent_since_ms,
        max(case when a.age = 1 and a.committed_offset is null then coalesce(a.absence, 'gone') end) as absence
    from known as c
    inner join aged as a using (commit_number)
    group by c.commit_number
)

select
    c.cluster,
    c.group_id,
    c.topic,
    c.topic_id,
    c.partition,
    c.committed_offset,
    c.leader_epoch,
    c.metadata,
    k.first_read_ms,
    greatest(k.made_after_ms, b.made_after_ms) as made_after_ms,
    b.absence,
    least(k.absent_since_ms, b.absent_since_ms) as absent_since_ms,
    c.commit_number
from known as c
inner join looks as k using (commit_number)
inner join looks_beside as b using (commit_number);

-- The same of each flow's source.
create or replace temporary view last_commits as
select
    f.flow,
    c.cluster,
    c.group_id,
    c.topic,
    c.topic_id,
    c.partition,
    c.committed_offset,
    c.leader_epoch,
    c.metadata,
    c.first_read_ms,
    c.made_after_ms,
    c.absence,
    c.absent_since_ms,
    c.commit_number
from cluster_commits as c
inner join last_claims as f on f.source_cluster = c.cluster;

-- Groups by topics on which they have committed themselves, is_present: and one of these commits is there still. What
-- drivers committed for a group that reads elsewhere, and stands where they put it, tells of nobody who has read there.
create or replace temporary view committed_topics as
select c.cluster, c.topic, c.group_id, max(case when c.absence is null then 1 else 0 end) as is_present
from cluster_commits as c
left join (
    select distinct target_cluster, target_topic, target_topic_id, target_partition, group_id, target_offset
    from group_syncs
) as s
    on s.target_cluster = c.cluster
    and s.target_topic = c.topic
    and s.target_topic_id = c.topic_id
    and s.target_partition = c.partition
    and s.group_id = c.group_id
    and s.target_offset = c.committed_offset
where s.target_cluster is null
group by c.cluster, c.topic, c.group_id;
