"""Ledgers of days, written as files and as maintenance leaves them: a week in two minutes.

Every round of five seconds is a commit of each table that it appends to. A UTC day that is over is one file, sorted by
partition and offset, and small files are left of the last rounds only. One flow goes from `east` to `west`. Most of its
topics are plain, one is compacted and one transactional: these have gaps in every offset sync. Of a ledger both ways a
flow goes back between the same topics, and each round brings records of both: what a cluster's own producers wrote,
then the copies, so that the records of the two alternate in both logs.
"""

import json
import uuid
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ledger.facts.tables import STAMP, TABLE_BY_NAME, place_of
from ledger.store.delta_tables import RECORDED_AT, arrow_schema, create_tables, table_uri
from ledger.store.merging import BATCH_ROWS, SORTED_BY, merged_writer
from tests.support.ledger_rows import empty, row

FLOW, FLOW_BACK, EAST, WEST = "east-to-west", "west-to-east", "east", "west"
BEGAN_MS = 1_700_000_000_000
ROUND_MS = 5_000
_SMALL_FILES = 50
"""Rounds at the end whose files nothing has merged yet."""
DAY_MS = 86_400_000
ROUNDS_A_DAY = DAY_MS // ROUND_MS
RECORDS_A_ROUND = 500
GROUPS = 50
"""Each has commits on `COMMITTED` partitions: a thousand commits."""
COMMITTED = 20
SWEEP_ROUNDS = 60
Row = dict[str, Any]

# Rows of rounds `first` to `stop`, less what is the same in all of them. A transactional topic has a marker behind
# every 99 records, a compacted one a hole of 15 offsets in every 50. Own records of a round lie from `own_start` on at
# either side; with `back` the copies of the other side's lie behind them, which a flow passes in its next round.
_PLACES = """
    with sizes as (
        select
            r.number as round,
            p.number as place,
            case p.number when 0 then 'compacted' when 1 then 'transactional' else 'plain' end as topic,
            case when p.number < 2 then 0 else p.number end as partition,
            case p.number when 0 then 350 when 1 then 495 else $records end as copied
        from range($first, $stop) as r(number)
        cross join range($partitions) as p(number)
    ),

    logs as (
        select
            *,
            case when $both_ways then copied else 0 end as back,
            case when $both_ways then $records else 0 end as ahead
        from sizes
    ),

    places as (
        select
            *,
            (round - 1) * ($records + back) as own_start,
            greatest((round - 1) * ($records + back) - back, 0) as source_start,
            (round - 1) * ($records + back) + $records as source_end,
            round * ($records + back) as source_log_end,
            (round - 1) * (ahead + copied) + ahead as target_start,
            round * (ahead + copied) as target_end
        from logs
    )
"""
_SYNCS = f"""{_PLACES}
    select
        round,
        $flow as flow,
        $source as source_cluster,
        $target as target_cluster,
        topic as source_topic,
        topic || '-' || $source_side as source_topic_id,
        partition as source_partition,
        1 as source_leader_epoch,
        topic as target_topic,
        topic || '-' || $target_side as target_topic_id,
        partition as target_partition,
        source_start,
        source_end,
        target_start,
        target_end,
        (round - 1) * copied % 2147483648 as first_sequence,
        1 as producer_id,
        case
            when source_start < own_start
                then [{{'source_start': source_start, 'source_end': own_start, 'cause': 'mirror_write'}}]
            else []
        end || case place
            when 0 then [{{'source_start': x + 20, 'source_end': x + 35, 'cause': 'compacted'}}
                for x in range(own_start, source_end, 50)]
            when 1 then [{{'source_start': x + 99, 'source_end': x + 100, 'cause': 'control'}}
                for x in range(own_start, source_end, 100)]
            else []
        end as gaps,
        'copied' as kind,
        null as cause,
        copied as records,
        copied * 1000 as bytes,
        round * 7919 % 4294967296 as checksum,
        5 as raw_batches
    from places order by round, place
"""
_ENDS = f"""{_PLACES}
    select
        round,
        $cluster as cluster,
        topic,
        topic || '-' || $side as topic_id,
        partition,
        1 as leader_epoch,
        case $side when 'source' then source_log_end else target_end end as last_stable,
        case $side when 'source' then source_log_end else target_end end as high_watermark
    from places order by round, place
"""
_CHECKPOINTS = f"""{_PLACES}
    select
        p.round,
        'east' as cluster,
        'group-' || g.number as group_id,
        'classic' as group_type,
        'Stable' as group_state,
        p.topic,
        p.topic || '-source' as topic_id,
        p.partition,
        greatest(p.source_end - 37 * (g.number + 1), 0) as committed_offset,
        1 as leader_epoch,
        '' as metadata
    from places as p
    cross join range({GROUPS}) as g(number)
    where p.place < {COMMITTED} and (p.round % {SWEEP_ROUNDS} = 0 or p.round % {GROUPS} = g.number)
    order by p.round, g.number, p.place
"""


@dataclass(frozen=True, slots=True)
class _Writes:
    """What a writer appends to a table."""

    writer: str
    sql: str
    constants: Mapping[str, str] = field(default_factory=dict)


_FORTH = {"flow": FLOW, "source": EAST, "target": WEST, "source_side": "source", "target_side": "target"}
_BACK = {"flow": FLOW_BACK, "source": WEST, "target": EAST, "source_side": "target", "target_side": "source"}
_FILLED: Mapping[str, Sequence[_Writes]] = {
    "offset_syncs": [_Writes(f"flow:{FLOW}", _SYNCS, _FORTH), _Writes(f"flow:{FLOW_BACK}", _SYNCS, _BACK)],
    "high_watermarks": [
        _Writes(f"recorder:{EAST}", _ENDS, {"cluster": EAST, "side": "source"}),
        _Writes(f"recorder:{WEST}", _ENDS, {"cluster": WEST, "side": "target"}),
    ],
    "checkpoints": [_Writes(f"recorder:{EAST}", _CHECKPOINTS)],
}


@dataclass(frozen=True, slots=True)
class Length:
    """How much history: rounds of five seconds, and partitions that had progress in each of them, one or both ways."""

    rounds: int
    partitions: int
    is_both_ways: bool = False

    @classmethod
    def parsed(cls, text: str) -> "Length":
        """Rounds, `x` and partitions, and `x2` where records go both ways."""
        rounds, partitions, *ways = text.split("x")
        assert ways in ([], ["2"]), text
        return cls(int(rounds), int(partitions), is_both_ways=bool(ways))

    @property
    def began_ms(self) -> int:
        return BEGAN_MS

    @property
    def end_ms(self) -> int:
        return BEGAN_MS + self.rounds * ROUND_MS

    @property
    def days(self) -> float:
        return self.rounds / ROUNDS_A_DAY

    @property
    def name(self) -> str:
        hours = self.rounds * ROUND_MS / 3_600_000
        told = f"{self.days:g} days" if self.days >= 1 else f"{hours:g} hours"
        return f"{told}, {self.partitions} partitions{', both ways' if self.is_both_ways else ''}"

    def writes(self, table: str) -> Sequence[_Writes]:
        """What writers append to a table."""
        return [
            writes for writes in _FILLED[table] if self.is_both_ways or writes.writer != f"flow:{FLOW_BACK}"
        ]


def write_ledger(path: str, length: Length) -> None:
    """A ledger of that length as maintenance leaves it; `BEGAN_MS` is when its first round began."""
    create_tables(path, now_ms=BEGAN_MS - 1)
    recorders = [_claim(f"recorder:{side}", None, side, None) for side in (EAST, WEST)]
    flows = [_claim(f"flow:{FLOW}", FLOW, EAST, WEST)]
    if length.is_both_ways:
        flows.append(_claim(f"flow:{FLOW_BACK}", FLOW_BACK, WEST, EAST))
    for claim in (*flows, *recorders):
        CommitLog(path, "writers").append(str(claim["writer"]), 0, _table("writers", [claim]))
    # deltalake's threads do not live on in a process that was forked.
    with ProcessPoolExecutor(max_workers=2, mp_context=get_context("spawn")) as side_by_side:
        list(side_by_side.map(partial(_fill, path, length), _FILLED))


def _fill(path: str, length: Length, table: str) -> None:
    writers = length.writes(table)
    log = CommitLog(path, table)
    recent = max(length.rounds - _SMALL_FILES, 0)
    for day in _days(range(1, recent + 1)):
        rows = pa.concat_tables(_rows(table, writes, day, length) for writes in writers)
        files = [log.write_sorted(rows)]
        log.commit(*(_append(writes.writer, day[-1])[1] for writes in writers), *files)
    for writes in writers:
        rounds = range(recent + 1, length.rounds + 1)
        rows = _rows(table, writes, rounds, length)
        for number, part in _by_round(rows, rounds):
            log.append(writes.writer, number, part)
    DeltaTable(str(log.folder)).create_checkpoint()


def _days(rounds: range) -> Iterator[range]:
    """Rounds of one UTC day after another."""
    first = rounds.start
    while first < rounds.stop:
        day = (BEGAN_MS + first * ROUND_MS) // DAY_MS
        stop = min(-(-((day + 1) * DAY_MS - BEGAN_MS) // ROUND_MS), rounds.stop)
        yield range(first, stop)
        first = stop


def _by_round(rows: pa.Table, rounds: range) -> Iterator[tuple[int, pa.Table]]:
    """Rows come in the order of their rounds."""
    of_rows = rows["round"].to_pylist()
    bounds = (bisect_left(of_rows, number) for number in (*rounds, rounds.stop))
    for number, (start, end) in zip(rounds, pairwise(bounds), strict=True):
        yield number, rows.slice(start, end - start)


def _rows(table: str, writes: _Writes, rounds: range, length: Length) -> pa.Table:
    values = {
        "first": rounds.start,
        "stop": rounds.stop,
        "partitions": length.partitions,
        "records": RECORDS_A_ROUND,
        "both_ways": length.is_both_ways,
    }
    with duckdb.connect(":memory:") as connection:
        found = connection.sql(writes.sql, params={**values, **writes.constants}).to_arrow_table()
    return _whole(found, table, writes.writer)


def _whole(found: pa.Table, table: str, writer: str) -> pa.Table:
    """All columns of the table: what was not computed is empty, or the same in every row."""
    schema = arrow_schema(TABLE_BY_NAME[table])
    at_ms = pc.add(pc.multiply(found["round"], ROUND_MS), BEGAN_MS)
    times = [
        column.name for column in TABLE_BY_NAME[table].columns if column.name.endswith(("_at_ms", "stamp_ms"))
    ]
    known = {
        **{column.name: empty(column) for column in TABLE_BY_NAME[table].columns},
        "writer": writer,
        "writer_epoch": 1,
    }
    columns = {name: pa.array([value] * len(found), schema.field(name).type) for name, value in known.items()}
    columns |= dict.fromkeys(times, at_ms) | {name: found[name] for name in found.column_names}
    return pa.table(columns).select(schema.names).cast(schema)


@dataclass(slots=True)
class CommitLog:
    """Writes commits of one table as deltalake does, without asking it."""

    path: str
    table: str
    folder: Path = field(init=False)
    version: int = field(init=False)

    def __post_init__(self) -> None:
        self.folder = Path(table_uri(self.path, self.table))
        self.version = DeltaTable(str(self.folder)).version()

    def append(self, writer: str, number: int, rows: pa.Table) -> tuple[str, int]:
        """Returns the file's name and bytes."""
        at_ms = BEGAN_MS + number * ROUND_MS
        file = self._write(rows)
        self.commit(*_append(writer, number), _add(file, at_ms, is_change=True))
        return file

    def write_sorted(self, rows: pa.Table) -> Row:
        """The action that adds rows as one file, sorted as maintenance sorts them, with statistics of its times."""
        order = (*SORTED_BY[self.table], "writer", "writer_epoch", "round")
        ordered = rows.sort_by([(name, "ascending") for name in order])
        name = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
        with merged_writer(self.folder / name, ordered.schema) as writer:
            writer.write_table(ordered, row_group_size=BATCH_ROWS)
        times = pc.min_max(rows["recorded_at_ms"]).as_py()
        stats = {
            "numRecords": len(rows),
            "minValues": {"recorded_at_ms": times["min"]},
            "maxValues": {"recorded_at_ms": times["max"]},
            "nullCount": {"recorded_at_ms": 0},
        }
        return _add((name, (self.folder / name).stat().st_size), times["max"], is_change=True, stats=stats)

    def _write(self, rows: pa.Table) -> tuple[str, int]:
        name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        pq.write_table(rows, self.folder / name)
        return name, (self.folder / name).stat().st_size

    def commit(self, *actions: Row) -> None:
        self.version += 1
        lines = "\n".join(map(json.dumps, actions))
        (self.folder / "_delta_log" / f"{self.version:020}.json").write_text(lines)


def _table(table: str, rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=arrow_schema(TABLE_BY_NAME[table]))


def _append(writer: str, number: int) -> list[Row]:
    at_ms = BEGAN_MS + number * ROUND_MS
    parameters = {"mode": "Append"}
    info = {
        "timestamp": at_ms,
        "operation": "WRITE",
        "operationParameters": parameters,
        RECORDED_AT: str(at_ms),
    }
    return [
        {"commitInfo": info},
        {"txn": {"appId": writer, "version": place_of(1, number), "lastUpdated": at_ms}},
    ]


def _add(file: tuple[str, int], at_ms: int, *, is_change: bool, stats: Row | None = None) -> Row:
    name, size = file
    told = {
        "path": name,
        "partitionValues": {},
        "size": size,
        "modificationTime": at_ms,
        "dataChange": is_change,
        **({} if stats is None else {"stats": json.dumps(stats)}),
    }
    return {"add": told}


def rows_to_append(table: str, length: Length, number: int) -> list[Row]:
    """What the first writer of a table appends in a round, as a fact log takes it: without the stamp."""
    rows = _rows(table, _FILLED[table][0], range(number, number + 1), length)
    unstamped: list[Row] = rows.drop_columns([column.name for column in STAMP]).to_pylist()
    return unstamped


def _claim(writer: str, flow: str | None, source: str, target: str | None) -> Row:
    return row(
        "writers",
        writer=writer,
        writer_epoch=1,
        recorded_at_ms=BEGAN_MS,
        event="claimed",
        host="host:1:1",
        flow=flow,
        source_cluster=source,
        source_cluster_id=f"id-of-{source}",
        target_cluster=target,
        target_cluster_id=None if target is None else f"id-of-{target}",
        producer_id=None if flow is None else 1,
        shut_out=[],
    )
