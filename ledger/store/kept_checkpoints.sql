-- Checkpoints that tell where groups stand, of all that were `recorded`: what these and later ones say of last commits is
-- what all say. Of each group and partition the last ones, and the last with a commit; those that were read last, and
-- last with another offset; where its last offset was seen first; the first without the commit; and commits above which no
-- later one has been.
with placed as (
    select
        *,
        row_number() over () as number,
        writer_epoch * 4294967296 + round as place
    from recorded
),

known as (
    select
        *,
        max(place) over same as last_place,
        max(case when committed_offset is not null then place end) over same as known_place,
        arg_max(
            committed_offset, {'place': place, 'at': recorded_at_ms, 'read': read_at_ms, 'low': -committed_offset}
        ) filter (committed_offset is not null) over same as known_offset,
        arg_max_null(committed_offset, {'read': read_at_ms, 'number': number}) over same as read_offset,
        arg_max(number, {'read': read_at_ms, 'number': number}) over same as read_last
    from placed
    window same as (partition by cluster, group_id, topic, partition)
),

differing as (
    select
        *,
        max(
            case when place < known_place and committed_offset is distinct from known_offset then place end
        ) over same as differing_place,
        arg_max(number, {'read': read_at_ms, 'number': number})
            filter (committed_offset is distinct from read_offset) over same as read_before,
        arg_min(number, {'read': read_at_ms, 'number': number}) filter (place > coalesce(known_place, -1)) over same
            as absent_first,
        arg_max(number, {'read': read_at_ms, 'number': number}) filter (
            place < known_place and committed_offset is distinct from known_offset
        ) over same as read_before_known,
        max(committed_offset) over (
            partition by cluster, group_id, topic, partition, topic_id
            order by place desc, number desc
            rows between unbounded preceding and 1 preceding
        ) as highest_behind,
        max(committed_offset) over (
            partition by cluster, group_id, topic, partition, topic_id
            order by read_at_ms desc, number desc
            rows between unbounded preceding and 1 preceding
        ) as highest_read_behind
    from known
    window same as (partition by cluster, group_id, topic, partition)
),

begun as (
    select
        *,
        arg_min(number, {'read': read_at_ms, 'number': number}) filter (
            committed_offset = known_offset and place > coalesce(differing_place, -1)
        ) over (partition by cluster, group_id, topic, partition) as known_first
    from differing
)

select * exclude (
    number, place, last_place, known_place, known_offset, read_offset, read_last, differing_place, read_before,
    absent_first, read_before_known, highest_behind, highest_read_behind, known_first
)
from begun
where place in (last_place, known_place, differing_place)
    or number in (read_last, read_before, read_before_known, absent_first, known_first)
    or coalesce(committed_offset > highest_behind, committed_offset is not null)
    or coalesce(committed_offset > highest_read_behind, committed_offset is not null)
