-- name:    lag_over_time
-- answers: how far was each source partition of a flow behind, at every read of its ends or at instants of a grid?
-- grain:   flow, source_topic, source_topic_id, source_partition, at_ms
-- reads:   last_claims, last_syncs, reading_lags, reading_levels, topic_ends
-- params:  flow string, first_ms bigint, last_ms bigint, step_ms bigint>0?
-- columns: flow string, source_topic string, source_topic_id string, source_partition int, at_ms bigint,
--          measured_at_ms bigint, age_ms bigint, last_stable bigint, high_watermark bigint, mirrored_end bigint,
--          lag_records bigint, lag_records_to_high_watermark bigint, lag_bytes bigint, lag_bytes_precision string,
--          behind_since_ms bigint, lag_ms bigint, lag_ms_bound string, precision_ms bigint, status string
-- status:  gone, unknown, beyond_end, caught_up, behind
--
-- Without step_ms a row is a reading of the source's ends from first_ms to last_ms: a read, or a heartbeat of the
-- recorder. With it, instants first_ms, first_ms + step_ms, ... to last_ms; a single one when the two are equal. An
-- instant has what the last reading until then tells, age_ms before it. Lag is that of the reading (measured_at_ms), as
-- in replication_lag, with what is recorded now: so it tells more of an instant than --as-of. Had the source been lost
-- then, lag_records is what was known to be lost (RPO), and what came in age_ms is not known. precision_ms is the time
-- since the reading before: what came and went between the two was not seen; null where there is none, or clocks differ.
--
-- lag_bytes are the bytes of the batches that were copied since, null while not all of them are, or where nobody counted
-- them (adopted, found again). lag_bytes_precision: exact, or in_proportion where offset syncs reach across an end of
-- the stretch. lag_ms is how long the first record that was not copied had been there. at_most: counted from the last
-- reading that saw no more than was mirrored (behind_since_ms). at_least: there was none, or the source has taken
-- records back since, so counted from the first reading after that. Offsets that other flows wrote are left out, as in
-- replication_lag. What was settled, or decided to stay there, counts until the flow has passed it: it was behind before.
--
-- A row is of a partition of which the flow has a row. gone: by then this life of the topic was recorded as ended.
-- unknown: no reading until then, or the flow had not recorded where it stood. beyond_end: it had copied more than the
-- source had, so the source lost its end, or clocks differ.
with readings as (
    select l.*
    from reading_levels as l
    inner join params as p on p.flow = l.flow
),

-- Readings, and instants of the grid, each with the last reading until then.
instants as (
    select
        k.map_number,
        k.at_ms,
        k.is_instant,
        max(k.reading_order) over (
            partition by k.map_number
            order by k.at_ms nulls last, k.is_instant nulls last
            rows between unbounded preceding and current row
        ) as reading_order
    from (
        select l.map_number, l.seen_at_ms as at_ms, 0 as is_instant, max(l.reading_order) as reading_order
        from readings as l
        group by l.map_number, l.seen_at_ms
        union all
        select
            g.map_number,
            g.first_ms + g.number * g.step_ms as at_ms,
            1 as is_instant,
            cast(null as bigint) as reading_order
        from (
            select
                m.map_number,
                p.first_ms,
                p.step_ms,
                explode(
                    sequence(cast(0 as bigint), cast(floor((p.last_ms - p.first_ms) / p.step_ms) as bigint))
                ) as number
            from last_syncs as m
            inner join params as p on p.flow = m.flow
            where p.last_ms >= p.first_ms
        ) as g
    ) as k
),

judged as (
    select
        m.flow,
        m.source_topic,
        m.source_topic_id,
        m.source_partition,
        i.at_ms,
        l.seen_at_ms as measured_at_ms,
        l.last_stable,
        l.high_watermark,
        l.mirrored_end,
        l.previous_seen_ms,
        l.level_at_ms,
        l.first_seen_ms,
        c.lag_records as records,
        c.lag_records_to_high_watermark,
        case
            when c.lag_records = 0 then 0
            when c.copied_offsets = l.last_stable - l.mirrored_end then c.copied_bytes
        end as bytes,
        case when c.lag_records = 0 or c.cut_offsets = 0 then 'exact' else 'in_proportion' end as bytes_precision,
        case
            when e.ended_at_ms <= i.at_ms then 'gone'
            when l.mirrored_end is null then 'unknown'
            when l.mirrored_end > l.high_watermark then 'beyond_end'
            when c.lag_records = 0 then 'caught_up'
            else 'behind'
        end as status
    from instants as i
    inner join last_syncs as m on m.map_number = i.map_number
    cross join params as p
    left join readings as l on l.map_number = i.map_number and l.reading_order = i.reading_order
    left join reading_lags as c on c.map_number = i.map_number and c.reading_order = i.reading_order
    left join last_claims as f on f.flow = m.flow
    left join topic_ends as e
        on e.cluster = f.source_cluster
        and e.topic = m.source_topic
        and e.topic_id = m.source_topic_id
    where i.is_instant = 1 or p.step_ms is null and i.at_ms between p.first_ms and p.last_ms
)

select
    j.flow,
    j.source_topic,
    j.source_topic_id,
    j.source_partition,
    j.at_ms,
    j.measured_at_ms,
    j.at_ms - j.measured_at_ms as age_ms,
    j.last_stable,
    j.high_watermark,
    j.mirrored_end,
    case when j.status in ('caught_up', 'behind') then j.records end as lag_records,
    case
        when j.status in ('caught_up', 'behind') then j.lag_records_to_high_watermark
    end as lag_records_to_high_watermark,
    case when j.status in ('caught_up', 'behind') then cast(round(j.bytes) as bigint) end as lag_bytes,
    case
        when j.status in ('caught_up', 'behind') and j.bytes is not null then j.bytes_precision
    end as lag_bytes_precision,
    case when j.status = 'behind' then coalesce(j.level_at_ms, j.first_seen_ms) end as behind_since_ms,
    case
        when j.status = 'behind' and j.level_at_ms is not null then greatest(j.measured_at_ms - j.level_at_ms, 1)
        when j.status = 'behind' and j.measured_at_ms > j.first_seen_ms then j.measured_at_ms - j.first_seen_ms
    end as lag_ms,
    case
        when j.status = 'behind' and j.level_at_ms is not null then 'at_most'
        when j.status = 'behind' and j.measured_at_ms > j.first_seen_ms then 'at_least'
    end as lag_ms_bound,
    case when j.measured_at_ms >= j.previous_seen_ms then j.measured_at_ms - j.previous_seen_ms end as precision_ms,
    j.status
from judged as j
order by
    j.flow nulls last,
    j.source_topic nulls last,
    j.source_topic_id nulls last,
    j.source_partition nulls last,
    j.at_ms nulls last
