"""SQL that answers queries elsewhere: what they read as text, and nothing else, for whoever types it.

A text makes the tables, the functions that engines spell differently, the views, each of them computed once, and of
each query a function. It names no version: typed again, it reads the newest one. Statements end with a semicolon at
the end of a line, and no other line ends so: programs may split there.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import pyarrow as pa

from ledger.errors import UsageError
from ledger.facts.archived import FactsArchived
from ledger.facts.cuts import Cut
from ledger.facts.tables import LEDGER_FORMAT, OPERATIONS, ROUNDS_PER_EPOCH, TABLE_BY_NAME
from ledger.store import catalog
from ledger.store.catalog import Query
from ledger.store.damage import local_folder
from ledger.store.delta_tables import arrow_type, table_uri
from ledger.store.snapshots import DeltaSnapshot
from ledger.store.sql import FUNCTIONS
from ledger.words import shown

WIDTH = 120
"""Characters of a line, unless a name is longer."""
_COMMENT = re.compile(r"('(?:[^']|'')*')|--.*")
"""Or a literal, in which none begins."""
_PARAGRAPHS = re.compile(r"\n\s*\n")
_WORD = re.compile(r"(?:'(?:[^']|'')*'|`[^`]*`|[^\s'`])+")
"""Literals, too, are on one line."""
_NOT_IN_LITERALS = re.compile(r"[\\\x00-\x1f\x7f]")
_PATTERN = re.compile(r"[*?\[\]]")
_IDENTIFIED_BY = "writers"


# Lines --------------------------------------------------------------------------------------------


def filled(text: str) -> str:
    """Statements in lines as long as they may be; a paragraph, which is a CTE as a rule, begins on one of its own."""
    return "".join(_filled(paragraph) for paragraph in _PARAGRAPHS.split(text))


def _filled(paragraph: str) -> str:
    lines: list[str] = []
    for word in _WORD.findall(paragraph):
        if lines and len(lines[-1]) + len(word) < WIDTH and not lines[-1].endswith(";"):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return "".join(f"{line}\n" for line in lines)


def without_comments(text: str) -> str:
    """SQL of this program without its comments, in as few lines."""
    return filled(_COMMENT.sub(r"\1", text))


def quoted(text: str) -> str:
    """A literal of both engines on one line; Spark takes a backslash for an escape."""
    doubled = text.replace("'", "''")
    return "'" + _NOT_IN_LITERALS.sub(lambda found: f"' || chr({ord(found[0])}) || '", doubled) + "'"


# Both ---------------------------------------------------------------------------------------------


def tables_of(queries: Sequence[Query]) -> list[str]:
    """The tables that queries read, and the one that says which ledger it is."""
    return sorted(catalog.tables_of((_IDENTIFIED_BY, *_read(queries))))


def views_of(queries: Sequence[Query]) -> Mapping[str, str]:
    return catalog.views_of(_read(queries))


def _read(queries: Sequence[Query]) -> list[str]:
    return [name for query in queries for name in query.reads]


def _view(name: str) -> str:
    """How the statement of a view begins behind its comments."""
    return f"create or replace temporary view {name} as\n"


def _calls(queries: Sequence[Query]) -> str:
    return "\n".join(
        f"-- select * from {query.name}({', '.join(one.name for one in query.params)})" for query in queries
    )


def _late(tables: Sequence[str], asked: str, kind: str) -> str:
    """What makes `late`: of each table and writer the first append that does not count; all do where nothing is asked.

    As of a time these are the appends before the first one that was recorded later, as `DeltaLedger.at_time` has it.
    """
    stamps = "\nunion all\n".join(
        f"select '{name}' as name, writer, writer_epoch * {ROUNDS_PER_EPOCH} + round as place, recorded_at_ms "
        f"from {name}_rows"
        for name in tables
    )
    return f"""
create or replace temporary {kind} late as
with asked as (select case when at_ms < first_ms then raise_error(
'the ledger begins at ' || first_ms || ', asked for ' || at_ms || ' (milliseconds since the epoch); nothing was read'
) else at_ms end as at_ms, last_appends from ({asked}) as given
cross join (select min(recorded_at_ms) as first_ms from {_IDENTIFIED_BY}_rows) as began),

named as (select one.name, one.writer, one.place from (select explode(last_appends) as one from asked) as n),

stamps as ({stamps})

select s.name, s.writer, min(s.place) as place from stamps as s cross join asked as a
left join named as n on n.name = s.name and n.writer = s.writer
where s.recorded_at_ms > a.at_ms or (a.last_appends is not null and s.place > coalesce(n.place, -1))
group by s.name, s.writer;
"""


def _counted(table: str) -> str:
    """What makes a table of its rows: those that count, and what says which facts have left, whenever that was."""
    always = f" or r.kind = '{FactsArchived.kind}'" * (table == OPERATIONS.name)
    return f"""
create or replace temporary view {table} as
select r.* from {table}_rows as r
left join late as l on l.name = '{table}' and l.writer = r.writer
where coalesce(r.writer_epoch * {ROUNDS_PER_EPOCH} + r.round < l.place, true){always};
"""


def _as_of(cut: Cut) -> str:
    """A cut as the parameter `as_of` has it: JSON, which engines read."""
    last = [{"name": one.table, "writer": one.writer, "place": one.place} for one in cut.last]
    return json.dumps({"ledger": cut.ledger_id, "last": last}, separators=(",", ":"))


# DuckDB -------------------------------------------------------------------------------------------


def for_duckdb(at: DeltaSnapshot, queries: Sequence[Query], cut: Cut | None = None) -> str:
    """For plain DuckDB, which reads Parquet and JSON: neither an extension nor a network is needed.

    `cut`: the text begins with the statement that asks as of it; None: with none.

    Raises `UsageError` for a ledger whose files DuckDB alone cannot read by their names.
    """
    if local_folder(at.path) is None or _PATTERN.search(at.path):
        raise UsageError(
            f"DuckDB alone cannot read the files at {at.path}: they are in a store, or have * ? [ ] in their names; "
            "nothing was printed. Use `mirror-ledger sql`, or --engine spark"
        )
    tables = tables_of(queries)
    return "".join(
        [
            _DUCKDB_HEAD.format(path=shown(at.path), calls=_calls(queries)),
            f"set variable as_of = {quoted(_as_of(cut))};\n" if cut else "",
            f"set variable ledger_path = {quoted(at.path.rstrip('/'))};\n",
            f"set variable ledger_format = '{LEDGER_FORMAT}';\n",
            f"set variable copied_versions = {_copied_versions(at, tables)};\n",
            without_comments(files(__package__).joinpath("delta_files.sql").read_text(encoding="utf-8")),
            without_comments(FUNCTIONS),
            *(filled(_rows_in_duckdb(table)) for table in tables),
            filled(_late(tables, _ASKED_OF_DUCKDB, "table")),
            *(filled(_counted(table)) for table in tables),
            *steps_in_duckdb(queries),
        ]
    )


def steps_in_duckdb(queries: Sequence[Query]) -> Iterator[str]:
    """What makes of the tables the answers of queries: each view as a table, and each query as a table macro.

    A view that no later step reads is dropped: of a ledger of weeks one takes gigabytes.
    """
    made = views_of(queries)
    last_reader = {read: name for name, text in made.items() for read in catalog.relations_read(text)}
    for name, statement in made.items():
        yield without_comments(
            statement.replace(_view(name), f"create or replace temporary table {name} as\n", 1)
        )
        read = {one for one, by in last_reader.items() if by == name and one in made}
        yield "".join(f"drop table {one};\n" for one in sorted(read.difference(_read(queries))))
    for query in queries:
        yield macro(query)


def macro(query: Query) -> str:
    """A query as a table macro of DuckDB, which takes its parameters in their order."""
    taken = ", ".join(f"{one.name}_{' := null' * one.is_optional}" for one in query.params)
    values = ", ".join(f"cast({one.name}_ as {in_duckdb(one.type)}) as {one.name}" for one in query.params)
    params = f"with params as (select {values})\n" * bool(values)
    made = f"create or replace temporary macro {query.name}({taken}) as table {params}select * from ("
    return without_comments(f"{made}\n{query.sql.rstrip()}\n);")


_DUCKDB_HEAD = """\
-- The ledger at {path}
-- for DuckDB 1.3 or later, without an extension and without a network. It is read as it is when this is typed: type it
-- again for what was recorded since. As of a time, in milliseconds since the epoch, before it: set variable as_of = ...
-- As of a cut, instead: the statement that `mirror-ledger views --for ... --as-of CUT` prints next. Both hold until
-- reset variable as_of. Then ask:
{calls}

"""


def _rows_in_duckdb(table: str) -> str:
    """All rows of a table. Where it has no file, one of another table is named, and no row of that is taken."""
    columns = TABLE_BY_NAME[table].columns
    typed = ", ".join(f"null::{in_duckdb(one.type)} as {one.name}" for one in columns)
    taken = ", ".join(f"cast({one.name} as {in_duckdb(one.type)}) as {one.name}" for one in columns)
    return f"""
set variable {table}_files = (select files from ledger_tables where name = '{table}');

create or replace temporary view {table}_rows as select {taken} from (select {typed} where false union all by name
select * from read_parquet(coalesce(getvariable('{table}_files'), getvariable('any_file')), union_by_name = true)) as r
where getvariable('{table}_files') is not null;
"""


_ASKED_OF_DUCKDB = """
select try_cast(text as bigint) as at_ms, from_json(case when text like '{%' then text end,
'{"last": [{"name": "VARCHAR", "writer": "VARCHAR", "place": "BIGINT"}]}').last as last_appends
from (select cast(getvariable('as_of') as varchar) as text) as a
"""


def _copied_versions(at: DeltaSnapshot, tables: Sequence[str]) -> str:
    """Of a copy the versions that it names, as texts to compare: behind them may lie what a copying that died sent."""
    copied = {table: version for table in tables if (version := at.copied_version(table)) is not None}
    entries = ", ".join(f"'{table}': '{version:020d}'" for table, version in copied.items())
    return f"map {{{entries}}}" if entries else "map([]::varchar[], []::varchar[])"


def in_duckdb(type_: str) -> str:
    return _duckdb_name(arrow_type(type_))


def _duckdb_name(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return f"{_duckdb_name(type_.value_type)}[]"
    if pa.types.is_struct(type_):
        return f"struct({', '.join(f'{field.name} {_duckdb_name(field.type)}' for field in type_)})"
    return _DUCKDB_NAMES[str(type_)]


_DUCKDB_NAMES = {
    "int64": "bigint",
    "int32": "integer",
    "string": "varchar",
    "bool": "boolean",
    "double": "double",
}


# Spark --------------------------------------------------------------------------------------------


_LEAVES = 6
"""A view that is read again is held where the plans that read it would have so many more relations."""


def for_spark(at: DeltaSnapshot, queries: Sequence[Query], cut: Cut | None = None) -> str:
    """For a Spark session with Delta Lake, in ANSI mode; `cut` as `for_duckdb` has it.

    Spark puts the text of a view wherever it is read, so that plans grow with the product of their references: what is
    read several times is written to a folder once.
    """
    tables = tables_of(queries)
    asked = f"set ledger.as_of = {_as_of(cut)};\n".replace("'", r"\u0027") if cut else ""
    return "".join(
        [
            _SPARK_HEAD.format(path=shown(at.path), calls=_calls(queries)),
            asked,
            filled(_PROBLEMS_IN_SPARK.replace("LEDGER_ID", at.cut.ledger_id)),
            without_comments(files(__package__).joinpath("functions.sql").read_text(encoding="utf-8")),
            *(filled(_rows_in_spark(at, table)) for table in tables),
            filled(_held("late", _late(tables, _ASKED_OF_SPARK, "view"))),
            *(filled(_held(table, _counted(table))) for table in tables),
            *_steps_in_spark(queries),
        ]
    )


_SPARK_HEAD = """\
-- The ledger at {path}
-- for Spark 4 with Delta Lake, in ANSI mode. It is read as it is when this is typed: type it again for what came
-- since. Before it: set ledger.scratch = FOLDER, where what is read several times is written, one for each session.
-- As of a time, in milliseconds since the epoch, before it: set ledger.as_of = ... As of a cut, instead: the statement
-- that `mirror-ledger views --for ... --as-of CUT` prints next. Both hold until reset ledger.as_of. Then ask:
{calls}

"""
_GIVEN_TO_SPARK = """
select text, try_cast(text as bigint) as at_ms, from_json(case when text like '{%' then text end,
'ledger string, last array<struct<name: string, writer: string, place: bigint>>') as cut
from (select nullif(r'${ledger.as_of}', '') as text) as g
"""
"""Spark puts a setting where the text names it, and nothing where it is not set."""
_ASKED_OF_SPARK = f"select at_ms, cut.last as last_appends from ({_GIVEN_TO_SPARK}) as given"
_PROBLEMS_IN_SPARK = f"""
declare or replace variable ledger_problem string;

set variable ledger_problem = (select case when problem is not null then raise_error(problem) end from (select case
when '${{ledger.scratch}}' = '' then 'set ledger.scratch = FOLDER before this text; nothing was read'
when text is not null and at_ms is null and cut is null
then 'as_of is a time in milliseconds, or what mirror-ledger views --as-of prints, got ' || text || '; nothing was read'
when at_ms > unix_millis(current_timestamp()) + 10000 then 'as_of ' || text || ' has not come yet; nothing was read'
when cut.ledger <> 'LEDGER_ID'
then 'the cut is of another ledger (' || cut.ledger || '; this one is LEDGER_ID); nothing was read'
end as problem from ({_GIVEN_TO_SPARK}) as given) as judged);
"""


def spark_uri(at: DeltaSnapshot, table: str) -> str:
    """Where Spark finds a table."""
    path = at.path.replace("s3://", "s3a://", 1) if "://" in at.path else str(Path(at.path).absolute())
    return table_uri(path, table)


def _rows_in_spark(at: DeltaSnapshot, table: str) -> str:
    """All rows of a table, of a copy at the version that it names."""
    columns = ", ".join(TABLE_BY_NAME[table].column_names)
    copied = at.copied_version(table)
    version = "" if copied is None else f", versionAsOf '{copied}'"
    return f"""
create or replace temporary view {table}_log using delta options (path {quoted(spark_uri(at, table))}{version});

create or replace temporary view {table}_rows as select {columns} from {table}_log;
"""


def _steps_in_spark(queries: Sequence[Query]) -> Iterator[str]:
    """Views, and what holds some of them; then a table function of each query."""
    times = sum((Counter(catalog.times_read(query)) for query in queries), Counter[str]())
    relations: dict[str, int] = {}
    for name, statement in views_of(queries).items():
        found = catalog.relations_read(statement).items()
        relations[name] = sum(number * relations.get(read, 1) for read, number in found)
        if (times[name] - 1) * relations[name] >= _LEAVES:
            statement = _held(name, statement)
            relations[name] = 1
        yield without_comments(statement)
    for query in queries:
        yield _function_of_spark(query)


def _held(name: str, statement: str) -> str:
    """The statement that makes a view, and reads it from where it is written once."""
    place = f"'${{ledger.scratch}}/{name}'"
    written = statement.replace(_view(name), f"insert overwrite directory {place} using parquet\n", 1)
    return f"{written}\ncreate or replace temporary view {name} using parquet options (path {place});\n"


def _function_of_spark(query: Query) -> str:
    taken = ", ".join(f"{one.name} {one.type}{' default null' * one.is_optional}" for one in query.params)
    given = ", ".join(f"{query.name}.{one.name} as {one.name}" for one in query.params)
    params = f"with params as (select {given})" * bool(given)
    columns = ", ".join(f"{one.name} {one.type}" for one in query.columns)
    made = f"create or replace temporary function {query.name}({taken}) returns table ({columns}) return {params}"
    return without_comments(f"{made}\nselect * from (\n{query.sql.rstrip()}\n);")
