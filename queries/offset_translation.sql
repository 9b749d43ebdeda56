-- name:    offset_translation
-- answers: where does each committed group offset land on the target, and how sure are we?
-- grain:   flow, group_id, source_topic, source_partition
-- reads:   checkpoints, gaps, high_watermarks, offset_syncs, segments, writers
-- params:  flow string
-- columns: flow string, group_id string, source_topic string, source_partition int,
--          committed_offset bigint, target_topic string, target_partition int,
--          target_offset bigint, status string
-- status:  no_map, other_incarnation, before_first, lost, expired_on_target, exact, gap, at_end, ahead
--
-- The rule is ledger.domain.offsets.OffsetMap.translate, set-wise: the first copied record at or after the
-- commit, else the end of the map; never below the target's log start. So following it may repeat records
-- and never skips one. A map is read for the target incarnation that the flow copied to last. An offset
-- inside the map that no offset sync covers (a broken ledger: audit_l1_tiling) is no_map, without an answer.
with flow_source as (
    select c.flow, c.source_cluster
    from (
        select
            w.flow,
            w.source_cluster,
            row_number() over (
                partition by w.flow
                order by w.writer_epoch desc nulls last, w.recorded_at_ms desc nulls last
            ) as age
        from writers as w
        inner join params as p on p.flow = w.flow
        where w.event = 'claimed'
    ) as c
    where c.age = 1
),

-- One recorder writes a cluster's checkpoints, so (writer_epoch, round) orders them. Within a round: the
-- later read, then a commit before its absence, then the lower offset, which repeats rather than skips.
aged as (
    select
        f.flow,
        c.group_id,
        c.topic,
        c.topic_id,
        c.partition,
        c.committed_offset,
        row_number() over (
            partition by c.group_id, c.topic, c.partition
            order by
                c.writer_epoch desc nulls last,
                c.round desc nulls last,
                c.recorded_at_ms desc nulls last,
                c.read_at_ms desc nulls last,
                c.committed_offset asc nulls last,
                c.topic_id asc nulls last
        ) as age
    from checkpoints as c
    inner join flow_source as f on f.source_cluster = c.cluster
),

-- commit_number stands for the grain in joins, where a null group_id would not equal itself.
commits as (
    select
        flow,
        group_id,
        topic,
        topic_id,
        partition,
        committed_offset,
        row_number() over (
            order by group_id nulls last, topic nulls last, partition nulls last
        ) as commit_number
    from aged
    where age = 1 and committed_offset is not null
),

bounds as (
    select
        o.flow,
        o.source_topic,
        o.source_topic_id,
        o.source_partition,
        o.target_cluster,
        o.target_topic,
        o.target_topic_id,
        o.target_partition,
        min(o.source_start) as source_start,
        max(o.source_end) as source_end,
        max(o.target_end) as target_end,
        max(o.writer_epoch * 4294967296 + o.round) as last_append
    from offset_syncs as o
    where o.kind in ('adopted', 'copied', 'lost')
    group by
        o.flow,
        o.source_topic,
        o.source_topic_id,
        o.source_partition,
        o.target_cluster,
        o.target_topic,
        o.target_topic_id,
        o.target_partition
),

maps as (
    select
        b.flow,
        b.source_topic,
        b.source_topic_id,
        b.source_partition,
        b.target_cluster,
        b.target_topic,
        b.target_topic_id,
        b.target_partition,
        b.source_start,
        b.source_end,
        b.target_end,
        row_number() over (
            partition by b.flow, b.source_topic, b.source_topic_id, b.source_partition
            order by
                b.last_append desc nulls last,
                b.target_topic_id nulls last,
                b.target_topic nulls last,
                b.target_partition nulls last,
                b.target_cluster nulls last
        ) as age
    from bounds as b
),

mapped as (
    select
        c.commit_number,
        c.committed_offset,
        m.flow,
        m.source_topic,
        m.source_topic_id,
        m.source_partition,
        m.target_cluster,
        m.target_topic,
        m.target_topic_id,
        m.target_partition,
        m.source_start,
        m.source_end,
        m.target_end
    from commits as c
    inner join maps as m
        on m.flow = c.flow
        and m.source_topic = c.topic
        and m.source_topic_id = c.topic_id
        and m.source_partition = c.partition
    where m.age = 1
),

-- Whether any incarnation of the partition was ever mapped.
known as (
    select c.commit_number, count(m.source_topic_id) as map_count
    from commits as c
    inner join maps as m
        on m.flow = c.flow
        and m.source_topic = c.topic
        and m.source_partition = c.partition
    group by c.commit_number
),

-- The first copied record at or after the commit. source_start is unique in a map that tiles (L1).
next_copied as (
    select
        m.commit_number,
        min(s.source_start) as source_start,
        min_by(s.target_start, s.source_start) as target_start
    from mapped as m
    inner join segments as s
        on s.flow = m.flow
        and s.source_topic = m.source_topic
        and s.source_topic_id = m.source_topic_id
        and s.source_partition = m.source_partition
        and s.target_topic = m.target_topic
        and s.target_topic_id = m.target_topic_id
        and s.target_partition = m.target_partition
        and s.source_end > m.committed_offset
    group by m.commit_number
),

-- The gap or lost stretch that holds the commit.
unmapped as (
    select m.commit_number, max(g.kind) as kind
    from mapped as m
    inner join gaps as g
        on g.flow = m.flow
        and g.source_topic = m.source_topic
        and g.source_topic_id = m.source_topic_id
        and g.source_partition = m.source_partition
        and g.target_topic = m.target_topic
        and g.target_topic_id = m.target_topic_id
        and g.target_partition = m.target_partition
        and g.source_start <= m.committed_offset
        and g.source_end > m.committed_offset
    group by m.commit_number
),

-- Recorders and flows both write high watermarks, so the time of the read orders them.
target_starts as (
    select
        h.cluster,
        h.topic,
        h.topic_id,
        h.partition,
        h.log_start,
        row_number() over (
            partition by h.cluster, h.topic, h.topic_id, h.partition
            order by
                h.read_at_ms desc nulls last, h.recorded_at_ms desc nulls last, h.log_start desc nulls last
        ) as age
    from high_watermarks as h
),

placed as (
    select
        m.commit_number,
        m.target_topic,
        m.target_partition,
        t.log_start,
        coalesce(
            n.target_start + greatest(m.committed_offset - n.source_start, 0),
            m.target_end
        ) as answer,
        case
            when n.source_start <= m.committed_offset then 'exact'
            when u.kind is not null then u.kind
            when m.committed_offset < m.source_start then 'before_first'
            when m.committed_offset < m.source_end then 'uncovered'
            when m.committed_offset > m.source_end then 'ahead'
            else 'at_end'
        end as place
    from mapped as m
    left join next_copied as n on n.commit_number = m.commit_number
    left join unmapped as u on u.commit_number = m.commit_number
    left join target_starts as t
        on t.cluster = m.target_cluster
        and t.topic = m.target_topic
        and t.topic_id = m.target_topic_id
        and t.partition = m.target_partition
        and t.age = 1
)

select
    c.flow,
    c.group_id,
    c.topic as source_topic,
    c.partition as source_partition,
    c.committed_offset,
    p.target_topic,
    p.target_partition,
    case when p.place <> 'uncovered' then greatest(p.answer, p.log_start) end as target_offset,
    case
        when k.map_count is null then 'no_map'
        when p.place is null then 'other_incarnation'
        when p.place = 'uncovered' then 'no_map'
        when p.place in ('before_first', 'lost') then p.place
        when p.answer < p.log_start then 'expired_on_target'
        else p.place
    end as status
from commits as c
left join known as k on k.commit_number = c.commit_number
left join placed as p on p.commit_number = c.commit_number
order by
    c.flow nulls last,
    c.group_id nulls last,
    c.topic nulls last,
    c.partition nulls last
