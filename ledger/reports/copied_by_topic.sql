-- What was copied in a period by flow and topic, those with most bytes first.
-- Parameters: since_ms and until_ms, which bound it.
select s.flow, s.source_topic, cast(count(distinct s.source_partition) as bigint) as partitions,
    cast(sum(s.records) as bigint) as records, cast(sum(s.bytes) as bigint) as bytes,
    cast(sum(s.raw_batches) as bigint) as raw_batches, cast(sum(s.record_path_batches) as bigint) as record_path_batches
from offset_syncs as s
cross join params as p
where s.kind = 'copied' and s.recorded_at_ms >= p.since_ms and s.recorded_at_ms <= p.until_ms
group by s.flow, s.source_topic
order by bytes desc, s.flow, s.source_topic
