-- How far flows are behind: what had been mirrored when the source's ends were measured, and since when that is so.

-- Settled: records that were found at the target of the flow's own while the source did not answer; they follow the map in
-- order. What any row has superseded since is not counted, whole or in part.
create or replace temporary view settled_copies as
with settlings as (
    select flow, writer_epoch
    from operations
    where kind = 'settled'
    group by flow, writer_epoch
),

superseding as (
    select flow, source_topic, source_topic_id, source_partition, max(writer_epoch) as superseded_epoch
    from offset_syncs
    where kind = 'superseded'
    group by flow, source_topic, source_topic_id, source_partition
)

select o.flow, o.source_topic, o.source_topic_id, o.source_partition, cast(sum(o.records) as bigint) as records
from offset_syncs as o
inner join settlings as s using (flow, writer_epoch)
left join superseding as x using (flow, source_topic, source_topic_id, source_partition)
where o.kind = 'unpaired' and coalesce(o.writer_epoch > x.superseded_epoch, true)
group by o.flow, o.source_topic, o.source_topic_id, o.source_partition;

-- Stretches of maps' sources that are not to be copied; those that touch are one. what is written: flows wrote it, but for
-- what came from a former life of the target, and but for flows that relay. passed: that, with what was settled, and with
-- what was decided to stay there, which flows with an opposite do not copy.
create or replace temporary view passed_stretches as
with written as (
    select m.flow, m.map_number, o.target_start as source_start, o.target_end as source_end
    from last_syncs as m
    inner join last_claims as c on c.flow = m.flow
    inner join effective_syncs as o
        on o.target_cluster = c.source_cluster
        and o.target_topic = m.source_topic
        and o.target_topic_id = m.source_topic_id
        and o.target_partition = m.source_partition
    left join last_configurations as r on r.flow = m.flow and r.relay = 'true'
    where r.flow is null
        and o.kind in ('copied', 'adopted')
        and not (
            o.source_cluster = m.target_cluster
            and o.source_topic = m.target_topic
            and o.source_topic_id <> m.target_topic_id
        )
),

parts as (
    select flow, map_number, 'written' as what, source_start, source_end
    from written
    union all
    select flow, map_number, 'passed' as what, source_start, source_end
    from written
    union all
    select m.flow, m.map_number, 'passed' as what, d.extra_start as source_start, d.extra_end as source_end
    from last_syncs as m
    inner join last_claims as c on c.flow = m.flow
    inner join last_configurations as f on f.flow = m.flow
    inner join decided_extras as d
        on d.cluster = c.source_cluster
        and d.topic = m.source_topic
        and d.topic_id = m.source_topic_id
        and d.partition = m.source_partition
    where d.policy in ('keep_local', 'salvage') and f.opposite <> ''
    union all
    select m.flow, m.map_number, 'passed' as what, m.source_end as source_start, m.source_end + s.records as source_end
    from last_syncs as m
    inner join settled_copies as s using (flow, source_topic, source_topic_id, source_partition)
),

followed as (
    select
        *,
        max(source_end) over (
            partition by flow, map_number, what
            order by source_start nulls last, source_end nulls last
            rows between unbounded preceding and 1 preceding
        ) as reached
    from parts
),

numbered as (
    select
        *,
        sum(case when source_start <= reached then 0 else 1 end) over (
            partition by flow, map_number, what
            order by source_start nulls last, source_end nulls last
            rows between unbounded preceding and current row
        ) as stretch
    from followed
)

select flow, map_number, what, min(source_start) as source_start, max(source_end) as source_end
from numbered
group by flow, map_number, what, stretch;

-- Signs of life of the recorder of a cluster: all ends were then what it had recorded last, in the same epoch.
create or replace temporary view recorder_signs as
select source_cluster as cluster, writer_epoch, round, recorded_at_ms
from writers
where event = 'alive' and flow is null;

-- The last ends of each partition, and the last time at which they are known: by a read, by a read that found others
-- changed and these not, or by a sign of life.
create or replace temporary view measured_ends as
with looks as (
    select cluster, writer_epoch, round, recorded_at_ms as looked_at_ms
    from recorder_signs
    union all
    select cluster, writer_epoch, round, read_at_ms as looked_at_ms
    from last_high_watermarks
    where confirms_others
),

last_looks as (
    select cluster, writer_epoch, max(round) as round, max_by(looked_at_ms, round) as looked_at_ms
    from looks
    group by cluster, writer_epoch
)

select
    h.cluster,
    h.topic,
    h.topic_id,
    h.partition,
    h.last_stable,
    h.high_watermark,
    h.read_at_ms,
    coalesce(s.looked_at_ms, h.read_at_ms) as measured_at_ms
from last_high_watermarks as h
left join last_looks as s
    on s.cluster = h.cluster
    and s.writer_epoch = h.writer_epoch
    and s.round > h.round;

-- Partitions in which records lie behind a transaction that is open, and the first read that saw it so.
create or replace temporary view open_transactions as
select e.cluster, e.topic, e.topic_id, e.partition, min(h.read_at_ms) as open_since_ms
from high_watermarks as h
inner join measured_ends as e using (cluster, topic, topic_id, partition, last_stable)
where h.high_watermark > h.last_stable and e.high_watermark > e.last_stable
group by e.cluster, e.topic, e.topic_id, e.partition;

-- Where each flow stood on a source partition when its ends were measured, by what it had recorded then. A sign of
-- life is dated after its look: what was recorded since the read and lies beyond the end came later.
create or replace temporary view measured_positions as
with recorded_then as (
    select
        m.flow,
        m.map_number,
        o.kind,
        o.source_start,
        o.source_end,
        o.writer_epoch * 4294967296 + o.round as recorded_order
    from offset_syncs as o
    inner join last_syncs as m using (flow, source_topic, source_topic_id, source_partition)
    inner join last_claims as c on c.flow = m.flow
    inner join measured_ends as e
        on e.cluster = c.source_cluster
        and e.topic = m.source_topic
        and e.topic_id = m.source_topic_id
        and e.partition = m.source_partition
        and e.measured_at_ms >= o.recorded_at_ms
    where e.read_at_ms >= o.recorded_at_ms or o.source_end <= e.high_watermark
),

last_then as (
    select flow, map_number, max(recorded_order) as recorded_order
    from recorded_then
    group by flow, map_number
),

-- As the view last_syncs has it for the last row of all.
stood as (
    select
        o.flow,
        o.map_number,
        coalesce(min(case when o.kind = 'superseded' then o.source_start end), max(o.source_end)) as mirrored_end
    from recorded_then as o
    inner join last_then as l using (flow, map_number, recorded_order)
    group by o.flow, o.map_number
)

select
    m.flow,
    m.map_number,
    m.source_topic,
    m.source_topic_id,
    m.source_partition,
    s.mirrored_end,
    e.cluster as source_cluster,
    e.last_stable,
    e.high_watermark,
    e.measured_at_ms
from stood as s
inner join last_syncs as m using (flow, map_number)
inner join last_claims as c on c.flow = m.flow
inner join measured_ends as e
    on e.cluster = c.source_cluster
    and e.topic = m.source_topic
    and e.topic_id = m.source_topic_id
    and e.partition = m.source_partition;

-- Lag of each measured position, in offsets that are to be copied. uncopied_start: where the first of them lies, or will.
create or replace temporary view measured_lags as
with passed as (
    select
        s.flow,
        s.map_number,
        cast(
            sum(
                greatest(least(w.source_end, s.high_watermark) - greatest(w.source_start, s.mirrored_end), 0)
            ) as bigint
        ) as offsets_to_high_watermark,
        cast(
            sum(greatest(least(w.source_end, s.last_stable) - greatest(w.source_start, s.mirrored_end), 0)) as bigint
        ) as offsets_to_last_stable,
        max(case when w.source_start <= s.mirrored_end then w.source_end end) as passed_end
    from measured_positions as s
    inner join passed_stretches as w
        on w.flow = s.flow
        and w.map_number = s.map_number
        and w.source_end > s.mirrored_end
        and w.what = 'passed'
    group by s.flow, s.map_number
)

select
    s.flow,
    s.map_number,
    s.source_cluster,
    s.source_topic,
    s.source_topic_id,
    s.source_partition,
    s.mirrored_end,
    coalesce(w.passed_end, s.mirrored_end) as uncopied_start,
    s.measured_at_ms,
    greatest(s.last_stable, s.mirrored_end) - s.mirrored_end
    - coalesce(w.offsets_to_last_stable, 0) as lag_records,
    greatest(s.high_watermark, s.mirrored_end) - s.mirrored_end
    - coalesce(w.offsets_to_high_watermark, 0) as lag_records_to_high_watermark
from measured_positions as s
left join passed as w using (flow, map_number);

-- Lag of each measured position, and of those behind since when: level_at_ms is the last time at which the source is
-- known to have had no more than is mirrored, null if it never was; behind_at_ms that of the first read since which saw
-- more.
create or replace temporary view partition_lags as
with lags as (
    select *
    from measured_lags
),

reads as (
    select
        d.map_number,
        d.source_cluster,
        h.read_at_ms,
        h.last_stable > d.uncopied_start as is_behind,
        h.writer_epoch,
        h.writer_epoch * 4294967296 + h.round as recorded_order
    from lags as d
    inner join high_watermarks as h
        on h.cluster = d.source_cluster
        and h.topic = d.source_topic
        and h.topic_id = d.source_topic_id
        and h.partition = d.source_partition
    where d.lag_records > 0
),

last_level as (
    select
        map_number,
        source_cluster,
        max(recorded_order) as recorded_order,
        max_by(writer_epoch, recorded_order) as writer_epoch,
        max_by(read_at_ms, recorded_order) as read_at_ms
    from reads
    where not is_behind
    group by map_number, source_cluster
),

first_behind as (
    select
        h.map_number,
        min(h.recorded_order) as recorded_order,
        min_by(h.read_at_ms, h.recorded_order) as read_at_ms
    from reads as h
    left join last_level as l using (map_number)
    where coalesce(l.recorded_order, -1) < h.recorded_order
    group by h.map_number
),

-- Signs of life between the two.
confirmed_level as (
    select l.map_number, max(s.recorded_at_ms) as recorded_at_ms
    from last_level as l
    inner join first_behind as b using (map_number)
    inner join recorder_signs as s
        on s.cluster = l.source_cluster
        and s.writer_epoch = l.writer_epoch
        and s.writer_epoch * 4294967296 + s.round > l.recorded_order
        and s.writer_epoch * 4294967296 + s.round < b.recorded_order
    group by l.map_number
)

select
    d.flow,
    d.source_topic,
    d.source_topic_id,
    d.source_partition,
    d.mirrored_end,
    d.measured_at_ms,
    d.lag_records,
    d.lag_records_to_high_watermark,
    coalesce(s.recorded_at_ms, l.read_at_ms) as level_at_ms,
    b.read_at_ms as behind_at_ms
from lags as d
left join last_level as l using (map_number)
left join first_behind as b using (map_number)
left join confirmed_level as s using (map_number);
