-- name:    offset_translation
-- answers: where does each committed group offset land on the target, and how sure are we?
-- grain:   flow, group_id, source_topic, source_partition
-- reads:   commit_stretches, current_maps, driver_appends, ended_targets, last_commits, last_high_watermarks,
--          last_partition_events, last_syncs, written_sources
-- params:  flow string, driver_lives boolean
-- columns: flow string, group_id string, source_topic string, source_partition int,
--          committed_offset bigint, target_topic string, target_topic_id string, target_partition int,
--          target_offset bigint, status string, absence string, absent_since_ms bigint, metadata string
-- status:  no_map, other_incarnation, other_target_incarnation, mirrored, before_first, lost, expired_on_target,
--          not_yet_copied, ahead, gone, hidden, truncated, exact, gap, at_end
--
-- The rule, as tests hold it against translate_commit of tests/support/algebra: the commit's own record, else the first
-- record after the last copied one below it, else the end of the map; never below the target's log start, and never
-- behind an earlier copy of what a resync has yet to copy again. So following it may repeat records and never skips
-- one. A map is what holds after supersession in the target incarnation that the flow went to last. A commit on
-- records that the source took back counts as made where these began. One that is not there any more counts with its
-- last offset; absent_since_ms is when its absence was first seen. An offset inside the map that no offset sync covers
-- (a broken ledger: audit_l1_tiling) is no_map, without an answer. Beyond the map is not_yet_copied while a driver
-- lives that the parameter says of, and may have found the records since: a round copies what was there when it
-- began, and is recorded while the next one runs. metadata is that of the last known commit, verbatim.
with commits as (
    select c.*, p.driver_lives
    from last_commits as c
    inner join params as p on p.flow = c.flow
),

-- Whether any incarnation of the partition was ever mapped.
known as (
    select c.commit_number, count(m.source_topic_id) as map_count
    from commits as c
    inner join last_syncs as m
        on m.flow = c.flow
        and m.source_topic = c.topic
        and m.source_partition = c.partition
    group by c.commit_number
),

placed as (
    select
        m.commit_number,
        m.place as valid_to,
        w.target_topic,
        w.target_topic_id,
        w.target_partition,
        h.log_start,
        o.held_to,
        w.mirror_write_end,
        l.map_number is not null as is_left_behind,
        v.kind is not null as is_stopped,
        least(
            coalesce(
                least(m.target_start, m.unpaired_start) + greatest(m.place - m.copied_start, 0),
                w.target_end
            ),
            m.earlier_start
        ) as answer,
        case
            when m.copied_start <= m.place or m.is_copied_before then 'exact'
            when m.lost_start <= m.place then 'lost'
            when m.gap_start <= m.place then 'gap'
            when m.place < w.source_start then 'before_first'
            when m.place < w.source_end then 'uncovered'
            when m.place > w.source_end then 'ahead'
            else 'at_end'
        end as place
    from commit_stretches as m
    inner join params as p on p.flow = m.flow
    inner join current_maps as w using (map_number)
    left join written_sources as o using (map_number)
    left join ended_targets as l using (map_number)
    left join last_high_watermarks as h
        on h.cluster = w.target_cluster
        and h.topic = w.target_topic
        and h.topic_id = w.target_topic_id
        and h.partition = w.target_partition
    left join last_partition_events as v
        on v.flow = w.flow
        and v.source_topic = w.source_topic
        and v.source_topic_id = w.source_topic_id
        and v.source_partition = w.source_partition
        and v.kind = 'partition_stopped'
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
            when p.answer > p.held_to or p.valid_to < p.mirror_write_end then 'mirrored'
            when p.place in ('before_first', 'lost') then p.place
            when p.answer < p.log_start then 'expired_on_target'
            when p.place = 'ahead'
                and c.driver_lives
                and c.first_read_ms > r.recorded_at_ms
                and c.absence is null
                and not p.is_stopped then 'not_yet_copied'
            when p.place = 'ahead' then p.place
            when c.absence is not null then c.absence
            when p.valid_to < c.committed_offset then 'truncated'
            else p.place
        end as status,
        c.absence,
        c.absent_since_ms,
        c.metadata
    from commits as c
    left join known as k using (commit_number)
    left join placed as p using (commit_number)
    left join driver_appends as r on r.flow = c.flow and r.age = 2
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
        when j.status not in ('no_map', 'other_target_incarnation', 'mirrored') then j.readable
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
