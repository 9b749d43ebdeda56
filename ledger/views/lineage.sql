-- Where records of a log came from: stretches that flows carried from one log to another.

-- Maximal stretches that one flow carried with one distance between the offsets of both sides, whatever of its targets
-- it went to: source offsets [source_start, source_end) are target offsets from target_start on. Of unpaired records
-- nobody knows the source offsets: these are null, and records counts them.
create or replace temporary view carried_stretches as
with followed as (
    select
        *,
        lag(source_end) over (
            partition by
                flow, source_cluster, source_topic_id, source_partition,
                target_cluster, target_topic_id, target_partition, target_start - source_start
            order by source_start nulls last
        ) as previous_end
    from segments
),

islands as (
    select
        *,
        sum(case when source_start = previous_end then 0 else 1 end) over (
            partition by
                flow, source_cluster, source_topic_id, source_partition,
                target_cluster, target_topic_id, target_partition, target_start - source_start
            order by source_start nulls last
            rows between unbounded preceding and current row
        ) as island
    from followed
)

select
    flow,
    source_cluster,
    source_topic,
    source_topic_id,
    source_partition,
    target_cluster,
    target_topic,
    target_topic_id,
    target_partition,
    min(source_start) as source_start,
    max(source_end) as source_end,
    min(target_start) as target_start,
    min(target_start) + (max(source_end) - min(source_start)) as target_end
from islands
group by
    flow, source_cluster, source_topic, source_topic_id, source_partition,
    target_cluster, target_topic, target_topic_id, target_partition, target_start - source_start, island
union all
select
    flow,
    source_cluster,
    source_topic,
    source_topic_id,
    source_partition,
    target_cluster,
    target_topic,
    target_topic_id,
    target_partition,
    cast(null as bigint) as source_start,
    cast(null as bigint) as source_end,
    target_start,
    target_end
from effective_syncs
where kind = 'unpaired' and records > 0;
