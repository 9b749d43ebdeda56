-- Offset syncs that say in fewer rows what all that were `recorded` say, record for record: copies that follow each
-- other at both sides become one row with all their gaps, stamped as the last of them. They were recorded on one UTC
-- day, in one epoch of the flow, and are of one leader epoch and one producer id. As they were stay rows of other kinds,
-- of which `marks` has the places; the first copy of each leader epoch, also behind such a row; the last round of each
-- map; and what was recorded since its ends were read last. `breaks` has the times at which they were read: a row ends
-- at each, so what had been copied by then stays known.
with placed as (
    select
        *,
        writer_epoch * 4294967296 + round as place,
        row_number() over () as number,
        source_end - source_start - offsets_in(gaps) as copied
    from recorded
),

marked as (
    select p.*, m.place as mark
    from placed as p
    asof left join marks as m
        on m.flow = p.flow
        and m.source_topic = p.source_topic
        and m.source_topic_id = p.source_topic_id
        and m.source_partition = p.source_partition
        and m.place <= p.place
),

timed as (
    select m.*, b.at_ms as break_ms, l.last_break_ms
    from marked as m
    left join (
        select cluster, topic, topic_id, partition, max(at_ms) as last_break_ms
        from breaks
        group by cluster, topic, topic_id, partition
    ) as l
        on l.cluster = m.source_cluster
        and l.topic = m.source_topic
        and l.topic_id = m.source_topic_id
        and l.partition = m.source_partition
    asof left join breaks as b
        on b.cluster = m.source_cluster
        and b.topic = m.source_topic
        and b.topic_id = m.source_topic_id
        and b.partition = m.source_partition
        and b.at_ms < m.recorded_at_ms
),

judged as (
    select
        *,
        kind = 'copied'
            and cause is null
            and not recovered
            and copied = records
            and copied = target_end - target_start
            and coalesce(recorded_at_ms <= last_break_ms, true)
            and place < max(place) over (partition by flow, source_topic, source_topic_id, source_partition)
            and number <> arg_min(number, {'place': place, 'start': source_start, 'number': number}) over (
                partition by flow, source_topic, source_topic_id, source_partition, source_leader_epoch, mark
            ) as is_plain,
        row(
            recorded_at_ms // 86400000, writer, writer_epoch, source_cluster, source_leader_epoch, target_cluster,
            target_topic, target_topic_id, target_partition, producer_id, former_producer_id, mark, break_ms
        ) as alike
    from timed
),

compared as (
    select
        *,
        case
            when is_plain
                and lag(is_plain) over same
                and lag(source_end) over same = source_start
                and lag(target_end) over same = target_start
                and lag(alike) over same = alike
                then 0
            else 1
        end as begins
    from judged
    window same as (
        partition by flow, source_topic, source_topic_id, source_partition
        order by place, source_start, source_end, target_start, number
    )
),

numbered as (
    select
        *,
        sum(begins) over (
            partition by flow, source_topic, source_topic_id, source_partition
            order by place, source_start, source_end, target_start, number
            rows unbounded preceding
        ) as stretch
    from compared
)

select
    any_value(writer) as writer,
    any_value(writer_epoch) as writer_epoch,
    max(round) as round,
    arg_max(recorded_at_ms, place) as recorded_at_ms,
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
    arg_min(first_sequence, {'place': place, 'start': source_start}) as first_sequence,
    any_value(producer_id) as producer_id,
    any_value(former_producer_id) as former_producer_id,
    flatten(list(gaps order by place, source_start)) as gaps,
    any_value(kind) as kind,
    any_value(cause) as cause,
    any_value(recovered) as recovered,
    arg_min(first_timestamp_ms, {'place': place, 'start': source_start}) as first_timestamp_ms,
    max(last_timestamp_ms) as last_timestamp_ms,
    cast(sum(records) as bigint) as records,
    cast(sum(bytes) as bigint) as bytes,
    case when count(*) = 1 then any_value(checksum) end as checksum,
    cast(sum(raw_batches) as bigint) as raw_batches,
    cast(sum(record_path_batches) as bigint) as record_path_batches,
    cast(sum(merged_batches) as bigint) as merged_batches
from numbered
group by flow, source_topic, source_topic_id, source_partition, stretch
