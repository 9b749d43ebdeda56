"""Projections: what a table says in few rows, kept beside it so that an answer does not read all of it.

A projection lies in `projections/TABLE` of the ledger, a Delta table of its own. It is kept in blocks, a file each:
what was recorded behind the block before it. The footer says up to where the rows of each writer are in it, or before
it. Blocks of like size become one, so there are few; files that this takes away stay for cuts of the past.

It is never the truth: what it says is found again from the facts, and where it is missing, cannot be read, or is of
another table than the ledger's, all facts are read. That it stands for all rows up to its places is counted (S1 of
`facts.last_rows`).
"""

import json
import logging
import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Self

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from ledger.clock import HOUR_MS
from ledger.errors import InvalidValueError
from ledger.facts.cuts import LastAppend
from ledger.facts.last_rows import GRAINS, NOTHING, LastPlace, Noted, Split
from ledger.facts.tables import OFFSET_SYNCS, SHARE_OFFSETS, TABLE_BY_NAME, WRITERS
from ledger.store.behind import Behind, file_stamps, last_of_each, read_behind
from ledger.store.damage import sync_entries
from ledger.store.delta_tables import arrow_schema, in_schema, is_table, table_id, table_uri
from ledger.store.fetched import places
from ledger.store.merging import NO_HOOKS, TableFolder, checkpoint_when_due, data_files
from ledger.store.spans import SCHEMA, merged_spans, spans_of, together
from ledger.store.sql import connected, selected, sql_file

log = logging.getLogger(__name__)

PROJECTED = tuple(GRAINS)
"""Tables with a projection: those that grow with every round."""
_LAST_ALONE = (SHARE_OFFSETS.name, WRITERS.name)
"""Those of which it has the last rows, and nothing else."""
LEAST_ROWS = 25_000
"""So many rows an answer may read before they become a block."""
FANOUT = 8
"""So many blocks of one tier become one of the next."""
LAST_FANOUT = 4
"""So many of like size where a block has last rows: what a later one has takes the place of most of it."""
_FORM = 1
_FOOTER = b"mirrorLedger.block"
_CHUNK_ROWS = 300_000
UNREADABLE = (
    DeltaError,
    OSError,
    duckdb.Error,
    pa.ArrowException,
    InvalidValueError,
    ValueError,
    KeyError,
    TypeError,
)


class _OtherFormError(InvalidValueError):
    """A block that another program has made."""


@dataclass(frozen=True, slots=True)
class Block:
    """A file of a projection, where it can be read on this machine.

    `last`: the smallest block that it ends with, by name; `previous`: that of the block before it, None of the first.
    `noted`: which rows of the table are in it and in those before it; `appended_ms`: by writer when the last append of
    these was recorded. `kept`: how many rows it has itself, 0 before it is written.
    """

    file: Path
    previous: str | None
    last: str
    tier: int
    table_id: str
    noted: Noted
    appended_ms: Mapping[str, int]
    kept: int = 0

    @classmethod
    def read(cls, file: Path) -> Self:
        """By the footer of a file; raises `ValueError`, `KeyError` or what Arrow raises where it says nothing."""
        metadata = pq.read_metadata(file)
        said = json.loads(metadata.metadata[_FOOTER])
        if said["form"] != _FORM:
            raise _OtherFormError(
                f"{file.name} is a block of form {said['form']}; this program knows {_FORM}"
            )
        until = {writer: LastPlace(*at) for writer, at in said["until"].items()}
        noted = Noted(said["rows"], until, said["settled_ms"])
        names = said["previous"], said["last"]
        rows = said["appended_ms"], metadata.num_rows
        return cls(file, *names, said["tier"], said["table_id"], noted, *rows)

    @property
    def name(self) -> str:
        return self.file.name

    def write(self, place: Path, schema: pa.Schema, rows: Iterable[pa.Table]) -> None:
        """Make the file of a block, with these rows."""
        with pq.ParquetWriter(place, schema, compression="zstd") as writer:
            writer.add_key_value_metadata({_FOOTER: self.footer})
            for part in rows:
                writer.write_table(part)

    @property
    def footer(self) -> bytes:
        until = {writer: [at.epoch, at.round, at.latest_ms] for writer, at in self.noted.until.items()}
        return json.dumps(
            {
                "form": _FORM,
                "previous": self.previous,
                "last": self.last,
                "tier": self.tier,
                "table_id": self.table_id,
                "rows": self.noted.rows,
                "settled_ms": self.noted.settled_ms,
                "until": until,
                "appended_ms": dict(self.appended_ms),
            }
        ).encode()


def due_merge(chain: Sequence[Block], table: str) -> Sequence[Block]:
    """The last blocks of a table's projection, where there are enough of them to become one; none: there are not.

    Spans add up, so blocks go by how often they were merged. Of last rows one block has hardly more than another.
    """
    if table == OFFSET_SYNCS.name:
        parts = [block for block in chain if block.tier == chain[-1].tier]
        return parts if len(parts) >= FANOUT else ()
    alike = takewhile(lambda block: _size(block) <= _size(chain[-1]), reversed(chain))
    parts = list(alike)[::-1]
    return parts if len(parts) >= LAST_FANOUT else ()


def _size(block: Block) -> int:
    """By powers of four."""
    return block.kept.bit_length() // 2


class Blocks:
    """All blocks that were made of a table, those too that were merged since; few of them are read for an answer.

    Raises what `Block.read` raises, and `InvalidValueError` where they are not all of one table and one history.
    """

    def __init__(self, folder: Path, of_table: str) -> None:
        self._of_table = of_table
        self._files: dict[int, list[Path]] = {}
        for file in folder.glob("block-*.parquet"):
            self._files.setdefault(_rows_of(file.name), []).append(file)
        self._rows = sorted(self._files)
        self._read: dict[int, list[Block]] = {}

    def last(self, is_wanted: Callable[[Block], bool]) -> Block | None:
        """The last one that is wanted, where all those before it are as well."""
        found = bisect_left(self._rows, True, key=lambda rows: not is_wanted(self._at(rows)[0]))
        return self._at(self._rows[found - 1])[0] if found else None

    def first(self, is_wanted: Callable[[Block], bool]) -> Block | None:
        """The first one that is wanted, where all those behind it are as well."""
        found = bisect_left(self._rows, True, key=lambda rows: is_wanted(self._at(rows)[0]))
        return self._at(self._rows[found])[0] if found < len(self._rows) else None

    def before(self, block: Block) -> Block | None:
        """The one with the next fewer rows; None: it is the first one."""
        found = bisect_left(self._rows, block.noted.rows)
        return self._at(self._rows[found - 1])[0] if found else None

    def until(self, block: Block) -> list[Block]:
        """The fewest that follow each other from the first row on, and end with this one."""
        chain: list[Block] = []
        last: str | None = block.last
        while last is not None:
            ending = [one for one in self._at(_rows_of(last)) if one.last == last]
            if not ending:
                raise InvalidValueError(f"no block ends with {last}")
            chain.append(max(ending, key=lambda one: one.tier))
            last = chain[-1].previous
        return chain[::-1]

    def _at(self, rows: int) -> list[Block]:
        if rows not in self._read:
            self._read[rows] = [Block.read(file) for file in self._files.get(rows, ())]
            if any(block.table_id != self._of_table for block in self._read[rows]):
                raise InvalidValueError(f"blocks of {rows} rows are of another table")
        return self._read[rows]


@dataclass(frozen=True, slots=True)
class Projected:
    """Rows of a projection, and which rows of the table they stand for."""

    rows: pa.Table
    noted: Noted


class Projection:
    """That of a table of the ledger at a path."""

    def __init__(self, path: str, table: str) -> None:
        self._of = table
        self._uri = table_uri(path, f"projections/{table}")
        self._files = TableFolder(self._uri)
        self.schema = SCHEMA if table == OFFSET_SYNCS.name else arrow_schema(TABLE_BY_NAME[table])

    @property
    def is_there(self) -> bool:
        return is_table(self._uri) if self._files.local is None else self._files.local.is_dir()

    def read(
        self,
        opened: DeltaTable,
        covers: Callable[[Noted], bool],
        *,
        is_now: bool,
        columns: Sequence[str] | None = None,
    ) -> Projected | None:
        """What stands for most of the rows that a reader of the table counts; None: nothing does.

        `covers`: whether all rows that a block is made of count. `is_now`: all rows of the table do. `columns`: None
        for all.
        """
        try:
            chain = self._chain(table_id(opened), covers, only_active=is_now)
            return Projected(self._rows(chain, columns), chain[-1].noted) if chain else None
        except UNREADABLE as error:
            log.debug("%s cannot be used: %s", self._uri, error)
            return None

    def noted(self, opened: DeltaTable) -> Noted | None:
        """Which rows of the table it stands for; None: it cannot be used."""
        try:
            chain = self._chain(table_id(opened), lambda _: True, only_active=True)
        except UNREADABLE as error:
            log.debug("%s cannot be used: %s", self._uri, error)
            return None
        return chain[-1].noted if chain else None

    def blocks(self, opened: DeltaTable) -> Blocks | None:
        """All that it has; None: there is no projection, or it is in a store, whose folders nobody lists for that."""
        folder = self._files.local
        return None if folder is None or not self.is_there else Blocks(folder, table_id(opened))

    def last_appends(self, opened: DeltaTable) -> list[LastAppend] | None:
        """Of each writer the last append of all rows of a version; None: all of them are to be read for that."""
        try:
            if not (chain := self._chain(table_id(opened), lambda _: True, only_active=True)):
                return None
            with read_behind(opened, self._of, chain[-1].noted) as behind:
                if behind is None:
                    return None
                appended_ms = {**chain[-1].appended_ms, **behind.appended_ms()}
                return [
                    LastAppend(self._of, writer, at.epoch, at.round, appended_ms[writer])
                    for writer, at in behind.noted.until.items()
                ]
        except UNREADABLE as error:
            log.debug("%s cannot be used: %s", self._uri, error)
            return None

    def extend_when_due(self, opened: DeltaTable, *, now_ms: int, least_rows: int | None = None) -> bool:
        """Make blocks of what was recorded since the last one, where that is worth one; returns whether it was.

        Of a long history each has as few hours as have so many rows. Of two that do so at once one is refused, or takes
        the place of the other. Beside blocks of a later program nothing is made. Raises what DuckDB and Arrow raise.
        """
        chain = self._sound_chain(opened)
        if chain is None:
            return False
        least = self._least(chain) if least_rows is None else least_rows
        known = chain[-1].noted if chain else NOTHING
        if (
            sum(
                least if file.rows is None else file.rows
                for file in Split.of(file_stamps(opened), known).read
            )
            < least
        ):
            return False
        with read_behind(opened, self._of, known) as behind:
            if behind is None or behind.noted.rows - known.rows < least:
                return False
            parts = behind.parts(max(least, LEAST_ROWS))
            if len(parts) == 1:
                return self._put_behind(behind, opened, chain, now_ms)
        is_made = False
        for until_ms in parts:
            if not self._extend(opened, until_ms, now_ms):
                break
            is_made = True
        return is_made

    def _least(self, chain: Sequence[Block]) -> int:
        """How many rows become a block: of last rows as many as a block has, or it would have nearly all of them."""
        return LEAST_ROWS if self.schema is SCHEMA else max(LEAST_ROWS, *(block.kept for block in chain), 0)

    def _extend(self, opened: DeltaTable, until_ms: int, now_ms: int) -> bool:
        """Make a block of what was recorded since the last one up to a time; returns whether it is there."""
        chain = self._chain(table_id(opened), lambda _: True, only_active=True)
        known = chain[-1].noted if chain else NOTHING
        with read_behind(opened, self._of, known, until_ms=until_ms) as behind:
            if behind is None or behind.noted.rows == known.rows:
                return False
            return self._put_behind(behind, opened, chain, now_ms)

    def _put_behind(self, behind: Behind, opened: DeltaTable, chain: Sequence[Block], now_ms: int) -> bool:
        """Make a block of rows behind the last one, and larger ones where it makes enough; whether it is there."""
        noted = Noted.of(behind.noted.rows, behind.noted.until, now_ms=now_ms)
        last = chain[-1].last if chain else None
        name = new_name(noted.rows)
        appended_ms = {**(chain[-1].appended_ms if chain else {}), **behind.appended_ms()}
        block = Block(Path(name), last, name, 0, table_id(opened), noted, appended_ms)
        if not self._put(block, self._rows_behind(behind), chain, now_ms):
            return False
        while self._merge(self._chain(table_id(opened), lambda _: True, only_active=True), now_ms):
            pass
        return True

    def _sound_chain(self, opened: DeltaTable) -> list[Block] | None:
        """Its blocks; none where they cannot be read: then it is dropped, and begins at the first row.

        None: a later program has made it.
        """
        try:
            return self._chain(table_id(opened), lambda _: True, only_active=True)
        except _OtherFormError as error:
            log.debug("%s is left alone: %s", self._uri, error)
            return None
        except UNREADABLE as error:
            log.warning("%s is built again: %s", self._uri, error)
            self.drop()
            return []

    def drop(self) -> None:
        """Remove it, with all its blocks."""
        if self.is_there:
            self._files.remove()

    def _merge(self, chain: Sequence[Block], now_ms: int) -> bool:
        """Put one block in the place of the last ones of a tier, where there are enough of them; whether it did."""
        if not (parts := due_merge(chain, self._of)):
            return False
        merged = merged_block(parts)
        rows = self._merged(self._rows(parts))
        return self._put(merged, [rows], chain[: -len(parts)], now_ms)

    def _put(self, block: Block, rows: Iterable[pa.Table], chain: Sequence[Block], now_ms: int) -> bool:
        """Make a version of the projection with these blocks, and this one behind them; returns whether it is there.

        Somebody else may have made the next version meanwhile.
        """
        table = self._table()
        active = {file.path for file in data_files(table)}
        with self._files.writable(block.name) as place:
            block.write(place, self.schema, rows)
            size = place.stat().st_size
        superseded = active - {kept.name for kept in chain}
        before = table.version()
        try:
            table.create_write_transaction(
                [
                    AddAction(block.name, size, {}, now_ms, True, json.dumps({})),
                    *(RemoveAction(name, True, now_ms, 0, {}) for name in superseded),
                ],
                "append",
                table.schema(),
                commit_properties=CommitProperties(max_commit_retries=0),
                post_commithook_properties=NO_HOOKS,
            )
        except DeltaError as error:
            log.debug("%s: %s was not added: %s", self._uri, block.name, error)
            self._files.delete(block.name)
            return False
        sync_entries(self._uri, after=before, until=before + 1)
        table.update_incremental()
        if checkpoint_when_due(table, self._uri, before=before):
            table.cleanup_metadata()
        return True

    def _table(self) -> DeltaTable:
        try:
            return DeltaTable(self._uri)
        except TableNotFoundError:
            return DeltaTable.create(self._uri, self.schema, mode="ignore")

    def _chain(self, of_table: str, covers: Callable[[Noted], bool], *, only_active: bool) -> list[Block]:
        """Blocks that follow each other from the first row on, as few and as far as they go; empty: there are none."""
        if not self.is_there:
            return []
        if not only_active and self._files.local is not None:
            blocks = Blocks(self._files.local, of_table)
            found = blocks.last(lambda block: covers(block.noted))
            return [] if found is None else blocks.until(found)
        active = [Block.read(place) for place in self._places()]
        usable = [block for block in active if block.table_id == of_table and covers(block.noted)]
        by_last = {block.last: block for block in usable}
        for leaf in sorted(usable, key=lambda block: block.noted.rows, reverse=True):
            chain: list[Block] = []
            last: str | None = leaf.last
            while last is not None and last in by_last:
                chain.append(by_last[last])
                last = by_last[last].previous
            if last is None:
                return chain[::-1]
        return []

    def _places(self) -> list[Path]:
        """Where the files of the newest version can be read on this machine."""
        table = DeltaTable(self._uri)
        files = data_files(table)
        return list(map(Path, places(table, {file.path: file.size_bytes for file in files})))

    def _rows(self, chain: Sequence[Block], columns: Sequence[str] | None = None) -> pa.Table:
        # By a table of a dataset each command would wait for what reads these.
        parts = [pq.ParquetFile(block.file).read(columns, use_threads=False) for block in chain]
        schema = self.schema if columns is None else pa.schema(map(self.schema.field, columns))
        return pa.concat_tables([schema.empty_table(), *(in_schema(part, schema) for part in parts)])

    def _rows_behind(self, behind: Behind) -> Iterator[pa.Table]:
        """What stands for new rows, of as many hours at a time as memory is to be had for."""
        connection = behind.connection
        hours = connection.execute(
            f"select recorded_at_ms // {HOUR_MS} as hour, count(*) from behind group by hour order by hour"
        ).fetchall()
        kept = self.schema.empty_table()
        for first, last in together(hours, _CHUNK_ROWS):
            connection.register("kept", kept)
            connection.execute(
                "create or replace temporary view facts as select * from behind "
                f"where recorded_at_ms >= {int(first) * HOUR_MS} and recorded_at_ms < {(int(last) + 1) * HOUR_MS}"
                + ("" if self.schema is SCHEMA else " union all select * from kept")
            )
            if self.schema is SCHEMA:
                yield spans_of(connection)
            else:
                kept = self._kept(connection)
        yield kept

    def _merged(self, rows: pa.Table) -> pa.Table:
        if self.schema is SCHEMA:
            return merged_spans(rows)
        with connected() as connection:
            connection.register("facts", rows)
            return self._kept(connection)

    def _kept(self, connection: duckdb.DuckDBPyConnection) -> pa.Table:
        if self._of in _LAST_ALONE:
            return last_of_each(connection, self._of, "facts")
        connection.execute("create or replace temporary view recorded as select * from facts")
        return in_schema(selected(connection, sql_file(f"kept_{self._of}.sql")), self.schema)


def merged_block(parts: Sequence[Block]) -> Block:
    """What one block says that has the place of these."""
    file, tier = Path(new_name(parts[-1].noted.rows)), 1 + max(part.tier for part in parts)
    return replace(parts[-1], file=file, previous=parts[0].previous, tier=tier, kept=0)


def new_name(rows: int) -> str:
    """By the rows of the table that are in it or before it: so few blocks are read to find one."""
    return f"block-{rows}r-{uuid.uuid4()}.zstd.parquet"


def _rows_of(name: str) -> int:
    """The rows that the name of a block says. Raises `ValueError` where it says none."""
    return int(name.removeprefix("block-").partition("r-")[0])
