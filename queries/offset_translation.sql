-- name:    offset_translation
-- answers: where does each committed group offset land on the target, and how sure are we?
-- grain:   flow, group_id, source_topic, source_partition
-- reads:   checkpoints, effective_syncs, high_watermarks, last_claims, last_high_watermarks, last_partition_events,
--          last_syncs, offset_syncs, topic_lives, topics, writers
-- params:  flow string, driver_lives boolean
-- columns: flow string, group_id string, source_topic string, source_partition int,
--          committed_offset bigint, target_topic string, target_topic_id string, target_partition int,
--          target_offset bigint, status string, absence string, absent_since_ms bigint, metadata string
-- status:  no_map, other_incarnation, other_target_incarnation, mirrored, before_first, lost, expired_on_target,
--          not_yet_copied, ahead, gone, hidden, truncated, exact, gap, at_end
--
-- The rule is ledger.domain.offsets.translation.translate_commit, set-wise: the commit's own record, else the first
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
    from last_claims as c
    inner join params as p on p.flow = c.flow
),

-- One recorder writes a cluster's checkpoints, so (writer_epoch, round) orders them. commit_number stands for the
-- grain in joins.
grains as (
    select
        g.flow,
        g.cluster,
        g.group_id,
        g.topic,
        g.partition,
        g.last_order,
        g.known_order,
        row_number() over (
            order by g.group_id nulls last, g.topic nulls last, g.partition nulls last
        ) as commit_number
    from (
        select
            f.flow,
            c.cluster,
            c.group_id,
            c.topic,
            c.partition,
            max(c.writer_epoch * 4294967296 + c.round) as last_order,
            max(
                case when c.committed_offset is not null then c.writer_epoch * 4294967296 + c.round end
            ) as known_order
        from checkpoints as c
        inner join flow_source as f on f.source_cluster = c.cluster
        group by f.flow, c.cluster, c.group_id, c.topic, c.partition
    ) as g
),

-- What was seen in the last round, and in the last one with a commit. Within a round: the later read, then a commit
-- before its absence, then the lower offset, which repeats rather than skips.
aged as (
    select
        g.flow,
        g.cluster,
        c.group_id,
        c.topic,
        c.topic_id,
        c.partition,
        c.committed_offset,
        c.leader_epoch,
        c.metadata,
        c.absence,
        c.read_at_ms,
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
    where c.writer_epoch * 4294967296 + c.round in (g.last_order, g.known_order)
),

commits as (
    select
        k.flow,
        k.cluster,
        k.group_id,
        k.topic,
        k.topic_id,
        k.partition,
        k.committed_offset,
        k.leader_epoch,
        k.metadata,
        k.known_order,
        k.age,
        k.commit_number
    from (
        select
            a.*,
            row_number() over (partition by a.commit_number order by a.age nulls last) as known_age
        from aged as a
        where a.committed_offset is not null
    ) as k
    where k.known_age = 1
),

-- made_after_ms: when the group was last seen with another offset, or with none. first_read_ms: when it was first
-- seen with the offset.
looks as (
    select
        c.commit_number,
        max(
            case
                when k.writer_epoch * 4294967296 + k.round < c.known_order
                    and coalesce(k.committed_offset <> c.committed_offset, true) then k.read_at_ms
            end
        ) as made_after_ms,
        min(case when k.committed_offset = c.committed_offset then k.read_at_ms end) as first_read_ms,
        min(
            case when k.writer_epoch * 4294967296 + k.round > c.known_order then k.read_at_ms end
        ) as absent_since_ms
    from commits as c
    inner join checkpoints as k
        on k.cluster = c.cluster
        and k.topic = c.topic
        and k.partition = c.partition
        and k.group_id is not distinct from c.group_id
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
        min(case when a.age < c.age then a.read_at_ms end) as absent_since_ms
    from commits as c
    inner join aged as a on a.commit_number = c.commit_number
    group by c.commit_number
),

told as (
    select
        k.commit_number,
        k.first_read_ms,
        greatest(k.made_after_ms, b.made_after_ms) as made_after_ms,
        least(k.absent_since_ms, b.absent_since_ms) as absent_since_ms
    from looks as k
    inner join looks_beside as b on b.commit_number = k.commit_number
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

absent as (
    select a.commit_number, coalesce(a.absence, 'gone') as absence
    from aged as a
    where a.age = 1 and a.committed_offset is null
),

-- map_number stands for the keys of a map, as commit_number does for the grain.
last_places as (
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
        m.source_end,
        m.target_end,
        row_number() over (
            order by m.source_topic nulls last, m.source_topic_id nulls last, m.source_partition nulls last
        ) as map_number
    from last_syncs as m
    inner join params as p on p.flow = m.flow
),

syncs as (
    select
        w.map_number,
        e.source_leader_epoch,
        e.source_start,
        e.source_end,
        e.target_start,
        e.target_end,
        e.gaps,
        e.records,
        e.kind
    from effective_syncs as e
    inner join last_places as w
        on w.flow = e.flow
        and w.source_topic = e.source_topic
        and w.source_topic_id = e.source_topic_id
        and w.source_partition = e.source_partition
    where e.is_current
),

-- width cuts the source into about a thousand stripes.
maps as (
    select
        w.flow,
        w.source_topic,
        w.source_topic_id,
        w.source_partition,
        w.source_cluster,
        w.target_cluster,
        w.target_topic,
        w.target_topic_id,
        w.target_partition,
        w.map_number,
        s.source_start,
        w.source_end,
        w.target_end,
        s.mirror_write_end,
        cast(floor((w.source_end - s.source_start) / 1000) as bigint) + 1 as width
    from last_places as w
    inner join (
        select
            o.map_number,
            min(o.source_start) as source_start,
            max(
                case when o.kind in ('copied', 'adopted') then end_of_gaps(o.gaps, 'mirror_write') end
            ) as mirror_write_end
        from syncs as o
        group by o.map_number
    ) as s on s.map_number = w.map_number
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
    select s.map_number, s.source_leader_epoch as leader_epoch, min(s.source_start) as source_start
    from syncs as s
    where s.kind in ('copied', 'adopted') and s.source_leader_epoch is not null
    group by s.map_number, s.source_leader_epoch
),

recorded as (
    select
        w.map_number,
        o.source_leader_epoch,
        o.source_start,
        o.source_end,
        o.gaps,
        o.kind,
        o.cause,
        o.recorded_at_ms
    from maps as w
    inner join offset_syncs as o
        on o.flow = w.flow
        and o.source_topic = w.source_topic
        and o.source_topic_id = w.source_topic_id
        and o.source_partition = w.source_partition
),

-- Superseded rows count. An adopted row may tell of several epochs, so none begins with it. begins_by: a batch of
-- the epoch began there or before; a row may begin with what a cleaner had taken, of whatever epoch that was.
epoch_spans as (
    select
        r.map_number,
        r.source_leader_epoch as leader_epoch,
        min(case when r.kind = 'copied' then r.source_start end) as source_start,
        min(
            case when r.kind = 'copied' then coalesce(end_of_gaps(r.gaps, 'compacted'), r.source_start) end
        ) as begins_by,
        min(case when r.kind = 'copied' then r.recorded_at_ms end) as recorded_at_ms,
        max(r.source_end) as source_end
    from recorded as r
    where r.kind in ('copied', 'adopted') and r.source_leader_epoch is not null
    group by r.map_number, r.source_leader_epoch
),

met as (
    select r.map_number, r.source_start, max(r.recorded_at_ms) as recorded_at_ms
    from recorded as r
    where r.cause = 'source_truncated'
    group by r.map_number, r.source_start
),

-- How far recorders saw the source's log reach under each leader epoch.
seen_ends as (
    select w.map_number, h.leader_epoch, max(h.high_watermark) as high_watermark
    from maps as w
    inner join high_watermarks as h
        on h.cluster = w.source_cluster
        and h.topic = w.source_topic
        and h.topic_id = w.source_topic_id
        and h.partition = w.source_partition
    group by w.map_number, h.leader_epoch
),

-- And those that leader epochs alone tell of: one begins below what was copied, or seen, of an earlier one.
truncations as (
    select m.map_number, m.source_start, m.recorded_at_ms
    from met as m
    union all
    select e.map_number, e.source_start, e.recorded_at_ms
    from epoch_spans as e
    left join epoch_spans as b
        on b.map_number = e.map_number
        and b.leader_epoch < e.leader_epoch
        and b.source_end > e.source_start
    left join seen_ends as n
        on n.map_number = e.map_number
        and n.leader_epoch < e.leader_epoch
        and n.high_watermark > e.begins_by
    left join met as m
        on m.map_number = e.map_number
        and m.source_start = e.source_start
    where m.source_start is null and coalesce(b.leader_epoch, n.leader_epoch) is not null
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
    inner join told as b on b.commit_number = c.commit_number
    inner join maps as m
        on m.source_topic = c.topic
        and m.source_topic_id = c.topic_id
        and m.source_partition = c.partition
),

-- Up to where the source holds what a commit was made on. The clocks of recorders and drivers may differ by five
-- minutes.
capped as (
    select
        a.commit_number,
        a.map_number,
        a.width,
        least(a.committed_offset, min(e.source_start), min(t.source_start)) as valid_to
    from asked as a
    left join epoch_starts as e
        on e.map_number = a.map_number
        and e.leader_epoch > a.leader_epoch
    left join truncations as t
        on t.map_number = a.map_number
        and coalesce(a.made_after_ms <= t.recorded_at_ms + 300000, true)
        and a.leader_epoch is null
    group by a.commit_number, a.map_number, a.width, a.committed_offset
),

mapped as (
    select c.commit_number, c.map_number, c.valid_to, c.width, c.valid_to - mod(c.valid_to, c.width) as stripe
    from capped as c
),

stripes as (
    select
        s.map_number,
        s.source_end - mod(s.source_end, w.width) as stripe,
        max(case when s.target_start < s.target_end then s.source_start end) as last_copy_start
    from syncs as s
    inner join maps as w on w.map_number = s.map_number
    where s.kind in ('copied', 'adopted', 'lost')
    group by s.map_number, s.source_end - mod(s.source_end, w.width)
),

unpaired_syncs as (
    select s.map_number, s.source_start, s.target_start, s.target_end
    from syncs as s
    where s.kind = 'unpaired' and s.records > 0
),

-- Source offsets of which it is asked what they lie in and what comes next.
places as (
    select m.map_number, m.width, m.valid_to as place, m.stripe
    from mapped as m
    union
    select u.map_number, w.width, u.source_start as place, u.source_start - mod(u.source_start, w.width) as stripe
    from unpaired_syncs as u
    inner join maps as w on w.map_number = u.map_number
),

-- The stripes that answer: its own, the next one, where a sync may end that begins before the place, and the next
-- one with a copy that begins behind it.
asked_stripes as (
    select
        q.map_number,
        q.width,
        q.place,
        case n.number when 1 then q.stripe when 2 then q.next_stripe else q.next_copy_stripe end as stripe
    from (
        select
            p.map_number,
            p.width,
            p.place,
            p.stripe,
            min(case when t.stripe > p.stripe then t.stripe end) as next_stripe,
            min(case when t.last_copy_start > p.place then t.stripe end) as next_copy_stripe
        from places as p
        inner join stripes as t on t.map_number = p.map_number
        group by p.map_number, p.width, p.place, p.stripe
    ) as q
    cross join (select explode(sequence(1, 3)) as number) as n
),

wanted as (
    select a.map_number, a.width, a.stripe
    from asked_stripes as a
    group by a.map_number, a.width, a.stripe
),

-- As the view sync_pieces has it for all syncs. A lost stretch is one piece.
numbered as (
    select
        s.map_number,
        w.stripe,
        s.source_start,
        s.target_start,
        s.kind,
        with_end_gap(s.gaps, s.source_end) as gaps_and_end,
        monotonically_increasing_id() as sync_number
    from syncs as s
    inner join wanted as w
        on w.map_number = s.map_number
        and w.stripe = s.source_end - mod(s.source_end, w.width)
    where s.kind in ('copied', 'adopted', 'lost')
),

ended as (
    select
        n.map_number,
        n.stripe,
        n.source_start,
        n.target_start,
        n.kind,
        n.sync_number,
        explode(n.gaps_and_end) as gap
    from numbered as n
),

bounded as (
    select
        e.map_number,
        e.stripe,
        e.target_start,
        e.kind,
        e.sync_number,
        e.gap.source_start as gap_start,
        e.gap.source_end as gap_end,
        coalesce(
            lag(e.gap.source_end) over (partition by e.sync_number order by e.gap.source_start nulls last),
            e.source_start
        ) as piece_start
    from ended as e
),

pieces as (
    select
        b.map_number,
        b.stripe,
        b.kind,
        b.gap_start,
        b.gap_end,
        b.piece_start,
        b.target_start + cast(
            coalesce(
                sum(b.gap_start - b.piece_start) over (
                    partition by b.sync_number
                    order by b.gap_start nulls last
                    rows between unbounded preceding and 1 preceding
                ),
                0
            ) as bigint
        ) as target_start
    from bounded as b
),

-- A stretch counts for the places below its end: what was copied, or lost, in front of a gap, and the gap. Ranges
-- rise together on both sides (M1, M2): of all that lies ahead of a place the lowest is the next.
next_stretches as (
    select
        a.map_number,
        a.place,
        min(case when s.kind <> 'lost' and s.gap_start > a.place then s.piece_start end) as copied_start,
        min(
            case when s.kind <> 'lost' and s.piece_start < s.gap_start and s.gap_start > a.place then s.target_start end
        ) as target_start,
        min(case when s.kind = 'lost' then s.piece_start end) as lost_start,
        min(case when s.kind <> 'lost' then s.gap_start end) as gap_start,
        min(
            case
                when s.kind <> 'lost'
                    and s.piece_start < s.gap_start
                    and s.piece_start >= a.place then s.piece_start
            end
        ) as begun_start
    from asked_stripes as a
    inner join pieces as s
        on s.map_number = a.map_number
        and s.stripe = a.stripe
        and s.gap_end > a.place
    group by a.map_number, a.place
),

-- Nobody can tell that a group has read unpaired records, until it has read from the next segment.
unpaired as (
    select u.map_number, u.target_start, n.begun_start as next_start
    from unpaired_syncs as u
    left join next_stretches as n
        on n.map_number = u.map_number
        and n.place = u.source_start
),

next_unpaired as (
    select m.commit_number, min(u.target_start) as target_start
    from mapped as m
    inner join unpaired as u
        on u.map_number = m.map_number
        and coalesce(u.next_start > m.valid_to, true)
    group by m.commit_number
),

target_lives as (
    select w.map_number, n.topic_id = w.target_topic_id as is_own, n.last_order, n.last_at_ms
    from maps as w
    inner join topic_lives as n
        on n.cluster = w.target_cluster
        and n.topic = w.target_topic
),

-- When any flow last recorded something about the target topic of a map.
reached as (
    select w.map_number, r.last_at_ms
    from maps as w
    inner join (
        select o.target_topic_id, max(o.recorded_at_ms) as last_at_ms
        from offset_syncs as o
        group by o.target_topic_id
    ) as r on r.target_topic_id = w.target_topic_id
),

target_events as (
    select w.map_number, v.kind, v.cause
    from maps as w
    inner join last_partition_events as v using (flow, source_topic, source_topic_id, source_partition)
),

-- Living commits that a round may copy up to which is not recorded yet, of partitions that do not stand still.
coming as (
    select m.commit_number, count(*) as reasons
    from mapped as m
    inner join params as p on p.driver_lives
    inner join told as f on f.commit_number = m.commit_number
    inner join appends as r
        on r.age = 2
        and f.first_read_ms > r.recorded_at_ms
    left join absent as n on n.commit_number = m.commit_number
    left join target_events as e
        on e.map_number = m.map_number
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
    where e.cause in ('target_recreated', 'target_topic_gone')
),

left_behind as (
    select e.map_number, count(*) as reasons
    from ends_of_life as e
    group by e.map_number
),

directions as (
    select o.flow, o.source_cluster, o.source_topic, o.target_cluster, o.target_topic
    from offset_syncs as o
    group by o.flow, o.source_cluster, o.source_topic, o.target_cluster, o.target_topic
),

target_ends as (
    select w.map_number, h.log_start
    from maps as w
    inner join last_high_watermarks as h
        on h.cluster = w.target_cluster
        and h.topic = w.target_topic
        and h.topic_id = w.target_topic_id
        and h.partition = w.target_partition
),

-- Maps whose target topic other flows copy to the source topic, whatever life of either they have copied so far.
copied_back as (
    select w.map_number
    from maps as w
    inner join directions as o
        on o.source_cluster = w.target_cluster
        and o.source_topic = w.target_topic
        and o.target_cluster = w.source_cluster
        and o.target_topic = w.source_topic
        and o.flow <> w.flow
    group by w.map_number
),

floors as (
    select b.map_number, coalesce(h.log_start, 0) as log_start
    from copied_back as b
    left join target_ends as h on h.map_number = b.map_number
),

-- The target range of a sync has no holes.
held as (
    select s.map_number, s.target_start, s.target_end
    from syncs as s
    where s.kind in ('copied', 'adopted')
    union all
    select u.map_number, u.target_start, u.target_end
    from unpaired_syncs as u
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
        w.mirror_write_end,
        l.reasons is not null as is_left_behind
    from maps as w
    left join target_ends as h on h.map_number = w.map_number
    left join holes as o on o.map_number = w.map_number
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
            least(s.target_start, u.target_start) + greatest(m.valid_to - s.copied_start, 0),
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
    left join next_stretches as s
        on s.map_number = m.map_number
        and s.place = m.valid_to
    left join next_unpaired as u on u.commit_number = m.commit_number
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
    inner join told as i on i.commit_number = c.commit_number
    left join coming as g on g.commit_number = c.commit_number
    left join absent as n on n.commit_number = c.commit_number
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
