-- name:    audit_l4_append_once
-- answers: which appends are there twice, or came from a writer epoch that had been shut out?
-- grain:   fact_table, writer, writer_epoch, round, recorded_at_ms, status
-- reads:   checkpoints, high_watermarks, offset_syncs, operations, shut_outs, topics, writers
-- params:  none
-- columns: fact_table string, writer string, writer_epoch bigint, round bigint, recorded_at_ms bigint,
--          shut_out_by bigint, status string
-- status:  appended_twice, shut_out
--
-- appended_twice: the stamp is in the table with another time as well; the earlier one passes. shut_out: a later
-- epoch's claim (shut_out_by, the first such epoch) says that the table had ended before this append. A second
-- append within the same millisecond does not show here.
with stamps as (
    select
        'checkpoints' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round,
        t.recorded_at_ms
    from checkpoints as t
    union
    select
        'high_watermarks' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round,
        t.recorded_at_ms
    from high_watermarks as t
    union
    select
        'offset_syncs' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round,
        t.recorded_at_ms
    from offset_syncs as t
    union
    select
        'operations' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round,
        t.recorded_at_ms
    from operations as t
    union
    select
        'topics' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round,
        t.recorded_at_ms
    from topics as t
    union
    select
        'writers' as fact_table,
        t.writer,
        t.writer_epoch,
        t.round,
        t.recorded_at_ms
    from writers as t
),

dated as (
    select
        s.fact_table,
        s.writer,
        s.writer_epoch,
        s.round,
        s.recorded_at_ms,
        min(s.recorded_at_ms) over (
            partition by s.fact_table, s.writer, s.writer_epoch, s.round
        ) as first_recorded_at_ms
    from stamps as s
),

findings as (
    select
        d.fact_table,
        d.writer,
        d.writer_epoch,
        d.round,
        d.recorded_at_ms,
        cast(null as bigint) as shut_out_by,
        'appended_twice' as status
    from dated as d
    where d.recorded_at_ms > d.first_recorded_at_ms
    union all
    select
        s.fact_table,
        s.writer,
        s.writer_epoch,
        s.round,
        s.recorded_at_ms,
        min(c.claimed_epoch) as shut_out_by,
        'shut_out' as status
    from stamps as s
    inner join shut_outs as c
        on c.fact_table = s.fact_table
        and c.writer = s.writer
        and c.claimed_epoch > s.writer_epoch
        and c.last_order < s.writer_epoch * 4294967296 + s.round
    group by s.fact_table, s.writer, s.writer_epoch, s.round, s.recorded_at_ms
)

select
    f.fact_table,
    f.writer,
    f.writer_epoch,
    f.round,
    f.recorded_at_ms,
    f.shut_out_by,
    f.status
from findings as f
order by
    f.fact_table nulls last,
    f.writer nulls last,
    f.writer_epoch nulls last,
    f.round nulls last,
    f.recorded_at_ms nulls last,
    f.status nulls last
