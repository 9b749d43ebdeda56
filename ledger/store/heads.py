"""Heads of the chains of links, as they stand in a ledger, and as they are kept outside of it: anchors.

An anchor is a folder of this machine or a prefix of a store, with a file of heads for each day. Whoever can change the
ledger, and not the anchor, cannot cut off what was anchored, nor put an older copy in the ledger's place, unnoticed.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ledger.errors import DamagedLedgerError, PreconditionError, UnsafeError, UsageError
from ledger.facts.cuts import Cut
from ledger.facts.links import LINK, Head
from ledger.facts.tables import ROUNDS_PER_EPOCH, TABLE_BY_NAME, TABLES, epoch_and_round
from ledger.store.damage import local_folder, reported
from ledger.store.fetched import places
from ledger.store.merging import STAMPED
from ledger.store.places import Place
from ledger.store.relations import file_sizes, relation_of
from ledger.store.snapshots import OpenedTables, archived_periods_of
from ledger.store.sql import ParquetFiles, bounds, connected, register
from ledger.words import instant

_FORMAT = 1
_FOLDER = "heads"
_HEADS = """
select r.writer, arg_max({'place': r.place, 'link': r.link}, r.place) as last
from (select writer, writer_epoch * 4294967296 + round as place, link from linked where link is not null) as r
join bounds as b on b.writer = r.writer and r.place <= b.last_epoch * 4294967296 + b.last_round
group by r.writer
"""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The heads of a ledger at a time, by the clock of who wrote them down; `place`: where they were read."""

    ledger_id: str
    at_ms: int
    heads: tuple[Head, ...]
    place: str = ""

    @property
    def text(self) -> str:
        return json.dumps(
            {
                "format": _FORMAT,
                "ledger_id": self.ledger_id,
                "at_ms": self.at_ms,
                "heads": list(map(asdict, self.heads)),
            },
            indent=1,
        )


# In the ledger ------------------------------------------------------------------------------------


def heads_at(opened: OpenedTables, cut: Cut) -> tuple[Head, ...]:
    """Of each table and writer the link of the last append that a cut counts; none where nothing was appended yet.

    Raises what DuckDB raises where a file cannot be read.
    """
    last = {(one.table, one.writer): one.place for one in cut.last}
    left = (one for one in _archived(opened) if one.place <= last.get((one.table, one.writer), -1))
    there = (one for table in TABLES for one in _heads_of(opened.table(table.name), table.name, cut))
    return _last_of([*left, *there])


def _last_of(heads: Iterable[Head]) -> tuple[Head, ...]:
    """Of each table and writer the last one, in their order."""
    found: dict[tuple[str, str], Head] = {}
    for one in heads:
        former = found.get((one.table, one.writer))
        if former is None or former.place < one.place:
            found[one.table, one.writer] = one
    return tuple(sorted(found.values()))


def linked_rows(opened: DeltaTable, table: str) -> "pa.Table | ParquetFiles":
    """The rows of a table with their links."""
    rows = relation_of(opened, table)
    if isinstance(rows, ParquetFiles):
        return replace(rows, columns=(*rows.columns, LINK))
    if len(rows):  # paths that DuckDB would read otherwise
        return opened.to_pyarrow_table(columns=[*STAMPED, LINK])
    return rows.append_column(LINK, pa.array([], pa.string()))


def _heads_of(opened: DeltaTable, table: str, cut: Cut) -> Iterator[Head]:
    if not (last := cut.of_table(table)):
        return
    with connected() as connection:
        register(connection, "linked", linked_rows(opened, table))
        connection.register("bounds", bounds(last))
        for writer, found in connection.execute(_HEADS).fetchall():
            yield Head(table, writer, *epoch_and_round(found["place"]), found["link"])


def _archived(opened: OpenedTables) -> Iterator[Head]:
    """Of appends whose rows have left."""
    for period in archived_periods_of(opened):
        for end in period.ends:
            yield Head(end.fact_table, end.writer, end.writer_epoch, end.round, end.link)


class KnownHeads:
    """The heads of a ledger as it was opened, for who asks again and again: each file of rows is read once.

    No file of a Delta table ever changes. `verify-ledger`, which reads all of them, finds one that did.
    """

    def __init__(self) -> None:
        self._by_table: dict[str, dict[str, tuple[Head, ...]]] = {}

    def of(self, opened: OpenedTables) -> tuple[Head, ...]:
        """Of each table and writer the link of the last append; none where nothing was appended yet.

        Raises `LedgerUnavailableError` where a file cannot be read.
        """
        self._by_table = {
            table.name: _heads_of_files(
                opened.table(table.name), table.name, self._by_table.get(table.name, {})
            )
            for table in TABLES
        }
        there = (head for files in self._by_table.values() for heads in files.values() for head in heads)
        return _last_of([*_archived(opened), *there])


def _heads_of_files(
    opened: DeltaTable, table: str, known: Mapping[str, tuple[Head, ...]]
) -> dict[str, tuple[Head, ...]]:
    """By file of a version the last link of each writer that it has; files that are known are not read."""
    with reported(opened.table_uri, opened.table_uri):
        sizes = file_sizes(opened)
        at = dict(zip(sizes, places(opened, sizes), strict=True))
        return {
            name: known[name] if name in known else tuple(_heads_of_file(at[name], table)) for name in sizes
        }


def _heads_of_file(path: str, table: str) -> Iterator[Head]:
    with pq.ParquetFile(path) as file:
        linked = [group for group in range(file.num_row_groups) if _has_links(file.metadata.row_group(group))]
        if not linked:
            return
        rows = file.read_row_groups(linked, columns=[*STAMPED, LINK])
    rows = rows.filter(pc.is_valid(rows[LINK]))
    for writer in pc.unique(rows["writer"]).to_pylist():
        of_writer = rows.filter(pc.equal(rows["writer"], writer))
        place = pc.add(pc.multiply(of_writer["writer_epoch"], ROUNDS_PER_EPOCH), of_writer["round"])
        last = pc.max(place).as_py()
        link = of_writer[LINK][pc.index(place, last).as_py()].as_py()
        yield Head(table, writer, *epoch_and_round(last), link)


def _has_links(group: pq.RowGroupMetaData) -> bool:
    """Links of a merged file are in its first rows: those of the first partition."""
    columns = map(group.column, range(group.num_columns))
    said = next(one for one in columns if one.path_in_schema == LINK).statistics
    return said is None or not said.has_null_count or said.null_count < group.num_rows


def anchor_of(opened: OpenedTables, *, now_ms: int, known: KnownHeads | None = None) -> Anchor:
    """The heads of a ledger as it was opened; `known`: what was read of its files before."""
    return Anchor(opened.ledger_id, now_ms, (known or KnownHeads()).of(opened))


# Outside of it ------------------------------------------------------------------------------------


def keep_heads(place: str, heads: Anchor, *, known: Iterable[Anchor] | None = None) -> str:
    """Write heads down at an anchor; returns the file. One of that day is replaced, those of other days stay.

    `known`: what the anchor had before the heads were read; None: what it has now.
    Raises `UnsafeError` where the anchor has an append that the ledger lacks: then nothing was written; and
    `LedgerUnavailableError` where the place cannot be read or written.
    """
    require_extended(anchors_at(place, missing_ok=True) if known is None else known, heads)
    name = f"{_FOLDER}/{instant(heads.at_ms)[:10]}.json"
    Place(place, is_prompt=True).write(name, [heads.text.encode()])
    return f"{place.rstrip('/')}/{name}"


def anchor_heads(ledger_path: str, place: str, *, now_ms: int, known: KnownHeads | None = None) -> str:
    """Write the heads of a ledger as it stands down at an anchor; returns the file. Raises as `keep_heads` does.

    What is anchored is read first: another process may write later heads there while the ledger is read. `known`: what
    was read of the ledger's files before, of who does it often: then the last file at the anchor alone is compared, for
    earlier ones were when later ones were written.
    """
    there = anchors_at(place, missing_ok=True, newest=known is not None)
    return keep_heads(place, anchor_of(OpenedTables.of(ledger_path), now_ms=now_ms, known=known), known=there)


def require_extended(anchors: Iterable[Anchor], heads: Anchor) -> None:
    """Raise `UnsafeError` where heads were known that these do not come up to: rows were cut off, or put back."""
    now = {(one.table, one.writer): one for one in heads.heads}
    for anchor in anchors:
        if anchor.ledger_id != heads.ledger_id:
            raise UnsafeError(
                f"{anchor.place} is an anchor of ledger {anchor.ledger_id}, and this is {heads.ledger_id}; nothing was "
                "written there. Give each ledger an anchor of its own"
            )
        for known in anchor.heads:
            last = now.get((known.table, known.writer))
            if last is None or last.place < known.place or (last.place == known.place and last != known):
                raise UnsafeError(
                    f"the ledger lacks epoch {known.epoch} round {known.round} of {known.writer} in {known.table}, "
                    f"which {anchor.place} has since {instant(anchor.at_ms)}; nothing was written there. mirror-ledger "
                    "verify-ledger --anchor says what is lacking"
                )


def anchors_at(place: str, *, missing_ok: bool = False, newest: bool = False) -> list[Anchor]:
    """The heads that a file has, or those that all files of an anchor have, oldest first; `newest`: the last file's.

    Raises `UsageError` where there are none, and `DamagedLedgerError` where a file is no file of heads.
    """
    folder = local_folder(place)
    if folder is not None and folder.is_file():
        return [_parsed(folder.read_text(encoding="utf-8"), str(folder))]
    at = Place(place, is_prompt=True)
    names = [name for name in sorted(at.sizes(_FOLDER)) if name.endswith(".json")]
    if not names and not missing_ok:
        raise UsageError(
            f"{place} has no heads of a ledger: neither is it a file, nor has it a folder {_FOLDER}"
        )
    return [_parsed(at.text(name) or "", f"{at.uri}/{name}") for name in (names[-1:] if newest else names)]


def _parsed(text: str, place: str) -> Anchor:
    try:
        said: dict[str, Any] = json.loads(text)
        if said["format"] != _FORMAT:
            raise PreconditionError(
                f"{place} has heads in format {said['format']}, this program knows {_FORMAT}; nothing was compared. "
                "Use a later version of this program"
            )
        heads = tuple(Head(**one) for one in said["heads"])
        if unknown := {one.table for one in heads} - TABLE_BY_NAME.keys():
            raise ValueError(f"no table {', '.join(sorted(unknown))}")
        return Anchor(str(said["ledger_id"]), int(said["at_ms"]), heads, place)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedLedgerError(
            f"{place} is no file of heads ({type(error).__name__}: {error}); nothing was compared. Put it back"
        ) from error
