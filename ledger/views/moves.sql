-- Moves of groups from one cluster to another, as operators and drivers recorded them.

-- A row for each recorded move of a group on a partition: it had left_offset there, and continues here at
-- arrived_offset. Only what was read back is a move. Rows of earlier programs do not say what was left. One operation
-- may have intended the same more than once: what was intended last before a result is what the result is about.
-- Share groups have no commits to go back to, and no moves.
create or replace temporary view group_moves as
with intended as (
    select operation_id, round, group_id, from_cluster, to_cluster, explode(commit_texts) as commit_text
    from (
        select
            operation_id,
            round,
            text_of(content, 'group') as group_id,
            text_of(content, 'source_cluster') as from_cluster,
            text_of(content, 'target_cluster') as to_cluster,
            elements_of(content, 'commits') as commit_texts
        from operations
        where kind = 'offsets_set' and is_json(content) and coalesce(text_of(content, 'group_type'), '') <> 'share'
    ) as i
),

results as (
    select operation_id, round, group_id, recorded_at_ms, explode(result_texts) as result_text
    from (
        select
            operation_id,
            round,
            text_of(content, 'group') as group_id,
            recorded_at_ms,
            elements_of(content, 'results') as result_texts
        from operations
        where kind = 'offsets_set_result' and is_json(content)
    ) as r
),

read_back as (
    select
        operation_id,
        round,
        group_id,
        text_of(result_text, 'topic') as to_topic,
        try_cast(text_of(result_text, 'partition') as int) as to_partition,
        recorded_at_ms
    from results
    where text_of(result_text, 'result') = 'set'
),

commits as (
    select
        operation_id,
        round,
        group_id,
        from_cluster,
        text_of(commit_text, 'source_topic') as from_topic,
        text_of(commit_text, 'source_topic_id') as from_topic_id,
        try_cast(text_of(commit_text, 'source_partition') as int) as from_partition,
        try_cast(text_of(commit_text, 'source_offset') as bigint) as left_offset,
        try_cast(text_of(commit_text, 'source_leader_epoch') as int) as left_leader_epoch,
        try_cast(text_of(commit_text, 'source_made_after_ms') as bigint) as left_made_after_ms,
        to_cluster,
        text_of(commit_text, 'topic') as to_topic,
        text_of(commit_text, 'topic_id') as to_topic_id,
        try_cast(text_of(commit_text, 'partition') as int) as to_partition,
        try_cast(text_of(commit_text, 'to') as bigint) as arrived_offset
    from intended
    where from_cluster is not null
),

moves as (
    select
        c.*,
        r.recorded_at_ms as moved_at_ms,
        row_number() over (
            partition by operation_id, r.round, group_id, to_topic, to_partition
            order by c.round desc nulls last
        ) as age
    from commits as c
    inner join read_back as r using (operation_id, group_id, to_topic, to_partition)
    where r.round >= c.round
),

-- Of what a flow has synced the last: a group that had begun from an earlier one has committed since, or begins here.
synced as (
    select
        *,
        row_number() over (
            partition by flow, group_id, source_topic, source_partition, target_topic, target_partition
            order by writer_epoch desc nulls last, round desc nulls last
        ) as age
    from group_syncs
    where event = 'synced'
)

select
    group_id,
    from_cluster,
    from_topic,
    from_topic_id,
    from_partition,
    left_offset,
    left_leader_epoch,
    left_made_after_ms,
    to_cluster,
    to_topic,
    to_topic_id,
    to_partition,
    arrived_offset,
    moved_at_ms,
    operation_id,
    'offsets_set' as kind
from moves
where age = 1
union all
select
    group_id,
    source_cluster as from_cluster,
    source_topic as from_topic,
    source_topic_id as from_topic_id,
    source_partition as from_partition,
    source_offset as left_offset,
    source_leader_epoch as left_leader_epoch,
    source_made_after_ms as left_made_after_ms,
    target_cluster as to_cluster,
    target_topic as to_topic,
    target_topic_id as to_topic_id,
    target_partition as to_partition,
    target_offset as arrived_offset,
    recorded_at_ms as moved_at_ms,
    cast(null as string) as operation_id,
    'group_synced' as kind
from synced
where age = 1;
