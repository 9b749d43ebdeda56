-- name:    flow_positions
-- answers: where does a flow stand on each partition, and with which sequence does it go on?
-- grain:   flow, source_topic_id, source_partition
-- reads:   offset_syncs
-- params:  flow string
-- columns: flow string, source_topic string, source_topic_id string, source_partition int,
--          target_topic string, target_topic_id string, source_end bigint, target_end bigint,
--          next_sequence int
--
-- Offset syncs tile the source (L1), so the row that ends last says it. The sequence of the next
-- record is the first one of that row plus its records, modulo 2^31; what was adopted has no sequence of the flow.
with aged as (
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
        case when s.kind = 'adopted' then 0 else s.records end as own_records,
        row_number() over (
            partition by s.flow, s.source_topic_id, s.source_partition
            order by
                s.source_end desc nulls last,
                s.target_end desc nulls last
        ) as age
    from offset_syncs as s
    inner join params as p on p.flow = s.flow
)

select
    a.flow,
    a.source_topic,
    a.source_topic_id,
    a.source_partition,
    a.target_topic,
    a.target_topic_id,
    a.source_end,
    a.target_end,
    cast(mod(a.first_sequence + a.own_records, 2147483648) as int) as next_sequence
from aged as a
where a.age = 1
order by a.flow, a.source_topic_id, a.source_partition
