-- What was copied in each step of a period, by flow.
-- Parameters: since_ms and until_ms, which bound it, and step_ms.
select s.flow, p.since_ms + cast(floor((s.recorded_at_ms - p.since_ms) / p.step_ms) as bigint) * p.step_ms as begin_ms,
    cast(sum(s.records) as bigint) as records, cast(sum(s.bytes) as bigint) as bytes,
    cast(sum(s.raw_batches) as bigint) as raw_batches, cast(sum(s.record_path_batches) as bigint) as record_path_batches
from offset_syncs as s
cross join params as p
where s.kind = 'copied' and s.recorded_at_ms >= p.since_ms and s.recorded_at_ms <= p.until_ms
group by s.flow, p.since_ms + cast(floor((s.recorded_at_ms - p.since_ms) / p.step_ms) as bigint) * p.step_ms
order by s.flow, begin_ms
