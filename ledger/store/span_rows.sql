-- Offset syncs, or spans, by the span that each belongs to: those of one `hour` come together. Of each map the rows of its
-- last round in it stay as they are, and so do rows that are no plain copies. Copies between them that follow each other,
-- of one leader epoch and one producer id, are one span. `recorded` has them.
with marked as (
    select
        *,
        writer_epoch * 4294967296 + round as place,
        max(writer_epoch * 4294967296 + round) over (
            partition by hour, flow, source_topic, source_topic_id, source_partition
        ) as last_place,
        source_end - source_start - offsets_in(gaps) as copied,
        end_of_gaps(gaps, 'compacted') as compacted_end,
        end_of_gaps(gaps, 'mirror_write') is not null as has_mirror_writes
    from recorded
),

judged as (
    select
        *,
        kind in ('copied', 'adopted') and copied = target_end - target_start and copied = records as is_regular
    from marked
),

plain as (
    select *, is_regular and kind = 'copied' and cause is null and not recovered and place < last_place as is_plain
    from judged
),

compared as (
    select
        *,
        case
            when is_plain
                and lag(is_plain) over same
                and lag(source_end) over same = source_start
                and lag(target_end) over same <= span_target_start
                and lag(source_cluster) over same = source_cluster
                and lag(target_cluster) over same = target_cluster
                and lag(target_topic) over same = target_topic
                and lag(target_topic_id) over same = target_topic_id
                and lag(target_partition) over same = target_partition
                and lag(writer) over same = writer
                and lag(writer_epoch) over same = writer_epoch
                and lag(source_leader_epoch) over same is not distinct from source_leader_epoch
                and lag(producer_id) over same is not distinct from producer_id
                and lag(former_producer_id) over same is not distinct from former_producer_id
                then 0
            else 1
        end as begins
    from plain
    window
        same as (
            partition by hour, flow, source_topic, source_topic_id, source_partition
            order by place, source_start, source_end, span_target_start
        )
),

numbered as (
    select
        *,
        sum(begins) over (
            partition by hour, flow, source_topic, source_topic_id, source_partition
            order by place, source_start, source_end, span_target_start
            rows unbounded preceding
        ) as span
    from compared
)

select *
from numbered
