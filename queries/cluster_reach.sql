-- name:    cluster_reach
-- answers: when did which cluster, or leaders of a topic, not answer, and who saw it?
-- grain:   writer, finding, topic, recorded_at_ms
-- reads:   cluster_outages
-- params:  none
-- columns: cluster string, writer string, flow string, finding string, topic string, what string,
--          since_ms bigint, recorded_at_ms bigint, until_ms bigint, message string
-- status:  none
--
-- All outages, the latest first. flow is null for what a recorder saw, topic where the whole cluster did not answer.
-- what is unreachable or throttled. since_ms is when the first request that failed was made; until_ms when it was
-- recorded that it is over, null while that is not recorded. A writer's stamps order what it saw.
select
    d.cluster,
    d.writer,
    d.flow,
    d.finding,
    d.topic,
    d.what,
    d.since_ms,
    d.recorded_at_ms,
    d.until_ms,
    d.message
from cluster_outages as d
order by
    d.since_ms desc nulls last,
    d.writer nulls last,
    d.finding nulls last,
    d.topic nulls last,
    d.recorded_at_ms desc nulls last
