-- name:    flow_positions
-- answers: where does a flow stand on each partition, and with which sequence does it go on?
-- grain:   flow, source_topic_id, source_partition
-- reads:   offset_syncs
-- params:  flow string
-- columns: flow string, source_topic string, source_topic_id string, source_partition int,
--          target_topic string, target_topic_id string, source_end bigint, target_end bigint,
--          next_sequence int
--
-- Offset syncs tile the source (L1), so the one that ends last is the only one with that end. The
-- sequence of the next record is the first one of that sync plus its records, modulo 2^31.
with wanted as (
    select
        s.flow,
        s.source_topic,
        s.source_topic_id,
        s.source_partition,
        s.target_topic,
        s.target_topic_id,
        s.source_end,
        s.target_end,
        s.first_sequence,
        s.records
    from offset_syncs as s
    inner join params as p on p.flow = s.flow
)

select
    w.flow,
    max_by(w.source_topic, w.source_end) as source_topic,
    w.source_topic_id,
    w.source_partition,
    max_by(w.target_topic, w.source_end) as target_topic,
    max_by(w.target_topic_id, w.source_end) as target_topic_id,
    max(w.source_end) as source_end,
    max_by(w.target_end, w.source_end) as target_end,
    cast(
        mod(max_by(w.first_sequence, w.source_end) + max_by(w.records, w.source_end), 2147483648) as int
    ) as next_sequence
from wanted as w
group by w.flow, w.source_topic_id, w.source_partition
order by w.flow, w.source_topic_id, w.source_partition
