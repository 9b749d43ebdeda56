-- What the files of ledger/views need of an engine, for Spark.

-- Gaps below a source offset, one that lies across cut there.
create or replace temporary function cut_gaps(
    gaps array<struct<source_start: bigint, source_end: bigint, cause: string>>, cut bigint
) returns array<struct<source_start: bigint, source_end: bigint, cause: string>>
return transform(
    filter(gaps, gap -> gap.source_start < cut),
    gap -> named_struct(
        'source_start', gap.source_start,
        'source_end', least(gap.source_end, cut),
        'cause', gap.cause
    )
);

create or replace temporary function has_gaps(
    gaps array<struct<source_start: bigint, source_end: bigint, cause: string>>
) returns boolean
return coalesce(size(gaps), 0) > 0;

-- Gaps with an empty one behind them at the end.
create or replace temporary function with_end_gap(
    gaps array<struct<source_start: bigint, source_end: bigint, cause: string>>, source_end bigint
) returns array<struct<source_start: bigint, source_end: bigint, cause: string>>
return concat(
    gaps,
    array(named_struct('source_start', source_end, 'source_end', source_end, 'cause', cast(null as string)))
);

-- How many source offsets gaps cover.
create or replace temporary function offsets_in(
    gaps array<struct<source_start: bigint, source_end: bigint, cause: string>>
) returns bigint
return aggregate(gaps, cast(0 as bigint), (total, gap) -> total + gap.source_end - gap.source_start);

-- Where the last gap of a cause ends; null without one.
create or replace temporary function end_of_gaps(
    gaps array<struct<source_start: bigint, source_end: bigint, cause: string>>, wanted_cause string
) returns bigint
return array_max(transform(filter(gaps, gap -> gap.cause = wanted_cause), gap -> gap.source_end));

-- Keys and values of a JSON object as texts.
create or replace temporary function entries_of(document string) returns array<struct<key: string, value: string>>
return map_entries(from_json(document, 'map<string, string>'));

-- The value of a key of a JSON object as text; null without one.
create or replace temporary function text_of(document string, key string) returns string
return get_json_object(document, concat('$.', key));

create or replace temporary function is_json(document string) returns boolean
return get_json_object(document, '$') is not null;

-- The elements of the array behind a key of a JSON object, as texts; null where there is no array.
create or replace temporary function elements_of(document string, key string) returns array<string>
return filter(
    from_json(get_json_object(document, concat('$.', key)), 'array<string>'),
    element -> get_json_object(element, '$') is not null
);
