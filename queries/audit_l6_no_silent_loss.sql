-- name:    audit_l6_no_silent_loss
-- answers: which rows that are not a copy does the ledger record without saying why?
-- grain:   flow, source_topic, source_topic_id, source_partition, target_topic, target_topic_id,
--          target_partition, source_start, source_end, recorded_at_ms, kind,
--          finding
-- reads:   offset_syncs
-- params:  none
-- columns: flow string, source_topic string, source_topic_id string, source_partition int,
--          target_topic string, target_topic_id string, target_partition int,
--          source_start bigint, source_end bigint, recorded_at_ms bigint, kind string,
--          finding bigint, status string
-- status:  no_cause
--
-- What was superseded later is judged too: the row was written, and its cause belongs to it. Only what is in
-- the ledger can be judged: that no loss is missing from it is audit_l1_tiling's part. finding numbers rows
-- that are otherwise equal.
select
    o.flow,
    o.source_topic,
    o.source_topic_id,
    o.source_partition,
    o.target_topic,
    o.target_topic_id,
    o.target_partition,
    o.source_start,
    o.source_end,
    o.recorded_at_ms,
    o.kind,
    cast(
        row_number() over (
            partition by
                o.flow,
                o.source_topic,
                o.source_topic_id,
                o.source_partition,
                o.target_topic,
                o.target_topic_id,
                o.target_partition,
                o.source_start,
                o.source_end,
                o.recorded_at_ms,
                o.kind
            order by o.target_start nulls last
        ) as bigint
    ) as finding,
    'no_cause' as status
from offset_syncs as o
where o.kind not in ('copied', 'adopted') and o.cause is null
order by
    o.flow nulls last,
    o.source_topic nulls last,
    o.source_topic_id nulls last,
    o.source_partition nulls last,
    o.target_topic nulls last,
    o.target_topic_id nulls last,
    o.target_partition nulls last,
    o.source_start nulls last,
    o.source_end nulls last,
    o.recorded_at_ms nulls last,
    o.kind nulls last,
    finding nulls last
