-- The views that every query may read beside the tables, for DuckDB. The Spark adapter holds the same.
-- A copied offset sync with n gaps is n + 1 pieces: each ends where a gap starts, the last at the sync's end.

create temporary view sync_pieces as
with numbered as (
    select *, row_number() over () as sync_number
    from offset_syncs
    where kind in ('adopted', 'copied')
),

ended as (
    select
        * exclude (gaps),
        unnest(
            list_append(gaps, {'source_start': source_end, 'source_end': source_end, 'cause': null})
        ) as gap
    from numbered
),

bounded as (
    select
        *,
        coalesce(
            lag(gap.source_end) over (partition by sync_number order by gap.source_start nulls last),
            source_start
        ) as piece_start
    from ended
)

select
    *,
    target_start + cast(
        coalesce(
            sum(gap.source_start - piece_start) over (
                partition by sync_number
                order by gap.source_start nulls last
                rows between unbounded preceding and 1 preceding
            ),
            0
        ) as bigint
    ) as piece_target_start
from bounded;

create temporary view segments as
select
    flow,
    source_cluster,
    target_cluster,
    source_topic,
    source_topic_id,
    source_partition,
    target_topic,
    target_topic_id,
    target_partition,
    piece_start as source_start,
    gap.source_start as source_end,
    piece_target_start as target_start,
    writer,
    writer_epoch,
    round,
    recorded_at_ms
from sync_pieces
where piece_start < gap.source_start;

create temporary view gaps as
select
    flow,
    source_cluster,
    target_cluster,
    source_topic,
    source_topic_id,
    source_partition,
    target_topic,
    target_topic_id,
    target_partition,
    gap.source_start as source_start,
    gap.source_end as source_end,
    piece_target_start + (gap.source_start - piece_start) as target_start,
    gap.cause as cause,
    'gap' as kind,
    writer,
    writer_epoch,
    round,
    recorded_at_ms
from sync_pieces
where gap.source_start < gap.source_end
union all
select
    flow,
    source_cluster,
    target_cluster,
    source_topic,
    source_topic_id,
    source_partition,
    target_topic,
    target_topic_id,
    target_partition,
    source_start,
    source_end,
    target_start,
    cause,
    'lost' as kind,
    writer,
    writer_epoch,
    round,
    recorded_at_ms
from offset_syncs
where kind = 'lost';

create temporary view partition_events as
select
    flow,
    json_extract_string(content, '$.topic') as source_topic,
    json_extract_string(content, '$.topic_id') as source_topic_id,
    try_cast(json_extract_string(content, '$.partition') as integer) as source_partition,
    kind,
    json_extract_string(content, '$.cause') as cause,
    json_extract_string(content, '$.message') as message,
    json_extract_string(content, '$.next') as next,
    recorded_at_ms
from operations
where kind in ('partition_stopped', 'partition_resumed') and json_valid(content);

create temporary view topic_settings as
select
    t.cluster,
    t.topic,
    t.topic_id,
    t.event,
    t.entry.key as setting,
    t.entry.value as value,
    t.writer_epoch,
    t.round,
    t.recorded_at_ms
from (
    select
        cluster,
        topic,
        topic_id,
        event,
        unnest(map_entries(cast(cast(configuration as json) as map(varchar, varchar)))) as entry,
        writer_epoch,
        round,
        recorded_at_ms
    from topics
    where json_valid(configuration)
) as t;
