-- Of each flow, group and place at a cluster the last commit that was read back, and what was intended behind it.
with places as (
    select
        *,
        max(case when event = 'synced' then writer_epoch * 4294967296 + round end) over (
            partition by flow, group_id, target_topic, target_partition
        ) as last_synced
    from group_syncs
    where target_cluster = $cluster and coalesce(flow = $flow, true)
)

select group_id, target_topic, target_partition, target_offset, event, recorded_at_ms
from places
where coalesce(writer_epoch * 4294967296 + round >= last_synced, true)
order by writer_epoch, round
