-- Of the rows of `recorded_syncs` what a translation of one partition reads: those of the partition, and of each
-- direction, and life of a topic that it went to, when the last one was recorded. A partition's rows lie together.
create temporary table offset_syncs as
select *
from recorded_syncs
where flow = $flow and source_topic = $topic and source_partition = $partition
union all by name
select
    flow,
    source_cluster,
    source_topic,
    target_cluster,
    target_topic,
    target_topic_id,
    max(recorded_at_ms) as recorded_at_ms
from recorded_syncs
where not (flow = $flow and source_topic = $topic and source_partition = $partition)
group by flow, source_cluster, source_topic, target_cluster, target_topic, target_topic_id
