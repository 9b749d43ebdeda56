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
    coalesce(text_of(content, 'cluster'), text_of(content, 'target_cluster')) as cluster,
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

-- Outages that were seen: since when a cluster, or leaders of a topic, did not answer a writer, until it recorded that
-- they did again (null: it has not).
create or replace temporary view cluster_outages as
with events as (
    select
        c.writer,
        c.flow,
        c.kind,
        c.finding,
        c.topic,
        c.cluster,
        c.message,
        case
            when c.finding in ('source_throttled', 'target_throttled') then 'throttled'
            else 'unreachable'
        end as what,
        coalesce(c.since_ms, c.recorded_at_ms) as since_ms,
        c.recorded_at_ms,
        c.writer_epoch * 4294967296 + c.round as recorded_order
    from operation_contents as c
    where c.kind in ('finding_raised', 'finding_cleared')
        and c.finding in (
            'source_unreachable',
            'target_unreachable',
            'cluster_unreachable',
            'source_throttled',
            'target_throttled'
        )
),

followed as (
    select
        e.*,
        lag(e.kind) over (
            partition by e.writer, e.finding, e.topic order by e.recorded_order nulls last
        ) as previous_kind
    from events as e
),

changes as (
    select
        f.*,
        lead(f.recorded_at_ms) over (
            partition by f.writer, f.finding, f.topic order by f.recorded_order nulls last
        ) as until_ms
    from followed as f
    where coalesce(f.previous_kind <> f.kind, true)
)

select
    cluster,
    writer,
    flow,
    finding,
    topic,
    what,
    since_ms,
    recorded_at_ms,
    until_ms,
    message
from changes
where kind = 'finding_raised';

-- Findings of flows that are open: the last event of each raised it. Its events are those of the flow's drivers, so
-- their stamps order them.
create or replace temporary view open_findings as
with events as (
    select
        c.flow,
        c.kind,
        c.finding,
        c.topic,
        c.partition,
        c.message,
        c.next,
        coalesce(c.since_ms, c.recorded_at_ms) as since_ms,
        c.recorded_at_ms,
        c.writer_epoch * 4294967296 + c.round as recorded_order
    from operation_contents as c
    where c.flow is not null and c.kind in ('finding_raised', 'finding_cleared')
),

ordered as (
    select
        e.flow,
        e.kind,
        e.finding,
        e.topic,
        e.partition,
        e.message,
        e.next,
        e.since_ms,
        e.recorded_at_ms,
        e.recorded_order,
        max(case when e.kind = 'finding_cleared' then e.recorded_order end) over (
            partition by e.flow, e.finding, e.topic, e.partition
        ) as cleared_order,
        row_number() over (
            partition by e.flow, e.finding, e.topic, e.partition
            order by
                e.recorded_order desc nulls last,
                e.kind desc nulls last,
                e.message asc nulls last,
                e.next asc nulls last
        ) as age
    from events as e
),

dated as (
    select
        o.flow,
        o.kind,
        o.finding,
        o.topic,
        o.partition,
        o.message,
        o.next,
        o.recorded_at_ms,
        o.age,
        min(
            case
                when o.kind = 'finding_raised' and coalesce(o.recorded_order >= o.cleared_order, true)
                    then o.since_ms
            end
        ) over (partition by o.flow, o.finding, o.topic, o.partition) as open_since_ms
    from ordered as o
)

select
    flow,
    finding,
    topic,
    partition,
    message,
    next,
    open_since_ms,
    recorded_at_ms as raised_at_ms
from dated
where age = 1 and kind = 'finding_raised';
