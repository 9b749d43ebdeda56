-- What writers have appended, and what of it is no longer in the ledger.

-- A row for each table and append.
create or replace temporary view appends as
select 'checkpoints' as fact_table, writer, writer_epoch, round
from checkpoints
union
select 'group_syncs' as fact_table, writer, writer_epoch, round
from group_syncs
union
select 'groups' as fact_table, writer, writer_epoch, round
from groups
union
select 'high_watermarks' as fact_table, writer, writer_epoch, round
from high_watermarks
union
select 'offset_syncs' as fact_table, writer, writer_epoch, round
from offset_syncs
union
select 'operations' as fact_table, writer, writer_epoch, round
from operations
union
select 'permissions' as fact_table, writer, writer_epoch, round
from permissions
union
select 'share_offsets' as fact_table, writer, writer_epoch, round
from share_offsets
union
select 'topics' as fact_table, writer, writer_epoch, round
from topics
union
select 'writers' as fact_table, writer, writer_epoch, round
from writers;

-- Tables that maintain --repair has continued without damaged files.
create or replace temporary view repaired_tables as
select text_of(content, 'table') as fact_table
from operations
where kind = 'ledger_repaired'
group by text_of(content, 'table');

-- Where facts have left the ledger: of a table and writer the last append that is in an archive.
create or replace temporary view archived_ends as
select
    text_of(end_text, 'fact_table') as fact_table,
    text_of(end_text, 'writer') as writer,
    max(
        try_cast(text_of(end_text, 'writer_epoch') as bigint) * 4294967296
        + try_cast(text_of(end_text, 'round') as bigint)
    ) as last_order
from (
    select explode(end_texts) as end_text
    from (
        select elements_of(content, 'ends') as end_texts
        from operations
        where kind = 'facts_archived' and is_json(content)
    ) as o
) as e
group by text_of(end_text, 'fact_table'), text_of(end_text, 'writer');

-- A row for each epoch that has appended and not claimed; for rounds of a flow that no table has, before offset syncs of
-- the same epoch; and for each last append of an epoch that a later claim has found in a table, and that is not there.
create or replace temporary view missing_appends as
with rounds as (
    select
        writer,
        writer_epoch,
        round,
        max(case when fact_table = 'offset_syncs' then 1 else 0 end) as is_progress
    from appends
    where writer_epoch > 0
    group by writer, writer_epoch, round
),

neighbours as (
    select
        writer,
        writer_epoch,
        round,
        lag(round) over (partition by writer, writer_epoch order by round) as round_before,
        max(is_progress) over (
            partition by writer, writer_epoch
            order by round
            rows between current row and unbounded following
        ) as is_before_progress
    from rounds
)

select
    cast(null as string) as fact_table,
    a.writer,
    a.writer_epoch,
    min(a.round) as first_round,
    max(a.round) as last_round,
    'no_claim' as status
from rounds as a
left join writers as w
    on w.writer = a.writer
    and w.writer_epoch = a.writer_epoch
    and w.event = 'claimed'
where w.writer is null
group by a.writer, a.writer_epoch
union all
select
    cast(null as string) as fact_table,
    writer,
    writer_epoch,
    round_before + 1 as first_round,
    round - 1 as last_round,
    'hole' as status
from neighbours
where round > round_before + 1
    and writer like 'flow:%'
    and is_before_progress = 1
    and not exists (
        select 1 from archived_ends as e
        where e.writer = neighbours.writer
            and e.last_order >= neighbours.writer_epoch * 4294967296 + neighbours.round
    )
    and not exists (
        select 1 from repaired_tables as r
        where r.fact_table in ('offset_syncs', 'group_syncs', 'operations', 'writers')
    )
union all
select
    c.fact_table,
    c.writer,
    cast(floor(c.last_order / 4294967296) as bigint) as writer_epoch,
    c.last_order % 4294967296 as first_round,
    c.last_order % 4294967296 as last_round,
    'no_last_append' as status
from shut_outs as c
left join appends as a
    on a.fact_table = c.fact_table
    and a.writer = c.writer
    and a.writer_epoch * 4294967296 + a.round = c.last_order
left join repaired_tables as r
    on r.fact_table = c.fact_table
left join archived_ends as e
    on e.fact_table = c.fact_table
    and e.writer = c.writer
    and e.last_order >= c.last_order
where a.writer is null
    and r.fact_table is null
    and e.writer is null
    and c.last_order % 4294967296 > 0
group by c.fact_table, c.writer, c.last_order;
