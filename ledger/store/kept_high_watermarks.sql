-- High watermarks that tell where logs end, of all that were `recorded`: of each partition the last ones, by their order and
-- by their time, and the highest of each leader epoch.
with placed as (
    select *, row_number() over () as number, writer_epoch * 4294967296 + round as place
    from recorded
),

judged as (
    select
        *,
        max(place) over same as last_place,
        max(recorded_at_ms) over same as last_ms,
        arg_max(number, {'end': high_watermark, 'number': number}) over (
            partition by cluster, topic, topic_id, partition, leader_epoch
        ) as highest
    from placed
    window same as (partition by cluster, topic, topic_id, partition)
)

select * exclude (number, place, last_place, last_ms, highest)
from judged
where place = last_place or recorded_at_ms = last_ms or number = highest
