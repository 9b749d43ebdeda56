"""Rows of the ledger by hand: of any table, claims, ends, offset syncs; and their appends to copies of a ledger."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from ledger.facts.state import FactLog, WriterClaim
from ledger.facts.tables import GAPS_TYPE, TABLE_BY_NAME, Column, Row, place_of
from ledger.store.delta_tables import RECORDED_AT, stored_schema, table_uri


def copied_to(folder: Path, ledger: Path) -> str:
    """The path of a copy below the folder."""
    return str(shutil.copytree(ledger, folder / "ledger"))


_EMPTY: Mapping[str, object] = {
    "string": "",
    "bigint": 0,
    "int": 0,
    "double": 0.0,
    "boolean": False,
    GAPS_TYPE: [],
}


def empty(column: Column) -> object:
    """Null where it may be, else empty or 0."""
    return None if column.nullable else _EMPTY[column.type]


def row(table: str, **values: object) -> dict[str, object]:
    """A whole row of a table; what is not given is empty."""
    return {**{column.name: empty(column) for column in TABLE_BY_NAME[table].columns}, **values}


def append(path: str, table: str, rows: Sequence[Row]) -> None:
    """One commit without links, for answers: it says when the first of its rows was recorded."""
    opened = DeltaTable(table_uri(path, table))
    data = pa.Table.from_pylist(list(rows), schema=stored_schema(TABLE_BY_NAME[table]))
    metadata = {"userMetadata": json.dumps({RECORDED_AT: rows[0][RECORDED_AT]})}
    last = {row["writer"]: place_of(row["writer_epoch"], row["round"]) for row in rows}
    properties = CommitProperties(
        custom_metadata=metadata,
        app_transactions=[Transaction(writer, place) for writer, place in last.items()],
    )
    write_deltalake(opened, data, mode="append", commit_properties=properties)


# -- Claims ----------------------------------------------------------------------------------------


def claimed(
    flow: str,
    epoch: int,
    *,
    producer_id: int | None,
    at: str = "W",
    source: str = "E",
    former: int | None = None,
    at_ms: int | None = None,
    metadata: int | None = None,
) -> dict[str, Any]:
    """The claim of a flow from `east` to `west`; `at` and `source` are Kafka cluster ids."""
    return {
        "writer": f"flow:{flow}",
        "recorded_at_ms": epoch if at_ms is None else at_ms,
        "writer_epoch": epoch,
        "round": 0,
        "flow": flow,
        "source_cluster": "east",
        "source_cluster_id": source,
        "target_cluster": "west",
        "target_cluster_id": at,
        "producer_id": producer_id,
        "former_producer_id": former,
        "allocated_producer_id": None,
        "source_metadata_offset": None,
        "target_metadata_offset": metadata,
    }


# -- What a recorder appends -----------------------------------------------------------------------

WRITER = "recorder:east"
TABLE = "high_watermarks"


def claim(
    log: FactLog, host: str = "host:1:1", *, writer: str = WRITER, after: int | None = None
) -> WriterClaim:
    """Claim the writer's next epoch on `TABLE`."""
    return log.claim(writer, [TABLE], claim_row(host), after=after)


def claim_row(host: str) -> Row:
    """What a claim says."""
    return {
        "event": "claimed",
        "config_hash": None,
        "host": host,
        "flow": None,
        "source_cluster": "east",
        "source_cluster_id": "id",
        "target_cluster": None,
        "target_cluster_id": None,
        "producer_id": None,
        "former_producer_id": None,
        "allocated_producer_id": None,
        "source_metadata_offset": None,
        "target_metadata_offset": None,
        "brokers": None,
    }


def watermark(offset: int) -> Row:
    """A row of `TABLE` that says where the partition ended."""
    return {
        "cluster": "east",
        "topic": "t",
        "topic_id": "T",
        "partition": 0,
        "leader_epoch": None,
        "log_start": 0,
        "last_stable": offset,
        "high_watermark": offset,
        "read_at_ms": 1,
        "confirms_others": None,
        "previous_read_at_ms": None,
    }
