-- What of a source is at the target, recorded or found there without it, and since when a source has more than that.

-- Up to where the source of each map is at the target: map_end by what was paired, covered_end with what was settled.
-- unrecorded_copies: what the target was seen to hold behind that, null: it never was read.
create or replace temporary view covered_ends as
select
    m.flow,
    m.source_topic,
    m.source_topic_id,
    m.source_partition,
    m.map_number,
    m.source_end as map_end,
    coalesce(s.records, 0) as settled_records,
    m.source_end + coalesce(s.records, 0) as covered_end,
    case
        when e.high_watermark < m.target_end + coalesce(s.records, 0) then 0
        else e.high_watermark - m.target_end - coalesce(s.records, 0)
    end as unrecorded_copies
from last_syncs as m
left join settled_copies as s using (flow, source_topic, source_topic_id, source_partition)
left join measured_ends as e
    on e.cluster = m.target_cluster
    and e.topic = m.target_topic
    and e.topic_id = m.target_topic_id
    and e.partition = m.target_partition;

-- Of the readings of each map's source the last one that saw no more than is covered, or follows that and is not to be
-- copied (level_at_ms, null without one), and the first one after it.
create or replace temporary view uncovered_readings as
with readings as (
    select
        r.map_number,
        r.reading_order,
        r.seen_at_ms,
        case
            when r.high_watermark <= coalesce(w.source_end, m.covered_end) then r.reading_order
        end as level_order
    from source_readings as r
    inner join covered_ends as m using (map_number)
    left join passed_stretches as w
        on w.map_number = m.map_number
        and w.what = 'passed'
        and w.source_start <= m.covered_end
        and w.source_end > m.covered_end
),

placed as (
    select
        *,
        max(level_order) over (
            partition by map_number
            order by reading_order nulls last
            rows between unbounded preceding and unbounded following
        ) as last_level_order
    from readings
)

select
    map_number,
    max_by(seen_at_ms, level_order) as level_at_ms,
    min_by(seen_at_ms, case when coalesce(reading_order > last_level_order, true) then reading_order end) as lost_since_ms
from placed
group by map_number;

-- The highest rate, in records a millisecond, at which ends of partitions rose between two readings: of the five minutes
-- before the last one, or where they did not rise then of the hour before it. Readings closer than a tenth of a second
-- count as that far apart. Partitions that were read once, or not again within the hour, have no row. rate_at_ms: when the first such
-- stretch of that rate ended; where nothing rose when the ends were known last.
create or replace temporary view end_rates as
with reads as (
    select
        h.cluster,
        h.topic,
        h.topic_id,
        h.partition,
        e.measured_at_ms,
        h.read_at_ms,
        h.high_watermark - lag(h.high_watermark) over (
            partition by h.cluster, h.topic, h.topic_id, h.partition
            order by h.writer_epoch nulls last, h.round nulls last
        ) as risen,
        h.read_at_ms - greatest(
            h.previous_read_at_ms,
            lag(h.read_at_ms) over (
                partition by h.cluster, h.topic, h.topic_id, h.partition
                order by h.writer_epoch nulls last, h.round nulls last
            )
        ) as risen_ms
    from high_watermarks as h
    inner join measured_ends as e using (cluster, topic, topic_id, partition)
    where h.read_at_ms >= e.measured_at_ms - 3600000
),

rates as (
    select
        cluster,
        topic,
        topic_id,
        partition,
        read_at_ms as rate_at_ms,
        read_at_ms >= measured_at_ms - 300000 and risen > 0 as is_recent,
        cast(greatest(risen, 0) as double) / greatest(risen_ms, 100) as rate
    from reads
    where risen is not null
    union all
    select
        cluster,
        topic,
        topic_id,
        partition,
        measured_at_ms as rate_at_ms,
        false as is_recent,
        cast(0 as double) as rate
    from measured_ends
    where measured_at_ms > read_at_ms
),

highest as (
    select
        *,
        row_number() over (
            partition by cluster, topic, topic_id, partition
            order by is_recent desc nulls last, rate desc nulls last, rate_at_ms nulls last
        ) as place
    from rates
)

select cluster, topic, topic_id, partition, rate, rate_at_ms
from highest
where place = 1;

-- The last ends of partitions, with the rate at which they rose before, and when their cluster was first seen not to
-- answer since any of its ends were read last (silent_since_ms). What was seen before is over, or of a writer alone that
-- cannot reach it.
create or replace temporary view unseen_ends as
with last_reads as (
    select cluster, max(measured_at_ms) as measured_at_ms
    from measured_ends
    group by cluster
),

silent as (
    select o.cluster, min(o.since_ms) as since_ms
    from cluster_outages as o
    inner join last_reads as r using (cluster)
    where o.topic is null
        and o.what = 'unreachable'
        and o.until_ms is null
        and o.since_ms >= r.measured_at_ms
    group by o.cluster
)

select
    e.cluster,
    e.topic,
    e.topic_id,
    e.partition,
    e.last_stable,
    e.high_watermark,
    e.measured_at_ms,
    r.rate,
    r.rate_at_ms,
    s.since_ms as silent_since_ms
from measured_ends as e
left join end_rates as r using (cluster, topic, topic_id, partition)
left join silent as s using (cluster);

-- Partitions of topics that flows have brought to a cluster, with the one that they came from (origin), and how many
-- offsets flows have written there, up to brought_end; all others are of whoever else writes there. level_at_ms: when
-- the end was read last before it was known to lie beyond these (null: never), lost_since_ms: when it was so first.
create or replace temporary view brought_ends as
with brought as (
    select
        c.source_cluster as origin,
        m.target_cluster as cluster,
        m.target_topic as topic
    from last_syncs as m
    inner join last_claims as c on c.flow = m.flow
    group by c.source_cluster, m.target_cluster, m.target_topic
),

claims as (
    select
        target_cluster as cluster,
        target_topic as topic,
        target_topic_id as topic_id,
        target_partition as partition,
        cast(sum(target_end - target_start) as bigint) as brought_offsets,
        max(target_end) as brought_end
    from effective_syncs
    where is_current and kind in ('copied', 'adopted', 'unpaired')
    group by target_cluster, target_topic, target_topic_id, target_partition
),

partitions as (
    select cluster, topic, topic_id, partition
    from claims
    union
    select cluster, topic, topic_id, partition
    from measured_ends
),

alone as (
    select
        b.origin,
        b.cluster,
        b.topic,
        p.topic_id,
        p.partition,
        coalesce(c.brought_offsets, 0) as brought_offsets,
        coalesce(c.brought_end, 0) as brought_end
    from brought as b
    inner join partitions as p using (cluster, topic)
    left join claims as c using (cluster, topic, topic_id, partition)
)

select
    a.origin,
    a.cluster,
    a.topic,
    a.topic_id,
    a.partition,
    a.brought_offsets,
    a.brought_end,
    min_by(h.previous_read_at_ms, h.writer_epoch * 4294967296 + h.round) as level_at_ms,
    min_by(h.read_at_ms, h.writer_epoch * 4294967296 + h.round) as lost_since_ms
from alone as a
left join high_watermarks as h
    on h.cluster = a.cluster
    and h.topic = a.topic
    and h.topic_id = a.topic_id
    and h.partition = a.partition
    and h.high_watermark > a.brought_offsets
group by a.origin, a.cluster, a.topic, a.topic_id, a.partition, a.brought_offsets, a.brought_end;

-- Partitions of which something may lie at one cluster alone, by the cluster that would be lost and the one that would
-- take over: of topics that a flow copies from there, as far as they are known, and of topics that were brought there
-- from the other one and that no flow has begun with on the way back (flow is null). reached_end is where the log is
-- known to have ended by what was copied and by what flows wrote there, written_offsets how many of the latter lie
-- behind what is covered.
create or replace temporary view losable_partitions as
with partitions as (
    select c.flow, c.source_cluster, c.target_cluster, m.source_topic, m.source_topic_id, m.source_partition
    from last_claims as c
    inner join last_syncs as m on m.flow = c.flow
    union
    select
        c.flow,
        c.source_cluster,
        c.target_cluster,
        e.topic as source_topic,
        e.topic_id as source_topic_id,
        e.partition as source_partition
    from last_claims as c
    inner join last_syncs as m on m.flow = c.flow
    inner join unseen_ends as e
        on e.cluster = c.source_cluster
        and e.topic = m.source_topic
),

-- Maps with offsets that hold no record: markers, what was aborted, cleaned or filtered; not what mirrors wrote.
gapped as (
    select flow, source_topic, source_topic_id, source_partition
    from offset_syncs
    where kind = 'copied' and records < source_end - source_start and end_of_gaps(gaps, 'mirror_write') is null
    group by flow, source_topic, source_topic_id, source_partition
),

written as (
    select
        m.map_number,
        max(w.source_end) as written_end,
        cast(sum(greatest(w.source_end - greatest(w.source_start, m.covered_end), 0)) as bigint) as offsets
    from passed_stretches as w
    inner join covered_ends as m using (map_number)
    where w.what = 'passed'
    group by m.map_number
)

select
    a.flow,
    a.source_cluster,
    a.target_cluster,
    a.source_topic,
    a.source_topic_id,
    a.source_partition,
    m.map_end,
    m.settled_records,
    m.covered_end,
    greatest(w.written_end, m.covered_end) as reached_end,
    coalesce(w.offsets, 0) as written_offsets,
    r.level_at_ms,
    r.lost_since_ms,
    case when g.flow is null then m.unrecorded_copies end as unrecorded_copies,
    g.flow is not null as has_gaps
from partitions as a
left join covered_ends as m using (flow, source_topic, source_topic_id, source_partition)
left join uncovered_readings as r using (map_number)
left join written as w using (map_number)
left join gapped as g using (flow, source_topic, source_topic_id, source_partition)
union all
select
    cast(null as string) as flow,
    b.cluster as source_cluster,
    b.origin as target_cluster,
    b.topic as source_topic,
    b.topic_id as source_topic_id,
    b.partition as source_partition,
    case when b.brought_end = b.brought_offsets then b.brought_end end as map_end,
    cast(null as bigint) as settled_records,
    b.brought_offsets as covered_end,
    b.brought_end as reached_end,
    cast(0 as bigint) as written_offsets,
    b.level_at_ms,
    b.lost_since_ms,
    cast(0 as bigint) as unrecorded_copies,
    false as has_gaps
from brought_ends as b
left join partitions as a
    on a.source_cluster = b.cluster
    and a.target_cluster = b.origin
    and a.source_topic = b.topic
where a.flow is null;
