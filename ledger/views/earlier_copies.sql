-- Copies that supersession took out of maps.

-- Copies that are in no map any more, that the target of the map holds still, and that were not made again: what was to
-- be copied again lies beyond the end of the map, or was lost instead. As the view sync_pieces has it for all syncs.
create or replace temporary view earlier_copies as
with missing as (
    select map_number, source_start, source_end
    from current_syncs
    where kind = 'lost'
    union all
    select
        map_number,
        source_end as source_start,
        cast(9223372036854775807 as bigint) as source_end
    from last_syncs
),

taken_out as (
    select
        l.flow,
        l.map_number,
        o.source_start,
        o.source_end,
        o.target_start,
        o.gaps,
        m.source_start as missing_start,
        least(m.source_end, c.source_cut) as missing_end,
        c.target_cut,
        h.log_start,
        monotonically_increasing_id() as sync_number
    from supersessions as c
    inner join last_syncs as l using (flow, source_topic, source_topic_id, source_partition)
    inner join missing as m using (map_number)
    inner join offset_syncs as o
        on o.flow = c.flow
        and o.source_topic = c.source_topic
        and o.source_topic_id = c.source_topic_id
        and o.source_partition = c.source_partition
        and o.target_topic_id = l.target_topic_id
        and o.target_partition = l.target_partition
        and o.writer_epoch * 4294967296 + o.round <= c.recorded_order
        and o.writer_epoch * 4294967296 + o.round > coalesce(c.previous_order, -1)
        and o.source_end > m.source_start
        and o.source_start < m.source_end
    left join last_high_watermarks as h
        on h.cluster = l.target_cluster
        and h.topic = l.target_topic
        and h.topic_id = l.target_topic_id
        and h.partition = l.target_partition
    where o.kind in ('copied', 'adopted')
),

ended as (
    select *, explode(gaps_and_end) as gap
    from (
        select *, with_end_gap(gaps, source_end) as gaps_and_end
        from taken_out
    ) as t
),

pieces as (
    select
        flow,
        map_number,
        missing_start,
        missing_end,
        target_cut,
        log_start,
        coalesce(
            lag(gap.source_end) over (partition by sync_number order by gap.source_start nulls last),
            source_start
        ) as piece_start,
        gap.source_start as piece_end,
        sync_number,
        target_start
    from ended
),

placed as (
    select
        *,
        target_start - piece_start + cast(
            coalesce(
                sum(piece_end - piece_start) over (
                    partition by sync_number
                    order by piece_end nulls last
                    rows between unbounded preceding and 1 preceding
                ),
                0
            ) as bigint
        ) as shift
    from pieces
),

held as (
    select
        flow,
        map_number,
        greatest(piece_start, missing_start, log_start - shift) as source_start,
        least(piece_end, missing_end, target_cut - shift) as source_end,
        shift
    from placed
)

select
    flow,
    map_number,
    source_start,
    source_end,
    source_start + shift as target_start
from held
where source_start < source_end;
