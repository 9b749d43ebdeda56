-- name:    audit_l2_order
-- answers: where does a later source offset land at or before the target offset of an earlier one?
-- grain:   flow, source_topic, source_topic_id, source_partition, target_topic, target_topic_id,
--          target_partition, source_start, source_end, finding
-- reads:   segments
-- params:  none
-- columns: flow string, source_topic string, source_topic_id string, source_partition int,
--          target_topic string, target_topic_id string, target_partition int,
--          source_start bigint, source_end bigint, target_start bigint, previous_target_end bigint,
--          finding bigint, status string
-- status:  out_of_order
--
-- Segments are what holds after supersession. finding numbers segments of one source range.
with landed as (
    select
        s.flow,
        s.source_topic,
        s.source_topic_id,
        s.source_partition,
        s.target_topic,
        s.target_topic_id,
        s.target_partition,
        s.source_start,
        s.source_end,
        s.target_start,
        max(s.target_start + (s.source_end - s.source_start)) over (
            partition by
                s.flow,
                s.source_topic,
                s.source_topic_id,
                s.source_partition,
                s.target_topic,
                s.target_topic_id,
                s.target_partition
            order by s.source_start nulls last, s.source_end nulls last, s.target_start nulls last
            rows between unbounded preceding and 1 preceding
        ) as previous_target_end
    from segments as s
)

select
    l.flow,
    l.source_topic,
    l.source_topic_id,
    l.source_partition,
    l.target_topic,
    l.target_topic_id,
    l.target_partition,
    l.source_start,
    l.source_end,
    l.target_start,
    l.previous_target_end,
    cast(
        row_number() over (
            partition by
                l.flow,
                l.source_topic,
                l.source_topic_id,
                l.source_partition,
                l.target_topic,
                l.target_topic_id,
                l.target_partition,
                l.source_start,
                l.source_end
            order by l.target_start nulls last, l.previous_target_end nulls last
        ) as bigint
    ) as finding,
    'out_of_order' as status
from landed as l
where l.target_start < l.previous_target_end
order by
    l.flow nulls last,
    l.source_topic nulls last,
    l.source_topic_id nulls last,
    l.source_partition nulls last,
    l.target_topic nulls last,
    l.target_topic_id nulls last,
    l.target_partition nulls last,
    l.source_start nulls last,
    l.source_end nulls last,
    finding nulls last
