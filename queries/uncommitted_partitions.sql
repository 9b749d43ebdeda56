-- name:    uncommitted_partitions
-- answers: of which partitions of the topics that it reads has a group no commit, and from where is nothing skipped?
-- grain:   flow, group_id, source_topic, source_partition
-- reads:   last_commits, last_high_watermarks, last_syncs
-- params:  flow string
-- columns: flow string, group_id string, source_topic string, source_partition int, target_topic string,
--          target_topic_id string, target_partition int, target_offset bigint, status string
-- status:  no_commit_empty, no_commit
--
-- Beside offset_translation, which has a row for every commit: a consumer begins a partition without one by its
-- auto.offset.reset, and with `latest` passes all that is there. A group reads the topics on which it has a commit
-- now. target_offset is the target's log start as it was read last, null when nobody has read it of the topic id
-- that the map is about; no_commit_empty: there was no record to be passed.
with commits as (
    select c.flow, c.group_id, c.topic, c.topic_id, c.partition, c.absence
    from last_commits as c
    inner join params as p on p.flow = c.flow
),

readers as (
    select c.flow, c.group_id, c.topic_id
    from commits as c
    where c.absence is null
    group by c.flow, c.group_id, c.topic_id
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
partitions as (
    select m.source_topic, m.source_topic_id, m.source_partition
    from maps as m
    union
    select t.source_topic, t.source_topic_id, h.partition as source_partition
    from copied_topics as t
    inner join last_high_watermarks as h on h.topic_id = t.source_topic_id
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
    from last_high_watermarks as h
)

select
    r.flow,
    r.group_id,
    k.source_topic,
    k.source_partition,
    m.target_topic,
    m.target_topic_id,
    m.target_partition,
    h.log_start as target_offset,
    case when h.log_start = h.high_watermark then 'no_commit_empty' else 'no_commit' end as status
from readers as r
inner join partitions as k on k.source_topic_id = r.topic_id
left join commits as c
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
    r.flow nulls last,
    r.group_id nulls last,
    k.source_topic nulls last,
    k.source_partition nulls last
