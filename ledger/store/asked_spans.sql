-- Leaves in `numbered_spans` what can say something of groups that read at the cluster `here` and are to continue at `there`:
-- spans between partitions that flows connect, over others too, with one here that such a group reads or has a commit on.
-- Partitions go by name, whatever their incarnation. Of a topic that may continue in several topics there, all partitions
-- count: which of these topics is the first depends on all of them (`recorded_pairs`).
create temporary table span_ways as
with ways as (
    select source_cluster, source_topic, source_partition, target_cluster, target_topic, target_partition
    from numbered_spans
    group by all
)

select
    source_cluster as cluster,
    source_topic as topic,
    source_partition as partition,
    target_cluster as other_cluster,
    target_topic as other_topic,
    target_partition as other_partition
from ways
union
select target_cluster, target_topic, target_partition, source_cluster, source_topic, source_partition
from ways;

create temporary table asked_partitions as
with recursive topic_ways as (
    select distinct cluster, topic, other_cluster, other_topic
    from span_ways
),

-- By one flow, by two one behind the other, or from one origin.
continued as (
    select topic, other_cluster, other_topic
    from topic_ways
    where cluster = getvariable('here')
    union
    select h.topic, t.other_cluster, t.other_topic
    from topic_ways as h
    inner join topic_ways as t on t.cluster = h.other_cluster and t.topic = h.other_topic
    where h.cluster = getvariable('here')
),

forked as (
    select topic
    from continued
    where other_cluster = getvariable('there')
    group by topic
    having count(*) > 1
),

-- Nobody (null), of whom one offset is asked, has a place in one partition alone.
readers as (
    select topic
    from committed_topics
    where cluster = getvariable('here') and group_id is not null
    union
    select to_topic as topic
    from group_moves
    where to_cluster = getvariable('here') and kind <> 'group_synced'
),

committed as (
    select topic, partition
    from cluster_commits
    where cluster = getvariable('here')
),

reached as (
    select cluster, topic, partition
    from span_ways
    where cluster = getvariable('here')
        and (
            topic in (select topic from readers)
            or (topic, partition) in (select (topic, partition) from committed)
            or topic in (select topic from forked) and topic in (select topic from committed)
        )
    union
    select w.other_cluster as cluster, w.other_topic as topic, w.other_partition as partition
    from reached as r
    inner join span_ways as w using (cluster, topic, partition)
)

select *
from reached;

delete from numbered_spans
where (source_cluster, source_topic, source_partition) not in (
    select (cluster, topic, partition)
    from asked_partitions
);
