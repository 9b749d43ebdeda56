-- What lies there of each pair, by what it is to groups; and what lies here and not there.

-- Each pair's log there, cut where anything changes: how many links have what lies between, and what else is known of it.
create or replace temporary view swept_ranges as
with layers as (
    select pair_number, layer, range_start, range_end, 0 as shift, 0 as link_number, 0 as former
    from pair_ranges
    where range_start < range_end
    union all
    select
        p.pair_number,
        'paired' as layer,
        s.there_start as range_start,
        s.there_start + s.length as range_end,
        s.here_start - s.there_start as shift,
        s.link_number,
        case when s.is_former then 1 else 0 end as former
    from pairs as p
    inner join links as k using (here_log, there_log)
    inner join link_stretches as s using (link_number)
),

events as (
    select pair_number, layer, range_start as bound, 1 as change, shift, link_number, former
    from layers
    union all
    select pair_number, layer, range_end as bound, -1 as change, -shift as shift, -link_number as link_number, -former as former
    from layers
),

changes as (
    select
        pair_number,
        bound,
        sum(case when layer = 'paired' then change else 0 end) as paired,
        sum(shift) as shift,
        sum(link_number) as link_number,
        sum(former) as former,
        sum(case when layer = 'unplaced' then change else 0 end) as unplaced,
        sum(case when layer = 'written' then change else 0 end) as written,
        sum(case when layer = 'claimed' then change else 0 end) as claimed,
        sum(case when layer = 'behind' then change else 0 end) as behind,
        sum(case when layer = 'kept' then change else 0 end) as kept,
        sum(case when layer = 'alone' then change else 0 end) as alone,
        sum(case when layer = 'known' then change else 0 end) as known
    from events
    group by pair_number, bound
)

select
    pair_number,
    bound as range_start,
    lead(bound) over (partition by pair_number order by bound nulls last) as range_end,
    sum(paired) over (partition by pair_number order by bound nulls last) as paired,
    cast(sum(shift) over (partition by pair_number order by bound nulls last) as bigint) as shift,
    cast(sum(link_number) over (partition by pair_number order by bound nulls last) as bigint) as link_number,
    sum(former) over (partition by pair_number order by bound nulls last) > 0 as is_former,
    sum(unplaced) over (partition by pair_number order by bound nulls last) > 0 as is_unplaced,
    sum(written) over (partition by pair_number order by bound nulls last) > 0 as is_written,
    sum(claimed) over (partition by pair_number order by bound nulls last) > 0 as is_claimed,
    sum(behind) over (partition by pair_number order by bound nulls last) > 0 as is_behind,
    sum(kept) over (partition by pair_number order by bound nulls last) > 0 as is_kept,
    sum(alone) over (partition by pair_number order by bound nulls last) > 0 as is_of_origin,
    sum(known) over (partition by pair_number order by bound nulls last) > 0 as is_known
from changes;

-- Ranges there apart from each other, by class. paired: they lie here too, from here_start on, by one link. alone: they are
-- there alone, and are to come to here. others: no flow of the pair carries them. single: each counts for itself, because
-- nobody can tell whether a group has read it (a group that has come to passed_at here has), because it was taken out of a
-- map, or because more than one of these holds. class_number: the link, or of what a pair has beside its links.
create or replace temporary view there_ranges as
with said as (
    select
        s.*,
        s.is_written and not s.is_claimed as is_unclaimed,
        s.is_of_origin
        or s.is_behind and (p.brings_copies or not s.is_claimed) and s.paired = 0 and not s.is_kept as is_alone,
        case when p.brought_from is null then s.is_known else s.is_claimed end as is_there
    from swept_ranges as s
    inner join pairs as p using (pair_number)
    where s.range_start < s.range_end
),

judged as (
    select
        *,
        case
            when is_unplaced or is_unclaimed or is_former or paired > 1 or paired = 1 and is_alone then 'single'
            when paired = 1 then 'paired'
            when is_alone then 'alone'
            when is_there then 'others'
        end as class
    from said
),

-- If several links have a range, the one counts that has it furthest behind here, because that repeats rather than skips.
placed as (
    select j.pair_number, j.range_start, max(s.here_start + j.range_start - s.there_start) as here_start
    from judged as j
    inner join pairs as p using (pair_number)
    inner join links as k using (here_log, there_log)
    inner join link_stretches as s
        on s.link_number = k.link_number
        and s.there_start < j.range_end
        and s.there_start + s.length > j.range_start
    where j.paired > 1
    group by j.pair_number, j.range_start
),

passed as (
    select j.pair_number, j.range_start, max(coalesce(u.passed_at, 4611686018427387904)) as passed_at
    from judged as j
    inner join pair_ranges as u
        on u.pair_number = j.pair_number
        and u.range_start < j.range_end
        and u.range_end > j.range_start
    where j.is_unplaced and u.layer = 'unplaced'
    group by j.pair_number, j.range_start
)

select
    j.pair_number,
    j.class,
    case
        when j.class = 'paired' then j.link_number
        when j.class = 'alone' then -2 * j.pair_number
        when j.class = 'others' then -2 * j.pair_number - 1
    end as class_number,
    j.range_start,
    j.range_end,
    case when j.paired = 1 then j.range_start + j.shift else b.here_start end as here_start,
    case when j.is_unclaimed then 4611686018427387904 else d.passed_at end as passed_at,
    j.is_alone
from judged as j
left join placed as b using (pair_number, range_start)
left join passed as d using (pair_number, range_start)
where j.class is not null;

-- What lies here behind the place up to where flows have copied from here to there, and of one origin what lies here
-- alone: a group that has read it is ahead. piece_end null: whatever comes.
create or replace temporary view ahead_pieces as
with held as (
    select p.pair_number, c.claim_start as held_start, c.claim_end as held_end
    from pairs as p
    inner join map_claims as c on c.log_number = p.here_log
    union all
    select p.pair_number, s.here_start as held_start, s.here_start + s.length as held_end
    from pairs as p
    inner join links as k using (here_log, there_log)
    inner join link_stretches as s using (link_number)
),

bounded as (
    select pair_number, taken_to as held_start, taken_to as held_end
    from pairs
    where taken_to is not null
    union all
    select h.pair_number, greatest(h.held_start, p.taken_to) as held_start, h.held_end
    from held as h
    inner join pairs as p using (pair_number)
    where h.held_end > p.taken_to
),

rest as (
    select
        pair_number,
        max(held_end) over (
            partition by pair_number
            order by held_start nulls last, held_end nulls last
            rows between unbounded preceding and current row
        ) as piece_start,
        lead(held_start) over (
            partition by pair_number
            order by held_start nulls last, held_end nulls last
        ) as piece_end
    from bounded
),

found as (
    select pair_number, piece_start, coalesce(piece_end, 4611686018427387904) as piece_end
    from rest
    where coalesce(piece_start < piece_end, true)
    union all
    select p.pair_number, a.alone_start as piece_start, a.alone_end as piece_end
    from pairs as p
    inner join links as k using (here_log, there_log)
    inner join link_alone as a using (link_number)
    where not a.is_there
),

-- Both kinds may overlap, and what touches is one.
begun as (
    select
        *,
        case
            when piece_start <= max(piece_end) over (
                partition by pair_number
                order by piece_start nulls last, piece_end nulls last
                rows between unbounded preceding and 1 preceding
            ) then 0
            else 1
        end as begins
    from found
    where piece_start < piece_end
),

numbered as (
    select
        *,
        sum(begins) over (
            partition by pair_number
            order by piece_start nulls last, piece_end nulls last
            rows between unbounded preceding and current row
        ) as piece_number
    from begun
)

select pair_number, min(piece_start) as piece_start, max(piece_end) as piece_end
from numbered
group by pair_number, piece_number;
