-- What of a log flows claim to have written, and what lies there that nobody claims.

-- Offsets of a log that a map's rows claim, ranges that touch as one: what supersession took out of the map as well,
-- until the log lost it.
create or replace temporary view map_claims as
with lost as (
    select
        flow,
        source_topic,
        source_topic_id,
        source_partition,
        target_topic_id,
        target_end,
        writer_epoch * 4294967296 + round as recorded_order
    from offset_syncs
    where cause = 'target_truncated'
),

claiming as (
    select
        l.map_number,
        o.writer_epoch * 4294967296 + o.round as recorded_order,
        o.kind,
        o.source_start,
        o.target_topic_id,
        o.target_start,
        o.target_end
    from offset_syncs as o
    inner join last_syncs as l using (flow, source_topic, source_topic_id, source_partition)
    where o.kind in ('copied', 'adopted', 'unpaired')
        and o.records > 0
        and o.target_cluster = l.target_cluster
        and o.target_topic = l.target_topic
        and o.target_topic_id = l.target_topic_id
        and o.target_partition = l.target_partition
),

kept as (
    select c.map_number, c.recorded_order, c.kind, c.source_start, c.target_start, min(t.target_end) as kept_to
    from lost as t
    inner join last_syncs as l using (flow, source_topic, source_topic_id, source_partition)
    inner join claiming as c
        on c.map_number = l.map_number
        and c.target_topic_id = t.target_topic_id
        and c.recorded_order <= t.recorded_order
    group by c.map_number, c.recorded_order, c.kind, c.source_start, c.target_start
),

claimed as (
    select
        c.map_number,
        c.target_start,
        least(c.target_end, d.doubted_from, k.kept_to) as target_end
    from claiming as c
    left join doubted_rows as d
        on d.map_number = c.map_number
        and d.recorded_order = c.recorded_order
        and d.kind = c.kind
        and d.source_start = c.source_start
        and d.target_start = c.target_start
    left join kept as k
        on k.map_number = c.map_number
        and k.recorded_order = c.recorded_order
        and k.kind = c.kind
        and k.source_start = c.source_start
        and k.target_start = c.target_start
),

begun as (
    select
        *,
        case
            when target_start <= max(target_end) over (
                partition by map_number
                order by target_start nulls last, target_end nulls last
                rows between unbounded preceding and 1 preceding
            ) then 0
            else 1
        end as begins
    from claimed
    where target_start < target_end
),

numbered as (
    select
        *,
        sum(begins) over (
            partition by map_number
            order by target_start nulls last, target_end nulls last
            rows between unbounded preceding and current row
        ) as claim_number
    from begun
)

select
    n.map_number,
    m.target_log as log_number,
    m.source_log,
    min(n.target_start) as claim_start,
    max(n.target_end) as claim_end
from numbered as n
inner join map_logs as m on m.map_number = n.map_number
group by n.map_number, m.target_log, m.source_log, n.claim_number;

-- What flows claim of the log there, of each two logs that are linked. What an ended incarnation of the topic here has
-- written there comes back to here, and is no claim.
create or replace temporary view pair_claims as
with linked as (
    select distinct here_log, there_log
    from links
)

select k.here_log, k.there_log, c.claim_start, c.claim_end
from linked as k
inner join map_claims as c on c.log_number = k.there_log
inner join logs as s on s.log_number = c.source_log
inner join logs as h on h.log_number = k.here_log
where not (s.cluster = h.cluster and s.topic = h.topic and s.topic_id <> h.topic_id);

-- What is known of each pair as a whole. there_end: up to where its links reach there; lowest_end: the lowest of that.
-- brought_from: all below it there was copied to here, or shall not be; null where nothing is copied from there to
-- here. known_end: up to where the log there is known. is_empty: it begins there, so it holds nothing as far as is known.
-- here_start: the first offset here that a link knows of.
create or replace temporary view pairs as
with ends as (
    select
        here_log,
        there_log,
        max(there_end) as there_end,
        min(there_end) as lowest_end,
        min(decided_to) as brought_from,
        min(taken_to) as taken_to,
        min(here_start) as here_start,
        max(case when brings_copies then 1 else 0 end) as brings_copies
    from link_ends
    group by here_log, there_log
),

claimed as (
    select here_log, there_log, max(claim_end) as claim_end
    from pair_claims
    group by here_log, there_log
)

select
    e.here_log,
    e.there_log,
    h.cluster as here_cluster,
    h.topic as here_topic,
    h.topic_id as here_topic_id,
    h.partition as here_partition,
    t.cluster as there_cluster,
    t.topic as there_topic,
    t.topic_id as there_topic_id,
    t.partition as there_partition,
    coalesce(t.log_start, 0) as log_start,
    e.there_end,
    e.lowest_end,
    e.brought_from,
    e.taken_to,
    e.here_start,
    e.brings_copies = 1 as brings_copies,
    greatest(e.there_end, c.claim_end, t.high_watermark) as known_end,
    coalesce(greatest(e.there_end, c.claim_end, t.high_watermark) = t.log_start, false) as is_empty,
    row_number() over (order by e.here_log nulls last, e.there_log nulls last) as pair_number
from ends as e
inner join logs as h on h.log_number = e.here_log
inner join logs as t on t.log_number = e.there_log
left join claimed as c using (here_log, there_log);

-- Ranges there of each pair by what is known of them beside where they lie here; one layer may have several that
-- overlap. passed_at: of unplaced records, as links have it.
create or replace temporary view pair_ranges as
select p.pair_number, 'unplaced' as layer, u.there_start as range_start, u.there_end as range_end, u.passed_at
from pairs as p
inner join links as k using (here_log, there_log)
inner join link_unplaced_there as u using (link_number)
union all
select p.pair_number, 'written' as layer, w.source_start as range_start, w.source_end as range_end, cast(null as bigint) as passed_at
from pairs as p
inner join log_mirror_writes as w on w.log_number = p.there_log
union all
select pair_number, 'written' as layer, lowest_end as range_start, there_end as range_end, cast(null as bigint) as passed_at
from pairs
where brought_from is null
union all
select p.pair_number, 'claimed' as layer, c.claim_start as range_start, c.claim_end as range_end, cast(null as bigint) as passed_at
from pairs as p
inner join pair_claims as c using (here_log, there_log)
union all
select pair_number, 'behind' as layer, brought_from as range_start, known_end as range_end, cast(null as bigint) as passed_at
from pairs
where brought_from is not null
union all
select p.pair_number, 'kept' as layer, d.extra_start as range_start, d.extra_end as range_end, cast(null as bigint) as passed_at
from pairs as p
inner join decided_extras as d
    on d.cluster = p.there_cluster
    and d.topic = p.there_topic
    and d.topic_id = p.there_topic_id
    and d.partition = p.there_partition
where d.policy in ('keep_local', 'salvage')
union all
select p.pair_number, 'alone' as layer, a.alone_start as range_start, a.alone_end as range_end, cast(null as bigint) as passed_at
from pairs as p
inner join links as k using (here_log, there_log)
inner join link_alone as a using (link_number)
where a.is_there
union all
select pair_number, 'known' as layer, 0 as range_start, known_end as range_end, cast(null as bigint) as passed_at
from pairs;
