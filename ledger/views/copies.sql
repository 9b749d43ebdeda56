-- What lies at the targets of maps: copies that maps hold, and those that were taken out of one and not made again.

-- Copies that a map holds, those that follow each other on both sides as one: source offsets from source_start on went
-- to target offsets from target_start on. What is in doubt by others' findings is left out.
create or replace temporary view map_stretches as
with held as (
    select
        s.map_number,
        s.source_start,
        least(s.source_end, coalesce(d.source_limit, s.source_end)) as source_end,
        s.target_start
    from map_segments as s
    left join map_limits as d on d.map_number = s.map_number
    where s.source_start < coalesce(d.source_limit, s.source_end)
),

begun as (
    select
        *,
        case
            when lag(source_end) over (partition by map_number order by source_start nulls last) = source_start
                and lag(target_start + source_end - source_start) over (
                    partition by map_number order by source_start nulls last
                ) = target_start then 0
            else 1
        end as begins
    from held
),

numbered as (
    select
        *,
        sum(begins) over (
            partition by map_number
            order by source_start nulls last
            rows between unbounded preceding and current row
        ) as stretch_number
    from begun
)

select
    map_number,
    min(source_start) as source_start,
    max(source_end) as source_end,
    min(target_start) as target_start
from numbered
group by map_number, stretch_number;

-- Source offsets at which each leader epoch begins in what was copied, whether or not a map holds it.
create or replace temporary view copied_epochs as
select l.map_number, o.source_leader_epoch as leader_epoch, min(o.source_start) as epoch_start
from offset_syncs as o
inner join last_syncs as l using (flow, source_topic, source_topic_id, source_partition)
where o.kind = 'copied' and o.source_leader_epoch is not null
group by l.map_number, o.source_leader_epoch;

-- Rows about the target that their flow went to last of which supersession took something out of the map: what lies
-- from the source offset `cut` on. Below the two limits lies what neither log has lost since, by the flow's own rows.
create or replace temporary view voided_rows as
with voided as (
    select
        l.map_number,
        o.writer_epoch * 4294967296 + o.round as recorded_order,
        o.kind,
        o.source_leader_epoch,
        o.source_start,
        o.source_end,
        o.target_start,
        o.target_end,
        o.gaps,
        o.recorded_at_ms,
        greatest(c.cut, o.source_start) as cut,
        c.source_cut,
        c.target_cut
    from offset_syncs as o
    inner join last_syncs as l using (flow, source_topic, source_topic_id, source_partition)
    inner join supersessions as c
        on c.flow = o.flow
        and c.source_topic = o.source_topic
        and c.source_topic_id = o.source_topic_id
        and c.source_partition = o.source_partition
        and c.recorded_order >= o.writer_epoch * 4294967296 + o.round
        and coalesce(c.previous_order, -1) < o.writer_epoch * 4294967296 + o.round
    where o.target_cluster = l.target_cluster
        and o.target_topic = l.target_topic
        and o.target_topic_id = l.target_topic_id
        and o.target_partition = l.target_partition
        and (
            o.kind in ('copied', 'adopted') and o.source_end > c.cut
            or o.kind = 'unpaired' and o.records > 0 and o.source_start > c.cut
            or o.kind = 'unpaired' and o.records > 0 and o.source_start = c.cut
            and coalesce(o.target_topic_id <> c.goes_on_in or o.target_end > c.goes_on_at, true)
        )
)

select
    v.map_number,
    v.recorded_order,
    v.kind,
    v.source_start,
    v.source_end,
    v.target_start,
    v.target_end,
    v.gaps,
    v.recorded_at_ms,
    v.cut,
    least(v.source_cut, min(e.epoch_start)) as source_limit,
    v.target_cut as target_limit
from voided as v
left join copied_epochs as e
    on e.map_number = v.map_number
    and e.leader_epoch > v.source_leader_epoch
group by
    v.map_number,
    v.recorded_order,
    v.kind,
    v.source_start,
    v.source_end,
    v.target_start,
    v.target_end,
    v.gaps,
    v.recorded_at_ms,
    v.cut,
    v.source_cut,
    v.target_cut;

-- Copies that supersession took out of a map and that lie at the target still. Beyond sound_end they are in doubt by
-- what others found of either log.
create or replace temporary view old_stretches as
with ended as (
    select *, explode(gaps_and_end) as gap
    from (
        select
            *,
            monotonically_increasing_id() as sync_number,
            with_end_gap(gaps, source_end) as gaps_and_end
        from voided_rows
        where kind in ('copied', 'adopted')
    ) as numbered
),

bounded as (
    select
        *,
        coalesce(
            lag(gap.source_end) over (partition by sync_number order by gap.source_start nulls last),
            source_start
        ) as piece_start
    from ended
),

pieces as (
    select
        map_number,
        recorded_at_ms,
        cut,
        source_limit,
        target_limit,
        piece_start,
        gap.source_start as piece_end,
        target_start - piece_start + cast(
            coalesce(
                sum(gap.source_start - piece_start) over (
                    partition by sync_number
                    order by gap.source_start nulls last
                    rows between unbounded preceding and 1 preceding
                ),
                0
            ) as bigint
        ) as shift
    from bounded
),

held as (
    select
        map_number,
        recorded_at_ms,
        shift,
        greatest(piece_start, cut) as source_start,
        least(piece_end, source_limit, target_limit - shift) as source_end
    from pieces
)

select
    h.map_number,
    h.source_start,
    h.source_end,
    h.source_start + h.shift as target_start,
    greatest(
        h.source_start,
        least(
            h.source_end,
            min(case when c.log_number = m.source_log then c.log_offset end),
            min(case when c.log_number = m.target_log then c.log_offset - h.shift end)
        )
    ) as sound_end
from held as h
inner join map_logs as m using (map_number)
left join log_truncations as c
    on c.map_number <> h.map_number
    and c.log_number in (m.source_log, m.target_log)
    and c.recorded_at_ms + 300000 >= h.recorded_at_ms
where h.source_start < h.source_end
group by h.map_number, h.recorded_at_ms, h.source_start, h.source_end, h.shift;

-- Records at the target that nobody could pair, in the map or taken out of it: where the flow stood at the source.
create or replace temporary view unpaired_stretches as
with held as (
    select
        s.map_number,
        s.source_start,
        s.target_start,
        s.target_end,
        d.source_limit is not null and (
            s.source_start > d.source_limit
            or s.source_start = d.source_limit and s.target_end > coalesce(d.target_limit, m.target_end)
        ) as is_doubted
    from current_syncs as s
    inner join map_logs as m using (map_number)
    left join map_limits as d using (map_number)
    where s.kind = 'unpaired' and s.records > 0
)

select map_number, source_start, target_start, target_end, is_doubted
from held
union all
select
    map_number,
    source_start,
    target_start,
    least(target_end, target_limit) as target_end,
    false as is_doubted
from voided_rows
where kind = 'unpaired' and coalesce(target_start < target_limit, true);

-- Offsets of either log of a map that hold records of which it is not known where in the other they are: rows in doubt.
create or replace temporary view map_doubts as
with doubted as (
    select
        s.map_number,
        greatest(s.source_start, d.source_limit) as source_start,
        s.source_end,
        s.target_start - s.source_start as shift
    from map_segments as s
    inner join map_limits as d on d.map_number = s.map_number
    where s.source_end > d.source_limit
    union all
    select map_number, sound_end as source_start, source_end, target_start - source_start as shift
    from old_stretches
    where sound_end < source_end
),

held as (
    select map_number, source_start, source_end
    from map_stretches
    union all
    select map_number, source_start, sound_end as source_end
    from old_stretches
    where source_start < sound_end
),

paired as (
    select
        d.map_number,
        d.source_start,
        d.source_end,
        d.shift,
        greatest(h.source_start, d.source_start) as held_start,
        least(h.source_end, d.source_end) as held_end
    from doubted as d
    inner join held as h
        on h.map_number = d.map_number
        and h.source_start < d.source_end
        and h.source_end > d.source_start
    union all
    select map_number, source_start, source_end, shift, source_end as held_start, source_end as held_end
    from doubted
),

rest as (
    select
        map_number,
        coalesce(
            max(held_end) over (
                partition by map_number, source_start, source_end, shift
                order by held_start nulls last, held_end nulls last
                rows between unbounded preceding and 1 preceding
            ),
            source_start
        ) as rest_start,
        held_start as rest_end
    from paired
)

select map_number, false as is_source, source_start + shift as doubted_start, source_end + shift as doubted_end
from doubted
union all
select map_number, false as is_source, target_start as doubted_start, target_end as doubted_end
from unpaired_stretches
where is_doubted
union all
select map_number, true as is_source, rest_start as doubted_start, rest_end as doubted_end
from rest
where rest_start < rest_end;
