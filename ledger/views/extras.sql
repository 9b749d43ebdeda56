-- What was decided about records that one cluster alone has.

-- Stretches of partitions about which the same was decided last. Operators decide in one order; of two decisions in one
-- append one counts that keeps nothing local: what may be read again is not skipped.
create or replace temporary view decided_extras as
with decisions as (
    select cluster, topic, topic_id, policy, decided_order, explode(range_texts) as range_text
    from (
        select
            text_of(content, 'cluster') as cluster,
            text_of(content, 'topic') as topic,
            text_of(content, 'topic_id') as topic_id,
            text_of(content, 'policy') as policy,
            writer_epoch * 4294967296 + round as decided_order,
            elements_of(content, 'ranges') as range_texts
        from operations
        where kind = 'extras_decided' and is_json(content)
    ) as d
),

ranges as (
    select
        cluster,
        topic,
        topic_id,
        try_cast(text_of(range_text, 'partition') as int) as partition,
        try_cast(text_of(range_text, 'extra_start') as bigint) as extra_start,
        try_cast(text_of(range_text, 'extra_end') as bigint) as extra_end,
        policy,
        decided_order
    from decisions
),

edges as (
    select cluster, topic, topic_id, partition, extra_start as edge
    from ranges
    union
    select cluster, topic, topic_id, partition, extra_end as edge
    from ranges
),

-- Between two edges one decision is the last.
judged as (
    select
        e.cluster,
        e.topic,
        e.topic_id,
        e.partition,
        e.edge as piece_start,
        r.policy,
        row_number() over (
            partition by e.cluster, e.topic, e.topic_id, e.partition, e.edge
            order by
                r.decided_order desc nulls last,
                case when r.policy in ('keep_local', 'salvage') then 1 else 0 end asc nulls last,
                r.policy asc nulls last
        ) as age
    from edges as e
    left join ranges as r
        on r.cluster = e.cluster
        and r.topic = e.topic
        and r.topic_id = e.topic_id
        and r.partition = e.partition
        and r.extra_start <= e.edge
        and r.extra_end > e.edge
),

changes as (
    select *
    from (
        select
            cluster,
            topic,
            topic_id,
            partition,
            piece_start,
            policy,
            lag(policy) over (
                partition by cluster, topic, topic_id, partition
                order by piece_start nulls last
            ) as policy_before
        from judged
        where age = 1
    ) as j
    where policy is distinct from policy_before
),

stretches as (
    select
        cluster,
        topic,
        topic_id,
        partition,
        piece_start as extra_start,
        lead(piece_start) over (
            partition by cluster, topic, topic_id, partition
            order by piece_start nulls last
        ) as extra_end,
        policy
    from changes
)

select cluster, topic, topic_id, partition, extra_start, extra_end, policy
from stretches
where policy is not null;
