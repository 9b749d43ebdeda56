-- Where sources lost the end of their logs.

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
