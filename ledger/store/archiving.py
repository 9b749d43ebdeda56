"""Puts the facts of a period into an archive: a ledger that is read as a copy is, with the same cuts.

An archive has every table of the ledger as of one cut: the files of rows as they are, each read back when it was sent,
and one entry of a log that names them, with the id that the table has. `ledger-copy.json` comes last, so an archive is
whole or none; whoever died before is followed by who sends what is lacking.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ledger.errors import DamagedLedgerError, PreconditionError
from ledger.facts.tables import OPERATIONS, TABLES
from ledger.store.copying import require_parent
from ledger.store.damage import LOG, log_file
from ledger.store.delta_tables import RECORDED_AT, STATISTICS, table_id
from ledger.store.ledger_copy import CopiedFile, CopiedTable, LedgerCopy, read_copy, write_copy
from ledger.store.merging import DataFile, statistics_of
from ledger.store.places import Place, send
from ledger.words import counted

ARCHIVED = "mirrorLedger.archive"
"""Key of the commit info of the one entry that the log of an archived table has; its value is the cut."""


_LEFT = "left-before.zstd.parquet"


def archive_tables(
    path: str,
    to: str,
    tables: Mapping[str, tuple[DeltaTable, Sequence[DataFile]]],
    *,
    cut: str,
    now_ms: int,
    ledger_id: str,
    left: pa.Table,
    progress: Callable[[str], None],
) -> LedgerCopy:
    """Make an archive at `to` of these files of the tables of the ledger at `path`, or continue one.

    `cut`: token of what the files have. `left`: rows of `operations` behind it that say what had left before; they are
    in the archive as well. Raises `PreconditionError` where something else lies there, and
    `LedgerUnavailableError` where either place cannot be read or written; what was sent counts for the next try.
    """
    require_parent(to.rpartition("/")[0], "the archive")
    target = Place(to)
    found = read_copy(to)
    if found is None and any(target.sizes(f"{table.name}/{LOG}") for table in TABLES):
        raise PreconditionError(f"at {to} lies a ledger, which is no archive; nothing was archived")
    if found is not None and found.ledger_id != ledger_id:
        raise PreconditionError(
            f"{to} is {found.words}, and the ledger at {path} is {ledger_id}; nothing was archived. Set another "
            "[ledger] archive"
        )
    if found is not None and found.cut == cut:
        return found
    begun = LedgerCopy(ledger_id=ledger_id, origin=path)
    write_copy(target, begun)
    copied = {}
    for name, (opened, files) in tables.items():
        beside = left if name == OPERATIONS.name and len(left) else None
        copied[name] = _archive_table(Place(path), target, name, opened, files, beside, cut, now_ms)
        if files:
            progress(f"{name}: {counted(len(files), 'file')} in the archive")
    made = replace(begun, cut=cut, cut_at_ms=now_ms, tables=copied)
    for table in TABLES:
        for name in target.sizes_of_table(table.name).keys() - made.files.keys():
            target.delete(name)  # of a process that died, for another period
    write_copy(target, made)
    return made


def _archive_table(
    source: Place,
    target: Place,
    name: str,
    opened: DeltaTable,
    files: Sequence[DataFile],
    beside: pa.Table | None,
    cut: str,
    now_ms: int,
) -> CopiedTable:
    there = target.sizes(name)
    sent: dict[str, CopiedFile] = {}
    for file in files:
        place = f"{name}/{file.path}"
        if there.get(place) == file.size_bytes and (digest := target.digest(place)) == source.digest(place):
            sent[place] = CopiedFile(file.size_bytes, digest)
        else:
            sent[place] = CopiedFile(file.size_bytes, send(source, place, target))
    adds = _adds(opened, {file.path for file in files})
    if beside is not None:
        sink = pa.BufferOutputStream()
        pq.write_table(beside, sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
        target.write(f"{name}/{_LEFT}", [content])
        sent[f"{name}/{_LEFT}"] = CopiedFile(len(content), hashlib.sha256(content).hexdigest())
        adds.append(_add(_LEFT, len(content), now_ms, statistics_of(beside)))
    entry = f"{name}/{log_file(0)}"
    text = _entry(opened, adds, cut, now_ms).encode()
    target.write(entry, [text])
    sent[entry] = CopiedFile(len(text), hashlib.sha256(text).hexdigest())
    rows = sum(file.rows or 0 for file in files) + (0 if beside is None else len(beside))
    return CopiedTable(table_id(opened), 0, rows, sent)


def _entry(opened: DeltaTable, adds: Sequence[Mapping[str, object]], cut: str, now_ms: int) -> str:
    """The first entry of a log: a table as it is, with some of its files."""
    protocol, metadata = opened.protocol(), opened.metadata()
    features = {
        "readerFeatures": protocol.reader_features,
        "writerFeatures": protocol.writer_features,
    }
    actions: list[Mapping[str, object]] = [
        {
            "protocol": {
                "minReaderVersion": protocol.min_reader_version,
                "minWriterVersion": protocol.min_writer_version,
                **{key: value for key, value in features.items() if value is not None},
            }
        },
        {
            "metaData": {
                "id": str(metadata.id),
                "name": metadata.name,
                "description": metadata.description,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": opened.schema().to_json(),
                "partitionColumns": list(metadata.partition_columns),
                "configuration": dict(metadata.configuration),
                "createdTime": metadata.created_time,
            }
        },
        *adds,
        {"commitInfo": {"timestamp": now_ms, "operation": "WRITE", RECORDED_AT: str(now_ms), ARCHIVED: cut}},
    ]
    return "".join(f"{json.dumps(action)}\n" for action in actions)


def _adds(opened: DeltaTable, paths: set[str]) -> list[dict[str, object]]:
    actions = pa.table(opened.get_add_actions(flatten=True)).to_pylist()
    return [
        _add(
            action["path"],
            int(action["size_bytes"]),
            int(action["modification_time"]),
            json.dumps(
                {
                    "numRecords": action["num_records"],
                    "minValues": {name: action[f"min.{name}"] for name in STATISTICS},
                    "maxValues": {name: action[f"max.{name}"] for name in STATISTICS},
                    "nullCount": dict.fromkeys(STATISTICS, 0),
                }
            ),
        )
        for action in actions
        if action["path"] in paths
    ]


def _add(path: str, size: int, modified_ms: int, statistics: str) -> dict[str, object]:
    return {
        "add": {
            "path": path,
            "partitionValues": {},
            "size": size,
            "modificationTime": modified_ms,
            "dataChange": True,
            "stats": statistics,
        }
    }


def root_of(copy: LedgerCopy) -> str:
    """What tells the facts of an archive from others: a SHA-256 over its files of rows, with the SHA-256 of each."""
    lines = (
        f"{name} {file.size} {file.sha256}\n"
        for name, file in sorted(copy.files.items())
        if f"/{LOG}/" not in name
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def require_whole(to: str, root: str) -> LedgerCopy:
    """What an archive says of itself, after all of its files were read and compared.

    Raises `DamagedLedgerError` where one is not what was archived, or is missing.
    """
    copy = read_copy(to)
    if copy is None or copy.cut is None or root_of(copy) != root:
        raise DamagedLedgerError(
            f"{to} is not the archive that was recorded; no facts left the ledger. Put it back from a backup"
        )
    place = Place(to)
    for name, file in copy.files.items():
        if not place.is_there(name) or place.digest(name) != file.sha256:
            raise DamagedLedgerError(
                f"{to}/{name} is not what was archived; no facts left the ledger. Put it back from a backup"
            )
    return copy
