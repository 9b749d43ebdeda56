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
