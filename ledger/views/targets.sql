-- What became of the targets of maps: whether they still live.

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
