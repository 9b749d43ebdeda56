-- One row of `checkpoints` that stands for a single offset of the latest mapped incarnation of a partition, as the
-- source has it now: of the last leader epoch that is recorded there.
create temporary table checkpoints as
with flow_source as (
    select c.source_cluster
    from last_claims as c
    inner join params as p on p.flow = c.flow
),

latest_sync as (
    select s.source_topic_id
    from last_syncs as s
    inner join params as p
        on p.flow = s.flow
        and p.topic = s.source_topic
        and p.partition = s.source_partition
    order by s.writer_epoch desc nulls last, s.round desc nulls last, s.source_end desc nulls last
    limit 1
),

latest_epoch as (
    select max(o.source_leader_epoch) as leader_epoch
    from offset_syncs as o
    inner join params as p on p.flow = o.flow
    inner join latest_sync as s on s.source_topic_id = o.source_topic_id
)

select
    cast(null as varchar) as writer,
    cast(0 as bigint) as writer_epoch,
    cast(0 as bigint) as round,
    cast(0 as bigint) as recorded_at_ms,
    f.source_cluster as cluster,
    cast(null as varchar) as group_id,
    cast(null as varchar) as group_type,
    cast(null as varchar) as group_state,
    p.topic,
    s.source_topic_id as topic_id,
    p.partition,
    p.committed_offset,
    coalesce(e.leader_epoch, 0) as leader_epoch,
    cast(null as varchar) as metadata,
    cast(0 as bigint) as read_at_ms,
    cast(null as varchar) as absence
from params as p
inner join flow_source as f on true
cross join latest_epoch as e
left join latest_sync as s on true
