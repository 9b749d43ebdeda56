-- Beside the answer of offset_translation: what each group would skip, and read again, that continues at the offset of a
-- time instead (time_offset, view compared_offsets). Times are the producers', no commit has one, and the sides hold
-- records in orders of their own. skipped: unread records that it would pass. repeated_by_time: read ones.
with compared as (
    select
        p.here_topic,
        p.here_partition,
        p.there_topic,
        p.there_partition,
        g.asked_number,
        g.group_id,
        x.place,
        greatest(c.there_offset, p.log_start) as time_offset
    from recorded_pairs as p
    inner join params as a
        on a.from_cluster = p.here_cluster
        and a.to_cluster = p.there_cluster
    inner join compared_offsets as c using (pair_number)
    inner join asked_groups as g using (pair_number)
    inner join group_places as x using (asked_number)
    where coalesce(g.topic_id = p.here_topic_id, g.committed_offset is null)
),

judged as (
    select
        c.asked_number,
        greatest(n.below - r.read_below - r.expired, 0) as skipped,
        greatest(r.read_below - n.below, 0) as repeated_by_time
    from compared as c
    inner join class_reads as r using (asked_number)
    inner join place_counts as n on n.class_number = r.class_number and n.point = c.time_offset
    union all
    select
        c.asked_number,
        case
            when x.unread_from is not null then greatest(least(x.range_end, c.time_offset) - x.unread_from, 0) else 0
        end as skipped,
        greatest(x.read_end - greatest(x.range_start, c.time_offset), 0) as repeated_by_time
    from compared as c
    inner join range_reads as x using (asked_number)
),

counted as (
    select asked_number, sum(skipped) as skipped, sum(repeated_by_time) as repeated_by_time
    from judged
    group by asked_number
)

select
    c.group_id,
    c.here_topic as source_topic,
    c.here_partition as source_partition,
    c.there_topic as target_topic,
    c.there_partition as target_partition,
    c.place as target_offset,
    c.time_offset,
    cast(coalesce(n.skipped, 0) as bigint) as skipped,
    cast(coalesce(n.repeated_by_time, 0) as bigint) as repeated_by_time
from compared as c
left join counted as n using (asked_number)
order by
    c.group_id nulls last,
    source_topic nulls last,
    source_partition nulls last,
    target_topic nulls last
