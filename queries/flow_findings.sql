-- name:    flow_findings
-- answers: what needs attention at a flow though nothing stopped?
-- grain:   flow, finding, source_topic, source_partition
-- reads:   open_findings
-- params:  flow string
-- columns: flow string, finding string, source_topic string, source_partition int, message string,
--          next string, open_since_ms bigint, raised_at_ms bigint
--
-- A finding is open when its last event raised it. Its events are those of the flow's drivers, so their stamps
-- order them. A null topic or partition says that all are concerned; such a finding is cleared as it was raised.
-- open_since_ms is since when it holds: what was said when it was first raised after it had last been cleared, else
-- when that was; raised_at_ms is when it was raised last.
select
    f.flow,
    f.finding,
    f.topic as source_topic,
    f.partition as source_partition,
    f.message,
    f.next,
    f.open_since_ms,
    f.raised_at_ms
from open_findings as f
inner join params as p on p.flow = f.flow
order by f.flow nulls last, f.finding nulls last, f.topic nulls last, f.partition nulls last
