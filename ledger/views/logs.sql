-- The partitions that flows read and write, by topic id: logs. What was found of them: lost ends, leader epochs.

-- The last incarnation of each topic: as the recorder of its cluster saw it last, or a later one that only a flow has
-- named.
create or replace temporary view last_topics as
with named as (
    select source_cluster as cluster, source_topic as topic, source_topic_id as topic_id, recorded_at_ms
    from last_syncs
    union all
    select target_cluster as cluster, target_topic as topic, target_topic_id as topic_id, recorded_at_ms
    from last_syncs
),

found as (
    select cluster, topic, topic_id, last_at_ms, last_order, 1 as is_seen
    from topic_lives
    union all
    select n.cluster, n.topic, n.topic_id, max(n.recorded_at_ms) as last_at_ms, cast(null as bigint) as last_order,
        0 as is_seen
    from named as n
    left join topic_lives as t
        on t.cluster = n.cluster
        and t.topic = n.topic
        and t.topic_id = n.topic_id
    where t.topic_id is null
    group by n.cluster, n.topic, n.topic_id
),

-- Of those that a recorder saw the last one, by its order.
lasting as (
    select
        *,
        row_number() over (
            partition by cluster, topic, is_seen
            order by last_order desc nulls last, last_at_ms desc nulls last, topic_id nulls last
        ) as age
    from found
),

ranked as (
    select
        *,
        row_number() over (
            partition by cluster, topic
            order by last_at_ms desc nulls last, is_seen desc nulls last
        ) as place
    from lasting
    where age = 1
)

select r.cluster, r.topic, r.topic_id, e.topic_id is not null as is_deleted
from ranked as r
left join ended_topics as e
    on e.cluster = r.cluster
    and e.topic = r.topic
    and e.topic_id = r.topic_id
where r.place = 1;

-- The incarnation that each topic has by now. Deleted topics have none.
create or replace temporary view current_topics as
select cluster, topic, topic_id
from last_topics
where not is_deleted;

-- Between which partitions of current topics flows copy, by the names that they have recorded: of these incarnations
-- they may have recorded nothing. is_relayed: one of them copies also what flows wrote.
create or replace temporary view partition_ways as
with topic_ways as (
    select flow, source_cluster, source_topic, target_cluster, target_topic
    from last_syncs
    group by flow, source_cluster, source_topic, target_cluster, target_topic
),

ways as (
    select flow, source_cluster, source_topic, source_partition, target_cluster, target_topic, target_partition
    from last_syncs
    union
    select
        w.flow,
        w.source_cluster,
        w.source_topic,
        s.partition as source_partition,
        w.target_cluster,
        w.target_topic,
        t.partition as target_partition
    from topic_ways as w
    inner join last_high_watermarks as s
        on s.cluster = w.source_cluster
        and s.topic = w.source_topic
    inner join last_high_watermarks as t
        on t.cluster = w.target_cluster
        and t.topic = w.target_topic
        and t.partition = s.partition
)

select
    w.source_cluster,
    w.source_topic,
    s.topic_id as source_topic_id,
    w.source_partition,
    w.target_cluster,
    w.target_topic,
    t.topic_id as target_topic_id,
    w.target_partition,
    count(r.flow) > 0 as is_relayed
from ways as w
inner join current_topics as s
    on s.cluster = w.source_cluster
    and s.topic = w.source_topic
inner join current_topics as t
    on t.cluster = w.target_cluster
    and t.topic = w.target_topic
left join last_configurations as r on r.flow = w.flow and r.relay = 'true'
group by
    w.source_cluster,
    w.source_topic,
    s.topic_id,
    w.source_partition,
    w.target_cluster,
    w.target_topic,
    t.topic_id,
    w.target_partition;

-- Every partition that a flow reads or writes, of any incarnation. is_last: of the last one, deleted or not.
create or replace temporary view logs as
with named as (
    select source_cluster as cluster, source_topic as topic, source_topic_id as topic_id, source_partition as partition
    from last_syncs
    union
    select target_cluster as cluster, target_topic as topic, target_topic_id as topic_id, target_partition as partition
    from last_syncs
    union
    select source_cluster as cluster, source_topic as topic, source_topic_id as topic_id, source_partition as partition
    from partition_ways
    union
    select target_cluster as cluster, target_topic as topic, target_topic_id as topic_id, target_partition as partition
    from partition_ways
)

select
    n.cluster,
    n.topic,
    n.topic_id,
    n.partition,
    c.topic_id is not null as is_last,
    coalesce(not c.is_deleted, false) as is_current,
    h.log_start,
    h.high_watermark,
    row_number() over (
        order by n.cluster nulls last, n.topic nulls last, n.topic_id nulls last, n.partition nulls last
    ) as log_number
from named as n
left join last_topics as c
    on c.cluster = n.cluster
    and c.topic = n.topic
    and c.topic_id = n.topic_id
left join last_high_watermarks as h
    on h.cluster = n.cluster
    and h.topic = n.topic
    and h.topic_id = n.topic_id
    and h.partition = n.partition;

-- Each map with the logs that it is between.
create or replace temporary view map_logs as
select
    m.map_number,
    s.log_number as source_log,
    t.log_number as target_log,
    m.source_end,
    m.target_end
from last_syncs as m
inner join logs as s
    on s.cluster = m.source_cluster
    and s.topic = m.source_topic
    and s.topic_id = m.source_topic_id
    and s.partition = m.source_partition
inner join logs as t
    on t.cluster = m.target_cluster
    and t.topic = m.target_topic
    and t.topic_id = m.target_topic_id
    and t.partition = m.target_partition;

-- Where a map found that a log had lost its end, and when that was recorded: the log that it reads, or one that it
-- writes. What leader epochs tell of a map that begins at extras, its flow has found itself, or will.
create or replace temporary view log_truncations as
select t.map_number, m.source_log as log_number, true as is_reader, t.source_start as log_offset, t.recorded_at_ms
from source_truncations as t
inner join map_logs as m using (map_number)
where t.flow not like '%.salvaged'
union
select l.map_number, m.source_log as log_number, true as is_reader, o.source_start as log_offset, o.recorded_at_ms
from offset_syncs as o
inner join last_syncs as l using (flow, source_topic, source_topic_id, source_partition)
inner join map_logs as m on m.map_number = l.map_number
where o.cause in ('source_truncated', 'returning')
union
select l.map_number, g.log_number, false as is_reader, o.target_start as log_offset, o.recorded_at_ms
from offset_syncs as o
inner join last_syncs as l using (flow, source_topic, source_topic_id, source_partition)
inner join logs as g
    on g.cluster = o.target_cluster
    and g.topic = o.target_topic
    and g.topic_id = o.target_topic_id
    and g.partition = o.target_partition
where o.cause = 'target_truncated';
