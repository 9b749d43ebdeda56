-- name:    one_sided_records
-- answers: which records does one of two clusters have that the other lacks, partition by partition?
-- grain:   status, topic, partition, other_topic, range_start
-- reads:   answered_pairs, decided_extras, link_stretches, links, map_claims, route_unpaired, there_ranges
-- params:  from_cluster string, to_cluster string
-- columns: status string, cluster string, topic string, partition int, other_topic string, range_start bigint,
--          range_end bigint, offsets bigint
-- status:  extra, kept_local, deficit
--
-- cluster, topic and offsets are of the side that has them. extra: at to_cluster, and not come to from_cluster, behind
-- the end of the maps; control records cannot be told from records. kept_local: of these what was decided to stay (or to
-- go to a topic of its own). deficit: copies at from_cluster whose originals to_cluster has lost, and that have not
-- come back.
with chosen as (
    select p.*
    from answered_pairs as p
    inner join params as a
        on a.from_cluster = p.here_cluster
        and a.to_cluster = p.there_cluster
),

-- What the flow from there has written here, and of it what is known to lie there still.
written as (
    select p.pair_number, c.claim_start, c.claim_end
    from chosen as p
    inner join map_claims as c
        on c.log_number = p.here_log
        and c.source_log = p.there_log
),

held as (
    select p.pair_number, s.here_start as held_start, s.here_start + s.length as held_end
    from chosen as p
    inner join links as k using (here_log, there_log)
    inner join link_stretches as s using (link_number)
    where k.direction in ('brought', 'taken')
    union all
    select p.pair_number, u.target_start as held_start, u.target_end as held_end
    from chosen as p
    inner join links as k using (here_log, there_log)
    inner join route_unpaired as u on u.route_number = k.to_here
    where k.direction = 'brought'
),

-- Ranges of extra records, and of what was written and is not held.
events as (
    select 'extra' as status, pair_number, range_start as bound, 1 as there, 0 as held
    from there_ranges
    where is_alone
    union all
    select 'extra' as status, pair_number, range_end as bound, -1 as there, 0 as held
    from there_ranges
    where is_alone
    union all
    select 'deficit' as status, pair_number, claim_start as bound, 1 as there, 0 as held
    from written
    union all
    select 'deficit' as status, pair_number, claim_end as bound, -1 as there, 0 as held
    from written
    union all
    select 'deficit' as status, pair_number, held_start as bound, 0 as there, 1 as held
    from held
    union all
    select 'deficit' as status, pair_number, held_end as bound, 0 as there, -1 as held
    from held
),

changes as (
    select status, pair_number, bound, sum(there) as there, sum(held) as held
    from events
    group by status, pair_number, bound
    having sum(there) <> 0 or sum(held) <> 0
),

swept as (
    select
        status,
        pair_number,
        bound as range_start,
        lead(bound) over (partition by status, pair_number order by bound nulls last) as range_end,
        sum(there) over (
            partition by status, pair_number
            order by bound nulls last
            rows between unbounded preceding and current row
        ) as there,
        sum(held) over (
            partition by status, pair_number
            order by bound nulls last
            rows between unbounded preceding and current row
        ) as held
    from changes
)

select
    e.status, p.there_cluster as cluster, p.there_topic as topic, p.there_partition as partition,
    p.here_topic as other_topic, e.range_start, e.range_end, e.range_end - e.range_start as offsets
from swept as e
inner join chosen as p using (pair_number)
where e.status = 'extra' and e.there > 0
union all
select
    'kept_local' as status, p.there_cluster as cluster, p.there_topic as topic, p.there_partition as partition,
    p.here_topic as other_topic, d.extra_start as range_start, d.extra_end as range_end,
    d.extra_end - d.extra_start as offsets
from chosen as p
inner join decided_extras as d
    on d.cluster = p.there_cluster
    and d.topic_id = p.there_topic_id
    and d.partition = p.there_partition
where d.policy in ('keep_local', 'salvage')
union all
select
    d.status, p.here_cluster as cluster, p.here_topic as topic, p.here_partition as partition,
    p.there_topic as other_topic, d.range_start, d.range_end, d.range_end - d.range_start as offsets
from swept as d
inner join chosen as p using (pair_number)
where d.status = 'deficit' and d.there > 0 and d.held = 0
order by
    status nulls last,
    topic nulls last,
    partition nulls last,
    other_topic nulls last,
    range_start nulls last
