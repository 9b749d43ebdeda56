-- Moves of groups from one cluster to another, as operators and drivers recorded them.

-- What answers by which groups were moved knew of other writers: of each the last append.
create or replace temporary view seen_appends as
select
    operation_id,
    round,
    text_of(seen_text, 'table') as seen_table,
    text_of(seen_text, 'writer') as seen_writer,
    try_cast(text_of(seen_text, 'epoch') as bigint) * 4294967296 + try_cast(text_of(seen_text, 'round') as bigint)
        as seen_order
from (
    select operation_id, round, explode(seen_texts) as seen_text
    from (
        select operation_id, round, elements_of(content, 'seen') as seen_texts
        from operations
        where kind = 'offsets_set' and is_json(content)
    ) as o
) as s;

-- What was moved by operations and read back. One operation may have intended the same more than once: what was intended
-- last before a result is what the result is about; round is that row's. Share groups have no commits to go back to, and
-- no moves.
create or replace temporary view moves_by_operators as
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
    select operation_id, writer_epoch, round, group_id, recorded_at_ms, explode(result_texts) as result_text
    from (
        select
            operation_id,
            writer_epoch,
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
        writer_epoch * 4294967296 + round as move_order,
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
),

moves as (
    select
        c.*,
        r.recorded_at_ms as moved_at_ms,
        r.move_order,
        row_number() over (
            partition by operation_id, r.round, group_id, to_topic, to_partition
            order by c.round desc nulls last
        ) as age
    from commits as c
    inner join read_back as r using (operation_id, group_id, to_topic, to_partition)
    where r.round >= c.round
)

select
    m.group_id,
    m.from_cluster,
    m.from_topic,
    m.from_topic_id,
    m.from_partition,
    m.left_offset,
    m.left_leader_epoch,
    m.left_made_after_ms,
    m.to_cluster,
    m.to_topic,
    m.to_topic_id,
    m.to_partition,
    m.arrived_offset,
    m.moved_at_ms,
    m.operation_id,
    m.round,
    m.move_order,
    n.seen_order
from moves as m
left join seen_appends as n
    on n.operation_id = m.operation_id
    and n.round = m.round
    and n.seen_table = 'checkpoints'
where m.age = 1;

-- A row for each recorded move of a group on a partition: it had left_offset there, and continues here at
-- arrived_offset. Only what was read back is a move.
--
-- No clock tells which of several was the last: move_order is the place in the operators' serial. What a flow has synced
-- comes behind the last move that did not know of it. seen_order: behind this append of the recorder of to_cluster commits
-- are those that came since; null where it had appended nothing, then any commit may have.
create or replace temporary view group_moves as
with
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
),

synced_behind as (
    select
        s.*,
        case
            when s.writer_epoch * 4294967296 + s.round <= n.seen_order then null
            else m.move_order
        end as move_order
    from synced as s
    left join moves_by_operators as m
        on m.group_id = s.group_id
        and m.from_cluster = s.source_cluster
        and m.from_topic = s.source_topic
        and m.from_partition = s.source_partition
        and m.to_cluster = s.target_cluster
        and m.to_topic = s.target_topic
        and m.to_partition = s.target_partition
    left join seen_appends as n
        on n.operation_id = m.operation_id
        and n.round = m.round
        and n.seen_table = 'group_syncs'
        and n.seen_writer = s.writer
    where s.age = 1
),

synced_last as (
    select
        *,
        row_number() over (
            partition by flow, group_id, source_topic, source_partition, target_topic, target_partition
            order by move_order desc nulls last
        ) as place
    from synced_behind
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
    'offsets_set' as kind,
    move_order,
    seen_order
from moves_by_operators
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
    'group_synced' as kind,
    move_order,
    cast(null as bigint) as seen_order
from synced_last
where place = 1;
