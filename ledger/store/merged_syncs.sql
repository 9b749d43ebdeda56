-- Offset syncs in as few rows as say the same of where records are: neighbours that copied one record behind the other,
-- without a gap, are one row. It bears the last of their stamps. Nothing else came between them on their partition.
with plain as (
    select
        *,
        writer_epoch * 4294967296 + round as place,
        kind = 'copied'
        and cause is null
        and not recovered
        and len(gaps) = 0
        and source_end - source_start = target_end - target_start as is_plain
    from recorded
),

compared as (
    select
        *,
        case
            when
                is_plain
                and lag(is_plain) over same
                and lag(source_end) over same = source_start
                and lag(target_end) over same = target_start
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
            partition by flow, source_topic, source_topic_id, source_partition
            order by place, source_start, source_end, target_start
        )
),

numbered as (
    select
        *,
        sum(begins) over (
            partition by flow, source_topic, source_topic_id, source_partition
            order by place, source_start, source_end, target_start
            rows unbounded preceding
        ) as island
    from compared
)

select
    writer,
    writer_epoch,
    max(round) as round,
    max(recorded_at_ms) as recorded_at_ms,
    flow,
    any_value(source_cluster) as source_cluster,
    any_value(target_cluster) as target_cluster,
    source_topic,
    source_topic_id,
    source_partition,
    any_value(source_leader_epoch) as source_leader_epoch,
    any_value(target_topic) as target_topic,
    any_value(target_topic_id) as target_topic_id,
    any_value(target_partition) as target_partition,
    min(source_start) as source_start,
    max(source_end) as source_end,
    min(target_start) as target_start,
    max(target_end) as target_end,
    arg_min(first_sequence, place) as first_sequence,
    any_value(producer_id) as producer_id,
    any_value(former_producer_id) as former_producer_id,
    any_value(gaps) as gaps,
    any_value(kind) as kind,
    any_value(cause) as cause,
    any_value(recovered) as recovered,
    min(first_timestamp_ms) as first_timestamp_ms,
    max(last_timestamp_ms) as last_timestamp_ms,
    cast(sum(records) as bigint) as records,
    cast(sum(bytes) as bigint) as bytes,
    cast(null as bigint) as checksum,
    cast(sum(raw_batches) as bigint) as raw_batches,
    cast(sum(record_path_batches) as bigint) as record_path_batches
from numbered
group by flow, source_topic, source_topic_id, source_partition, writer, writer_epoch, island
