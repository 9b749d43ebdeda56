-- What became of the targets of maps: whether they still live, and what else lies in them.

-- Maps whose target topic is gone, or has another topic id by now: as the recorder saw one after the other, else
-- as it saw another life after the last word of any flow about this one; as it saw this one end; as the flow says.
create or replace temporary view ended_targets as
with target_lives as (
    select w.map_number, n.topic_id = w.target_topic_id as is_own, n.last_order, n.last_at_ms
    from last_syncs as w
    inner join topic_lives as n
        on n.cluster = w.target_cluster
        and n.topic = w.target_topic
),

reached as (
    select target_topic_id, max(recorded_at_ms) as last_at_ms
    from offset_syncs
    group by target_topic_id
),

ends as (
    select n.map_number
    from target_lives as n
    left join target_lives as own on own.map_number = n.map_number and own.is_own
    inner join last_syncs as w on w.map_number = n.map_number
    inner join reached as r on r.target_topic_id = w.target_topic_id
    where not n.is_own
        and case when own.is_own then n.last_order > own.last_order else n.last_at_ms > r.last_at_ms end
    union all
    select w.map_number
    from last_syncs as w
    inner join topics as t on t.topic_id = w.target_topic_id
    inner join target_lives as own on own.map_number = w.map_number and own.is_own
    where t.event = 'deleted' and t.writer_epoch * 4294967296 + t.round >= own.last_order
    union all
    select w.map_number
    from last_syncs as w
    inner join last_partition_events as e using (flow, source_topic, source_topic_id, source_partition)
    where e.cause in ('target_recreated', 'target_topic_gone')
)

select flow, map_number
from last_syncs
where map_number in (select map_number from ends);

-- Maps of flows that leave out what mirrors wrote, and to whose source topic other flows write, whatever life of it
-- they have written to so far: behind the map's end records may lie there that have come to the target by another way.
-- The first target offset, from the target's log start on, that holds no record of the map is held_to.
create or replace temporary view written_sources as
with writers as (
    select flow, target_cluster, target_topic
    from offset_syncs
    group by flow, target_cluster, target_topic
),

written as (
    select w.flow, w.map_number, w.target_cluster, w.target_topic, w.target_topic_id, w.target_partition
    from last_syncs as w
    inner join writers as o
        on o.target_cluster = w.source_cluster
        and o.target_topic = w.source_topic
        and o.flow <> w.flow
    left join last_configurations as r on r.flow = w.flow and r.relay = 'true'
    where r.flow is null
    group by w.flow, w.map_number, w.target_cluster, w.target_topic, w.target_topic_id, w.target_partition
),

floors as (
    select b.flow, b.map_number, coalesce(h.log_start, 0) as log_start
    from written as b
    left join last_high_watermarks as h
        on h.cluster = b.target_cluster
        and h.topic = b.target_topic
        and h.topic_id = b.target_topic_id
        and h.partition = b.target_partition
),

-- The target range of a sync has no holes.
following as (
    select
        h.map_number,
        h.target_start,
        h.target_end,
        greatest(
            lag(h.target_end) over (
                partition by h.map_number
                order by h.target_start nulls last, h.target_end nulls last
            ),
            f.log_start
        ) as held_before
    from current_syncs as h
    inner join floors as f using (map_number)
    where h.kind in ('copied', 'adopted')
        or h.kind = 'unpaired' and h.records > 0
)

select
    f.flow,
    f.map_number,
    coalesce(
        min(case when h.target_start > h.held_before then h.held_before end),
        greatest(max(h.target_end), f.log_start)
    ) as held_to
from floors as f
left join following as h using (map_number)
group by f.flow, f.map_number, f.log_start;
