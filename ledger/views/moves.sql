-- Moves of groups from one cluster to another, as operators recorded them.

-- A row for each recorded move of a group on a partition: it had left_offset there, and continues here at
-- arrived_offset. Only what was read back is a move. Rows of earlier programs do not say what was left.
create or replace temporary view group_moves as
with intended as (
    select operation_id, group_id, from_cluster, to_cluster, explode(commit_texts) as commit_text
    from (
        select
            operation_id,
            text_of(content, 'group') as group_id,
            text_of(content, 'source_cluster') as from_cluster,
            text_of(content, 'target_cluster') as to_cluster,
            elements_of(content, 'commits') as commit_texts
        from operations
        where kind = 'offsets_set' and is_json(content)
    ) as i
),

results as (
    select operation_id, group_id, recorded_at_ms, explode(result_texts) as result_text
    from (
        select
            operation_id,
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
)

select
    c.group_id,
    c.from_cluster,
    c.from_topic,
    c.from_topic_id,
    c.from_partition,
    c.left_offset,
    c.left_leader_epoch,
    c.left_made_after_ms,
    c.to_cluster,
    c.to_topic,
    c.to_topic_id,
    c.to_partition,
    c.arrived_offset,
    r.recorded_at_ms as moved_at_ms,
    c.operation_id,
    'offsets_set' as kind
from commits as c
inner join read_back as r using (operation_id, group_id, to_topic, to_partition);
