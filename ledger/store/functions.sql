-- What the files of ledger/views need of an engine, for DuckDB.

-- Gaps below a source offset, one that lies across cut there.
create or replace temporary macro cut_gaps(gaps, cut) as list_transform(
    list_filter(gaps, lambda gap: gap.source_start < cut),
    lambda gap: {
        'source_start': gap.source_start,
        'source_end': least(gap.source_end, cut),
        'cause': gap.cause
    }
);

create or replace temporary macro has_gaps(gaps) as coalesce(len(gaps) > 0, false);

-- Gaps with an empty one behind them at the end.
create or replace temporary macro with_end_gap(gaps, source_end) as list_append(
    gaps, {'source_start': source_end, 'source_end': source_end, 'cause': null}
);

-- How many source offsets gaps cover.
create or replace temporary macro offsets_in(gaps) as coalesce(
    list_sum(list_transform(gaps, lambda gap: gap.source_end - gap.source_start)), 0
);

-- Where the last gap of a cause ends; null without one.
create or replace temporary macro end_of_gaps(gaps, wanted_cause) as list_max(
    list_transform(list_filter(gaps, lambda gap: gap.cause = wanted_cause), lambda gap: gap.source_end)
);

-- Keys and values of a JSON object as texts.
create or replace temporary macro entries_of(document) as map_entries(cast(cast(document as json) as map(varchar, varchar)));

-- The value of a key of a JSON object as text; null without one.
create or replace temporary macro text_of(document, key) as json_extract_string(document, '$.' || key);

create or replace temporary macro is_json(document) as json_valid(document);

-- The elements of the array behind a key of a JSON object, as texts; null where there is no array.
create or replace temporary macro elements_of(document, key) as list_filter(
    try_cast(json_extract(document, '$.' || key) as varchar[]), lambda element: json_valid(element)
);

-- As Spark names them.
create or replace temporary macro explode(elements) as unnest(elements);

create or replace temporary macro monotonically_increasing_id() as row_number() over ();

create or replace temporary macro raise_error(message) as error(message);

create or replace temporary macro sequence(first, last) as generate_series(first, last);
