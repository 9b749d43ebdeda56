-- name:    flow_positions
-- answers: what is a flow's position on each partition, and with which sequence does it continue?
-- grain:   flow, source_topic_id, source_partition
-- reads:   last_syncs
-- params:  flow string
-- columns: flow string, source_topic string, source_topic_id string, source_partition int,
--          target_topic string, target_topic_id string, source_end bigint, target_end bigint,
--          next_sequence int, source_leader_epoch int, kind string, cause string, producer_id bigint
--
-- The sequence of the next record is the first one of the last row plus the records that it found or copied
-- there with sequences of this flow, modulo 2^31. It is for producer_id: a flow that got another since has written
-- nothing with that one.
select
    s.flow,
    s.source_topic,
    s.source_topic_id,
    s.source_partition,
    s.target_topic,
    s.target_topic_id,
    s.source_end,
    s.target_end,
    cast(
        mod(
            s.first_sequence
            + case
                when s.former_producer_id is not null then 0
                when s.kind in ('copied', 'unpaired') then s.records
                else 0
            end,
            2147483648
        ) as int
    ) as next_sequence,
    s.source_leader_epoch,
    s.kind,
    s.cause,
    s.producer_id
from last_syncs as s
inner join params as p on p.flow = s.flow
order by s.flow nulls last, s.source_topic_id nulls last, s.source_partition nulls last
