-- Of each group of a cluster the median time between readings that found another commit than the one before.
with readings as (
    select
        group_id,
        writer_epoch * 4294967296 + round as place,
        read_at_ms,
        committed_offset is distinct from lag(committed_offset) over (
            partition by group_id, topic, topic_id, partition order by writer_epoch, round
        ) as is_new
    from checkpoints
    where cluster = $cluster
),

commits as (
    select group_id, place, max(read_at_ms) as read_at_ms
    from readings
    where is_new
    group by group_id, place
),

spans as (
    select
        group_id,
        read_at_ms - lag(read_at_ms) over (partition by group_id order by place) as span_ms,
        max(read_at_ms) over (partition by group_id) - read_at_ms as age_ms
    from commits
)

select group_id, median(span_ms)
from spans
where span_ms > 0 and age_ms <= 3600000
group by group_id
having count(*) >= 3
