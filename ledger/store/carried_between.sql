-- What ends a row of carried offset syncs: by all offset syncs (`every`), and by the ends and signs of recorders that
-- stay.

-- Places of rows that are no plain copies.
create temporary table marks as
select distinct flow, source_topic, source_topic_id, source_partition, writer_epoch * 4294967296 + round as place
from every
where kind <> 'copied' or cause is not null or recovered;

-- When the ends of a partition were read: by a row of its own, or by what confirms others.
create temporary table breaks as
select cluster, topic, topic_id, partition, read_at_ms as at_ms
from high_watermarks
union
select p.cluster, p.topic, p.topic_id, p.partition, c.at_ms
from (select distinct cluster, topic, topic_id, partition from high_watermarks) as p
inner join (
    select cluster, max(read_at_ms) as at_ms
    from high_watermarks
    where confirms_others
    group by cluster, writer_epoch
    union
    select source_cluster as cluster, max(recorded_at_ms) as at_ms
    from writers
    where flow is null and event = 'alive'
    group by source_cluster, writer_epoch
) as c
    on c.cluster = p.cluster;
