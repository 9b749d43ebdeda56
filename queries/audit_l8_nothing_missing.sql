-- name:    audit_l8_nothing_missing
-- answers: which appends that the ledger has had are no longer in it?
-- grain:   status, writer, writer_epoch, first_round, fact_table, source_topic_id, source_partition,
--          target_topic_id, target_partition
-- reads:   checkpoints, group_syncs, groups, high_watermarks, offset_syncs, operations, permissions, share_offsets, shut_outs, topics, writers
-- params:  none
-- columns: fact_table string, writer string, writer_epoch bigint, first_round bigint, last_round bigint,
--          source_topic string, source_topic_id string, source_partition int, target_topic_id string,
--          target_partition int, status string
-- status:  no_claim, hole, no_last_append, no_start
--
-- no_claim: an epoch has appended (from first_round on), and has not claimed. hole: an epoch of a flow has offset syncs
-- behind rounds that no table has (first_round to last_round); appends that fail end a driver, so it has none of its
-- own. no_last_append: a later claim has found the append in the table. no_start: the first row of a map says neither
-- that the flow started there nor that the map was adopted. Of a table that maintain --repair has continued without
-- damaged files, its operation says what is missing: of that nothing is said here but no_claim.
with stamps as (
    select
        'checkpoints' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round
    from checkpoints as t
    union
    select
        'group_syncs' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round
    from group_syncs as t
    union
    select
        'groups' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round
    from groups as t
    union
    select
        'high_watermarks' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round
    from high_watermarks as t
    union
    select
        'offset_syncs' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round
    from offset_syncs as t
    union
    select
        'operations' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round
    from operations as t
    union
    select
        'permissions' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round
    from permissions as t
    union
    select
        'share_offsets' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round
    from share_offsets as t
    union
    select
        'topics' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round
    from topics as t
    union
    select
        'writers' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round
    from writers as t
),

appends as (
    select
        s.writer,
        s.writer_epoch,
        s.round,
        max(case when s.fact_table = 'offset_syncs' then 1 else 0 end) as is_progress
    from stamps as s
    where s.writer_epoch > 0
    group by s.writer, s.writer_epoch, s.round
),

neighbours as (
    select
        a.writer,
        a.writer_epoch,
        a.round,
        lag(a.round) over (partition by a.writer, a.writer_epoch order by a.round) as round_before,
        max(a.is_progress) over (
            partition by a.writer, a.writer_epoch
            order by a.round
            rows between current row and unbounded following
        ) as is_before_progress
    from appends as a
),

repaired as (
    select text_of(o.content, 'table') as fact_table
    from operations as o
    where o.kind = 'ledger_repaired'
    group by text_of(o.content, 'table')
),

firsts as (
    select
        o.writer,
        o.writer_epoch,
        o.round,
        o.source_topic,
        o.source_topic_id,
        o.source_partition,
        o.target_topic_id,
        o.target_partition,
        o.kind,
        rank() over (
            partition by o.flow, o.source_topic_id, o.source_partition, o.target_topic_id, o.target_partition
            order by o.writer_epoch, o.round
        ) as place
    from offset_syncs as o
),

findings as (
    select
        cast(null as string) as fact_table,
        a.writer,
        a.writer_epoch,
        min(a.round) as first_round,
        max(a.round) as last_round,
        cast(null as string) as source_topic,
        cast(null as string) as source_topic_id,
        cast(null as int) as source_partition,
        cast(null as string) as target_topic_id,
        cast(null as int) as target_partition,
        'no_claim' as status
    from appends as a
    left join writers as w
        on w.writer = a.writer
        and w.writer_epoch = a.writer_epoch
        and w.event = 'claimed'
    where w.writer is null
    group by a.writer, a.writer_epoch
    union all
    select
        cast(null as string) as fact_table,
        n.writer,
        n.writer_epoch,
        n.round_before + 1 as first_round,
        n.round - 1 as last_round,
        cast(null as string) as source_topic,
        cast(null as string) as source_topic_id,
        cast(null as int) as source_partition,
        cast(null as string) as target_topic_id,
        cast(null as int) as target_partition,
        'hole' as status
    from neighbours as n
    where n.round > n.round_before + 1
        and n.writer like 'flow:%'
        and n.is_before_progress = 1
        and not exists (
            select 1 from repaired as r
            where r.fact_table in ('offset_syncs', 'group_syncs', 'operations', 'writers')
        )
    union all
    select
        c.fact_table,
        c.writer,
        cast(floor(c.last_order / 4294967296) as bigint) as writer_epoch,
        c.last_order % 4294967296 as first_round,
        c.last_order % 4294967296 as last_round,
        cast(null as string) as source_topic,
        cast(null as string) as source_topic_id,
        cast(null as int) as source_partition,
        cast(null as string) as target_topic_id,
        cast(null as int) as target_partition,
        'no_last_append' as status
    from shut_outs as c
    left join stamps as s
        on s.fact_table = c.fact_table
        and s.writer = c.writer
        and s.writer_epoch * 4294967296 + s.round = c.last_order
    left join repaired as r
        on r.fact_table = c.fact_table
    where s.writer is null
        and r.fact_table is null
        and c.last_order % 4294967296 > 0
    group by c.fact_table, c.writer, c.last_order
    union all
    select
        'offset_syncs' as fact_table,
        f.writer,
        f.writer_epoch,
        f.round as first_round,
        f.round as last_round,
        f.source_topic,
        f.source_topic_id,
        f.source_partition,
        f.target_topic_id,
        f.target_partition,
        'no_start' as status
    from firsts as f
    where f.place = 1
        and not exists (select 1 from repaired as r where r.fact_table = 'offset_syncs')
    group by
        f.writer,
        f.writer_epoch,
        f.round,
        f.source_topic,
        f.source_topic_id,
        f.source_partition,
        f.target_topic_id,
        f.target_partition
    having max(case when f.kind in ('started', 'adopted') then 1 else 0 end) = 0
)

select
    f.fact_table,
    f.writer,
    f.writer_epoch,
    f.first_round,
    f.last_round,
    f.source_topic,
    f.source_topic_id,
    f.source_partition,
    f.target_topic_id,
    f.target_partition,
    f.status
from findings as f
order by
    f.status nulls last,
    f.writer nulls last,
    f.writer_epoch nulls last,
    f.first_round nulls last,
    f.fact_table nulls last,
    f.source_topic_id nulls last,
    f.source_partition nulls last,
    f.target_topic_id nulls last,
    f.target_partition nulls last
