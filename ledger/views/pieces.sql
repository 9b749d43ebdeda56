-- What lies there of each pair, cut where anything changes: pieces, apart from each other. Of the millions of stretches
-- of a map most are alike for every group: those between two offsets that matter to none are one block.

-- Offsets there of each pair that hold what mirrors wrote, and that no flow claims.
create or replace temporary view unclaimed_writes as
with events as (
    select pair_number, range_start as bound, 1 as written, 0 as claimed
    from pair_ranges
    where layer = 'written' and range_start < range_end
    union all
    select pair_number, range_end as bound, -1 as written, 0 as claimed
    from pair_ranges
    where layer = 'written' and range_start < range_end
    union all
    select pair_number, range_start as bound, 0 as written, 1 as claimed
    from pair_ranges
    where layer = 'claimed' and range_start < range_end
    union all
    select pair_number, range_end as bound, 0 as written, -1 as claimed
    from pair_ranges
    where layer = 'claimed' and range_start < range_end
),

changes as (
    select pair_number, bound, sum(written) as written, sum(claimed) as claimed
    from events
    group by pair_number, bound
),

swept as (
    select
        pair_number,
        bound as range_start,
        lead(bound) over (partition by pair_number order by bound nulls last) as range_end,
        sum(written) over (
            partition by pair_number
            order by bound nulls last
            rows between unbounded preceding and current row
        ) as written,
        sum(claimed) over (
            partition by pair_number
            order by bound nulls last
            rows between unbounded preceding and current row
        ) as claimed
    from changes
)

select pair_number, range_start, range_end
from swept
where written > 0 and claimed = 0;

-- Offsets of either side that matter to a group, or to what is known of the pair. What flows claim does not: where it
-- lies between stretches no block has a hole.
create or replace temporary view cut_points as
select pair_number, true as is_here, here_to as cut_offset
from group_reads
union
select pair_number, false as is_here, there_to as cut_offset
from group_reads
union
select pair_number, false as is_here, alone_to as cut_offset
from group_reads
union
select pair_number, false as is_here, there_offset as cut_offset
from compared_offsets
union
select pair_number, false as is_here, log_start as cut_offset
from pairs
union
select p.pair_number, false as is_here, u.there_from as cut_offset
from pairs as p
inner join links as k using (here_log, there_log)
inner join link_unplaced_here as u using (link_number)
union
select pair_number, false as is_here, range_start as cut_offset
from pair_ranges
where layer not in ('written', 'claimed')
union
select pair_number, false as is_here, range_end as cut_offset
from pair_ranges
where layer not in ('written', 'claimed')
union
select pair_number, false as is_here, range_start as cut_offset
from unclaimed_writes
union
select pair_number, false as is_here, range_end as cut_offset
from unclaimed_writes;

-- Stretches of the links of each pair, with the first offset behind their start that matters, at each side. claimed_to:
-- up to where flows claim what begins before it there. is_behind: what lies before it may be more than control records
-- and what was left out, as the flow to here has not come to it.
create or replace temporary view cut_stretches as
with at_here as (
    select
        p.pair_number,
        s.here_start,
        s.there_start,
        s.length,
        coalesce(s.there_start + s.length > p.brought_from, true) as is_behind,
        1 as kind,
        s.here_start as event_offset,
        cast(null as bigint) as cut_offset
    from pairs as p
    inner join links as k using (here_log, there_log)
    inner join link_stretches as s using (link_number)
    union all
    select
        pair_number,
        cast(null as bigint) as here_start,
        cast(null as bigint) as there_start,
        cast(null as bigint) as length,
        cast(null as boolean) as is_behind,
        2 as kind,
        cut_offset as event_offset,
        cut_offset
    from cut_points
    where is_here
),

cut_here as (
    select
        *,
        min(cut_offset) over (
            partition by pair_number
            order by event_offset desc nulls last, kind nulls last
            rows between unbounded preceding and current row
        ) as next_here
    from at_here
),

at_there as (
    select
        pair_number,
        here_start,
        there_start,
        length,
        is_behind,
        next_here,
        1 as kind,
        there_start as event_offset,
        cast(null as bigint) as cut_offset,
        cast(null as bigint) as claim_end
    from cut_here
    where kind = 1
    union all
    select
        pair_number,
        cast(null as bigint) as here_start,
        cast(null as bigint) as there_start,
        cast(null as bigint) as length,
        cast(null as boolean) as is_behind,
        cast(null as bigint) as next_here,
        2 as kind,
        cut_offset as event_offset,
        cut_offset,
        cast(null as bigint) as claim_end
    from cut_points
    where not is_here
    union all
    select
        pair_number,
        cast(null as bigint) as here_start,
        cast(null as bigint) as there_start,
        cast(null as bigint) as length,
        cast(null as boolean) as is_behind,
        cast(null as bigint) as next_here,
        2 as kind,
        range_start as event_offset,
        cast(null as bigint) as cut_offset,
        range_end as claim_end
    from pair_ranges
    where layer = 'claimed'
),

cut_there as (
    select
        *,
        min(cut_offset) over (
            partition by pair_number
            order by event_offset desc nulls last, kind nulls last
            rows between unbounded preceding and current row
        ) as next_there,
        max(claim_end) over (
            partition by pair_number
            order by event_offset nulls last, kind nulls last
            rows between unbounded preceding and current row
        ) as claimed_to
    from at_there
)

select pair_number, here_start, there_start, length, is_behind, next_here, next_there, claimed_to
from cut_there
where kind = 1;

-- Stretches in one that follow each other there with nothing between them that matters at either side: a group has read
-- all of a block or nothing, unless it is of one stretch.
create or replace temporary view pair_blocks as
with followed as (
    select
        *,
        max(there_start + length) over (
            partition by pair_number
            order by there_start nulls last, here_start nulls last, length nulls last
            rows between unbounded preceding and 1 preceding
        ) as reached_to,
        lead(there_start) over (
            partition by pair_number
            order by there_start nulls last, here_start nulls last, length nulls last
        ) as next_start,
        lag(next_here) over (
            partition by pair_number
            order by there_start nulls last, here_start nulls last, length nulls last
        ) as last_next_here,
        lag(next_there) over (
            partition by pair_number
            order by there_start nulls last, here_start nulls last, length nulls last
        ) as last_next_there
    from cut_stretches
),

judged as (
    select
        pair_number,
        here_start,
        there_start,
        length,
        coalesce(next_here < here_start + length, false)
        or coalesce(next_there < there_start + length, false)
        or coalesce(reached_to > there_start, false)
        or coalesce(next_start < there_start + length, false) as is_single,
        case
            when is_behind or coalesce(claimed_to > reached_to, false) then reached_to = there_start
            else reached_to <= there_start
        end
        and next_here is not distinct from last_next_here
        and next_there is not distinct from last_next_there as follows
    from followed
),

numbered as (
    select
        *,
        sum(case when follows and not is_single then 0 else 1 end) over (
            partition by pair_number
            order by there_start nulls last, here_start nulls last, length nulls last
            rows between unbounded preceding and current row
        )
        + coalesce(
            sum(case when is_single then 1 else 0 end) over (
                partition by pair_number
                order by there_start nulls last, here_start nulls last, length nulls last
                rows between unbounded preceding and 1 preceding
            ),
            0
        ) as block_number
    from judged
)

select
    pair_number,
    min(there_start) as range_start,
    max(there_start + length) as range_end,
    min(here_start) - min(there_start) as start_shift,
    max(here_start + length) - max(there_start + length) as end_shift,
    cast(sum(length) as bigint) as records
from numbered
group by pair_number, block_number;

-- Offsets there of each pair that a flow claims or that lie at both sides, ranges that touch as one: what is not in them
-- nobody claims.
create or replace temporary view held_ranges as
with ranges as (
    select pair_number, range_start, range_end
    from pair_ranges
    where layer = 'claimed' and range_start < range_end
    union
    select pair_number, range_start, range_end
    from pair_blocks
),

begun as (
    select
        *,
        case
            when range_start <= max(range_end) over (
                partition by pair_number
                order by range_start nulls last, range_end nulls last
                rows between unbounded preceding and 1 preceding
            ) then 0
            else 1
        end as begins
    from ranges
),

numbered as (
    select
        *,
        sum(begins) over (
            partition by pair_number
            order by range_start nulls last, range_end nulls last
            rows between unbounded preceding and current row
        ) as range_number
    from begun
)

select pair_number, min(range_start) as range_start, max(range_end) as range_end
from numbered
group by pair_number, range_number;

-- Of each layer the ranges apart from each other. Where several overlap, of stretches that one counts which lies
-- furthest behind here, of unplaced records the one that is passed last: that repeats rather than skips.
create or replace temporary view layer_ranges as
with ranges as (
    select pair_number, layer, range_start, range_end, cast(null as bigint) as start_shift,
        cast(null as bigint) as end_shift, range_end - range_start as records,
        coalesce(passed_at, 4611686018427387904) as passed_at
    from pair_ranges
    where range_start < range_end and layer not in ('written', 'claimed')
    union all
    select pair_number, 'unclaimed' as layer, range_start, range_end, cast(null as bigint) as start_shift,
        cast(null as bigint) as end_shift, range_end - range_start as records, cast(null as bigint) as passed_at
    from unclaimed_writes
    union all
    select pair_number, 'held' as layer, range_start, range_end, cast(null as bigint) as start_shift,
        cast(null as bigint) as end_shift, range_end - range_start as records, cast(null as bigint) as passed_at
    from held_ranges
    union all
    select pair_number, 'paired' as layer, range_start, range_end, start_shift, end_shift, records,
        cast(null as bigint) as passed_at
    from pair_blocks
),

begun as (
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
    from ranges
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
    max(i.start_shift) as start_shift,
    max(i.end_shift) as end_shift,
    least(max(i.records), c.next_bound - c.bound) as records,
    max(i.passed_at) as passed_at
from cuts as c
inner join islands as i
    on i.pair_number = c.pair_number
    and i.layer = c.layer
    and i.island = c.island
    and i.range_start <= c.bound
    and i.range_end >= c.next_bound
where c.next_bound is not null
group by c.pair_number, c.layer, c.bound, c.next_bound;

-- Pieces with what each is. here_start, here_end: of paired ones, where they lie here. passed_at: of unplaced ones, that
-- is those of which nobody can tell whether the group has read them. is_alone: it lies there alone. is_other: what no
-- flow of the pair carries. records: how many of the pair, or of others.
create or replace temporary view pair_pieces as
with events as (
    select pair_number, layer, range_start as bound, 1 as change, start_shift, end_shift, records, passed_at
    from layer_ranges
    union all
    select
        pair_number,
        layer,
        range_end as bound,
        -1 as change,
        - start_shift as start_shift,
        - end_shift as end_shift,
        - records as records,
        - passed_at as passed_at
    from layer_ranges
),

changes as (
    select
        pair_number,
        bound,
        sum(case when layer = 'paired' then change else 0 end) as paired,
        sum(case when layer = 'paired' then start_shift else 0 end) as start_shift,
        sum(case when layer = 'paired' then end_shift else 0 end) as end_shift,
        sum(case when layer = 'paired' then records else 0 end) as records,
        sum(case when layer = 'unplaced' then change else 0 end) as unplaced,
        sum(case when layer = 'unplaced' then passed_at else 0 end) as passed_at,
        sum(case when layer = 'unclaimed' then change else 0 end) as unclaimed,
        sum(case when layer = 'held' then change else 0 end) as held,
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
        cast(sum(start_shift) over (partition by pair_number order by bound nulls last) as bigint) as start_shift,
        cast(sum(end_shift) over (partition by pair_number order by bound nulls last) as bigint) as end_shift,
        cast(sum(records) over (partition by pair_number order by bound nulls last) as bigint) as records,
        sum(unplaced) over (partition by pair_number order by bound nulls last) > 0 as is_unplaced,
        cast(sum(passed_at) over (partition by pair_number order by bound nulls last) as bigint) as passed_at,
        sum(unclaimed) over (partition by pair_number order by bound nulls last) > 0 as is_unclaimed,
        sum(held) over (partition by pair_number order by bound nulls last) > 0 as is_held,
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
        case when s.is_paired then s.piece_start + s.start_shift end as here_start,
        case when s.is_paired then s.piece_end + s.end_shift end as here_end,
        s.records,
        case
            when s.is_unclaimed then 4611686018427387904
            when s.is_unplaced then s.passed_at
        end as passed_at,
        s.is_of_origin
        or s.is_behind
        and (p.brings_copies or not s.is_held)
        and not s.is_paired
        and not s.is_kept as is_alone,
        case when p.brought_from is null then s.is_known else s.is_held end as is_there
    from swept as s
    inner join pairs as p using (pair_number)
    where s.piece_start < s.piece_end
)

select
    pair_number,
    piece_start,
    piece_end,
    here_start,
    here_end,
    case
        when here_start is not null and passed_at is null and not is_alone then least(records, piece_end - piece_start)
        else piece_end - piece_start
    end as records,
    passed_at,
    is_alone,
    is_there and not is_alone and here_start is null and passed_at is null as is_other
from said
where here_start is not null or passed_at is not null or is_alone or is_there;

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
