-- name:    flow_operations
-- answers: what was done to a flow in a period, by whom and why, and what became of requests to its driver?
-- grain:   flow, operation_id, kind, cluster, source_topic, source_partition, source_offset, operator, reason, ticket
-- reads:   operation_contents, last_claims
-- params:  flow string, first_ms bigint?, last_ms bigint?
-- columns: flow string, operation_id string, kind string, cluster string, source_topic string,
--          source_partition int, source_offset bigint, operator string, reason string, ticket string, entries bigint,
--          requested_at_ms bigint, result string, message string, answered_at_ms bigint, status string
-- status:  recorded, waiting, done, refused
--
-- What commands recorded of the flow, or at one of its clusters (fences, promotions, offsets set), in the order of recording: first
-- that of operators, then that of each apply. cluster: where it was done, and what source_topic is a name of; null for
-- the flow itself, whose source topics they are. entries: how many rows say the same. recorded: no driver is asked. Of requests to the
-- driver the first receipt counts. waiting: no receipt yet, so result is null.
with receipts as (
    select
        c.flow,
        c.request,
        c.result,
        c.message,
        c.recorded_at_ms,
        row_number() over (
            partition by c.flow, c.request
            order by
                c.writer_epoch asc nulls last,
                c.round asc nulls last,
                c.result asc nulls last,
                c.message asc nulls last
        ) as place
    from operation_contents as c
    where c.kind = 'receipt'
)

select
    p.flow,
    c.operation_id,
    c.kind,
    c.cluster,
    c.topic as source_topic,
    c.partition as source_partition,
    c.source_offset,
    c.operator,
    c.reason,
    c.ticket,
    count(*) as entries,
    min(c.recorded_at_ms) as requested_at_ms,
    r.result,
    r.message,
    r.recorded_at_ms as answered_at_ms,
    case
        when c.kind in ('pause', 'resume', 'skip_to', 'accept_foreign', 'resync', 'reload') then coalesce(r.result, 'waiting')
        else 'recorded'
    end as status
from params as p
left join last_claims as f on f.flow = p.flow
inner join operation_contents as c
    on c.flow = p.flow or c.flow is null and c.cluster in (f.source_cluster, f.target_cluster)
left join receipts as r
    on r.flow = p.flow
    and r.request = c.operation_id
    and r.place = 1
where c.writer not like 'flow:%'
    and c.writer not like 'recorder:%'
    and c.kind <> 'sheet'
    and coalesce(c.recorded_at_ms >= p.first_ms, true)
    and coalesce(c.recorded_at_ms <= p.last_ms, true)
group by
    p.flow, c.operation_id, c.kind, c.cluster, c.topic, c.partition, c.source_offset, c.operator, c.reason, c.ticket,
    r.result, r.message, r.recorded_at_ms
order by
    p.flow nulls last,
    min(c.writer_epoch * 4294967296 + c.round) nulls last,
    c.operation_id nulls last,
    c.kind nulls last,
    c.cluster nulls last,
    c.topic nulls last,
    c.partition nulls last
