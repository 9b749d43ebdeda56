-- Where each pair's log continues at a time: the first offset of the first offset sync, by offset, that has a record at
-- or behind it, or whose times nobody knows; without one, the end of what is known.
create temporary table compared_offsets as
with timed as (
    select m.target_log as log_number, o.target_start as start_offset, o.last_timestamp_ms
    from offset_syncs as o
    inner join last_syncs as l using (flow, source_topic, source_topic_id, source_partition)
    inner join map_logs as m on m.map_number = l.map_number
    where o.target_topic_id = l.target_topic_id and o.records > 0
    union all
    select m.source_log as log_number, o.source_start as start_offset, o.last_timestamp_ms
    from offset_syncs as o
    inner join last_syncs as l using (flow, source_topic, source_topic_id, source_partition)
    inner join map_logs as m on m.map_number = l.map_number
    where o.records > 0
)

select p.pair_number, coalesce(min(t.start_offset), p.known_end) as there_offset
from pairs as p
left join timed as t
    on t.log_number = p.there_log
    and coalesce(t.last_timestamp_ms >= $at_ms, true)
group by p.pair_number, p.known_end
