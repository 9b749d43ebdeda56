-- name:    offset_translation
-- answers: where does each committed group offset land on the target, and how sure are we?
-- grain:   flow, group_id, source_topic, source_partition
-- reads:   checkpoints, current_maps, effective_syncs, gaps, high_watermarks, last_high_watermarks, offset_syncs,
--          partition_events, segments, topics, writers
-- params:  flow string, driver_lives boolean
-- columns: flow string, group_id string, source_topic string, source_partition int,
--          committed_offset bigint, target_topic string, target_topic_id string, target_partition int,
--          target_offset bigint, status string, absence string, absent_since_ms bigint, metadata string
-- status:  no_map, other_incarnation, other_target_incarnation, mirrored, before_first, lost, expired_on_target,
--          not_yet_copied, ahead, gone, hidden, truncated, exact, gap, at_end
--
-- The rule is ledger.domain.translation.translate_commit, set-wise: the commit's own record, else the first
-- record after the last copied one below it, else the end of the map; never below the target's log start. So
-- following it may repeat records and never skips one. A map is what holds after supersession in the target
-- incarnation that the flow went to last. A commit on records that the source took back counts as made where
-- these began. One that is not there any more counts with its last offset; absent_since_ms is when its absence
-- was first seen. An offset inside the map that no offset sync covers (a broken ledger: audit_l1_tiling) is
-- no_map, without an answer. Beyond the map is not_yet_copied while a driver
-- lives that the parameter says of, and may have found the records since: a round copies what was there when it
-- began, and is recorded while the next one runs. metadata is that of the last known commit, verbatim.
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
-- commit_number stands for the grain in joins, where a null group_id would not equal itself.
aged as (
    select
        f.flow,
        c.group_id,
        c.topic,
        c.topic_id,
        c.partition,
        c.committed_offset,
        c.leader_epoch,
        c.metadata,
        c.absence,
        c.read_at_ms,
        row_number() over (
            partition by c.group_id, c.topic, c.partition
            order by
                c.writer_epoch desc nulls last,
                c.round desc nulls last,
                c.recorded_at_ms desc nulls last,
                c.read_at_ms desc nulls last,
                c.committed_offset asc nulls last,
                c.topic_id asc nulls last
        ) as age,
        dense_rank() over (
            order by c.group_id nulls last, c.topic nulls last, c.partition nulls last
        ) as commit_number
    from checkpoints as c
    inner join flow_source as f on f.source_cluster = c.cluster
),

last_known as (
    select a.commit_number, min(a.age) as age
    from aged as a
    where a.committed_offset is not null
    group by a.commit_number
),

commits as (
    select
        a.flow,
        a.group_id,
        a.topic,
        a.topic_id,
        a.partition,
        a.committed_offset,
        a.leader_epoch,
        a.metadata,
        a.age,
        a.commit_number
    from aged as a
    inner join last_known as l
        on l.commit_number = a.commit_number
        and l.age = a.age
),

-- When the group was last seen with another offset, or with none.
changes as (
    select c.commit_number, max(a.read_at_ms) as made_after_ms
    from commits as c
    inner join aged as a
        on a.commit_number = c.commit_number
        and c.age + 1 <= a.age
    where coalesce(a.committed_offset <> c.committed_offset, true)
    group by c.commit_number
),

-- When the group was first seen with the offset.
first_reads as (
    select c.commit_number, min(a.read_at_ms) as read_at_ms
    from commits as c
    inner join aged as a
        on a.commit_number = c.commit_number
        and a.committed_offset = c.committed_offset
    group by c.commit_number
),

-- When the flow's driver appended something: rounds, claims and signs of life, the last one first.
appends as (
    select t.recorded_at_ms, row_number() over (order by t.recorded_at_ms desc nulls last) as age
    from (
        select o.recorded_at_ms
        from offset_syncs as o
        inner join params as p on p.flow = o.flow
        union all
        select w.recorded_at_ms
        from writers as w
        inner join params as p on p.flow = w.flow
    ) as t
    group by t.recorded_at_ms
),

absent_since as (
    select c.commit_number, min(a.read_at_ms) as absent_since_ms
    from commits as c
    inner join aged as a
        on a.commit_number = c.commit_number
        and a.age < c.age
    group by c.commit_number
),

absent as (
    select a.commit_number, coalesce(a.absence, 'gone') as absence
    from aged as a
    where a.age = 1 and a.committed_offset is null
),

-- map_number stands for the keys of a map, as commit_number does for the grain. width cuts the source into
-- about a thousand stripes: a commit is compared with the stretches of its stripe, and with whole stripes.
maps as (
    select
        m.flow,
        m.source_topic,
        m.source_topic_id,
        m.source_partition,
        m.source_cluster,
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

-- Whether any incarnation of the partition was ever mapped.
known as (
    select c.commit_number, count(m.source_topic_id) as map_count
    from commits as c
    inner join maps as m
        on m.source_topic = c.topic
        and m.source_partition = c.partition
    group by c.commit_number
),

-- Where each leader epoch begins, by rows that tell of batches.
epoch_starts as (
    select w.map_number, e.source_leader_epoch as leader_epoch, min(e.source_start) as source_start
    from maps as w
    inner join effective_syncs as e
        on e.flow = w.flow
        and e.source_topic = w.source_topic
        and e.source_topic_id = w.source_topic_id
        and e.source_partition = w.source_partition
    where e.kind in ('copied', 'adopted') and e.is_current and e.source_leader_epoch is not null
    group by w.map_number, e.source_leader_epoch
),

truncations as (
    select w.map_number, o.source_start, max(o.recorded_at_ms) as recorded_at_ms
    from maps as w
    inner join offset_syncs as o
        on o.flow = w.flow
        and o.source_topic = w.source_topic
        and o.source_topic_id = w.source_topic_id
        and o.source_partition = w.source_partition
    where o.cause = 'source_truncated'
    group by w.map_number, o.source_start
),

asked as (
    select
        c.commit_number,
        c.committed_offset,
        c.leader_epoch,
        b.made_after_ms,
        m.map_number,
        m.width
    from commits as c
    left join changes as b on b.commit_number = c.commit_number
    inner join maps as m
        on m.source_topic = c.topic
        and m.source_topic_id = c.topic_id
        and m.source_partition = c.partition
),

-- Where the source took back what a commit was made on. The clocks of recorders and drivers may differ by
-- five minutes.
taken_back as (
    select a.commit_number, e.source_start
    from asked as a
    inner join epoch_starts as e
        on e.map_number = a.map_number
        and e.leader_epoch > a.leader_epoch
    union all
    select a.commit_number, t.source_start
    from asked as a
    inner join truncations as t
        on t.map_number = a.map_number
        and coalesce(a.made_after_ms <= t.recorded_at_ms + 300000, true)
    where a.leader_epoch is null
),

caps as (
    select t.commit_number, min(t.source_start) as source_start
    from taken_back as t
    group by t.commit_number
),

capped as (
    select
        a.commit_number,
        a.map_number,
        a.width,
        least(a.committed_offset, t.source_start) as valid_to
    from asked as a
    left join caps as t on t.commit_number = a.commit_number
),

mapped as (
    select c.commit_number, c.map_number, c.valid_to, c.valid_to - mod(c.valid_to, c.width) as stripe
    from capped as c
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
        cast(null as bigint) as gap_start,
        cast(null as string) as cause
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
        case when g.kind = 'gap' then g.source_start end as gap_start,
        g.cause
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
    select w.map_number, u.target_start, u.target_end, min(s.source_start) as next_start
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
    group by w.map_number, u.target_start, u.target_end
),

-- All that lies ahead of a commit. Ranges rise together on both sides (M1, M2): the lowest is the next.
ahead as (
    select m.commit_number, t.copied_start, t.target_start, t.lost_start, t.gap_start
    from mapped as m
    inner join striped as t
        on t.map_number = m.map_number
        and t.stripe = m.stripe
        and t.source_end > m.valid_to
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
        and coalesce(u.next_start > m.valid_to, true)
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

-- The lives of a topic name that the recorder of its cluster has seen, in the order in which it did.
sightings as (
    select t.cluster, t.topic, t.topic_id, t.writer_epoch, t.round, t.recorded_at_ms
    from topics as t
    union all
    select w.cluster, w.topic, w.topic_id, w.writer_epoch, w.round, w.recorded_at_ms
    from high_watermarks as w
),

lives as (
    select
        s.cluster,
        s.topic,
        s.topic_id,
        max(s.writer_epoch * 4294967296 + s.round) as last_order,
        max(s.recorded_at_ms) as last_at_ms
    from sightings as s
    group by s.cluster, s.topic, s.topic_id
),

target_lives as (
    select w.map_number, n.topic_id = w.target_topic_id as is_own, n.last_order, n.last_at_ms
    from maps as w
    inner join lives as n
        on n.cluster = w.target_cluster
        and n.topic = w.target_topic
),

-- When any flow last recorded something about the target topic of a map.
reached as (
    select w.map_number, max(o.recorded_at_ms) as last_at_ms
    from maps as w
    inner join offset_syncs as o on o.target_topic_id = w.target_topic_id
    group by w.map_number
),

target_events as (
    select
        w.map_number,
        v.kind,
        v.cause,
        row_number() over (
            partition by w.map_number
            order by
                v.writer_epoch desc nulls last,
                v.round desc nulls last,
                v.kind desc nulls last,
                v.cause desc nulls last
        ) as age
    from maps as w
    inner join partition_events as v
        on v.flow = w.flow
        and v.source_topic_id = w.source_topic_id
        and v.source_partition = w.source_partition
),

-- Living commits that a round may copy up to which is not recorded yet, of partitions that do not stand still.
coming as (
    select m.commit_number, count(*) as reasons
    from mapped as m
    inner join params as p on p.driver_lives
    inner join first_reads as f on f.commit_number = m.commit_number
    inner join appends as r
        on r.age = 2
        and f.read_at_ms > r.recorded_at_ms
    left join absent as n on n.commit_number = m.commit_number
    left join target_events as e
        on e.map_number = m.map_number
        and e.age = 1
        and e.kind = 'partition_stopped'
    where n.absence is null and e.kind is null
    group by m.commit_number
),

-- Maps whose target topic is gone, or has another topic id by now: as the recorder saw one after the other, else
-- as it saw another life after the last word of any flow about this one; as it saw this one end; as the flow says.
ends_of_life as (
    select n.map_number
    from target_lives as n
    left join target_lives as own on own.map_number = n.map_number and own.is_own
    inner join reached as r on r.map_number = n.map_number
    where not n.is_own
        and case when own.is_own then n.last_order > own.last_order else n.last_at_ms > r.last_at_ms end
    union all
    select w.map_number
    from maps as w
    inner join topics as t on t.topic_id = w.target_topic_id
    inner join target_lives as own on own.map_number = w.map_number and own.is_own
    where t.event = 'deleted' and t.writer_epoch * 4294967296 + t.round >= own.last_order
    union all
    select e.map_number
    from target_events as e
    where e.age = 1 and e.cause in ('target_recreated', 'target_topic_gone')
),

left_behind as (
    select e.map_number, count(*) as reasons
    from ends_of_life as e
    group by e.map_number
),

-- Other flows that copy the target topic to the source topic, whatever life of either they have copied so far.
copied_back as (
    select w.map_number, w.target_cluster, w.target_topic, w.target_topic_id, w.target_partition
    from maps as w
    inner join offset_syncs as o
        on o.source_cluster = w.target_cluster
        and o.source_topic = w.target_topic
        and o.target_cluster = w.source_cluster
        and o.target_topic = w.source_topic
        and o.flow <> w.flow
    group by w.map_number, w.target_cluster, w.target_topic, w.target_topic_id, w.target_partition
),

floors as (
    select b.map_number, coalesce(h.log_start, 0) as log_start
    from copied_back as b
    left join last_high_watermarks as h
        on h.cluster = b.target_cluster
        and h.topic = b.target_topic
        and h.topic_id = b.target_topic_id
        and h.partition = b.target_partition
),

held as (
    select t.map_number, t.target_start, t.target_start + (t.source_end - t.copied_start) as target_end
    from stretches as t
    where t.copied_start is not null
    union all
    select u.map_number, u.target_start, u.target_end
    from unpaired as u
),

following as (
    select
        h.map_number,
        h.target_start,
        h.target_end,
        greatest(
            lag(h.target_end) over (partition by h.map_number order by h.target_start nulls last),
            f.log_start
        ) as held_before,
        f.log_start
    from held as h
    inner join floors as f on f.map_number = h.map_number
),

-- The first target offset that holds no record of the map, from the target's log start on.
holes as (
    select
        f.map_number,
        coalesce(
            min(case when h.target_start > h.held_before then h.held_before end),
            greatest(max(h.target_end), f.log_start)
        ) as held_to
    from floors as f
    left join following as h on h.map_number = f.map_number
    group by f.map_number, f.log_start
),

mirror_writes as (
    select t.map_number, max(t.source_end) as source_end
    from stretches as t
    where t.cause = 'mirror_write'
    group by t.map_number
),

targets as (
    select
        w.map_number,
        w.target_topic,
        w.target_topic_id,
        w.target_partition,
        w.source_start,
        w.source_end,
        w.target_end,
        h.log_start,
        o.held_to,
        i.source_end as mirror_write_end,
        l.reasons is not null as is_left_behind
    from maps as w
    left join last_high_watermarks as h
        on h.cluster = w.target_cluster
        and h.topic = w.target_topic
        and h.topic_id = w.target_topic_id
        and h.partition = w.target_partition
    left join holes as o on o.map_number = w.map_number
    left join mirror_writes as i on i.map_number = w.map_number
    left join left_behind as l on l.map_number = w.map_number
),

placed as (
    select
        m.commit_number,
        m.valid_to,
        w.target_topic,
        w.target_topic_id,
        w.target_partition,
        w.log_start,
        w.held_to,
        w.mirror_write_end,
        w.is_left_behind,
        coalesce(
            s.target_start + greatest(m.valid_to - s.copied_start, 0),
            w.target_end
        ) as answer,
        case
            when s.copied_start <= m.valid_to then 'exact'
            when s.lost_start <= m.valid_to then 'lost'
            when s.gap_start <= m.valid_to then 'gap'
            when m.valid_to < w.source_start then 'before_first'
            when m.valid_to < w.source_end then 'uncovered'
            when m.valid_to > w.source_end then 'ahead'
            else 'at_end'
        end as place
    from mapped as m
    inner join targets as w on w.map_number = m.map_number
    left join next_ahead as s on s.commit_number = m.commit_number
),

judged as (
    select
        c.flow,
        c.group_id,
        c.topic as source_topic,
        c.partition as source_partition,
        c.committed_offset,
        p.target_topic,
        p.target_topic_id,
        p.target_partition,
        greatest(p.answer, p.log_start) as readable,
        case
            when k.map_count is null then 'no_map'
            when p.place is null then 'other_incarnation'
            when p.place = 'uncovered' then 'no_map'
            when p.is_left_behind then 'other_target_incarnation'
            when p.answer > p.held_to then 'mirrored'
            when p.valid_to < p.mirror_write_end then 'mirrored'
            when p.place in ('before_first', 'lost') then p.place
            when p.answer < p.log_start then 'expired_on_target'
            when p.place = 'ahead' and g.reasons is not null then 'not_yet_copied'
            when p.place = 'ahead' then p.place
            when n.absence is not null then n.absence
            when p.valid_to < c.committed_offset then 'truncated'
            else p.place
        end as status,
        n.absence,
        i.absent_since_ms,
        c.metadata
    from commits as c
    left join coming as g on g.commit_number = c.commit_number
    left join absent as n on n.commit_number = c.commit_number
    left join absent_since as i on i.commit_number = c.commit_number
    left join known as k on k.commit_number = c.commit_number
    left join placed as p on p.commit_number = c.commit_number
)

select
    j.flow,
    j.group_id,
    j.source_topic,
    j.source_partition,
    j.committed_offset,
    j.target_topic,
    j.target_topic_id,
    j.target_partition,
    case
        when j.status not in ('no_map', 'other_incarnation', 'other_target_incarnation', 'mirrored') then j.readable
    end as target_offset,
    j.status,
    j.absence,
    j.absent_since_ms,
    j.metadata
from judged as j
order by
    j.flow nulls last,
    j.group_id nulls last,
    j.source_topic nulls last,
    j.source_partition nulls last
