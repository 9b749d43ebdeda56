-- What recorders saw of groups. One recorder writes a cluster's rows, so (writer_epoch, round) orders them; it adds no
-- two of one group in a round.

-- What was recorded last of each group of a cluster.
create or replace temporary view last_groups as
with aged as (
    select
        cluster,
        group_id,
        group_type,
        protocol_type,
        group_state,
        has_members,
        event,
        reason,
        read_at_ms,
        row_number() over (
            partition by cluster, group_id
            order by writer_epoch desc nulls last, round desc nulls last
        ) as age
    from groups
    where group_id is not null
)

select
    cluster,
    group_id,
    group_type,
    protocol_type,
    group_state,
    has_members,
    event,
    reason,
    read_at_ms
from aged
where age = 1;

-- What the last listing of a cluster's groups is worth: all_listed, or permitted_listed.
create or replace temporary view last_group_listings as
with aged as (
    select
        cluster,
        event,
        read_at_ms,
        row_number() over (
            partition by cluster
            order by writer_epoch desc nulls last, round desc nulls last
        ) as age
    from groups
    where group_id is null
)

select cluster, event as listing, read_at_ms
from aged
where age = 1;

-- What was recorded last of each share group and partition of a cluster.
create or replace temporary view last_share_offsets as
with aged as (
    select
        cluster,
        group_id,
        topic,
        topic_id,
        partition,
        start_offset,
        lag,
        read_at_ms,
        absence,
        row_number() over (
            partition by cluster, group_id, topic, partition
            order by writer_epoch desc nulls last, round desc nulls last
        ) as age
    from share_offsets
)

select
    cluster,
    group_id,
    topic,
    topic_id,
    partition,
    start_offset,
    lag,
    read_at_ms,
    absence
from aged
where age = 1;
