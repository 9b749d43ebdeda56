-- name:    topic_coverage
-- answers: which topics of a cluster does no flow mirror, or only in part?
-- grain:   cluster, topic, topic_id, flow
-- reads:   ended_topics, last_syncs, topic_partitions
-- params:  cluster string
-- columns: cluster string, topic string, topic_id string, flow string, target_cluster string, target_topic string,
--          partitions bigint, mirrored_partitions bigint, first_lacking_partition int, last_recorded_at_ms bigint,
--          status string
-- status:  internal, copy, not_mirrored, other_incarnation, partly, mirrored
--
-- Topics that recorders of the cluster saw and did not see end, with a row for each flow that has recorded something of
-- that name, else one with flow null. A partition is mirrored when the flow has a row of it in this life of the topic,
-- if only where it starts; whether it goes on shows in flow_status and replication_lag. last_recorded_at_ms is that of
-- the flow's last row of the topic. The flow's last word tells its target.
--
-- internal: by its name it is Kafka's own, a tool's or MirrorMaker's (__*, mm2-*internal, *.checkpoints.internal,
-- heartbeats, *.heartbeats): flows leave these out unless they name them or let them in. copy: a flow writes it, and none mirrors it further.
-- other_incarnation: the flow has rows of another life of the topic alone. partly: of some partitions the flow has no
-- row. Kafka's own topics, and those that the recorder's principal may not describe, are in no row of the ledger and so
-- in none here.
with living as (
    select t.cluster, t.topic, t.topic_id, t.partition
    from topic_partitions as t
    inner join params as p on p.cluster = t.cluster
    left join ended_topics as x on x.cluster = t.cluster and x.topic_id = t.topic_id
    where x.topic_id is null
),

flows as (
    select
        m.flow,
        m.source_topic,
        max_by(m.target_cluster, m.writer_epoch * 4294967296 + m.round) as target_cluster,
        max_by(m.target_topic, m.writer_epoch * 4294967296 + m.round) as target_topic,
        max(m.recorded_at_ms) as last_recorded_at_ms
    from last_syncs as m
    inner join params as p on p.cluster = m.source_cluster
    group by m.flow, m.source_topic
),

copies as (
    select m.target_topic_id as topic_id
    from last_syncs as m
    inner join params as p on p.cluster = m.target_cluster
    group by m.target_topic_id
),

counted as (
    select
        v.cluster,
        v.topic,
        v.topic_id,
        f.flow,
        f.target_cluster,
        f.target_topic,
        f.last_recorded_at_ms,
        count(v.partition) as partitions,
        count(m.source_partition) as mirrored_partitions,
        min(case when m.source_partition is null then v.partition end) as first_lacking_partition
    from living as v
    left join flows as f on f.source_topic = v.topic
    left join last_syncs as m
        on m.flow = f.flow
        and m.source_topic_id = v.topic_id
        and m.source_partition = v.partition
    group by v.cluster, v.topic, v.topic_id, f.flow, f.target_cluster, f.target_topic, f.last_recorded_at_ms
)

select
    c.cluster,
    c.topic,
    c.topic_id,
    c.flow,
    c.target_cluster,
    c.target_topic,
    c.partitions,
    c.mirrored_partitions,
    c.first_lacking_partition,
    c.last_recorded_at_ms,
    case
        when c.flow is null
            and (
                substring(c.topic, 1, 2) = '__'
                or (substring(c.topic, 1, 4) = 'mm2-' and c.topic like '%internal')
                or c.topic like '%.checkpoints.internal'
                or c.topic = 'heartbeats'
                or c.topic like '%.heartbeats'
            ) then 'internal'
        when c.flow is null and w.topic_id is not null then 'copy'
        when c.flow is null then 'not_mirrored'
        when c.mirrored_partitions = 0 then 'other_incarnation'
        when c.mirrored_partitions < c.partitions then 'partly'
        else 'mirrored'
    end as status
from counted as c
left join copies as w on w.topic_id = c.topic_id
order by
    c.cluster nulls last,
    c.topic nulls last,
    c.topic_id nulls last,
    c.flow nulls last
