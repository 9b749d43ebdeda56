-- name:    flow_operations
-- answers: what did operators ask of a flow, and what became of it?
-- grain:   flow, operation_id
-- reads:   operation_contents
-- params:  flow string
-- columns: flow string, operation_id string, kind string, source_topic string, source_partition int,
--          source_offset bigint, operator string, reason string, ticket string, requested_at_ms bigint,
--          result string, message string, answered_at_ms bigint, status string
-- status:  waiting, done, refused
--
-- Requests that a flow's driver answers with a receipt, in the order of asking; the first receipt counts. A null topic, partition or
-- offset was not given. waiting: no receipt yet, so result is null.
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
    c.flow,
    c.operation_id,
    c.kind,
    c.topic as source_topic,
    c.partition as source_partition,
    c.source_offset,
    c.operator,
    c.reason,
    c.ticket,
    c.recorded_at_ms as requested_at_ms,
    r.result,
    r.message,
    r.recorded_at_ms as answered_at_ms,
    coalesce(r.result, 'waiting') as status
from operation_contents as c
inner join params as p on p.flow = c.flow
left join receipts as r
    on r.flow = c.flow
    and r.request = c.operation_id
    and r.place = 1
where c.kind in ('pause', 'resume', 'skip_to', 'accept_foreign', 'resync', 'reload')
order by c.flow nulls last, c.writer_epoch nulls last, c.round nulls last, c.operation_id nulls last
