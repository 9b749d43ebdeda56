-- name:    flow_losses
-- answers: what did a flow lose, supersede or fail to pair, and why?
-- grain:   flow, source_topic, source_topic_id, source_partition, writer_epoch, round, kind, source_start,
--          target_start
-- reads:   effective_syncs, offset_syncs, causes
-- params:  flow string
-- columns: flow string, source_topic string, source_topic_id string, source_partition int,
--          target_topic string, target_topic_id string, target_partition int, kind string, cause string,
--          source_start bigint, source_end bigint, source_offsets bigint, held_offsets bigint,
--          target_start bigint, target_end bigint, records bigint,
--          writer_epoch bigint, round bigint, recorded_at_ms bigint, status string
-- status:  holds, cut, superseded
--
-- Ranges are those that were recorded. source_offsets counts the source range: what was lost, or superseded;
-- records counts records at the target that cannot be paired. held_offsets counts what still counts as lost.
-- superseded: a later row voids this one. cut: a later row voids a part of it, from somewhere inside the source
-- range on. holds: neither. A row that moves the target behind what others wrote (unpaired, cause cut or
-- extras) is no loss.
with losses as (
    select
        o.flow,
        o.source_topic,
        o.source_topic_id,
        o.source_partition,
        o.target_topic,
        o.target_topic_id,
        o.target_partition,
        o.kind,
        o.cause,
        o.source_start,
        o.source_end,
        o.target_start,
        o.target_end,
        o.records,
        o.writer_epoch,
        o.round,
        o.recorded_at_ms
    from offset_syncs as o
    inner join params as p on p.flow = o.flow
    where o.kind in ('lost', 'superseded', 'unpaired')
        and o.cause not in (select cause from causes where kind = 'unpaired' and not is_unmatched)
)

select
    l.flow,
    l.source_topic,
    l.source_topic_id,
    l.source_partition,
    l.target_topic,
    l.target_topic_id,
    l.target_partition,
    l.kind,
    l.cause,
    l.source_start,
    l.source_end,
    l.source_end - l.source_start as source_offsets,
    coalesce(e.source_end - l.source_start, 0) as held_offsets,
    l.target_start,
    l.target_end,
    l.records,
    l.writer_epoch,
    l.round,
    l.recorded_at_ms,
    case
        when e.source_end is null then 'superseded'
        when l.kind = 'lost' and e.source_end < l.source_end then 'cut'
        else 'holds'
    end as status
from losses as l
left join effective_syncs as e
    on e.flow = l.flow
    and e.source_topic = l.source_topic
    and e.source_topic_id = l.source_topic_id
    and e.source_partition = l.source_partition
    and e.writer_epoch = l.writer_epoch
    and e.round = l.round
    and e.kind = l.kind
    and e.source_start = l.source_start
    and e.target_start = l.target_start
order by
    l.flow nulls last,
    l.source_topic nulls last,
    l.source_topic_id nulls last,
    l.source_partition nulls last,
    l.writer_epoch nulls last,
    l.round nulls last,
    l.kind nulls last,
    l.source_start nulls last,
    l.target_start nulls last
