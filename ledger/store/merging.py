"""What keeps a table quick to open and small: which of its files become one, and when that is overdue.

A file is an append, or what a merge made of several. Files of different UTC days (by `recorded_at_ms`) never become
one, so a reader skips the days that it does not need. Within a day files of like size are merged: a row is
rewritten once for every power of `FANOUT` appends in its day, and once more when the day is over.
"""

import json
import logging
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties
from deltalake._internal import DeltaFileSystemHandler
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from ledger.clock import DAY_MS, HOUR_MS
from ledger.errors import MirrorLedgerError
from ledger.facts.links import LINK
from ledger.facts.tables import TABLE_BY_NAME
from ledger.store.damage import local_folder, make_checkpoint, sync, sync_entries
from ledger.store.delta_tables import STATISTICS, stored_schema
from ledger.store.fetched import fetch
from ledger.store.places import PROMPT

SORTED_BY: Mapping[str, Sequence[str]] = {
    "offset_syncs": ("flow", "source_topic", "source_topic_id", "source_partition"),
    "checkpoints": ("cluster", "group_id", "topic", "partition"),
    "groups": ("cluster",),
    "share_offsets": ("cluster", "group_id", "topic", "partition"),
    "group_syncs": ("flow", "group_id", "target_topic", "target_partition"),
    "high_watermarks": ("cluster", "topic", "topic_id", "partition"),
    "topics": ("cluster", "topic"),
    "permissions": ("cluster", "kind"),
    "cut_offsets": ("operation_id",),
}
"""What the rows of a table are about, by which a merge sorts them; then they lie in the order of recording.

Those of other tables lie in that order alone, and in all of them the rows of an append in its order. Links are over
rows in this order: another one needs another form of links.
"""
FANOUT = 12
"""So many files of like size become one."""
TARGET_BYTES = 32 << 20
"""Merged files are no larger; what is half of that is left alone."""
TARGET_ROWS = 2_000_000
"""Nor have they more rows, as far as rows are known: that bounds the memory and the time of one merge."""
CLOSED_AFTER_MS = HOUR_MS
"""A day counts as over so long after its end: clocks of writers differ, and appends are on their way."""
BEHIND_FILES = 200
"""A table with so many files to merge is behind: at five seconds a round nobody merged for a quarter of an hour.

Opening and reading it begins to cost more than its rows: each such file is read by every answer.
"""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of the newest version; rows and times are null where its writer did not say them."""

    path: str
    size_bytes: int
    rows: int | None
    first_ms: int | None
    last_ms: int | None

    @property
    def day(self) -> int | None:
        """The one UTC day of its rows, counted from the epoch; None: several, or not known."""
        if self.first_ms is None or self.last_ms is None:
            return None
        first, last = self.first_ms // DAY_MS, self.last_ms // DAY_MS
        return first if first == last else None

    @property
    def is_mixed(self) -> bool:
        """Whether it is known to have rows of several days."""
        return self.first_ms is not None and self.last_ms is not None and self.day is None

    @property
    def is_small(self) -> bool:
        return 2 * self.size_bytes < TARGET_BYTES and 2 * (self.rows or 0) < TARGET_ROWS

    @property
    def tier(self) -> int:
        """Of like size are files whose rows, or else 64ths of a byte, have the same octal digits."""
        return (max(1, self.size_bytes // 64 if self.rows is None else self.rows).bit_length() - 1) // 3


@dataclass(frozen=True, slots=True)
class Merge:
    """Files that become one for each day of their rows; `day` None: only reading them tells which days."""

    files: tuple[DataFile, ...]
    day: int | None

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def due_merges(files: Iterable[DataFile], *, now_ms: int) -> list[Merge]:
    """What is to be merged as things stand, days that are over first, the oldest first."""
    by_day: dict[int, list[DataFile]] = {}
    of_no_day: list[DataFile] = []
    for file in sorted(files, key=lambda file: (file.first_ms or 0, file.path)):
        if file.day is None:
            of_no_day.append(file)
        elif file.is_small:
            by_day.setdefault(file.day, []).append(file)
    merges = [
        merge
        for day, of_day in sorted(by_day.items())
        for merge in _of_day(day, of_day, is_over=now_ms >= (day + 1) * DAY_MS + CLOSED_AFTER_MS)
    ]
    return [*_of_no_day(of_no_day), *merges]


def files_behind(files: Iterable[DataFile], *, now_ms: int) -> int:
    """How many files of a table wait to be merged."""
    return sum(len(merge.files) for merge in due_merges(files, now_ms=now_ms))


def _of_day(day: int, files: Sequence[DataFile], *, is_over: bool) -> Iterator[Merge]:
    """All of a day that is over; else the largest size that has enough files, with all that are smaller."""
    enough = [tier for tier, count in Counter(file.tier for file in files).items() if count >= FANOUT]
    upto = [file for file in files if is_over or file.tier <= max(enough, default=-1)]
    yield from (Merge(tuple(chosen), day) for chosen in _bounded(upto) if len(chosen) > 1)


def _of_no_day(files: Sequence[DataFile]) -> Iterator[Merge]:
    """What has rows of several days is taken apart; what says nothing waits until it is worth the reading."""
    mixed = [file for file in files if file.is_mixed]
    silent = [file for file in files if not file.is_mixed]
    chosen = [*mixed, *(silent if len(silent) >= FANOUT else ())]
    return (Merge(tuple(part), None) for part in _bounded(chosen))


def _bounded(files: Sequence[DataFile]) -> list[list[DataFile]]:
    """The files in parts that stay within the bounds of a merge; the first one of each always does."""
    parts: list[list[DataFile]] = []
    size_bytes = rows = 0
    for file in files:
        size_bytes, rows = size_bytes + file.size_bytes, rows + (file.rows or 0)
        if not parts or size_bytes > TARGET_BYTES or rows > TARGET_ROWS:
            parts.append([])
            size_bytes, rows = file.size_bytes, file.rows or 0
        parts[-1].append(file)
    return parts


# File merging -------------------------------------------------------------------------------------
# Parquet files of a table made one for each day of their rows, as a merge wants it: sorted, and no row
# lost.
#
# Rows are sorted by what they are about (flow or cluster, topic, partition), then in the order of
# recording; rows of one append stay in their order. What is read and written lies on this machine: files of
# a store are fetched before and put there after. DuckDB reads and sorts within `_memory_for` them, and spills
# to a temporary folder beyond it.


log = logging.getLogger(__name__)

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
MEMORY_BYTES = 256 << 20
_VECTOR_ROWS, _VECTORS_AT_ONCE, _VALUE_BYTES = 2048, 2, 16
"""DuckDB works on so many rows at once, however wide they are, here two times: read, and sorted."""
BATCH_ROWS = 50_000
"""So many rows of a merged file are a row group."""
_CHECKPOINT_INTERVAL, _COMMITS_PER_CHECKPOINT = "delta.checkpointInterval", 100
_CHUNK_BYTES = 4 << 20
_FOR_WRITING = {**PROMPT, "timeout": "10s", "retry_timeout": "10s"}
"""Slow lines take a chunk too, before it is given up."""
_RISING = "DELTA_BINARY_PACKED"
"""Of numbers the differences: sorted, most of them hardly differ. A regular day takes a hundredth of the room."""
STAMPED = ("writer", "writer_epoch", "round")
_RECORDED = (*STAMPED, "file_row_number")
_NULL = duckdb.ConstantExpression(None)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that no version of the table names yet; `statistics` as an `add` action has them."""

    path: str
    size_bytes: int
    rows: int
    statistics: str


class TableFolder:
    """Where the files of a table are; the same for a folder of this machine and for a store."""

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")
        self._local = local_folder(uri)

    @property
    def local(self) -> Path | None:
        """None for a store."""
        return self._local

    @contextmanager
    def readable(self, paths: Sequence[str]) -> Iterator[list[str]]:
        """The files under names that can be opened here."""
        if self._local is not None:
            yield [str(self._local / path) for path in paths]
            return
        with tempfile.TemporaryDirectory(prefix="mirror-ledger-") as folder:
            places = [Path(folder) / str(number) for number, _ in enumerate(paths)]
            for path, place in zip(paths, places, strict=True):
                fetch(self._store, path, place)
            yield list(map(str, places))

    @contextmanager
    def writable(self, path: str) -> Iterator[Path]:
        """A file to be written, which is at its place afterwards, and on the disk; where it fails there is none."""
        if self._local is not None:
            place = self._local / path
            try:
                yield place
                sync(place, self._local)
            except BaseException:
                place.unlink(missing_ok=True)
                raise
            return
        with tempfile.TemporaryDirectory(prefix="mirror-ledger-") as staged:
            place = Path(staged) / "staged"
            yield place
            # Its type does not tell that it can be closed.
            sink: Any = DeltaFileSystemHandler(self._uri, _FOR_WRITING).open_output_stream(path, None)
            with place.open("rb") as source:
                while chunk := source.read(_CHUNK_BYTES):
                    sink.write(chunk)
            sink.close()

    def text(self, path: str) -> str:
        """What a small file says."""
        if self._local is not None:
            return (self._local / path).read_text(encoding="utf-8")
        source = self._store.open_input_file(path)
        return source.read(source.size()).decode()

    def delete(self, path: str) -> None:
        """Remove a file; it may have been removed already."""
        if self._local is not None:
            (self._local / path).unlink(missing_ok=True)
        else:
            self._store.delete_file(path)

    def remove(self) -> None:
        """All of it, with what no version names."""
        if self._local is not None:
            shutil.rmtree(self._local)
            return
        for file in self._store.get_file_info_selector("", recursive=True, allow_not_found=True):
            if file.is_file:
                self._store.delete_file(file.path)

    @property
    def _store(self) -> DeltaFileSystemHandler:
        return DeltaFileSystemHandler(self._uri, PROMPT)


def data_files(table: DeltaTable) -> list[DataFile]:
    """The files of a version with what their writers said of the rows."""
    actions = pa.table(table.get_add_actions(flatten=True))
    return [
        DataFile(
            path=action["path"],
            size_bytes=int(action["size_bytes"]),
            rows=action.get("num_records"),
            first_ms=action.get("min.recorded_at_ms"),
            last_ms=action.get("max.recorded_at_ms"),
        )
        for action in actions.to_pylist()
    ]


def write_merged(uri: str, table: str, merge: Merge) -> list[WrittenFile]:
    """The rows of the files of a merge, in a new file for each day of them; no version names these yet.

    Raises `MirrorLedgerError` when what was written is not as many rows as were read.
    """
    folder = TableFolder(uri)
    with folder.readable([file.path for file in merge.files]) as paths, _reading(paths) as connection:
        rows = _whole_rows(connection, table)
        expected = sum(pq.read_metadata(path).num_rows for path in paths)
        written = [_write(folder, table, _rows_of_day(rows, day)) for day in _days(connection)]
    if (found := sum(file.rows for file in written)) != expected:
        raise MirrorLedgerError(
            f"{uri}: {len(paths)} files hold {expected} rows, {found} were written to merged ones; nothing was "
            "committed"
        )
    return written


@contextmanager
def reading_rows(paths: Sequence[str], table: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with all rows of files of a table as `every`, within the memory of a merge."""
    with _reading(paths) as connection:
        names = TABLE_BY_NAME[table].column_names
        rows = _whole_rows(connection, table).select(*map(duckdb.ColumnExpression, names))
        rows.create_view("every")
        yield connection


def write_days(
    folder: TableFolder, table: str, rows: duckdb.DuckDBPyRelation, prefix: str
) -> list[WrittenFile]:
    """Rows of a table, in a new file for each day of them; no version names these yet. They are of no append."""
    rows = rows.select(duckdb.StarExpression(), _NULL.cast("varchar").alias(LINK))
    found = rows.aggregate(f"recorded_at_ms // {DAY_MS} as day").order("day").fetchall()
    return [_write(folder, table, _rows_of_day(rows, day), prefix, STAMPED) for (day,) in found]


@contextmanager
def _reading(paths: Sequence[str]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with all rows of the files as `files`."""
    with tempfile.TemporaryDirectory(prefix="mirror-ledger-") as spilled:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{_memory_for(paths)}B",
            "threads": 1,
            "temp_directory": spilled,
        }
        with duckdb.connect(":memory:", config=settings) as connection:
            read = connection.read_parquet(list(paths), union_by_name=True, file_row_number=True)
            read.create_view("files")
            yield connection


def _memory_for(paths: Sequence[str]) -> int:
    """In bytes, what a merge of these files may take: more than `MEMORY_BYTES` where rows have long lists (gaps)."""
    values = 0.0
    for path in paths:
        read = pq.read_metadata(path)
        nested = [at for at in range(read.num_columns) if read.schema.column(at).max_repetition_level]
        for number in range(read.num_row_groups):
            group = read.row_group(number)
            held = sum(group.column(at).num_values for at in nested)
            values = max(values, held / max(1, group.num_rows))
    return MEMORY_BYTES + _VECTORS_AT_ONCE * _VECTOR_ROWS * int(values) * _VALUE_BYTES


def _days(connection: duckdb.DuckDBPyConnection) -> list[int]:
    found = connection.execute(
        "select distinct recorded_at_ms // ? as day from files order by day", [DAY_MS]
    ).fetchall()
    return [int(day) for (day,) in found]


def _whole_rows(connection: duckdb.DuckDBPyConnection, table: str) -> duckdb.DuckDBPyRelation:
    """The rows with all columns that the table has by now, and their places in files."""
    files = connection.view("files")
    stored = {**{column.name: column.type for column in TABLE_BY_NAME[table].columns}, LINK: "string"}
    nulls = [
        _NULL.cast(duckdb.sqltype(type_)).alias(name)
        for name, type_ in stored.items()
        if name not in files.columns
    ]
    return files.select(duckdb.StarExpression(), *nulls)


def _rows_of_day(rows: duckdb.DuckDBPyRelation, day: int) -> duckdb.DuckDBPyRelation:
    at_ms = duckdb.ColumnExpression("recorded_at_ms")
    begins, ends = (duckdb.ConstantExpression(number * DAY_MS) for number in (day, day + 1))
    return rows.filter((at_ms >= begins) & (at_ms < ends))


def _write(
    folder: TableFolder,
    table: str,
    rows: duckdb.DuckDBPyRelation,
    prefix: str = "merged",
    recorded: Sequence[str] = _RECORDED,
) -> WrittenFile:
    schema = stored_schema(TABLE_BY_NAME[table])
    path = f"{prefix}-{uuid.uuid4()}.zstd.parquet"
    statistics = _Statistics()
    selected = rows.sort(*SORTED_BY.get(table, ()), *recorded).select(
        *map(duckdb.ColumnExpression, schema.names)
    )
    with folder.writable(path) as place:
        with merged_writer(place, schema) as writer:
            for batch in selected.to_arrow_reader(BATCH_ROWS):
                part = pa.Table.from_batches([batch]).cast(schema)
                statistics.add(part)
                writer.write_table(part)
        size_bytes = place.stat().st_size
    return WrittenFile(path, size_bytes, statistics.rows, statistics.as_json())


def merged_writer(place: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Writes rows as merged files have them: of numbers the differences, of other values a dictionary."""
    numbers, texts = _leaves(schema, are_numbers=True), _leaves(schema, are_numbers=False)
    return pq.ParquetWriter(
        place,
        schema,
        compression="zstd",
        use_dictionary=texts,
        column_encoding=dict.fromkeys(numbers, _RISING),
    )


def commit_rows(
    opened: DeltaTable, uri: str, rows: pa.Table, properties: CommitProperties, *, now_ms: int
) -> None:
    """Append rows to a table in a folder of this machine, as one commit through this handle; it is on the disk then.

    The handle is at that commit afterwards, or behind it. No rows: a commit of its properties alone.
    """
    folder, before = TableFolder(uri), opened.version()
    added = [_write_small(folder, rows)] if len(rows) else []
    opened.create_write_transaction(
        [AddAction(file.path, file.size_bytes, {}, now_ms, True, file.statistics) for file in added],
        "append",
        opened.schema(),
        commit_properties=properties,
        post_commithook_properties=NO_HOOKS,
    )
    opened.update_incremental()
    sync_entries(uri, after=before, until=opened.version())
    checkpoint_when_due(opened, uri, before=before)


def checkpoint_when_due(opened: DeltaTable, uri: str, *, before: int) -> bool:
    """A checkpoint where commits since the version `before` have come to the next one; returns whether there is one.

    What was committed stays so without, and the next commits try again.
    """
    interval = int(opened.metadata().configuration.get(_CHECKPOINT_INTERVAL) or _COMMITS_PER_CHECKPOINT)
    if before // interval == opened.version() // interval:
        return False
    try:
        make_checkpoint(opened, uri)
    except (DeltaError, OSError) as error:
        log.debug("%s: no checkpoint was made: %s", uri, error)
        return False
    return True


def _write_small(folder: TableFolder, rows: pa.Table) -> WrittenFile:
    """Of twenty rows most would be what Parquet says about thirty columns."""
    path, statistics = f"part-{uuid.uuid4()}.zstd.parquet", _Statistics()
    statistics.add(rows)
    with folder.writable(path) as place:
        pq.write_table(
            rows,
            place,
            compression="zstd",
            use_dictionary=False,
            write_statistics=list(STATISTICS),
            store_schema=False,
        )
        size_bytes = place.stat().st_size
    return WrittenFile(path, size_bytes, len(rows), statistics.as_json())


def _leaves(schema: pa.Schema, *, are_numbers: bool) -> list[str]:
    """What Parquet has columns for, by its paths: the numbers, or all others."""
    leaves = [leaf for field in schema for leaf in _leaves_of(field.name, field.type)]
    return [path for path, type_ in leaves if pa.types.is_integer(type_) is are_numbers]


def _leaves_of(path: str, type_: pa.DataType) -> list[tuple[str, pa.DataType]]:
    if pa.types.is_list(type_):
        return _leaves_of(f"{path}.list.{type_.value_field.name}", type_.value_type)
    if pa.types.is_struct(type_):
        return [leaf for field in type_ for leaf in _leaves_of(f"{path}.{field.name}", field.type)]
    return [(path, type_)]


def statistics_of(rows: pa.Table) -> str:
    """What an `add` action says of rows."""
    statistics = _Statistics()
    statistics.add(rows)
    return statistics.as_json()


class _Statistics:
    """What an `add` action says of the rows of a file."""

    def __init__(self) -> None:
        self.rows = 0
        self._least: dict[str, Any] = {}
        self._greatest: dict[str, Any] = {}

    def add(self, part: pa.Table) -> None:
        import pyarrow.compute as pc  # every answer would wait for it

        self.rows += len(part)
        for name in STATISTICS:
            found = pc.min_max(part[name]).as_py()
            self._least[name] = min(found["min"], self._least.get(name, found["min"]))
            self._greatest[name] = max(found["max"], self._greatest.get(name, found["max"]))

    def as_json(self) -> str:
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": self._least,
                "maxValues": self._greatest,
                "nullCount": dict.fromkeys(STATISTICS, 0),
            }
        )
