-- name:    audit_l8_nothing_missing
-- answers: which appends that the ledger has had are no longer in it?
-- grain:   status, writer, writer_epoch, first_round, fact_table, source_topic_id, source_partition
-- reads:   missing_appends, offset_syncs, repaired_tables
-- params:  none
-- columns: fact_table string, writer string, writer_epoch bigint, first_round bigint, last_round bigint,
--          source_topic string, source_topic_id string, source_partition int, status string
-- status:  no_claim, hole, no_last_append, no_start
--
-- no_claim: an epoch has appended (from first_round on), and has not claimed. hole: an epoch of a flow has offset syncs
-- behind rounds that no table has (first_round to last_round); appends that fail end a driver, so it has none of its
-- own. no_last_append: a later claim has found the append in the table. no_start: the first row of a flow for
-- a source partition says neither that the flow started there nor that what it found was adopted. Of a table that maintain --repair has continued without
-- damaged files, its operation says what is missing: of that nothing is said here but no_claim. Where facts have left into
-- an archive, its operation says up to which appends (facts_archived): holes and last appends are missed behind these alone.
with firsts as (
    select
        o.*,
        rank() over (
            partition by o.flow, o.source_topic_id, o.source_partition
            order by o.writer_epoch, o.round
        ) as place
    from offset_syncs as o
),

findings as (
    select
        m.fact_table,
        m.writer,
        m.writer_epoch,
        m.first_round,
        m.last_round,
        cast(null as string) as source_topic,
        cast(null as string) as source_topic_id,
        cast(null as int) as source_partition,
        m.status
    from missing_appends as m
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
        'no_start' as status
    from firsts as f
    where f.place = 1
        and not exists (select 1 from repaired_tables as r where r.fact_table = 'offset_syncs')
    group by
        f.writer,
        f.writer_epoch,
        f.round,
        f.source_topic,
        f.source_topic_id,
        f.source_partition
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
    f.status
from findings as f
order by
    f.status nulls last,
    f.writer nulls last,
    f.writer_epoch nulls last,
    f.first_round nulls last,
    f.fact_table nulls last,
    f.source_topic_id nulls last,
    f.source_partition nulls last
