-- Offset syncs that a cut did not count, and of each map the rows of its last round before;
-- `counted`: of each writer the last append that the cut counts.
with placed as (
    select
        r.*,
        r.writer_epoch * 4294967296 + r.round as place,
        coalesce(r.writer_epoch * 4294967296 + r.round <= c.last_epoch * 4294967296 + c.last_round, false) as is_counted
    from recorded as r
    left join counted as c using (writer)
),

last_places as (
    select flow, source_topic_id, source_partition, target_topic_id, target_partition, max(place) as place
    from placed
    where is_counted
    group by flow, source_topic_id, source_partition, target_topic_id, target_partition
)

select p.* exclude (place, is_counted)
from placed as p
left join last_places as l
    using (flow, source_topic_id, source_partition, target_topic_id, target_partition, place)
where not p.is_counted or l.place is not null
