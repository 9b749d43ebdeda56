-- What operators asked and drivers answered, with keys of the contents as columns.

-- Rows of `operations` with the keys that their contents have in common as columns, null where a kind has none.
create or replace temporary view operation_contents as
select
    operation_id,
    kind,
    flow,
    operator,
    reason,
    ticket,
    text_of(content, 'topic') as topic,
    text_of(content, 'topic_id') as topic_id,
    try_cast(text_of(content, 'partition') as int) as partition,
    try_cast(text_of(content, 'offset') as bigint) as source_offset,
    text_of(content, 'cause') as cause,
    text_of(content, 'message') as message,
    text_of(content, 'next') as next,
    text_of(content, 'finding') as finding,
    text_of(content, 'request') as request,
    text_of(content, 'result') as result,
    text_of(content, 'cluster') as cluster,
    try_cast(text_of(content, 'since_ms') as bigint) as since_ms,
    writer,
    writer_epoch,
    round,
    recorded_at_ms
from operations
where is_json(content);

-- Stops of partitions, and their ends.
create or replace temporary view partition_events as
select
    flow,
    topic as source_topic,
    topic_id as source_topic_id,
    partition as source_partition,
    kind,
    cause,
    message,
    next,
    writer_epoch,
    round,
    recorded_at_ms
from operation_contents
where kind in ('partition_stopped', 'partition_resumed');

-- The last event of each partition. Of those recorded together a stop counts, and of several the last by its cause.
create or replace temporary view last_partition_events as
with placed as (
    select
        *,
        row_number() over (
            partition by flow, source_topic, source_topic_id, source_partition
            order by
                writer_epoch desc nulls last,
                round desc nulls last,
                kind desc nulls last,
                cause desc nulls last,
                message nulls last,
                next nulls last
        ) as age
    from partition_events
)

select
    flow,
    source_topic,
    source_topic_id,
    source_partition,
    kind,
    cause,
    message,
    next,
    writer_epoch,
    round,
    recorded_at_ms
from placed
where age = 1;
