-- name:    uncommitted_partitions
-- answers: of which partitions of the topics that it reads has a group no commit, and from where is nothing skipped?
-- grain:   flow, group_id, source_topic, source_partition
-- reads:   checkpoints, last_claims, last_high_watermarks, last_syncs
-- params:  flow string
-- columns: flow string, group_id string, source_topic string, source_partition int, target_topic string,
--          target_topic_id string, target_partition int, target_offset bigint, status string
-- status:  no_commit, no_commit_empty
--
-- Beside offset_translation, which has a row for every commit: a consumer begins a partition without one by its
-- auto.offset.reset, and with `latest` passes all that is there. A group reads the topics on which it has a commit
-- now. target_offset is the target's log start as it was read last, null when nobody has read it of the topic id
-- that the map is about; no_commit_empty: there was no record to be passed.
with flow_source as (
    select c.flow, c.source_cluster
    from last_claims as c
    inner join params as p on p.flow = c.flow
),

-- Within a round a commit comes before its absence.
last_rounds as (
    select
        c.cluster,
        c.group_id,
        c.topic,
        c.partition,
        max(c.writer_epoch * 4294967296 + c.round) as recorded_order,
        count(c.committed_offset) as offsets
    from checkpoints as c
    inner join flow_source as f on f.source_cluster = c.cluster
    group by c.cluster, c.group_id, c.topic, c.partition
),

last_commits as (
    select
        c.group_id,
        c.topic_id,
        c.committed_offset,
        row_number() over (
            partition by c.group_id, c.topic, c.partition
            order by c.committed_offset nulls last
        ) as age
    from checkpoints as c
    inner join last_rounds as l
        on l.cluster = c.cluster
        and l.group_id = c.group_id
        and l.topic = c.topic
        and l.partition = c.partition
        and l.recorded_order = c.writer_epoch * 4294967296 + c.round
),

readers as (
    select c.group_id, c.topic_id
    from last_commits as c
    where c.age = 1 and c.committed_offset is not null
    group by c.group_id, c.topic_id
),

committed as (
    select c.group_id, c.topic, c.partition
    from last_rounds as c
    where c.offsets > 0
),

maps as (
    select
        m.source_topic,
        m.source_topic_id,
        m.source_partition,
        m.target_topic,
        m.target_topic_id,
        m.target_partition
    from last_syncs as m
    inner join params as p on p.flow = m.flow
),

copied_topics as (
    select m.source_topic, m.source_topic_id
    from maps as m
    group by m.source_topic, m.source_topic_id
),

-- With those that the source has and the flow has not begun yet.
ends as (
    select h.cluster, h.topic, h.topic_id, h.partition, h.log_start, h.high_watermark, h.read_at_ms
    from last_high_watermarks as h
),

partitions as (
    select k.source_topic, k.source_topic_id, k.source_partition
    from (
        select m.source_topic, m.source_topic_id, m.source_partition
        from maps as m
        union all
        select t.source_topic, t.source_topic_id, h.partition as source_partition
        from copied_topics as t
        inner join ends as h on h.topic_id = t.source_topic_id
    ) as k
    group by k.source_topic, k.source_topic_id, k.source_partition
),

last_looks as (
    select
        h.topic_id,
        h.partition,
        h.log_start,
        h.high_watermark,
        row_number() over (
            partition by h.cluster, h.topic, h.partition
            order by h.read_at_ms desc nulls last, h.topic_id nulls last
        ) as age
    from ends as h
)

select
    f.flow,
    r.group_id,
    k.source_topic,
    k.source_partition,
    m.target_topic,
    m.target_topic_id,
    m.target_partition,
    h.log_start as target_offset,
    case when h.log_start = h.high_watermark then 'no_commit_empty' else 'no_commit' end as status
from readers as r
cross join flow_source as f
inner join partitions as k on k.source_topic_id = r.topic_id
left join committed as c
    on c.group_id = r.group_id
    and c.topic = k.source_topic
    and c.partition = k.source_partition
left join maps as m
    on m.source_topic_id = k.source_topic_id
    and m.source_partition = k.source_partition
left join last_looks as h
    on h.topic_id = m.target_topic_id
    and h.partition = m.target_partition
    and h.age = 1
where c.group_id is null
order by
    f.flow nulls last,
    r.group_id nulls last,
    k.source_topic nulls last,
    k.source_partition nulls last
