-- What offset syncs of a period add up to, by flow, kind and cause; and their gaps, by cause.
-- Parameters: since_ms and until_ms, between which they were recorded.
with of_period as (
    select s.flow, s.kind, s.cause, s.records, s.bytes, s.source_end - s.source_start as source_offsets,
        s.raw_batches, s.record_path_batches, s.gaps
    from offset_syncs as s
    cross join params as p
    where s.recorded_at_ms >= p.since_ms and s.recorded_at_ms <= p.until_ms and s.kind <> 'started'
),
gaps_of_period as (
    select o.flow, unnest(o.gaps) as gap
    from of_period as o
)
select o.flow, o.kind, o.cause, cast(count(*) as bigint) as syncs, cast(sum(o.source_offsets) as bigint) as source_offsets,
    cast(sum(o.records) as bigint) as records, cast(sum(o.bytes) as bigint) as bytes,
    cast(sum(o.raw_batches) as bigint) as raw_batches, cast(sum(o.record_path_batches) as bigint) as record_path_batches
from of_period as o
group by o.flow, o.kind, o.cause
union all
select g.flow, 'gap' as kind, g.gap.cause, cast(count(*) as bigint) as syncs,
    cast(sum(g.gap.source_end - g.gap.source_start) as bigint) as source_offsets, cast(0 as bigint) as records,
    cast(0 as bigint) as bytes, cast(0 as bigint) as raw_batches, cast(0 as bigint) as record_path_batches
from gaps_of_period as g
group by g.flow, g.gap.cause
order by flow nulls last, kind nulls last, cause nulls last
