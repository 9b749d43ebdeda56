-- name:    repeated_records
-- answers: which records does each group read again that continues at another cluster where offset_translation says?
-- grain:   group_id, source_topic, source_partition, target_topic, range_start
-- reads:   answered_pairs, asked_groups, class_reads, group_places, group_reads, range_reads, there_ranges
-- params:  from_cluster string, to_cluster string
-- columns: group_id string, source_topic string, source_partition int, target_topic string, target_partition int,
--          range_start bigint, range_end bigint, records bigint
--
-- Ranges of target offsets: what is counted as `repeated` there. None where both sides hold records in one order and
-- nothing is unread that lies before others.
with placed as (
    select
        p.here_topic,
        p.here_partition,
        p.there_topic,
        p.there_partition,
        p.known_end,
        g.asked_number,
        g.group_id,
        x.place,
        r.alone_to
    from answered_pairs as p
    inner join params as a
        on a.from_cluster = p.here_cluster
        and a.to_cluster = p.there_cluster
    inner join asked_groups as g using (pair_number)
    inner join group_reads as r using (asked_number)
    inner join group_places as x using (asked_number)
    where coalesce(g.topic_id = p.here_topic_id, g.committed_offset is null)
),

-- Extras, and records of others, behind the known end are known by the group's own commit.
ranges as (
    select
        p.asked_number,
        greatest(x.range_start, p.place) as range_start,
        least(x.range_end, c.unread_from) as range_end
    from placed as p
    inner join class_reads as c using (asked_number)
    inner join there_ranges as x using (class_number)
    union all
    select p.asked_number, greatest(x.range_start, p.place) as range_start, x.read_end as range_end
    from placed as p
    inner join range_reads as x using (asked_number)
    union all
    select asked_number, greatest(known_end, place) as range_start, alone_to as range_end
    from placed
),

begun as (
    select
        *,
        case
            when lag(range_end) over (partition by asked_number order by range_start nulls last) = range_start then 0
            else 1
        end as begins
    from ranges
    where range_start < range_end
),

numbered as (
    select
        *,
        sum(begins) over (
            partition by asked_number
            order by range_start nulls last
            rows between unbounded preceding and current row
        ) as range_number
    from begun
)

select
    p.group_id,
    p.here_topic as source_topic,
    p.here_partition as source_partition,
    p.there_topic as target_topic,
    p.there_partition as target_partition,
    min(n.range_start) as range_start,
    max(n.range_end) as range_end,
    cast(sum(n.range_end - n.range_start) as bigint) as records
from placed as p
inner join numbered as n using (asked_number)
group by
    p.group_id,
    p.here_topic,
    p.here_partition,
    p.there_topic,
    p.there_partition,
    p.asked_number,
    n.range_number
order by
    group_id nulls last,
    source_topic nulls last,
    source_partition nulls last,
    target_topic nulls last,
    range_start nulls last
