-- Readings of the sources of maps, one by one, and where the flow stood at each: lag at any time of the past.

-- Readings of the ends of a map's source: a read, or a sign of life of the recorder, when all ends were as it had recorded
-- them last in the same epoch. reading_order is the place of the reading, read_order that of the read that tells the ends.
create or replace temporary view source_readings as
with reads as (
    select
        m.flow,
        m.map_number,
        h.writer_epoch,
        h.round,
        h.writer_epoch * 4294967296 + h.round as read_order,
        max(h.read_at_ms) as seen_at_ms,
        max(h.last_stable) as last_stable,
        max(h.high_watermark) as high_watermark
    from last_syncs as m
    inner join last_claims as c on c.flow = m.flow
    inner join high_watermarks as h
        on h.cluster = c.source_cluster
        and h.topic = m.source_topic
        and h.topic_id = m.source_topic_id
        and h.partition = m.source_partition
    group by m.flow, m.map_number, h.writer_epoch, h.round
),

readings as (
    select flow, map_number, writer_epoch, round, read_order, seen_at_ms
    from reads
    union all
    select
        m.flow,
        m.map_number,
        s.writer_epoch,
        s.round,
        cast(null as bigint) as read_order,
        s.recorded_at_ms as seen_at_ms
    from last_syncs as m
    inner join last_claims as c on c.flow = m.flow
    inner join recorder_signs as s on s.cluster = c.source_cluster
),

-- A sign tells nothing of a partition that was read anew in its round.
placed as (
    select
        flow,
        map_number,
        writer_epoch,
        writer_epoch * 4294967296 + round as reading_order,
        max_by(seen_at_ms, case when read_order is null then 0 else 1 end) as seen_at_ms,
        max(case when count(read_order) > 0 then writer_epoch * 4294967296 + round end) over (
            partition by flow, map_number
            order by writer_epoch nulls last, round nulls last
            rows between unbounded preceding and current row
        ) as read_order
    from readings
    group by flow, map_number, writer_epoch, round
)

select
    p.flow,
    p.map_number,
    p.reading_order,
    p.read_order,
    p.seen_at_ms,
    r.last_stable,
    r.high_watermark
from placed as p
inner join reads as r using (flow, map_number, read_order)
where p.read_order >= p.writer_epoch * 4294967296;

-- Where the flow stood at each reading, by what it had recorded then, as the view measured_positions has it for the last
-- one: of what was recorded since the read, rounds beyond the end that it saw came later.
create or replace temporary view reading_positions as
with rounds as (
    select
        m.flow,
        m.map_number,
        o.writer_epoch * 4294967296 + o.round as recorded_order,
        o.recorded_at_ms,
        max(o.source_end) as source_end,
        coalesce(min(case when o.kind = 'superseded' then o.source_start end), max(o.source_end)) as mirrored_end
    from offset_syncs as o
    inner join last_syncs as m using (flow, source_topic, source_topic_id, source_partition)
    group by m.flow, m.map_number, o.writer_epoch * 4294967296 + o.round, o.recorded_at_ms
),

-- What was recorded at the moment of a reading had been copied before it.
marks as (
    select
        flow,
        map_number,
        recorded_at_ms as at_ms,
        recorded_order,
        source_end,
        cast(null as bigint) as reading_order,
        cast(null as bigint) as read_order,
        cast(null as bigint) as last_stable,
        cast(null as bigint) as high_watermark
    from rounds
    union all
    select
        flow,
        map_number,
        seen_at_ms as at_ms,
        cast(null as bigint) as recorded_order,
        cast(null as bigint) as source_end,
        reading_order,
        read_order,
        last_stable,
        high_watermark
    from source_readings
),

recorded as (
    select
        *,
        max(recorded_order) over (
            partition by flow, map_number
            order by at_ms nulls last, coalesce(reading_order, 0) nulls last
            rows between unbounded preceding and current row
        ) as last_order,
        max_by(high_watermark, reading_order) over (
            partition by flow, map_number
            order by at_ms nulls last, coalesce(reading_order, 0) nulls last
            rows between unbounded preceding and current row
        ) as seen_end
    from marks
),

stood as (
    select
        *,
        max(
            case
                when reading_order = read_order then last_order
                when source_end <= seen_end then recorded_order
            end
        ) over (
            partition by flow, map_number
            order by at_ms nulls last, coalesce(reading_order, 0) nulls last
            rows between unbounded preceding and current row
        ) as position_order
    from recorded
)

select
    s.flow,
    s.map_number,
    s.reading_order,
    s.at_ms as seen_at_ms,
    s.last_stable,
    s.high_watermark,
    r.mirrored_end
from stood as s
left join rounds as r
    on r.map_number = s.map_number
    and r.recorded_order = s.position_order
where s.reading_order is not null;

-- Each reading with the one before it, and since when the flow was behind then: level_at_ms is the last reading that saw
-- no more than was mirrored, null without one; then it was behind at the first reading of all, first_seen_ms. Where the
-- source took records back, readings before that tell nothing of what came after: era counts these times.
create or replace temporary view reading_levels as
with followed as (
    select
        *,
        lag(last_stable) over (partition by flow, map_number order by reading_order nulls last) as previous_stable,
        lag(seen_at_ms) over (partition by flow, map_number order by reading_order nulls last) as previous_seen_ms
    from reading_positions
),

eras as (
    select
        *,
        sum(case when last_stable < previous_stable then 1 else 0 end) over (
            partition by flow, map_number
            order by reading_order nulls last
            rows between unbounded preceding and current row
        ) as era
    from followed
),

-- Looks by what they saw, and those behind by where the flow stood.
marks as (
    select
        flow,
        map_number,
        era,
        last_stable as source_offset,
        reading_order as level_order,
        cast(null as bigint) as asking_order
    from eras
    union all
    select
        e.flow,
        e.map_number,
        e.era,
        coalesce(w.source_end, e.mirrored_end) as source_offset,
        cast(null as bigint) as level_order,
        e.reading_order as asking_order
    from eras as e
    left join passed_stretches as w
        on w.flow = e.flow
        and w.map_number = e.map_number
        and w.what = 'written'
        and w.source_start <= e.mirrored_end
        and w.source_end > e.mirrored_end
    where e.last_stable > e.mirrored_end
),

found as (
    select
        flow,
        map_number,
        asking_order as reading_order,
        max(level_order) over (
            partition by flow, map_number, era
            order by source_offset nulls last, coalesce(asking_order, -1) nulls last
            rows between unbounded preceding and current row
        ) as level_order
    from marks
)

select
    e.flow,
    e.map_number,
    e.reading_order,
    e.seen_at_ms,
    e.last_stable,
    e.high_watermark,
    e.mirrored_end,
    e.previous_seen_ms,
    l.seen_at_ms as level_at_ms,
    min_by(e.seen_at_ms, e.reading_order) over (partition by e.flow, e.map_number, e.era) as first_seen_ms
from eras as e
left join found as f
    on f.map_number = e.map_number
    and f.reading_order = e.reading_order
left join eras as l
    on l.map_number = f.map_number
    and l.reading_order = f.level_order;

-- Stretches of a map's source of which something is known. what is copied, with the bytes of the batches, where these
-- were counted; or written, by flows that copied to there. Stretches of one kind do not overlap (L1, L3).
create or replace temporary view source_stretches as
select
    o.flow,
    o.map_number,
    'copied' as what,
    o.source_start,
    o.source_end,
    cast(n.bytes as double) * (o.source_end - o.source_start) / nullif(n.source_end - n.source_start, 0) as bytes
from effective_syncs as o
inner join offset_syncs as n
    using (flow, source_topic, source_topic_id, source_partition, writer_epoch, round, source_start, kind)
where o.kind in ('copied', 'lost') and (n.bytes > 0 or n.records = 0)
union all
select flow, map_number, what, source_start, source_end, cast(null as double) as bytes
from passed_stretches
where what = 'written';

-- Lag at each reading: offsets that are to be copied, to the last stable offset and to the high watermark. copied_offsets:
-- how many of those to the last stable offset lie in stretches whose bytes are known by now (copied_bytes); cut_offsets
-- is above 0 where such a stretch reaches across either end. A reading that saw less than was mirrored has no row.
create or replace temporary view reading_lags as
with readings as (
    select *
    from reading_levels
    where mirrored_end <= high_watermark
),

known as (
    select flow, map_number, what
    from source_stretches
    group by flow, map_number, what
),

-- Source offsets at which a reading counts: where the flow stood (point 1), the last stable offset (2) and the high
-- watermark (3), between stretches. A point comes before what begins there.
marks as (
    select
        flow,
        map_number,
        what,
        source_start as at_offset,
        source_end,
        bytes / (source_end - source_start) as bytes_per_offset,
        cast(null as bigint) as reading_order,
        4 as point
    from source_stretches
    union all
    select
        l.flow,
        l.map_number,
        w.what,
        case n.point
            when 1 then l.mirrored_end
            when 2 then greatest(l.last_stable, l.mirrored_end)
            else l.high_watermark
        end as at_offset,
        cast(null as bigint) as source_end,
        cast(null as double) as bytes_per_offset,
        l.reading_order,
        n.point
    from readings as l
    inner join known as w using (flow, map_number)
    cross join (select explode(sequence(1, 3)) as point) as n
    where w.what = 'written' or n.point < 3
),

summed as (
    select
        *,
        sum(source_end - at_offset) over (
            partition by flow, map_number, what
            order by at_offset nulls last, point nulls last
            rows between unbounded preceding and current row
        ) as offsets,
        sum((source_end - at_offset) * bytes_per_offset) over (
            partition by flow, map_number, what
            order by at_offset nulls last, point nulls last
            rows between unbounded preceding and current row
        ) as bytes,
        max(source_end) over (
            partition by flow, map_number, what
            order by at_offset nulls last, point nulls last
            rows between unbounded preceding and current row
        ) as last_end,
        max_by(bytes_per_offset, source_end) over (
            partition by flow, map_number, what
            order by at_offset nulls last, point nulls last
            rows between unbounded preceding and current row
        ) as last_bytes_per_offset
    from marks
),

-- What of stretches lies below each point, by the sign with which it counts.
below as (
    select
        flow,
        map_number,
        reading_order,
        what,
        point,
        greatest(last_end - at_offset, 0) as beyond,
        case point when 1 then -1 else 1 end * (offsets - greatest(last_end - at_offset, 0)) as offsets,
        case point when 1 then -1 else 1 end
        * (bytes - greatest(last_end - at_offset, 0) * last_bytes_per_offset) as bytes
    from summed
    where reading_order is not null
),

counted as (
    select
        flow,
        map_number,
        reading_order,
        sum(case when what = 'copied' then offsets end) as copied_offsets,
        sum(case when what = 'copied' then bytes end) as copied_bytes,
        max(case when what = 'copied' then beyond end) as cut_offsets,
        sum(case when what = 'written' and point <> 3 then offsets end) as written_to_last_stable,
        sum(case when what = 'written' and point <> 2 then offsets end) as written_to_high_watermark
    from below
    group by flow, map_number, reading_order
)

select
    l.flow,
    l.map_number,
    l.reading_order,
    cast(
        greatest(l.last_stable - l.mirrored_end, 0) - coalesce(c.written_to_last_stable, 0) as bigint
    ) as lag_records,
    cast(
        l.high_watermark - l.mirrored_end - coalesce(c.written_to_high_watermark, 0) as bigint
    ) as lag_records_to_high_watermark,
    cast(c.copied_offsets as bigint) as copied_offsets,
    c.copied_bytes,
    c.cut_offsets
from readings as l
left join counted as c using (flow, map_number, reading_order);
