-- What lies there of each pair, cut where anything changes: pieces, apart from each other.

-- Of each layer the ranges apart from each other. Where several overlap, of stretches that one counts which lies
-- furthest behind here, of unplaced records the one that is passed last: that repeats rather than skips.
create or replace temporary view layer_ranges as
with begun as (
    select
        *,
        case
            when range_start < max(range_end) over (
                partition by pair_number, layer
                order by range_start nulls last, range_end nulls last
                rows between unbounded preceding and 1 preceding
            ) then 0
            else 1
        end as begins
    from pair_ranges
    where range_start < range_end
),

islands as (
    select
        *,
        sum(begins) over (
            partition by pair_number, layer
            order by range_start nulls last, range_end nulls last
            rows between unbounded preceding and current row
        ) as island
    from begun
),

bounds as (
    select pair_number, layer, island, range_start as bound
    from islands
    union
    select pair_number, layer, island, range_end as bound
    from islands
),

cuts as (
    select
        *,
        lead(bound) over (partition by pair_number, layer, island order by bound nulls last) as next_bound
    from bounds
)

select
    c.pair_number,
    c.layer,
    c.bound as range_start,
    c.next_bound as range_end,
    max(i.shift) as shift,
    max(coalesce(i.passed_at, 4611686018427387904)) as passed_at
from cuts as c
inner join islands as i
    on i.pair_number = c.pair_number
    and i.layer = c.layer
    and i.island = c.island
    and i.range_start <= c.bound
    and i.range_end >= c.next_bound
where c.next_bound is not null
group by c.pair_number, c.layer, c.bound, c.next_bound;

-- Pieces with what each is. shift: of paired ones, what their offset here is more than that there. passed_at: of
-- unplaced ones. is_unplaced: nobody can tell whether the group has read it. is_alone: it lies there alone. is_record:
-- records of the pair; is_other: what none of its flows carries.
create or replace temporary view pair_pieces as
with events as (
    select pair_number, layer, range_start as bound, 1 as change, shift, passed_at
    from layer_ranges
    union all
    select pair_number, layer, range_end as bound, -1 as change, - shift as shift, - passed_at as passed_at
    from layer_ranges
),

changes as (
    select
        pair_number,
        bound,
        sum(case when layer = 'paired' then change else 0 end) as paired,
        sum(case when layer = 'paired' then shift else 0 end) as shift,
        sum(case when layer = 'unplaced' then change else 0 end) as unplaced,
        sum(case when layer = 'unplaced' then passed_at else 0 end) as passed_at,
        sum(case when layer = 'written' then change else 0 end) as written,
        sum(case when layer = 'claimed' then change else 0 end) as claimed,
        sum(case when layer = 'behind' then change else 0 end) as behind,
        sum(case when layer = 'kept' then change else 0 end) as kept,
        sum(case when layer = 'alone' then change else 0 end) as alone,
        sum(case when layer = 'known' then change else 0 end) as known
    from events
    group by pair_number, bound
),

swept as (
    select
        pair_number,
        bound as piece_start,
        lead(bound) over (partition by pair_number order by bound nulls last) as piece_end,
        sum(paired) over (partition by pair_number order by bound nulls last) > 0 as is_paired,
        cast(sum(shift) over (partition by pair_number order by bound nulls last) as bigint) as shift,
        sum(unplaced) over (partition by pair_number order by bound nulls last) > 0 as is_unpaired,
        cast(sum(passed_at) over (partition by pair_number order by bound nulls last) as bigint) as passed_at,
        sum(written) over (partition by pair_number order by bound nulls last) > 0 as is_written,
        sum(claimed) over (partition by pair_number order by bound nulls last) > 0 as is_claimed,
        sum(behind) over (partition by pair_number order by bound nulls last) > 0 as is_behind,
        sum(kept) over (partition by pair_number order by bound nulls last) > 0 as is_kept,
        sum(alone) over (partition by pair_number order by bound nulls last) > 0 as is_of_origin,
        sum(known) over (partition by pair_number order by bound nulls last) > 0 as is_known
    from changes
),

said as (
    select
        s.pair_number,
        s.piece_start,
        s.piece_end,
        case when s.is_paired then s.shift end as shift,
        case
            when s.is_written and not s.is_claimed then 4611686018427387904
            when s.is_unpaired then s.passed_at
        end as passed_at,
        s.is_of_origin
        or s.is_behind
        and (p.brings_copies or not s.is_claimed)
        and not s.is_paired
        and not s.is_kept as is_alone,
        case when p.brought_from is null then s.is_known else s.is_claimed end as is_there
    from swept as s
    inner join pairs as p using (pair_number)
    where s.piece_start < s.piece_end
)

select
    pair_number,
    piece_start,
    piece_end,
    shift,
    passed_at,
    is_alone,
    is_there and not is_alone and shift is null and passed_at is null as is_other
from said
where shift is not null or passed_at is not null or is_alone or is_there;

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

-- Both kinds may overlap: the part behind what came before.
parted as (
    select
        pair_number,
        greatest(
            piece_start,
            max(piece_end) over (
                partition by pair_number
                order by piece_start nulls last, piece_end nulls last
                rows between unbounded preceding and 1 preceding
            )
        ) as piece_start,
        piece_end
    from found
)

select pair_number, piece_start, piece_end
from parted
where piece_start < piece_end;
