-- Partitions that recorders know of, mirrored or not.

-- Partitions of each life of a topic: as many as its topic was seen with, and those whose ends were read.
create or replace temporary view topic_partitions as
with lives as (
    select cluster, topic, topic_id, max(partitions) as partitions
    from topics
    where partitions >= 1
    group by cluster, topic, topic_id
)

select cluster, topic, topic_id, cast(number as int) as partition
from (
    select cluster, topic, topic_id, explode(sequence(0, partitions - 1)) as number
    from lives
) as numbered
union
select cluster, topic, topic_id, partition
from high_watermarks;

-- When it was recorded that a life of a topic was over: the first row that says so behind all that saw it alive.
create or replace temporary view topic_ends as
with sightings as (
    select
        cluster,
        topic,
        topic_id,
        max(case when event <> 'deleted' then writer_epoch * 4294967296 + round end) as last_order
    from topics
    group by cluster, topic, topic_id
)

select s.cluster, s.topic, s.topic_id, min(t.recorded_at_ms) as ended_at_ms
from sightings as s
inner join topics as t
    on t.cluster = s.cluster
    and t.topic = s.topic
    and t.writer_epoch * 4294967296 + t.round > coalesce(s.last_order, -1)
group by s.cluster, s.topic, s.topic_id;
