-- What of the offset syncs holds: a later superseded row takes back what earlier rows say.

-- The last row of each partition tells where its flow stands: of its last round the superseded row, the lowest
-- of several, else the row that ends last. map_number stands for the partition in joins.
create or replace temporary view last_syncs as
with last_rounds as (
    select
        flow,
        source_topic,
        source_topic_id,
        source_partition,
        max(writer_epoch * 4294967296 + round) as recorded_order
    from offset_syncs
    group by flow, source_topic, source_topic_id, source_partition
),

placed as (
    select
        o.*,
        row_number() over (
            partition by o.flow, o.source_topic, o.source_topic_id, o.source_partition
            order by
                case when o.kind = 'superseded' then 0 else 1 end asc nulls last,
                case when o.kind = 'superseded' then o.source_start else - o.source_end end asc nulls last,
                o.target_end desc nulls last,
                o.target_topic_id asc nulls last,
                o.target_topic asc nulls last,
                o.target_partition asc nulls last,
                o.target_cluster asc nulls last
        ) as place
    from offset_syncs as o
    inner join last_rounds as l using (flow, source_topic, source_topic_id, source_partition)
    where l.recorded_order = o.writer_epoch * 4294967296 + o.round
)

select
    flow,
    source_cluster,
    target_cluster,
    source_topic,
    source_topic_id,
    source_partition,
    target_topic,
    target_topic_id,
    target_partition,
    case when kind = 'superseded' then source_start else source_end end as source_end,
    target_end,
    first_sequence,
    producer_id,
    former_producer_id,
    source_leader_epoch,
    kind,
    cause,
    records,
    writer,
    writer_epoch,
    round,
    recorded_at_ms,
    row_number() over (
        order by flow nulls last, source_topic nulls last, source_topic_id nulls last, source_partition nulls last
    ) as map_number
from placed
where place = 1;

-- The life of a source topic, and of its target topic, that a flow copied last.
create or replace temporary view topic_pairs as
with aged as (
    select
        *,
        row_number() over (
            partition by flow, source_topic
            order by
                writer_epoch desc nulls last,
                round desc nulls last,
                source_partition nulls last
        ) as age
    from last_syncs
)

select flow, source_cluster, source_topic, source_topic_id, target_cluster, target_topic, target_topic_id
from aged
where age = 1;

-- Rounds of a partition with superseded rows, each for the rows that were recorded until then and after the round
-- before it (previous_order), which share what takes them back. source_start: the lowest offset that the round itself
-- took back. cut: the lowest of this and of later rounds. later_cut: of later ones alone. goes_on_at: where the
-- target, goes_on_in, goes on behind the cut. source_cut: the lowest source offset that this round and later ones found
-- taken back at the source. target_cut: the lowest end that they gave the target.
create or replace temporary view supersessions as
with rounds as (
    select
        flow,
        source_topic,
        source_topic_id,
        source_partition,
        writer_epoch * 4294967296 + round as recorded_order,
        min(source_start) as source_start,
        min(case when cause in ('source_truncated', 'returning') then source_start end) as taken_back_from,
        min(target_start) as target_start
    from offset_syncs
    where kind = 'superseded'
    group by flow, source_topic, source_topic_id, source_partition, writer_epoch * 4294967296 + round
),

cuts as (
    select
        *,
        lag(recorded_order) over (
            partition by flow, source_topic, source_topic_id, source_partition
            order by recorded_order nulls last
        ) as previous_order,
        min(source_start) over (
            partition by flow, source_topic, source_topic_id, source_partition
            order by recorded_order desc nulls last
            rows between unbounded preceding and current row
        ) as cut,
        min(source_start) over (
            partition by flow, source_topic, source_topic_id, source_partition
            order by recorded_order desc nulls last
            rows between unbounded preceding and 1 preceding
        ) as later_cut,
        min(taken_back_from) over (
            partition by flow, source_topic, source_topic_id, source_partition
            order by recorded_order desc nulls last
            rows between unbounded preceding and current row
        ) as source_cut,
        min(target_start) over (
            partition by flow, source_topic, source_topic_id, source_partition
            order by recorded_order desc nulls last
            rows between unbounded preceding and current row
        ) as target_cut
    from rounds
)

select
    c.flow,
    c.source_topic,
    c.source_topic_id,
    c.source_partition,
    c.recorded_order,
    c.previous_order,
    c.source_start,
    c.cut,
    c.later_cut,
    c.source_cut,
    c.target_cut,
    min(o.target_end) as goes_on_at,
    case
        when min(o.target_topic_id) = max(o.target_topic_id)
            then min(o.target_topic_id)
    end as goes_on_in
from cuts as c
inner join offset_syncs as o using (flow, source_topic, source_topic_id, source_partition)
where o.kind = 'superseded'
    and o.source_start = c.cut
    and o.writer_epoch * 4294967296 + o.round >= c.recorded_order
group by
    c.flow,
    c.source_topic,
    c.source_topic_id,
    c.source_partition,
    c.recorded_order,
    c.previous_order,
    c.source_start,
    c.cut,
    c.later_cut,
    c.source_cut,
    c.target_cut;

-- Offset syncs after supersession. `cut` is the lowest source offset from which a superseded row of the same
-- or a later round took back what a row says. A superseded row itself is taken back by later rounds,
-- and by a lower one of its round; it says where the flow goes on, so its source range is empty. What has no
-- source offsets and lies just there holds when the target goes on behind it. is_current: the row's target is
-- the one that the flow went to last.
create or replace temporary view effective_syncs as
with held as (
    select
        o.*,
        case
            when o.kind = 'superseded' then o.source_start
            else least(o.source_end, coalesce(c.cut, o.source_end))
        end as held_end,
        case
            when o.kind = 'superseded'
                then o.source_start = c.source_start and o.source_start < coalesce(c.later_cut, o.source_start + 1)
            when o.source_start = c.cut
                then o.kind in ('started', 'unpaired')
                    and coalesce(o.target_topic_id = c.goes_on_in and o.target_end <= c.goes_on_at, false)
            else o.source_start < coalesce(c.cut, o.source_start + 1)
        end as holds,
        o.target_cluster = l.target_cluster
            and o.target_topic = l.target_topic
            and o.target_topic_id = l.target_topic_id
            and o.target_partition = l.target_partition as is_current,
        l.map_number,
        c.cut
    from offset_syncs as o
    inner join last_syncs as l using (flow, source_topic, source_topic_id, source_partition)
    left join supersessions as c
        on c.flow = o.flow
        and c.source_topic = o.source_topic
        and c.source_topic_id = o.source_topic_id
        and c.source_partition = o.source_partition
        and c.recorded_order >= o.writer_epoch * 4294967296 + o.round
        and coalesce(c.previous_order, -1) < o.writer_epoch * 4294967296 + o.round
),

shortened as (
    select
        *,
        held_end < source_end and kind in ('copied', 'adopted') as is_cut,
        case
            when held_end = source_end or kind = 'superseded' then gaps
            else cut_gaps(gaps, cut)
        end as held_gaps
    from held
    where holds
),

counted as (
    select
        *,
        case
            when is_cut then held_end - source_start - offsets_in(held_gaps)
            else records
        end as held_records
    from shortened
)

select
    flow,
    source_cluster,
    target_cluster,
    source_topic,
    source_topic_id,
    source_partition,
    source_leader_epoch,
    target_topic,
    target_topic_id,
    target_partition,
    source_start,
    held_end as source_end,
    target_start,
    case when is_cut then cast(target_start + held_records as bigint) else target_end end as target_end,
    held_gaps as gaps,
    kind,
    cause,
    cast(held_records as bigint) as records,
    is_current,
    map_number,
    writer,
    writer_epoch,
    round,
    recorded_at_ms
from counted;
