-- The views that every query may read beside the tables. What engines spell differently are functions, which
-- each adapter brings along: cut_gaps, has_gaps, with_end_gap, offsets_in, end_of_gaps, entries_of, text_of, is_json.

-- Which clusters each flow goes between, by its last claim.
create or replace temporary view last_claims as
with claims as (
    select
        flow,
        source_cluster,
        target_cluster,
        row_number() over (partition by flow order by writer_epoch desc nulls last) as age
    from writers
    where event = 'claimed' and flow is not null
)

select flow, source_cluster, target_cluster
from claims
where age = 1;

-- The last row of each partition tells where its flow stands: of its last round the superseded row, the lowest
-- of several, else the row that ends last.
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
    inner join last_rounds as l
        on l.flow = o.flow
        and l.source_topic = o.source_topic
        and l.source_topic_id = o.source_topic_id
        and l.source_partition = o.source_partition
        and l.recorded_order = o.writer_epoch * 4294967296 + o.round
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
    recorded_at_ms
from placed
where place = 1;

-- Offset syncs after supersession. `cut` is the lowest source offset from which a superseded row of the same
-- or a later round took back what a row says; it is found by intervals of rounds, for the rows recorded after
-- one superseded row and not after the next share it. A superseded row itself is taken back by later rounds,
-- and by a lower one of its round; it says where the flow goes on, so its source range is empty. What has no
-- source offsets and lies just there holds when the target goes on behind it. is_current: the row's target is
-- the one that the flow went to last.
create or replace temporary view effective_syncs as
with supersessions as (
    select
        flow,
        source_topic,
        source_topic_id,
        source_partition,
        writer_epoch * 4294967296 + round as recorded_order,
        min(source_start) as source_start
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
        ) as later_cut
    from supersessions
),

goings_on as (
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
        min(o.target_end) as goes_on_at,
        case
            when min(o.target_topic_id) = max(o.target_topic_id)
                then min(o.target_topic_id)
        end as goes_on_in
    from cuts as c
    inner join offset_syncs as o
        on o.flow = c.flow
        and o.source_topic = c.source_topic
        and o.source_topic_id = c.source_topic_id
        and o.source_partition = c.source_partition
        and o.source_start = c.cut
        and o.writer_epoch * 4294967296 + o.round >= c.recorded_order
    where o.kind = 'superseded'
    group by
        c.flow,
        c.source_topic,
        c.source_topic_id,
        c.source_partition,
        c.recorded_order,
        c.previous_order,
        c.source_start,
        c.cut,
        c.later_cut
),

held as (
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
        c.cut
    from offset_syncs as o
    inner join last_syncs as l
        on l.flow = o.flow
        and l.source_topic = o.source_topic
        and l.source_topic_id = o.source_topic_id
        and l.source_partition = o.source_partition
    left join goings_on as c
        on c.flow = o.flow
        and c.source_topic = o.source_topic
        and c.source_topic_id = o.source_topic_id
        and c.source_partition = o.source_partition
        and c.recorded_order >= o.writer_epoch * 4294967296 + o.round
        and coalesce(c.previous_order, -1) < o.writer_epoch * 4294967296 + o.round
),

shortened as (
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
        target_end,
        case
            when held_end = source_end or kind = 'superseded' then gaps
            else cut_gaps(gaps, cut)
        end as gaps,
        held_end < source_end and kind in ('copied', 'adopted') as is_cut,
        is_current,
        kind,
        cause,
        records,
        writer,
        writer_epoch,
        round,
        recorded_at_ms
    from held
    where holds
),

counted as (
    select
        *,
        case
            when is_cut then source_end - source_start - offsets_in(gaps)
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
    source_end,
    target_start,
    case when is_cut then cast(target_start + held_records as bigint) else target_end end as target_end,
    gaps,
    kind,
    cause,
    cast(held_records as bigint) as records,
    is_current,
    writer,
    writer_epoch,
    round,
    recorded_at_ms
from counted;

-- What a flow's map of a source partition reaches from and to, in the target that it went to last.
create or replace temporary view current_maps as
select
    l.flow,
    l.source_cluster,
    l.target_cluster,
    l.source_topic,
    l.source_topic_id,
    l.source_partition,
    l.target_topic,
    l.target_topic_id,
    l.target_partition,
    min(e.source_start) as source_start,
    l.source_end,
    l.target_end
from last_syncs as l
inner join effective_syncs as e
    on e.flow = l.flow
    and e.source_topic = l.source_topic
    and e.source_topic_id = l.source_topic_id
    and e.source_partition = l.source_partition
where e.is_current
group by
    l.flow,
    l.source_cluster,
    l.target_cluster,
    l.source_topic,
    l.source_topic_id,
    l.source_partition,
    l.target_topic,
    l.target_topic_id,
    l.target_partition,
    l.source_end,
    l.target_end;

-- A sync with n gaps is n + 1 pieces: each ends where a gap starts, the last at the sync's end. Most have no gap.
create or replace temporary view sync_pieces as
with ended as (
    select
        *,
        explode(gaps_and_end) as gap
    from (
        select
            *,
            monotonically_increasing_id() as sync_number,
            with_end_gap(gaps, source_end) as gaps_and_end
        from effective_syncs
        where kind in ('copied', 'adopted') and has_gaps(gaps)
    ) as numbered
),

bounded as (
    select
        *,
        coalesce(
            lag(gap.source_end) over (partition by sync_number order by gap.source_start nulls last),
            source_start
        ) as piece_start
    from ended
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
    is_current,
    writer,
    writer_epoch,
    round,
    recorded_at_ms,
    piece_start,
    gap.source_start as gap_start,
    gap.source_end as gap_end,
    gap.cause as cause,
    target_start + cast(
        coalesce(
            sum(gap.source_start - piece_start) over (
                partition by sync_number
                order by gap.source_start nulls last
                rows between unbounded preceding and 1 preceding
            ),
            0
        ) as bigint
    ) as piece_target_start
from bounded
union all
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
    is_current,
    writer,
    writer_epoch,
    round,
    recorded_at_ms,
    source_start as piece_start,
    source_end as gap_start,
    source_end as gap_end,
    cast(null as string) as cause,
    target_start as piece_target_start
from effective_syncs
where kind in ('copied', 'adopted') and not has_gaps(gaps);

create or replace temporary view segments as
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
    piece_start as source_start,
    gap_start as source_end,
    piece_target_start as target_start,
    is_current,
    writer,
    writer_epoch,
    round,
    recorded_at_ms
from sync_pieces
where piece_start < gap_start;

create or replace temporary view gaps as
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
    gap_start as source_start,
    gap_end as source_end,
    piece_target_start + (gap_start - piece_start) as target_start,
    cause,
    'gap' as kind,
    is_current,
    writer,
    writer_epoch,
    round,
    recorded_at_ms
from sync_pieces
where gap_start < gap_end
union all
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
    source_start,
    source_end,
    target_start,
    cause,
    'lost' as kind,
    is_current,
    writer,
    writer_epoch,
    round,
    recorded_at_ms
from effective_syncs
where kind = 'lost';

-- One recorder writes a cluster's high watermarks, so (writer_epoch, round) orders them.
create or replace temporary view last_high_watermarks as
with last_rounds as (
    select
        cluster,
        topic,
        topic_id,
        partition,
        max(writer_epoch * 4294967296 + round) as recorded_order
    from high_watermarks
    group by cluster, topic, topic_id, partition
),

aged as (
    select
        h.*,
        row_number() over (
            partition by h.cluster, h.topic, h.topic_id, h.partition
            order by
                h.read_at_ms desc nulls last,
                h.recorded_at_ms desc nulls last,
                h.log_start desc nulls last,
                h.last_stable desc nulls last,
                h.high_watermark desc nulls last
        ) as age
    from high_watermarks as h
    inner join last_rounds as l
        on l.cluster = h.cluster
        and l.topic = h.topic
        and l.topic_id = h.topic_id
        and l.partition = h.partition
        and l.recorded_order = h.writer_epoch * 4294967296 + h.round
)

select
    cluster,
    topic,
    topic_id,
    partition,
    log_start,
    last_stable,
    high_watermark,
    read_at_ms,
    writer_epoch,
    round,
    recorded_at_ms
from aged
where age = 1;

-- Lives of topics that are over: the topic was deleted, or has another id by now.
create or replace temporary view ended_topics as
with lives as (
    select
        cluster,
        topic,
        topic_id,
        event,
        row_number() over (
            partition by cluster, topic
            order by writer_epoch desc nulls last, round desc nulls last
        ) as age
    from topics
)

select l.cluster, l.topic, l.topic_id
from lives as l
inner join lives as n on n.cluster = l.cluster and n.topic = l.topic and n.age = 1
where n.event = 'deleted' or n.topic_id <> l.topic_id
group by l.cluster, l.topic, l.topic_id;

-- The lives of a topic name that the recorder of its cluster has seen, and when each was seen last.
create or replace temporary view topic_lives as
with sightings as (
    select cluster, topic, topic_id, writer_epoch, round, recorded_at_ms
    from topics
    union all
    select cluster, topic, topic_id, writer_epoch, round, recorded_at_ms
    from high_watermarks
)

select
    cluster,
    topic,
    topic_id,
    max(writer_epoch * 4294967296 + round) as last_order,
    max(recorded_at_ms) as last_at_ms
from sightings
group by cluster, topic, topic_id;

-- Where each table stood, by its last (epoch, round) of the writer, when a claim shut earlier epochs out of it.
create or replace temporary view shut_outs as
with entries as (
    select writer, writer_epoch as claimed_epoch, explode(shut_out) as entry
    from writers
    where event = 'claimed'
)

select
    writer,
    claimed_epoch,
    entry.fact_table as fact_table,
    entry.writer_epoch * 4294967296 + entry.round as last_order
from entries;

-- Rows of `operations` with the keys that their contents have in common as columns, null where a kind has none.
create or replace temporary view operation_contents as
select
    operation_id,
    kind,
    flow,
    operator,
    reason,
    ticket,
    text_of(content, 'topic') as topic,
    text_of(content, 'topic_id') as topic_id,
    try_cast(text_of(content, 'partition') as int) as partition,
    try_cast(text_of(content, 'offset') as bigint) as source_offset,
    text_of(content, 'cause') as cause,
    text_of(content, 'message') as message,
    text_of(content, 'next') as next,
    text_of(content, 'finding') as finding,
    text_of(content, 'request') as request,
    text_of(content, 'result') as result,
    text_of(content, 'cluster') as cluster,
    try_cast(text_of(content, 'since_ms') as bigint) as since_ms,
    writer,
    writer_epoch,
    round,
    recorded_at_ms
from operations
where is_json(content);

-- Flows that copy also what flows wrote, by the configuration that they recorded last.
create or replace temporary view relaying_flows as
with configurations as (
    select
        flow,
        coalesce(text_of(content, 'configuration.relay'), 'false') as relay,
        writer_epoch * 4294967296 + round as recorded_order
    from operations
    where kind = 'configuration_changed' and is_json(content)
)

select flow
from configurations
group by flow
having max_by(relay, recorded_order) = 'true';

create or replace temporary view partition_events as
select
    flow,
    topic as source_topic,
    topic_id as source_topic_id,
    partition as source_partition,
    kind,
    cause,
    message,
    next,
    writer_epoch,
    round,
    recorded_at_ms
from operation_contents
where kind in ('partition_stopped', 'partition_resumed');

create or replace temporary view topic_settings as
with entries as (
    select cluster, topic, topic_id, event, entries_of(configuration) as settings, writer_epoch, round, recorded_at_ms
    from topics
    where is_json(configuration)
),

single as (
    select *, explode(settings) as entry
    from entries
)

select
    cluster,
    topic,
    topic_id,
    event,
    entry.key as setting,
    entry.value as value,
    writer_epoch,
    round,
    recorded_at_ms
from single;
