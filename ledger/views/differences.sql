-- What of a flow is not the same at both sides: ranges of records, topics, settings, groups.

-- Topics of flows that are there at both sides, as recorders saw them last.
create or replace temporary view living_pairs as
select p.flow, p.source_cluster, p.source_topic, p.source_topic_id, p.target_cluster, p.target_topic, p.target_topic_id
from topic_pairs as p
left join ended_topics as s on s.cluster = p.source_cluster and s.topic_id = p.source_topic_id
left join ended_topics as t on t.cluster = p.target_cluster and t.topic_id = p.target_topic_id
where s.topic_id is null and t.topic_id is null;

-- Maps of these topics, with the ends of both logs as recorders saw them last; null: they never did.
create or replace temporary view map_bounds as
select
    m.flow,
    m.source_topic,
    m.source_topic_id,
    m.source_partition,
    m.target_cluster,
    m.target_topic,
    m.target_topic_id,
    m.target_partition,
    m.source_start,
    m.source_end,
    m.target_end,
    m.map_number,
    s.log_start as source_log_start,
    s.last_stable,
    s.high_watermark,
    t.log_start as target_log_start,
    t.high_watermark as target_high_watermark
from current_maps as m
inner join living_pairs as p using (flow, source_topic_id)
left join last_high_watermarks as s
    on s.cluster = m.source_cluster
    and s.topic_id = m.source_topic_id
    and s.partition = m.source_partition
left join last_high_watermarks as t
    on t.cluster = m.target_cluster
    and t.topic_id = m.target_topic_id
    and t.partition = m.target_partition;

-- Copies of which one side holds the record no more, for its log begins behind it.
create or replace temporary view expired_copies as
with stretches as (
    select
        b.flow,
        b.map_number,
        g.source_start as copied_start,
        g.target_start - g.source_start as distance,
        least(greatest(b.source_log_start, g.source_start), g.source_end) as held_at_source,
        least(
            greatest(b.target_log_start - g.target_start + g.source_start, g.source_start), g.source_end
        ) as held_at_target
    from map_bounds as b
    inner join segments as g using (flow, source_topic_id, source_partition)
    where g.is_current
)

select
    flow,
    map_number,
    case when held_at_source < held_at_target then 'source' else 'target' end as held_by,
    min(least(held_at_source, held_at_target)) as source_start,
    max(greatest(held_at_source, held_at_target)) as source_end,
    min(least(held_at_source, held_at_target) + distance) as target_start,
    max(greatest(held_at_source, held_at_target) + distance) as target_end,
    cast(sum(abs(held_at_source - held_at_target)) as bigint) as offsets
from stretches
where held_at_source <> held_at_target
group by flow, map_number, case when held_at_source < held_at_target then 'source' else 'target' end;

-- Source offsets that have no copy, and whose record a reader of the source may see or could have seen.
create or replace temporary view uncopied_ranges as
select
    b.flow,
    b.map_number,
    case when g.source_end <= b.source_log_start then 'neither' else 'source' end as held_by,
    g.source_start,
    g.source_end,
    g.target_start,
    case when g.kind = 'lost' then 'lost' else 'left_out' end as status,
    g.cause
from map_bounds as b
inner join gaps as g using (flow, source_topic_id, source_partition)
where g.is_current and g.cause not in (select cause from causes where kind = 'gap' and not is_unmatched)
union all
select
    flow,
    map_number,
    'source' as held_by,
    source_log_start as source_start,
    source_start as source_end,
    cast(null as bigint) as target_start,
    'before_start' as status,
    cast(null as string) as cause
from map_bounds
where source_log_start < source_start
union all
select
    b.flow,
    b.map_number,
    'source' as held_by,
    b.source_end as source_start,
    b.high_watermark as source_end,
    b.target_end as target_start,
    case
        when e.kind = 'partition_stopped' then 'stopped'
        when b.source_end >= b.last_stable then 'behind_transaction'
        else 'waiting'
    end as status,
    case when e.kind = 'partition_stopped' then e.cause end as cause
from map_bounds as b
left join last_partition_events as e using (flow, source_topic_id, source_partition)
where b.source_end < b.high_watermark;

-- Target offsets of a map that hold no copy of what the source's topic has had in its present life.
create or replace temporary view unmatched_ranges as
with claims as (
    select
        b.map_number,
        b.source_topic_id,
        o.source_topic_id as claimed_topic_id,
        o.kind,
        o.cause,
        greatest(o.target_start, b.target_log_start) as range_start,
        o.target_end as range_end
    from map_bounds as b
    inner join effective_syncs as o
        on o.flow = b.flow
        and o.target_topic_id = b.target_topic_id
        and o.target_partition = b.target_partition
),

followed as (
    select
        map_number,
        coalesce(
            max(range_end) over (
                partition by map_number
                order by range_start nulls last, range_end nulls last
                rows between unbounded preceding and 1 preceding
            ),
            0
        ) as held_before,
        range_start
    from (
        select map_number, range_start, range_end
        from claims
        union all
        select map_number, target_high_watermark as range_start, target_high_watermark as range_end
        from map_bounds
    ) as bounds
)

select
    map_number,
    min(range_start) as target_start,
    max(range_end) as target_end,
    'former_life' as status,
    cast(null as string) as cause
from claims
where claimed_topic_id <> source_topic_id and range_start < range_end
group by map_number
union all
select map_number, range_start as target_start, range_end as target_end, 'unpaired' as status, cause
from claims
where claimed_topic_id = source_topic_id
    and kind = 'unpaired'
    and cause not in (select cause from causes where kind = 'unpaired' and not is_unmatched)
    and range_start < range_end
union all
select
    f.map_number,
    greatest(f.held_before, b.target_log_start) as target_start,
    f.range_start as target_end,
    'unclaimed' as status,
    s.cause
from followed as f
inner join map_bounds as b using (map_number)
left join claims as s on s.map_number = f.map_number and s.kind = 'superseded' and s.range_end = f.range_start
where greatest(f.held_before, b.target_log_start) < f.range_start;

-- All ranges of records that flows have not at both sides; held_by: which side has them, or may have.
create or replace temporary view record_differences as
select
    b.flow,
    b.source_topic,
    b.source_partition,
    r.source_start,
    r.source_end,
    b.target_topic,
    b.target_partition,
    r.target_start,
    r.target_end,
    r.held_by,
    r.status,
    r.cause,
    r.offsets
from map_bounds as b
inner join (
    select
        map_number,
        source_start,
        source_end,
        target_start,
        target_end,
        held_by,
        'expired' as status,
        cast(null as string) as cause,
        offsets
    from expired_copies
    union all
    select
        map_number,
        source_start,
        source_end,
        target_start,
        target_start as target_end,
        held_by,
        status,
        cause,
        source_end - source_start as offsets
    from uncopied_ranges
    union all
    select
        map_number,
        cast(null as bigint) as source_start,
        cast(null as bigint) as source_end,
        target_start,
        target_end,
        'target' as held_by,
        status,
        cause,
        target_end - target_start as offsets
    from unmatched_ranges
    union all
    select
        map_number,
        cast(null as bigint) as source_start,
        cast(null as bigint) as source_end,
        cast(null as bigint) as target_start,
        cast(null as bigint) as target_end,
        cast(null as string) as held_by,
        'unknown' as status,
        cast(null as string) as cause,
        cast(null as bigint) as offsets
    from map_bounds
    where source_log_start is null or target_log_start is null
) as r using (map_number);

-- Topics that the source of a flow has and the flow has not copied, or not whole, and such that are otherwise apart.
-- In living, a life that ended between two looks at all topics has ends alone: a later one of its name says so.
create or replace temporary view topic_differences as
with living as (
    select t.cluster, t.topic, t.topic_id, t.partition
    from topic_partitions as t
    inner join topic_lives as v using (cluster, topic_id)
    left join topic_lives as n on n.cluster = t.cluster and n.topic = t.topic and n.last_order > v.last_order
    left join ended_topics as x on x.cluster = t.cluster and x.topic_id = t.topic_id
    where n.topic_id is null and x.topic_id is null
),

lacking as (
    select
        c.flow,
        v.topic,
        p.target_topic,
        coalesce(p.target_topic, c.source_cluster || '.' || v.topic) as other_topic
    from last_claims as c
    inner join living as v on v.cluster = c.source_cluster
    left join topic_pairs as p on p.flow = c.flow and p.source_topic_id = v.topic_id
    left join last_syncs as m
        on m.flow = c.flow
        and m.source_topic_id = v.topic_id
        and m.source_partition = v.partition
    group by c.flow, c.source_cluster, v.topic, p.target_topic
    having count(*) > count(m.map_number)
),

surplus as (
    select p.flow, p.source_topic, p.target_topic
    from living_pairs as p
    inner join living as v on v.cluster = p.target_cluster and v.topic_id = p.target_topic_id
    left join living as s
        on s.cluster = p.source_cluster
        and s.topic_id = p.source_topic_id
        and s.partition = v.partition
    group by p.flow, p.source_topic, p.target_topic
    having count(*) > count(s.partition)
)

select
    l.flow,
    l.topic as source_topic,
    l.target_topic,
    case when l.target_topic is null then 'not_mirrored' else 'partly' end as status,
    max(f.finding) as cause
from lacking as l
left join open_findings as f
    on f.flow = l.flow
    and f.topic in (l.topic, l.other_topic)
    and f.finding in (
        'new_behind_promotion', 'partitions_not_added', 'target_name_conflict', 'target_topic_not_created'
    )
group by l.flow, l.topic, l.target_topic
union all
select flow, source_topic, target_topic, 'more_partitions' as status, cast(null as string) as cause
from surplus
union all
select
    p.flow,
    p.source_topic,
    p.target_topic,
    case when x.topic_id is null then 'target_deleted' else 'source_deleted' end as status,
    cast(null as string) as cause
from topic_pairs as p
left join ended_topics as x on x.cluster = p.source_cluster and x.topic_id = p.source_topic_id
left join ended_topics as y on y.cluster = p.target_cluster and y.topic_id = p.target_topic_id
where (x.topic_id is null) <> (y.topic_id is null)
union all
select s.flow, s.source_topic, s.target_topic, 'cleaned' as status, max(f.finding) as cause
from followed_settings as s
inner join living_pairs as p using (flow, source_topic)
left join open_findings as f
    on f.flow = s.flow and f.topic = s.source_topic and f.finding = 'tombstones_may_be_missing'
where s.setting = 'cleanup.policy' and (s.source_value like '%compact%' or s.target_value like '%compact%')
group by s.flow, s.source_topic, s.target_topic;

-- Settings that are not set to one value on a source topic and its target topic.
create or replace temporary view setting_differences as
select
    s.flow,
    s.source_topic,
    s.target_topic,
    s.setting,
    s.source_value,
    s.target_value,
    case when s.status = 'same' then 'needed' else s.status end as status
from followed_settings as s
inner join living_pairs as p using (flow, source_topic)
where s.source_value is distinct from s.target_value or s.status = 'unknown';
