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
        greatest(c.there_offset, p.log_start) as time_offset,
        p.log_start
    from recorded_pairs as p
    inner join params as a
        on a.from_cluster = p.here_cluster
        and a.to_cluster = p.there_cluster
    inner join compared_offsets as c using (pair_number)
    inner join asked_groups as g using (pair_number)
    inner join group_places as x using (asked_number)
    where coalesce(g.topic_id = p.here_topic_id, g.committed_offset is null)
),

counted as (
    select
        c.asked_number,
        sum(
            case
                when u.unread_from is not null
                    then least(
                        greatest(
                            least(u.piece_end, c.time_offset) - greatest(u.unread_from, c.log_start), 0
                        ),
                        u.records
                    )
                else 0
            end
        ) as skipped,
        sum(
            case
                when u.is_passed then 0
                else least(
                    greatest(
                        least(u.piece_end, greatest(coalesce(u.unread_from, u.piece_end), c.log_start))
                        - greatest(u.piece_start, c.time_offset),
                        0
                    ),
                    u.records
                )
            end
        ) as repeated_by_time
    from compared as c
    inner join unread_pieces as u using (asked_number)
    group by c.asked_number
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
