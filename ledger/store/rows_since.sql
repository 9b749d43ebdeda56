-- What is to be audited of a ledger that was audited at a cut: the rows that came since, and of the others those that
-- they continue, overlap or deny. `counted_syncs`, `counted_ends`: of each writer the last append to offset_syncs, and to
-- high_watermarks, that the cut counts. A row at a counted place that was recorded after the last one of its writer came
-- since: one that was shut out appends so.

-- Offset syncs, with their place in the order of their writer. `reaches`: the source offset at which the flow continued.
create or replace temporary view placed_syncs as
select
    r.*,
    r.writer_epoch * 4294967296 + r.round as place,
    case when r.kind = 'superseded' then r.source_start else r.source_end end as reaches,
    coalesce(
        r.writer_epoch * 4294967296 + r.round <= c.last_epoch * 4294967296 + c.last_round
        and r.recorded_at_ms <= c.last_recorded_at_ms,
        false
    ) as is_counted
from offset_syncs as r
left join counted_syncs as c on c.writer = r.writer;

create or replace temporary view placed_ends as
select
    r.*,
    coalesce(
        r.writer_epoch * 4294967296 + r.round <= c.last_epoch * 4294967296 + c.last_round
        and r.recorded_at_ms <= c.last_recorded_at_ms,
        false
    ) as is_counted
from high_watermarks as r
left join counted_ends as c on c.writer = r.writer;

-- Where each flow stood on a source partition at the cut.
create or replace temporary view positions_then as
with last_places as (
    select flow, source_topic_id, source_partition, max(place) as place
    from placed_syncs
    where is_counted
    group by flow, source_topic_id, source_partition
)

select
    p.flow,
    p.source_topic_id,
    p.source_partition,
    coalesce(min(case when p.kind = 'superseded' then p.source_start end), max(p.source_end)) as position
from placed_syncs as p
inner join last_places as l
    on l.flow = p.flow
    and l.source_topic_id = p.source_topic_id
    and l.source_partition = p.source_partition
    and l.place = p.place
where p.is_counted
group by p.flow, p.source_topic_id, p.source_partition;

-- Of target partitions the offsets that rows claim which came since, and those that readings deny which came since.
create or replace temporary view offsets_since as
select
    target_topic_id,
    target_partition,
    min(target_start) as first_offset,
    max(target_end) as end_offset
from placed_syncs
where not is_counted
group by target_topic_id, target_partition
union all
select
    topic_id as target_topic_id,
    partition as target_partition,
    min(high_watermark) as first_offset,
    cast(9223372036854775807 as bigint) as end_offset
from placed_ends
where not is_counted
group by topic_id, partition;

-- By map the source offset from which on its rows are audited: none before it is touched by what came since.
create or replace temporary view floors_since as
with begun as (
    select
        flow,
        source_topic_id,
        source_partition,
        target_topic_id,
        min(source_start) as first_offset,
        max(source_end) as end_offset
    from placed_syncs
    where not is_counted
    group by flow, source_topic_id, source_partition, target_topic_id
),

stamps as (
    select writer, writer_epoch, round
    from placed_syncs
    where not is_counted
    group by writer, writer_epoch, round
),

touched as (
    select
        b.flow,
        b.source_topic_id,
        b.source_partition,
        least(b.first_offset, coalesce(t.position, b.first_offset)) as floor_offset
    from begun as b
    left join positions_then as t
        on t.flow = b.flow
        and t.source_topic_id = b.source_topic_id
        and t.source_partition = b.source_partition
    union all
    -- Claims of the same target offsets, and those that were read not to be there.
    select r.flow, r.source_topic_id, r.source_partition, r.source_start as floor_offset
    from placed_syncs as r
    inner join offsets_since as o
        on o.target_topic_id = r.target_topic_id
        and o.target_partition = r.target_partition
        and o.first_offset < r.target_end
        and o.end_offset > r.target_start
    where r.is_counted and r.kind in ('copied', 'adopted', 'unpaired')
    union all
    -- Copies of the same source records by other flows.
    select r.flow, r.source_topic_id, r.source_partition, r.source_start as floor_offset
    from placed_syncs as r
    inner join begun as b
        on b.source_topic_id = r.source_topic_id
        and b.source_partition = r.source_partition
        and b.target_topic_id = r.target_topic_id
        and b.flow <> r.flow
        and b.first_offset < r.source_end
        and b.end_offset > r.source_start
    where r.is_counted
    union all
    -- Appends that are there again.
    select r.flow, r.source_topic_id, r.source_partition, r.source_start as floor_offset
    from placed_syncs as r
    inner join stamps as s
        on s.writer = r.writer
        and s.writer_epoch = r.writer_epoch
        and s.round = r.round
    where r.is_counted
)

select flow, source_topic_id, source_partition, min(floor_offset) as floor_offset
from touched
group by flow, source_topic_id, source_partition;

-- From the floor of a map on its rows tile what they say: a row that reaches across the floor belongs to them, unless
-- it was cut below the floor by then.
create or replace temporary view syncs_since as
select p.*
from placed_syncs as p
where not p.is_counted
union all
select p.*
from placed_syncs as p
inner join floors_since as f
    on f.flow = p.flow
    and f.source_topic_id = p.source_topic_id
    and f.source_partition = p.source_partition
where p.is_counted
    and p.reaches >= f.floor_offset
    and not exists (
        select 1
        from placed_syncs as s
        where s.is_counted
            and s.kind = 'superseded'
            and s.flow = p.flow
            and s.source_topic_id = p.source_topic_id
            and s.source_partition = p.source_partition
            and s.place >= p.place
            and s.source_start < f.floor_offset
            and s.source_start < p.source_end
    );

-- Readings that came since, those that were made after a claim which came since, and appends that are there again.
create or replace temporary view ends_since as
with claims as (
    select target_topic_id, target_partition, min(recorded_at_ms) as recorded_at_ms
    from placed_syncs
    where not is_counted
    group by target_topic_id, target_partition
),

stamps as (
    select writer, writer_epoch, round
    from placed_ends
    where not is_counted
    group by writer, writer_epoch, round
)

select e.*
from placed_ends as e
left join claims as c
    on c.target_topic_id = e.topic_id
    and c.target_partition = e.partition
left join stamps as s
    on s.writer = e.writer
    and s.writer_epoch = e.writer_epoch
    and s.round = e.round
where not e.is_counted or s.writer is not null or e.read_at_ms >= c.recorded_at_ms;
