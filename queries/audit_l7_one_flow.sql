-- name:    audit_l7_one_flow
-- answers: which source records did two flows copy to one target topic, so that they are there twice?
-- grain:   source_topic_id, source_partition, target_topic_id, flow, other_flow
-- reads:   segments
-- params:  none
-- columns: source_topic string, source_topic_id string, source_partition int, target_topic string,
--          target_topic_id string, flow string, other_flow string, source_start bigint, source_end bigint,
--          records bigint, status string
-- status:  copied_by_two_flows
--
-- Segments are what holds after supersession. Only partitions that several flows copied to one target topic are
-- compared. source_start and source_end bound what both copied, records counts it.
with flows as (
    select
        s.source_topic_id,
        s.source_partition,
        s.target_topic_id
    from segments as s
    group by s.source_topic_id, s.source_partition, s.target_topic_id
    having min(s.flow) <> max(s.flow)
),

candidates as (
    select
        s.source_topic,
        s.source_topic_id,
        s.source_partition,
        s.target_topic,
        s.target_topic_id,
        s.flow,
        s.source_start,
        s.source_end
    from segments as s
    inner join flows as f
        on f.source_topic_id = s.source_topic_id
        and f.source_partition = s.source_partition
        and f.target_topic_id = s.target_topic_id
),

common as (
    select
        a.source_topic,
        a.source_topic_id,
        a.source_partition,
        a.target_topic,
        a.target_topic_id,
        a.flow,
        b.flow as other_flow,
        greatest(a.source_start, b.source_start) as source_start,
        least(a.source_end, b.source_end) as source_end
    from candidates as a
    inner join candidates as b
        on b.source_topic_id = a.source_topic_id
        and b.source_partition = a.source_partition
        and b.target_topic_id = a.target_topic_id
        and a.flow < b.flow
        and a.source_start < b.source_end
        and b.source_start < a.source_end
)

select
    c.source_topic,
    c.source_topic_id,
    c.source_partition,
    c.target_topic,
    c.target_topic_id,
    c.flow,
    c.other_flow,
    min(c.source_start) as source_start,
    max(c.source_end) as source_end,
    cast(sum(c.source_end - c.source_start) as bigint) as records,
    'copied_by_two_flows' as status
from common as c
group by
    c.source_topic,
    c.source_topic_id,
    c.source_partition,
    c.target_topic,
    c.target_topic_id,
    c.flow,
    c.other_flow
order by
    c.source_topic_id nulls last,
    c.source_partition nulls last,
    c.target_topic_id nulls last,
    c.flow nulls last,
    c.other_flow nulls last
