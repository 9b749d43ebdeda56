-- Where commits stand in offset maps, and what comes next there.

-- Source offsets from which a map's source took records back, and when that was recorded: as the flow met it, and as
-- leader epochs alone tell: one begins below what was copied, or seen, of an earlier one. Superseded rows count. An
-- adopted row may tell of several epochs, so none begins with it.
create or replace temporary view source_truncations as
with recorded as (
    select
        l.flow,
        l.map_number,
        o.source_leader_epoch,
        o.source_start,
        o.source_end,
        o.gaps,
        o.kind,
        o.cause,
        o.recorded_at_ms
    from offset_syncs as o
    inner join last_syncs as l using (flow, source_topic, source_topic_id, source_partition)
),

-- begins_by: a batch of the epoch began there or before; a row may begin with what a cleaner had taken, of whatever
-- epoch that was.
epoch_spans as (
    select
        flow,
        map_number,
        source_leader_epoch as leader_epoch,
        min(case when kind = 'copied' then source_start end) as source_start,
        min(case when kind = 'copied' then coalesce(end_of_gaps(gaps, 'compacted'), source_start) end) as begins_by,
        min(case when kind = 'copied' then recorded_at_ms end) as recorded_at_ms,
        max(source_end) as source_end
    from recorded
    where kind in ('copied', 'adopted') and source_leader_epoch is not null
    group by flow, map_number, source_leader_epoch
),

met as (
    select flow, map_number, source_start, max(recorded_at_ms) as recorded_at_ms
    from recorded
    where cause in ('source_truncated', 'returning')
    group by flow, map_number, source_start
),

-- How far recorders saw the source's log reach under each leader epoch.
seen_ends as (
    select l.map_number, h.leader_epoch, max(h.high_watermark) as high_watermark
    from last_syncs as l
    inner join high_watermarks as h
        on h.cluster = l.source_cluster
        and h.topic = l.source_topic
        and h.topic_id = l.source_topic_id
        and h.partition = l.source_partition
    group by l.map_number, h.leader_epoch
)

select flow, map_number, source_start, recorded_at_ms
from met
union all
select e.flow, e.map_number, e.source_start, e.recorded_at_ms
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
where m.source_start is null and coalesce(b.leader_epoch, n.leader_epoch) is not null;

-- Commits on partitions of which their flow has a map of the same topic id. Their place is up to where the source holds
-- what they were made on. The clocks of recorders and drivers may differ by five minutes.
create or replace temporary view commit_places as
with epoch_starts as (
    select map_number, source_leader_epoch as leader_epoch, min(source_start) as source_start
    from current_syncs
    where kind in ('copied', 'adopted') and source_leader_epoch is not null
    group by map_number, source_leader_epoch
)

select
    c.flow,
    c.commit_number,
    m.map_number,
    least(c.committed_offset, min(e.source_start), min(t.source_start)) as place
from last_commits as c
inner join last_syncs as m
    on m.flow = c.flow
    and m.source_topic = c.topic
    and m.source_topic_id = c.topic_id
    and m.source_partition = c.partition
left join epoch_starts as e
    on e.map_number = m.map_number
    and e.leader_epoch > c.leader_epoch
left join source_truncations as t
    on t.map_number = m.map_number
    and coalesce(c.made_after_ms <= t.recorded_at_ms + 300000, true)
    and c.leader_epoch is null
group by c.flow, c.commit_number, m.map_number, c.committed_offset;

-- Source offsets of which it is asked what they lie in and what comes next: places of commits, and those of unpaired
-- records. The source is cut into about a thousand stripes; a sync lies in that of its end. A row is a stripe that
-- answers: the place's own, the next one, where a sync may end that begins before the place, and the next one with a
-- copy that begins behind it.
create or replace temporary view asked_stripes as
with maps as (
    select *
    from current_maps
),

syncs as (
    select *
    from current_syncs
),

stripes as (
    select
        s.map_number,
        s.source_end - mod(s.source_end, w.stripe_width) as stripe,
        max(case when s.target_start < s.target_end then s.source_start end) as last_copy_start
    from syncs as s
    inner join maps as w using (map_number)
    where s.kind in ('copied', 'adopted', 'lost')
    group by s.map_number, s.source_end - mod(s.source_end, w.stripe_width)
),

places as (
    select map_number, place
    from commit_places
    union
    select map_number, source_start as place
    from syncs
    where kind = 'unpaired' and records > 0
),

next_stripes as (
    select
        w.flow,
        p.map_number,
        p.place,
        w.stripe_width,
        p.place - mod(p.place, w.stripe_width) as stripe,
        min(case when t.stripe > p.place then t.stripe end) as next_stripe,
        min(case when t.last_copy_start > p.place then t.stripe end) as next_copy_stripe
    from places as p
    inner join maps as w using (map_number)
    inner join stripes as t using (map_number)
    group by w.flow, p.map_number, p.place, w.stripe_width
)

select
    q.flow,
    q.map_number,
    q.place,
    q.stripe_width,
    case n.number when 1 then q.stripe when 2 then q.next_stripe else q.next_copy_stripe end as stripe
from next_stripes as q
cross join (select explode(sequence(1, 3)) as number) as n;

-- What lies at and behind each place that is asked of. A stretch counts for the places below its end: what was copied,
-- or lost, in front of a gap, and the gap; as the view sync_pieces has it for all syncs, and a lost stretch is one piece.
-- Ranges rise together on both sides (M1, M2): of all that lies ahead of a place the lowest is the next.
create or replace temporary view next_stretches as
with asked as (
    select *
    from asked_stripes
),

wanted as (
    select map_number, stripe_width, stripe
    from asked
    group by map_number, stripe_width, stripe
),

ended as (
    select
        *,
        explode(gaps_and_end) as gap
    from (
        select
            s.map_number,
            w.stripe,
            s.source_start,
            s.target_start,
            s.kind,
            with_end_gap(s.gaps, s.source_end) as gaps_and_end,
            monotonically_increasing_id() as sync_number
        from current_syncs as s
        inner join wanted as w
            on w.map_number = s.map_number
            and w.stripe = s.source_end - mod(s.source_end, w.stripe_width)
        where s.kind in ('copied', 'adopted', 'lost')
    ) as numbered
),

bounded as (
    select
        map_number,
        stripe,
        target_start,
        kind,
        sync_number,
        gap.source_start as gap_start,
        gap.source_end as gap_end,
        coalesce(
            lag(gap.source_end) over (partition by sync_number order by gap.source_start nulls last),
            source_start
        ) as piece_start
    from ended
),

pieces as (
    select
        map_number,
        stripe,
        kind,
        gap_start,
        gap_end,
        piece_start,
        target_start + cast(
            coalesce(
                sum(gap_start - piece_start) over (
                    partition by sync_number
                    order by gap_start nulls last
                    rows between unbounded preceding and 1 preceding
                ),
                0
            ) as bigint
        ) as target_start
    from bounded
)

select
    a.flow,
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
from asked as a
inner join pieces as s
    on s.map_number = a.map_number
    and s.stripe = a.stripe
    and s.gap_end > a.place
group by a.flow, a.map_number, a.place;

-- What lies at and behind the place of each commit, as next_stretches tells it. Nobody can tell that a group has read
-- unpaired records, until it has read from the next segment: unpaired_start is where the first of these lie at the
-- target. earlier_start: where the first of the earlier copies lies that are not made again and that it has not read.
-- is_copied_before: one of these is at the place.
create or replace temporary view commit_stretches as
with places as (
    select *
    from commit_places
),

stretches as (
    select *
    from next_stretches
),

next_unpaired as (
    select c.flow, c.commit_number, min(u.target_start) as target_start
    from places as c
    inner join current_syncs as u using (map_number)
    left join stretches as n
        on n.map_number = u.map_number
        and n.place = u.source_start
    where u.kind = 'unpaired'
        and u.records > 0
        and coalesce(n.begun_start > c.place, true)
    group by c.flow, c.commit_number
),

next_earlier as (
    select
        c.flow,
        c.commit_number,
        min(f.target_start + greatest(c.place - f.source_start, 0)) as target_start,
        max(case when f.source_start <= c.place then 1 else 0 end) = 1 as is_at_place
    from places as c
    inner join earlier_copies as f
        on f.map_number = c.map_number
        and f.source_end > c.place
    group by c.flow, c.commit_number
)

select
    c.flow,
    c.commit_number,
    c.map_number,
    c.place,
    s.copied_start,
    s.target_start,
    s.lost_start,
    s.gap_start,
    u.target_start as unpaired_start,
    f.target_start as earlier_start,
    coalesce(f.is_at_place, false) as is_copied_before
from places as c
left join stretches as s using (map_number, place)
left join next_unpaired as u
    on u.flow = c.flow
    and u.commit_number = c.commit_number
left join next_earlier as f
    on f.flow = c.flow
    and f.commit_number = c.commit_number;

-- Each last commit at a flow's source, and where it lands at the target: the answer of offset_translation.
-- In known, whether any incarnation of the partition was ever mapped.
create or replace temporary view judged_commits as
with known as (
    select c.flow, c.commit_number, count(m.source_topic_id) as map_count
    from last_commits as c
    inner join last_syncs as m
        on m.flow = c.flow
        and m.source_topic = c.topic
        and m.source_partition = c.partition
    group by c.flow, c.commit_number
),

placed as (
    select
        m.flow,
        m.commit_number,
        m.place as valid_to,
        w.target_topic,
        w.target_topic_id,
        w.target_partition,
        h.log_start,
        o.held_to,
        w.mirror_write_end,
        l.map_number is not null as is_left_behind,
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
            when m.gap_start <= m.place and coalesce(m.target_start, m.earlier_start) is not null then 'exact'
            when m.gap_start <= m.place then 'at_end'
            when m.place < w.source_start then 'before_first'
            when m.place < w.source_end then 'uncovered'
            when m.place > w.source_end then 'ahead'
            else 'at_end'
        end as place
    from commit_stretches as m
    inner join current_maps as w using (map_number)
    left join written_sources as o using (map_number)
    left join ended_targets as l using (map_number)
    left join last_high_watermarks as h
        on h.cluster = w.target_cluster
        and h.topic = w.target_topic
        and h.topic_id = w.target_topic_id
        and h.partition = w.target_partition
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
            when p.place = 'ahead' then p.place
            when c.absence is not null then c.absence
            when p.valid_to < c.committed_offset then 'truncated'
            else p.place
        end as status,
        c.absence,
        c.absent_since_ms,
        c.metadata
    from last_commits as c
    left join known as k using (flow, commit_number)
    left join placed as p using (flow, commit_number)
)

select
    flow,
    group_id,
    source_topic,
    source_partition,
    committed_offset,
    target_topic,
    target_topic_id,
    target_partition,
    case when status not in ('no_map', 'other_target_incarnation', 'mirrored') then readable end as target_offset,
    status,
    absence,
    absent_since_ms,
    metadata
from judged;
