-- What of a source is at the target, recorded or found there without it, and since when a source has more than that.

-- Up to where the source of each map is at the target: map_end by what was paired, covered_end with what was found there
-- of the flow's own while the source did not answer, which follows it in order. What any row has superseded since is not
-- counted, whole or in part.
create or replace temporary view covered_ends as
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
),

settled as (
    select o.flow, o.source_topic, o.source_topic_id, o.source_partition, cast(sum(o.records) as bigint) as records
    from offset_syncs as o
    inner join settlings as s using (flow, writer_epoch)
    left join superseding as x using (flow, source_topic, source_topic_id, source_partition)
    where o.kind = 'unpaired' and coalesce(o.writer_epoch > x.superseded_epoch, true)
    group by o.flow, o.source_topic, o.source_topic_id, o.source_partition
)

select
    m.flow,
    m.source_topic,
    m.source_topic_id,
    m.source_partition,
    m.map_number,
    m.source_end as map_end,
    coalesce(s.records, 0) as settled_records,
    m.source_end + coalesce(s.records, 0) as covered_end
from last_syncs as m
left join settled as s using (flow, source_topic, source_topic_id, source_partition);

-- Of the readings of each map's source the last one that saw no more than is covered (level_at_ms, null without one) and
-- the first one after it; and one at least an hour before the last, or the first of all, from which a rate can be told
-- (base_at_ms, base_end).
create or replace temporary view uncovered_readings as
with readings as (
    select
        r.map_number,
        r.reading_order,
        r.seen_at_ms,
        r.high_watermark,
        case when r.high_watermark <= m.covered_end then r.reading_order end as level_order,
        max_by(r.seen_at_ms, r.reading_order) over (
            partition by r.map_number
            order by r.reading_order nulls last
            rows between unbounded preceding and unbounded following
        ) as last_seen_ms
    from source_readings as r
    inner join covered_ends as m using (map_number)
),

placed as (
    select
        *,
        max(level_order) over (
            partition by map_number
            order by reading_order nulls last
            rows between unbounded preceding and unbounded following
        ) as last_level_order,
        case when seen_at_ms <= last_seen_ms - 3600000 then reading_order end as old_order
    from readings
)

select
    map_number,
    max_by(seen_at_ms, level_order) as level_at_ms,
    min_by(seen_at_ms, case when coalesce(reading_order > last_level_order, true) then reading_order end) as lost_since_ms,
    coalesce(max_by(seen_at_ms, old_order), min_by(seen_at_ms, reading_order)) as base_at_ms,
    coalesce(max_by(high_watermark, old_order), min_by(high_watermark, reading_order)) as base_end
from placed
group by map_number;
