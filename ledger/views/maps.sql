-- Offset maps: offset syncs that hold, cut where they have gaps.

-- What offset maps are made of: offset syncs that hold, of the target that the flow went to last.
create or replace temporary view current_syncs as
select
    flow,
    map_number,
    source_leader_epoch,
    source_start,
    source_end,
    target_start,
    target_end,
    gaps,
    kind,
    records
from effective_syncs
where is_current;

-- What a flow's map of a source partition reaches from and to, in the target that it went to last, and what it holds.
create or replace temporary view current_maps as
with sums as (
    select
        flow,
        map_number,
        min(source_start) as source_start,
        sum(case when kind in ('copied', 'adopted') then records else 0 end) as records,
        sum(case when kind in ('copied', 'adopted') then offsets_in(gaps) else 0 end) as gap_offsets,
        sum(case when kind = 'lost' then source_end - source_start else 0 end) as lost_offsets
    from current_syncs
    group by flow, map_number
)

select
    l.flow,
    l.source_cluster,
    l.target_cluster,
    l.source_topic,
    l.source_topic_id,
    l.source_partition,
    l.target_topic,
    l.target_topic_id,
    l.target_partition,
    s.source_start,
    l.source_end,
    l.target_end,
    cast(s.records as bigint) as records,
    cast(s.gap_offsets as bigint) as gap_offsets,
    cast(s.lost_offsets as bigint) as lost_offsets,
    l.map_number
from last_syncs as l
inner join sums as s using (flow, map_number);

-- A sync with n gaps is n + 1 pieces: each ends where a gap starts, the last at the sync's end. Most have no gap.
create or replace temporary view sync_pieces as
with ended as (
    select
        *,
        explode(gaps_and_end) as gap
    from (
        select
            *,
            monotonically_increasing_id() as sync_number,
            with_end_gap(gaps, source_end) as gaps_and_end
        from effective_syncs
        where kind in ('copied', 'adopted') and has_gaps(gaps)
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
)

select
    flow,
    map_number,
    source_cluster,
    target_cluster,
    source_topic,
    source_topic_id,
    source_partition,
    target_topic,
    target_topic_id,
    target_partition,
    is_current,
    writer,
    writer_epoch,
    round,
    recorded_at_ms,
    piece_start,
    gap.source_start as gap_start,
    gap.source_end as gap_end,
    gap.cause as cause,
    target_start + cast(
        coalesce(
            sum(gap.source_start - piece_start) over (
                partition by sync_number
                order by gap.source_start nulls last
                rows between unbounded preceding and 1 preceding
            ),
            0
        ) as bigint
    ) as piece_target_start
from bounded
union all
select
    flow,
    map_number,
    source_cluster,
    target_cluster,
    source_topic,
    source_topic_id,
    source_partition,
    target_topic,
    target_topic_id,
    target_partition,
    is_current,
    writer,
    writer_epoch,
    round,
    recorded_at_ms,
    source_start as piece_start,
    source_end as gap_start,
    source_end as gap_end,
    cast(null as string) as cause,
    target_start as piece_target_start
from effective_syncs
where kind in ('copied', 'adopted') and not has_gaps(gaps);

-- Maximal stretches without gaps: each source offset of one went to target_start + (offset - source_start).
create or replace temporary view segments as
select
    flow,
    map_number,
    source_cluster,
    target_cluster,
    source_topic,
    source_topic_id,
    source_partition,
    target_topic,
    target_topic_id,
    target_partition,
    piece_start as source_start,
    gap_start as source_end,
    piece_target_start as target_start,
    is_current,
    writer,
    writer_epoch,
    round,
    recorded_at_ms
from sync_pieces
where piece_start < gap_start;

-- Source offsets that hold no record to copy, and those that were lost; target_start is where the target stood.
create or replace temporary view gaps as
select
    flow,
    source_cluster,
    target_cluster,
    source_topic,
    source_topic_id,
    source_partition,
    target_topic,
    target_topic_id,
    target_partition,
    gap_start as source_start,
    gap_end as source_end,
    piece_target_start + (gap_start - piece_start) as target_start,
    cause,
    'gap' as kind,
    is_current,
    writer,
    writer_epoch,
    round,
    recorded_at_ms
from sync_pieces
where gap_start < gap_end
union all
select
    flow,
    source_cluster,
    target_cluster,
    source_topic,
    source_topic_id,
    source_partition,
    target_topic,
    target_topic_id,
    target_partition,
    source_start,
    source_end,
    target_start,
    cause,
    'lost' as kind,
    is_current,
    writer,
    writer_epoch,
    round,
    recorded_at_ms
from effective_syncs
where kind = 'lost';
