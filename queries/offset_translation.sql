-- name:    offset_translation
-- answers: where does each committed group offset land on the target, and how sure are we?
-- grain:   flow, group_id, source_topic, source_partition
-- reads:   checkpoints, current_maps, effective_syncs, gaps, last_high_watermarks, segments, writers
-- params:  flow string
-- columns: flow string, group_id string, source_topic string, source_partition int,
--          committed_offset bigint, target_topic string, target_partition int,
--          target_offset bigint, status string
-- status:  no_map, other_incarnation, before_first, lost, expired_on_target, exact, gap, at_end, ahead
--
-- The rule is ledger.domain.offsets.OffsetMap.translate, set-wise: the commit's own record, else the first
-- record after the last copied one below it, else the end of the map; never below the target's log start. So
-- following it may repeat records and never skips one. A map is what holds after supersession in the target
-- incarnation that the flow went to last. An offset inside the map that no offset sync covers (a broken
-- ledger: audit_l1_tiling) is no_map, without an answer.
with flow_source as (
    select c.flow, c.source_cluster
    from (
        select
            w.flow,
            w.source_cluster,
            row_number() over (
                partition by w.flow
                order by w.writer_epoch desc nulls last
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

-- map_number stands for the keys of a map, as commit_number does for the grain. width cuts the source into
-- about a thousand stripes: a commit is compared with the stretches of its stripe, and with whole stripes.
maps as (
    select
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
        m.target_end,
        cast(floor((m.source_end - m.source_start) / 1000) as bigint) + 1 as width,
        row_number() over (
            order by m.source_topic nulls last, m.source_topic_id nulls last, m.source_partition nulls last
        ) as map_number
    from current_maps as m
    inner join params as p on p.flow = m.flow
),

mapped as (
    select
        c.commit_number,
        c.committed_offset,
        m.map_number,
        m.target_cluster,
        m.target_topic,
        m.target_topic_id,
        m.target_partition,
        m.source_start,
        m.source_end,
        m.target_end,
        c.committed_offset - mod(c.committed_offset, m.width) as stripe
    from commits as c
    inner join maps as m
        on m.source_topic = c.topic
        and m.source_topic_id = c.topic_id
        and m.source_partition = c.partition
),

-- Whether any incarnation of the partition was ever mapped.
known as (
    select c.commit_number, count(m.source_topic_id) as map_count
    from commits as c
    inner join maps as m
        on m.source_topic = c.topic
        and m.source_partition = c.partition
    group by c.commit_number
),

-- What a commit can land on or lie in. A stretch counts for the commits below its end.
stretches as (
    select
        w.map_number,
        w.width,
        s.source_end,
        s.source_start as copied_start,
        s.target_start,
        cast(null as bigint) as lost_start,
        cast(null as bigint) as gap_start
    from maps as w
    inner join segments as s
        on s.flow = w.flow
        and s.source_topic = w.source_topic
        and s.source_topic_id = w.source_topic_id
        and s.source_partition = w.source_partition
    where s.is_current
    union all
    select
        w.map_number,
        w.width,
        g.source_end,
        cast(null as bigint) as copied_start,
        cast(null as bigint) as target_start,
        case when g.kind = 'lost' then g.source_start end as lost_start,
        case when g.kind = 'gap' then g.source_start end as gap_start
    from maps as w
    inner join gaps as g
        on g.flow = w.flow
        and g.source_topic = w.source_topic
        and g.source_topic_id = w.source_topic_id
        and g.source_partition = w.source_partition
    where g.is_current
),

striped as (
    select
        t.map_number,
        t.source_end - mod(t.source_end, t.width) as stripe,
        t.source_end,
        t.copied_start,
        t.target_start,
        t.lost_start,
        t.gap_start
    from stretches as t
),

stripes as (
    select
        t.map_number,
        t.stripe,
        min(t.copied_start) as copied_start,
        min(t.target_start) as target_start,
        min(t.lost_start) as lost_start,
        min(t.gap_start) as gap_start
    from striped as t
    group by t.map_number, t.stripe
),

-- Nobody can tell that a group has read unpaired records, until it has read from the next segment.
unpaired as (
    select w.map_number, u.target_start, min(s.source_start) as next_start
    from maps as w
    inner join effective_syncs as u
        on u.flow = w.flow
        and u.source_topic = w.source_topic
        and u.source_topic_id = w.source_topic_id
        and u.source_partition = w.source_partition
    left join segments as s
        on s.flow = w.flow
        and s.source_topic = w.source_topic
        and s.source_topic_id = w.source_topic_id
        and s.source_partition = w.source_partition
        and s.is_current
        and s.source_start >= u.source_start
    where u.kind = 'unpaired' and u.records > 0 and u.is_current
    group by w.map_number, u.target_start
),

-- All that lies ahead of a commit. Ranges rise together on both sides (M1, M2): the lowest is the next.
ahead as (
    select m.commit_number, t.copied_start, t.target_start, t.lost_start, t.gap_start
    from mapped as m
    inner join striped as t
        on t.map_number = m.map_number
        and t.stripe = m.stripe
        and t.source_end > m.committed_offset
    union all
    select m.commit_number, t.copied_start, t.target_start, t.lost_start, t.gap_start
    from mapped as m
    inner join stripes as t
        on t.map_number = m.map_number
        and t.stripe > m.stripe
    union all
    select
        m.commit_number,
        cast(null as bigint) as copied_start,
        u.target_start,
        cast(null as bigint) as lost_start,
        cast(null as bigint) as gap_start
    from mapped as m
    inner join unpaired as u
        on u.map_number = m.map_number
        and coalesce(u.next_start > m.committed_offset, true)
),

next_ahead as (
    select
        a.commit_number,
        min(a.copied_start) as copied_start,
        min(a.target_start) as target_start,
        min(a.lost_start) as lost_start,
        min(a.gap_start) as gap_start
    from ahead as a
    group by a.commit_number
),

placed as (
    select
        m.commit_number,
        m.target_topic,
        m.target_partition,
        h.log_start,
        coalesce(
            s.target_start + greatest(m.committed_offset - s.copied_start, 0),
            m.target_end
        ) as answer,
        case
            when s.copied_start <= m.committed_offset then 'exact'
            when s.lost_start <= m.committed_offset then 'lost'
            when s.gap_start <= m.committed_offset then 'gap'
            when m.committed_offset < m.source_start then 'before_first'
            when m.committed_offset < m.source_end then 'uncovered'
            when m.committed_offset > m.source_end then 'ahead'
            else 'at_end'
        end as place
    from mapped as m
    left join next_ahead as s on s.commit_number = m.commit_number
    left join last_high_watermarks as h
        on h.cluster = m.target_cluster
        and h.topic = m.target_topic
        and h.topic_id = m.target_topic_id
        and h.partition = m.target_partition
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
