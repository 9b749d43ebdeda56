-- The views that every query may read beside the tables, for Spark. The DuckDB adapter holds the same.
-- A copied offset sync with n gaps is n + 1 pieces: each ends where a gap starts, the last at the sync's end.

create or replace temporary view sync_pieces as
with numbered as (
    select *, monotonically_increasing_id() as sync_number
    from offset_syncs
    where kind in ('adopted', 'copied')
),

ended as (
    select
        *,
        explode(
            concat(
                gaps,
                array(
                    named_struct(
                        'source_start', source_end, 'source_end', source_end, 'cause', cast(null as string)
                    )
                )
            )
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

create or replace temporary view segments as
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

create or replace temporary view gaps as
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

create or replace temporary view partition_events as
select
    flow,
    get_json_object(content, '$.topic') as source_topic,
    get_json_object(content, '$.topic_id') as source_topic_id,
    try_cast(get_json_object(content, '$.partition') as int) as source_partition,
    kind,
    get_json_object(content, '$.cause') as cause,
    get_json_object(content, '$.message') as message,
    get_json_object(content, '$.next') as next,
    recorded_at_ms
from operations
where kind in ('partition_stopped', 'partition_resumed');

create or replace temporary view topic_settings as
select
    cluster,
    topic,
    topic_id,
    event,
    setting,
    value,
    writer_epoch,
    round,
    recorded_at_ms
from topics
lateral view explode(from_json(configuration, 'map<string, string>')) as setting, value;
