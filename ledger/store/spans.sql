-- Offset syncs in few rows: spans, of the rows of `span_rows`. A span is exact where it says of each record where that is:
-- neither a gap nor a record of somebody else lies in it. Of others the copies count as the last ones that fit into its
-- target range, and in front of them lie as many offsets without a copy as it has: so what lies below a span, or behind
-- it, is where it was. Of gaps that is kept which others go by: where those that were compacted at its beginning end, and
-- that mirrors have written (a gap of that cause without offsets). span_target_start is where its target range begins;
-- rows are the offset syncs that it stands for.
with summed as (
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
        min(target_start) as exact_target_start,
        max(target_end) as target_end,
        arg_min(first_sequence, place) as first_sequence,
        any_value(producer_id) as producer_id,
        any_value(former_producer_id) as former_producer_id,
        any_value(gaps) as exact_gaps,
        any_value(kind) as kind,
        any_value(cause) as cause,
        bool_or(recovered) as recovered,
        min(first_timestamp_ms) as first_timestamp_ms,
        max(last_timestamp_ms) as last_timestamp_ms,
        cast(sum(records) as bigint) as records,
        cast(sum(bytes) as bigint) as bytes,
        any_value(checksum) as any_checksum,
        cast(sum(raw_batches) as bigint) as raw_batches,
        cast(sum(record_path_batches) as bigint) as record_path_batches,
        cast(sum(merged_batches) as bigint) as merged_batches,
        hour,
        min(first_round) as first_round,
        min(first_recorded_at_ms) as first_recorded_at_ms,
        min(span_target_start) as span_target_start,
        cast(sum(rows) as bigint) as rows,
        bool_and(is_exact)
        and sum(target_end - span_target_start) = max(target_end) - min(span_target_start) as is_exact,
        bool_and(is_regular) as is_regular,
        cast(sum(copied) as bigint) as copied,
        coalesce(
            arg_min_null(compacted_end, {'place': place, 'start': source_start, 'end': source_end}), min(source_start)
        ) as begins_by,
        bool_or(has_mirror_writes) as has_mirror_writes
    from span_rows
    group by hour, flow, source_topic, source_topic_id, source_partition, writer, writer_epoch, span
),

-- The first gap ends where what was compacted at the beginning does, the other one follows it.
parted as (
    select
        *,
        least(begins_by - source_start, source_end - source_start - copied) as first_gap,
        begins_by
        + source_end - source_start - copied
        - least(begins_by - source_start, source_end - source_start - copied) as gaps_end
    from summed
)

select
    * exclude (
        exact_target_start, exact_gaps, any_checksum, is_exact, is_regular, copied, begins_by, has_mirror_writes,
        first_gap, gaps_end
    ),
    is_exact or not is_regular as is_exact,
    case when is_exact or not is_regular then exact_target_start else target_end - copied end as target_start,
    case when rows = 1 then any_checksum end as checksum,
    case
        when is_exact or not is_regular then exact_gaps
        else list_filter(
            [
                {'source_start': begins_by - first_gap, 'source_end': begins_by, 'cause': 'compacted'},
                {'source_start': begins_by, 'source_end': gaps_end, 'cause': 'filtered'}
            ],
            lambda gap: gap.source_start < gap.source_end
        ) || case
            when has_mirror_writes
                then [{'source_start': gaps_end, 'source_end': gaps_end, 'cause': 'mirror_write'}]
            else []
        end
    end as gaps
from parted
