-- name:    lineage
-- answers: through which flows and logs did the records of a topic come, and from which origin?
-- grain:   topic_id, partition, hop, path, source_cluster, source_topic_id, source_partition, route
-- reads:   carried_stretches
-- params:  cluster string, topic string, topic_id string?
-- columns: cluster string, topic string, topic_id string, partition int, hop int, path string,
--          source_cluster string, source_topic string, source_topic_id string, source_partition int,
--          source_start bigint, source_end bigint, target_start bigint, target_end bigint,
--          records bigint, origin_records bigint, status string, route string
-- status:  unpaired, loop, origin, both, carried
--
-- The topic is that of a cluster, in the incarnation topic_id or else in each that flows wrote to. hop 1 has the logs
-- that flows copied to it, hop 2 the logs from which these had it, and so on: path names the flows from the topic
-- backwards, route the logs between them (cluster, topic id, partition). Followed are records, not topics: a flow that
-- leaves out what mirrors wrote ends a path where its source's own records begin. source_start and source_end are the
-- range in the log of that hop in which the records lie, target_start and target_end that in the topic; between them
-- lie others as well. records are those that came this way, origin_records those of them that no flow brought to
-- that log.
--
-- origin: no flow brought any of them there, so applications wrote them, or somebody of whom the ledger does not know.
-- carried: flows brought all of them, and the next hop tells from where. both: some. unpaired: of these records of the
-- flow nobody knows the source offsets, so nothing is known of where they came from. loop: the log is on the path
-- already; it is not followed any further. Records of the topic that came by no flow are in no row: stray_records.
with recursive walk as (
    select
        s.target_topic_id as topic_id,
        s.target_partition as partition,
        1 as hop,
        s.flow as path,
        '' as parent,
        '/' || s.target_cluster || ':' || s.target_topic_id || ':' || cast(s.target_partition as string) || '/'
        || s.flow || '/'
        || s.source_cluster || ':' || s.source_topic_id || ':' || cast(s.source_partition as string) || '/' as route,
        s.source_cluster = s.target_cluster and s.source_topic_id = s.target_topic_id
        and s.source_partition = s.target_partition as is_loop,
        s.source_cluster, s.source_topic, s.source_topic_id, s.source_partition,
        s.source_start, s.source_end, s.target_start, s.target_end
    from carried_stretches as s
    inner join params as p
        on p.cluster = s.target_cluster
        and p.topic = s.target_topic
        and coalesce(p.topic_id = s.target_topic_id, p.topic_id is null)
    union all
    select
        w.topic_id, w.partition, w.hop + 1 as hop,
        w.path || '<' || s.flow as path,
        w.route as parent,
        w.route || s.flow || '/'
        || s.source_cluster || ':' || s.source_topic_id || ':' || cast(s.source_partition as string) || '/' as route,
        position(
            '/' || s.source_cluster || ':' || s.source_topic_id || ':' || cast(s.source_partition as string) || '/'
            in w.route
        ) > 0 as is_loop,
        s.source_cluster, s.source_topic, s.source_topic_id, s.source_partition,
        s.source_start + greatest(w.source_start - s.target_start, 0) as source_start,
        s.source_end - greatest(s.target_end - w.source_end, 0) as source_end,
        w.target_start + greatest(s.target_start - w.source_start, 0) as target_start,
        w.target_end - greatest(w.source_end - s.target_end, 0) as target_end
    from walk as w
    inner join carried_stretches as s
        on s.target_cluster = w.source_cluster
        and s.target_topic_id = w.source_topic_id
        and s.target_partition = w.source_partition
        and s.target_start < w.source_end
        and s.target_end > w.source_start
    where not w.is_loop
),

-- Unpaired records of a flow are a way of their own.
ways as (
    select
        w.topic_id, w.partition, w.hop, w.path, w.parent, w.is_loop,
        case when w.source_start is null then w.route || '?' else w.route end as route,
        w.source_cluster, w.source_topic, w.source_topic_id, w.source_partition,
        min(w.source_start) as source_start,
        max(w.source_end) as source_end,
        min(w.target_start) as target_start,
        max(w.target_end) as target_end,
        sum(w.target_end - w.target_start) as records
    from walk as w
    group by
        w.topic_id, w.partition, w.hop, w.path, w.parent, w.source_start is null, w.route, w.is_loop,
        w.source_cluster, w.source_topic, w.source_topic_id, w.source_partition
),

brought as (
    select y.parent, sum(y.records) as records
    from ways as y
    group by y.parent
)

select
    p.cluster,
    p.topic,
    y.topic_id,
    y.partition,
    y.hop,
    y.path,
    y.source_cluster,
    y.source_topic,
    y.source_topic_id,
    y.source_partition,
    y.source_start,
    y.source_end,
    y.target_start,
    y.target_end,
    cast(y.records as bigint) as records,
    case
        when y.source_start is not null and not y.is_loop
            then cast(y.records - coalesce(b.records, 0) as bigint)
    end as origin_records,
    case
        when y.source_start is null then 'unpaired'
        when y.is_loop then 'loop'
        when b.records is null then 'origin'
        when b.records < y.records then 'both'
        else 'carried'
    end as status,
    y.route
from ways as y
cross join params as p
left join brought as b on b.parent = y.route
order by
    y.topic_id nulls last,
    y.partition nulls last,
    y.hop nulls last,
    y.path nulls last,
    y.source_cluster nulls last,
    y.source_topic_id nulls last,
    y.source_partition nulls last,
    y.route nulls last
