-- The tables of a ledger as their Delta logs have them, and what is asked about, for DuckDB.

-- Entries of each log from its newest checkpoint on.
set variable delta_logs = (
    with found as (
        select file, split(file, '/')[-3] as name, split(file, '/')[-1][:20] as version
        from glob(getvariable('ledger_path') || '/*/_delta_log/*')
        where regexp_matches(file, '/[0-9]{20}([.]json|[.]checkpoint.*[.]parquet)$')
            and version <= coalesce(getvariable('copied_versions')[name], '9')
    ),

    checkpoints as (
        select name, coalesce(max(case when file like '%.parquet' then version end), '') as newest
        from found
        group by name
    )

    select case when count(*) > 0 then list(f.file) else error(
        'there is no ledger at ' || getvariable('ledger_path') || '; nothing was read'
    ) end
    from found as f
    inner join checkpoints as c using (name)
    where f.version = c.newest or (f.version > c.newest and f.file like '%.json')
);

-- A file of rows, to name where there is none to read: DuckDB reads no list without any.
set variable any_file = (
    select case when count(*) > 0 then [min(file)] else error(
        'nothing is recorded yet in the ledger at ' || getvariable('ledger_path') || '; nothing was read'
    ) end
    from glob(getvariable('ledger_path') || '/writers/*.parquet')
);

create or replace temporary table ledger_tables as
with checkpoints as (
    select
        null::varchar as filename, null::struct(path varchar, size bigint) as add, null::struct(path varchar) as remove,
        null::struct(id varchar, configuration map(varchar, varchar)) as "metaData",
        null::struct("minReaderVersion" integer) as protocol
    where false
    union all by name
    select *
    from read_parquet(
        coalesce(
            nullif(list_filter(getvariable('delta_logs'), lambda file: file like '%.parquet'), []),
            getvariable('any_file')
        ),
        union_by_name = true, filename = true
    )
),

entries as (
    select filename, add, remove, "metaData", protocol
    from checkpoints
    where contains(filename, '/_delta_log/')
    union all by name
    select *
    from read_json(
        list_filter(getvariable('delta_logs'), lambda file: file like '%.json'),
        format = 'newline_delimited', filename = true, maximum_object_size = 1073741824,
        columns = {
            add: 'struct(path varchar, size bigint)', remove: 'struct(path varchar)',
            "metaData": 'struct(id varchar, configuration map(varchar, varchar))',
            protocol: 'struct("minReaderVersion" integer)'
        }
    )
),

actions as (
    select *, split(filename, '/')[-3] as name, cast(split(filename, '/')[-1][:20] as bigint) as version
    from entries
),

added as (
    select name, coalesce(add.path, remove.path) as path, max(add.size) as bytes
    from actions
    where coalesce(add.path, remove.path) is not null
    group by all
    having arg_max(add.path is not null, version)
),

paths as (
    select name, list(getvariable('ledger_path') || '/' || name || '/' || url_decode(path) order by bytes desc) as files
    from added
    group by name
),

described as (
    select
        name, arg_max("metaData".id, version) as table_id,
        arg_max("metaData".configuration['mirrorLedger.schemaVersion'], version) as ledger_format,
        arg_max(protocol."minReaderVersion", version) as reader_version
    from actions
    group by name
),

judged as (
    select
        d.name, p.files,
        case
            when d.ledger_format is distinct from getvariable('ledger_format') or d.reader_version > 1
                then 'the table ' || d.name || ' at ' || getvariable('ledger_path') || ' is of format '
                    || coalesce(d.ledger_format, 'none') || ', and this text reads ' || getvariable('ledger_format')
                    || '; nothing was read. Print it again: mirror-ledger views'
            when a.text is not null and a.at_ms is null and a.cut is null
                then 'as_of is a time in milliseconds, or what mirror-ledger views --as-of prints, got ' || a.text
                    || '; nothing was read'
            when a.at_ms > epoch_ms(now()) + 10000 then 'as_of ' || a.text || ' has not come yet; nothing was read'
            when json_extract_string(a.cut, '$.ledger') <> w.table_id
                then 'the cut is of another ledger (' || json_extract_string(a.cut, '$.ledger') || '; this one is '
                    || w.table_id || '); nothing was read'
        end as problem
    from described as d
    cross join (
        select text, try_cast(text as bigint) as at_ms, case when text like '{%' then text end as cut
        from (select cast(getvariable('as_of') as varchar) as text)
    ) as a
    inner join described as w on w.name = 'writers'
    left join paths as p on p.name = d.name
)

select name, files, case when problem is null then true else error(problem) end as is_readable
from judged;
