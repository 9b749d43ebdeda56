"""Ledgers of days and years, written as files and as maintenance leaves them, with their projections.

Every round of five seconds is a commit of each table that it appends to. A UTC day that is over is one file, or as many
as a merge bounds them to, sorted by partition and offset, and small files are left of the last rounds only. One flow
goes from `east` to `west`. Most of its topics are plain, of at most a hundred partitions each, one is compacted and one
transactional: these have gaps in every offset sync; or one topic has all partitions (`Topics`). Each append has a link,
as long as links are and as hard to compress, and not made of its rows. Of a ledger both ways a flow goes back between
the same topics, and each round brings records of both: what a cluster's own producers wrote, then the copies, so that
the records of the two alternate in both logs.
"""

import hashlib
import json
import re
import uuid
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import pairwise
from math import lcm
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ledger.clock import HOUR_MS
from ledger.facts.links import LINK
from ledger.facts.tables import STAMP, TABLE_BY_NAME, place_of
from ledger.store.delta_tables import (
    RECORDED_AT,
    STATISTICS,
    arrow_schema,
    create_tables,
    stored_schema,
    table_uri,
)
from ledger.store.merging import BATCH_ROWS, SORTED_BY, TARGET_ROWS, merged_writer
from ledger.store.sql import connected
from tests.support.ledger_rows import empty, row

FLOW, FLOW_BACK, EAST, WEST = "east-to-west", "west-to-east", "east", "west"
BEGAN_MS = 1_700_000_000_000
ROUND_MS = 5_000
_SMALL_FILES = 50
"""Rounds at the end whose files nothing has merged yet."""
DAY_MS = 86_400_000
ROUNDS_A_DAY = DAY_MS // ROUND_MS
RECORDS_A_ROUND = 500
GROUPS, COMMITTED = 50, 20
"""So many groups, each with commits on so many partitions: a thousand commits."""
COMMIT_ROUNDS = 50
"""Rounds from a commit of a group to its next one, if nothing else is said."""
Row = dict[str, Any]

# Rows of `rounds`, less what is the same in all of them. Partitions are numbered (`place`): the compacted ones first,
# then the transactional ones up to `plain_from`, then plain ones, a topic for each `in_a_topic` of the numbers. A
# transactional topic has a marker behind every 99 records, a compacted one a hole of 15 offsets in every 50. Own
# records of a round lie from `own_start` on at either side; with `back` the copies of the other side's lie behind
# them, which a flow passes in its next round.
PLACES = """
    with sizes as (
        select
            r.number as round,
            p.number as place,
            case
                when p.number < $compacted then 'compacted'
                when p.number < $plain_from then 'transactional'
                when p.number < $in_a_topic then 'plain'
                else 'plain-' || p.number // $in_a_topic
            end as topic,
            case
                when p.number < $compacted then p.number
                when p.number < $plain_from then p.number - $compacted
                else p.number % $in_a_topic
            end as partition,
            case
                when p.number < $compacted then 350
                when p.number < $plain_from then 495
                else $records
            end as copied
        from rounds as r
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
            round * (ahead + copied) as target_end,
            (round - 1) * copied % 2147483648 as first_sequence,
            copied * 1000 as bytes
        from logs
    )
"""
_SYNCS = f"""{PLACES}
    select
        round,
        topic as source_topic,
        topic || '-' || $source_side as source_topic_id,
        partition as source_partition,
        topic as target_topic,
        topic || '-' || $target_side as target_topic_id,
        partition as target_partition,
        source_start,
        source_end,
        target_start,
        target_end,
        first_sequence,
        case
            when source_start < own_start
                then [{{'source_start': source_start, 'source_end': own_start, 'cause': 'mirror_write'}}]
            else []
        end || case topic
            when 'compacted' then [{{'source_start': x + 20, 'source_end': x + 35, 'cause': 'compacted'}}
                for x in range(own_start, source_end, 50)]
            when 'transactional' then [{{'source_start': x + 99, 'source_end': x + 100, 'cause': 'control'}}
                for x in range(own_start, source_end, 100)]
            else []
        end as gaps,
        copied as records,
        bytes,
        round * 7919 % 4294967296 as checksum
    from places
"""
_ENDS = f"""{PLACES}
    select
        round,
        topic,
        topic || '-' || $side as topic_id,
        partition,
        case $side when 'source' then source_log_end else target_end end as last_stable,
        case $side when 'source' then source_log_end else target_end end as high_watermark
    from places
"""


def _checkpoints(lag: str) -> str:
    """Returns the statement of commits that are so many offsets behind the end of what was produced."""
    return f"""{PLACES},

    due as (
        select r.number as round, g.number as group_number
        from rounds as r
        cross join range($groups) as g(number)
        where r.number % $sweep_rounds = 0 or r.number % $commit_rounds = g.number % $commit_rounds
    ),

    -- materialized: else DuckDB joins each of these with all places of its round first
    commits as materialized (
        select d.round, d.group_number, (d.group_number * $committed + c.number) % $partitions as place
        from due as d
        cross join range(least($committed, $partitions)) as c(number)
    )

    select
        c.round,
        'group-' || c.group_number as group_id,
        p.topic,
        p.topic || '-' || $side as topic_id,
        p.partition,
        greatest(p.source_end - {lag}, 0) as committed_offset
    from commits as c
    inner join places as p on p.round = c.round and p.place = c.place
"""


_NEAR_THE_END = f"37 * (c.group_number % {COMMIT_ROUNDS} + 1)"
_ANYWHERE = "c.round * ($records + p.back) * c.group_number // $groups * 99 // 100"
"""Groups are spread evenly over the log; each goes ahead with every round."""
_OF_A_DAY = f"{_ANYWHERE} * least({ROUNDS_A_DAY}, $rounds) // $rounds"
"""At the end of the ledger groups are spread evenly over the last day."""
_OF_PARTITIONS = ("topic", "partition")


@dataclass(frozen=True, slots=True)
class _Writes:
    """What a writer appends to a table: by a statement, with what is the same in all rows, in the order of a round."""

    writer: str
    sql: str
    same: Mapping[str, object]
    order: Sequence[str] = _OF_PARTITIONS
    values: Mapping[str, str] = field(default_factory=dict)


def _flows(flow: str, source: str, target: str, *sides: str) -> _Writes:
    same = {
        **{"flow": flow, "source_cluster": source, "target_cluster": target},
        **{"source_leader_epoch": 1, "producer_id": 1, "kind": "copied", "raw_batches": 5},
    }
    values = dict(zip(("source_side", "target_side"), sides, strict=True))
    return _Writes(f"flow:{flow}", _SYNCS, same, ("source_topic", "source_partition"), values)


def _reads(cluster: str, side: str) -> _Writes:
    same = {"cluster": cluster, "leader_epoch": 1}
    return _Writes(f"recorder:{cluster}", _ENDS, same, values={"side": side})


def _commits(cluster: str, side: str, lag: str) -> _Writes:
    same = {"cluster": cluster, **_OF_GROUPS}
    order = ("group_id", *_OF_PARTITIONS)
    return _Writes(f"recorder:{cluster}", _checkpoints(lag), same, order, {"side": side})


_OF_GROUPS = {
    "group_type": "classic",
    "group_state": "Stable",
    "leader_epoch": 1,
    "metadata": "",
}
_FILLED: Mapping[str, Sequence[_Writes]] = {
    "offset_syncs": [
        _flows(FLOW, EAST, WEST, "source", "target"),
        _flows(FLOW_BACK, WEST, EAST, "target", "source"),
    ],
    "high_watermarks": [_reads(EAST, "source"), _reads(WEST, "target")],
    "checkpoints": [_commits(EAST, "source", _NEAR_THE_END)],
}
_COMMITS_OF_TRANSACTIONAL = (_commits(EAST, "source", _OF_A_DAY), _commits(WEST, "target", _ANYWHERE))
FILLED = tuple(_FILLED)
"""The tables that grow with every round."""


class Topics(StrEnum):
    """Which topics the partitions are of."""

    MIXED = (
        "mixed"  # a compacted one, a transactional one, and plain ones of at most a hundred partitions each
    )
    ONE = "one"  # a plain one
    TRANSACTIONAL = "transactional"
    """A transactional one, with a transaction a second in each partition. Groups of `EAST` have commits all over the
    last day, and as many groups of `WEST` have commits all over the history."""

    def places(self, partitions: int) -> Mapping[str, int]:
        """Returns, for so many partitions, by which numbers `PLACES` tells topics apart."""
        if self == Topics.MIXED:
            return {"compacted": 1, "plain_from": 2, "in_a_topic": 100}
        plain_from = partitions if self == Topics.TRANSACTIONAL else 0
        return {"compacted": 0, "plain_from": plain_from, "in_a_topic": partitions}


_NAMED: Mapping[Topics, str] = {
    Topics.MIXED: "",
    Topics.ONE: " of one topic",
    Topics.TRANSACTIONAL: " of one transactional topic",
}


@dataclass(frozen=True, slots=True)
class Length:
    """How much history: rounds of five seconds, and partitions that had progress in each of them, one or both ways.

    `groups` have commits on so many partitions (`committed`) each, and commit again after `commit_rounds`.
    """

    rounds: int
    partitions: int
    is_both_ways: bool = False
    groups: int = GROUPS
    committed: int = COMMITTED
    topics: Topics = Topics.MIXED
    commit_rounds: int = COMMIT_ROUNDS

    def __post_init__(self) -> None:
        if self.topics == Topics.TRANSACTIONAL and not self.is_both_ways:
            raise ValueError(
                "a transactional ledger goes both ways: groups of both clusters have commits (x2)"
            )

    @classmethod
    def parsed(cls, text: str) -> "Length":
        """Reads rounds, `x` and partitions; then `x2` where records go both ways, `x1000g100` for groups and their
        partitions, `xone` or `xtransactional` for `Topics`, `xe600` for `commit_rounds`.

        Raises `ValueError` for anything else.
        """
        rounds, partitions, *others = text.split("x")
        length = cls(int(rounds), int(partitions))
        for other in others:
            if other == "2":
                length = replace(length, is_both_ways=True)
            elif of_groups := re.fullmatch(r"(\d+)g(\d+)", other):
                groups, committed = map(int, of_groups.groups())
                length = replace(length, groups=groups, committed=committed)
            elif re.fullmatch(r"e\d+", other):
                length = replace(length, commit_rounds=int(other[1:]))
            else:
                length = replace(length, topics=Topics(other))
        return length

    @property
    def began_ms(self) -> int:
        return BEGAN_MS

    @property
    def end_ms(self) -> int:
        return BEGAN_MS + self.rounds * ROUND_MS

    @property
    def past_hour_ms(self) -> int:
        """The last millisecond of the hour before the one of the middle."""
        return (self.began_ms + self.end_ms) // 2 // HOUR_MS * HOUR_MS - 1

    @property
    def days(self) -> float:
        return self.rounds / ROUNDS_A_DAY

    @property
    def sweep_rounds(self) -> int:
        """Rounds from one read of all groups to the next."""
        return self.commit_rounds * 6 // 5

    @property
    def twice_rounds(self) -> int:
        """In so many rounds each group is seen twice or more, with another commit each time."""
        return self.commit_rounds + self.sweep_rounds

    @property
    def name(self) -> str:
        hours = self.rounds * ROUND_MS / 3_600_000
        told = f"{self.days:g} days" if self.days >= 1 else f"{hours:g} hours"
        topics = _NAMED[self.topics]
        ways = ", both ways" if self.is_both_ways else ""
        groups = f", {self.groups:,} groups" if self.groups != GROUPS else ""
        return f"{told}, {self.partitions:,} partitions{topics}{ways}{groups}"

    @property
    def commits(self) -> int:
        """How many commits the groups of a cluster have."""
        return self.groups * min(self.committed, self.partitions)

    def writes(self, table: str) -> Sequence[_Writes]:
        """What writers append to a table."""
        if table == "checkpoints" and self.topics == Topics.TRANSACTIONAL:
            return _COMMITS_OF_TRANSACTIONAL
        return [
            writes for writes in _FILLED[table] if self.is_both_ways or writes.writer != f"flow:{FLOW_BACK}"
        ]

    def rows(self, table: str, rounds: range) -> int:
        """How many rows these rounds are in a table."""
        if table != "checkpoints":
            return len(rounds) * self.partitions * len(self.writes(table))
        due = self._due_until(rounds.stop) - self._due_until(rounds.start)
        return due * min(self.committed, self.partitions) * len(self.writes(table))

    def _due_until(self, stop: int) -> int:
        """How many reads of a group there are in the rounds before one: in each period as many."""
        period = lcm(self.commit_rounds, self.sweep_rounds)
        of_each = Counter(number % self.commit_rounds for number in range(self.groups))
        due = [
            self.groups if number % self.sweep_rounds == 0 else of_each[number % self.commit_rounds]
            for number in range(period)
        ]
        return stop // period * sum(due) + sum(due[: stop % period])


def write_ledger(path: str, length: Length) -> None:
    """A ledger of that length as maintenance leaves it, less its projections (`long_projections`); `BEGAN_MS` is when
    its first round began."""
    create_tables(path, now_ms=BEGAN_MS - 1)
    recorders = [_claim(f"recorder:{side}", None, side, None) for side in (EAST, WEST)]
    flows = [_claim(f"flow:{FLOW}", FLOW, EAST, WEST)]
    if length.is_both_ways:
        flows.append(_claim(f"flow:{FLOW_BACK}", FLOW_BACK, WEST, EAST))
    for claim in (*flows, *recorders):
        CommitLog(path, "writers").append(str(claim["writer"]), 0, _table("writers", [claim]))
    recent = range(max(length.rounds - _SMALL_FILES, 0) + 1, length.rounds + 1)
    files = [(table, part) for table in FILLED for part in _files(table, length, range(1, recent.start))]
    logs = {table: CommitLog(path, table) for table in FILLED}
    with side_by_side() as processes:
        added = processes.map(partial(_write_file, path, length), *zip(*files, strict=True)) if files else ()
        for (table, part), file in zip(files, added, strict=True):
            of_writers = (_append(writes.writer, part[-1])[1] for writes in length.writes(table))
            logs[table].commit(*of_writers, file)
    for table, log in logs.items():
        for writes in length.writes(table):
            rows = rows_of(table, writes, recent, length, is_sorted=False)
            for number, part in _by_round(_linked(rows, table), recent):
                log.append(writes.writer, number, part)
        DeltaTable(str(log.folder)).create_checkpoint()


def side_by_side() -> ProcessPoolExecutor:
    """Two processes: deltalake's threads do not live on in one that was forked."""
    return ProcessPoolExecutor(max_workers=2, mp_context=get_context("spawn"))


def _files(table: str, length: Length, rounds: range) -> Iterator[range]:
    """The rounds of each file: those of a day, or as many of them as have the rows that a merge writes at most."""
    at_once = max(TARGET_ROWS * len(rounds) // max(length.rows(table, rounds), 1), 1)
    for day in _days(rounds):
        yield from (day[first : first + at_once] for first in range(0, len(day), at_once))


def _write_file(path: str, length: Length, table: str, rounds: range) -> Row:
    """The action that adds rows of rounds as a file that maintenance has made of their appends."""
    parts = (
        _linked(rows_of(table, writes, rounds, length, is_sorted=True), table)
        for writes in length.writes(table)
    )
    return _merged_file(Path(table_uri(path, table)), stored_schema(TABLE_BY_NAME[table]), parts)


def _merged_file(folder: Path, schema: pa.Schema, parts: Iterable[pa.Table]) -> Row:
    """The action that adds rows, sorted as maintenance sorts them, as one file; with the statistics that it gives."""
    name = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
    rows, found = 0, dict[str, list[Any]]()
    with merged_writer(folder / name, schema) as writer:
        for part in parts:
            writer.write_table(part, row_group_size=BATCH_ROWS)
            rows += len(part)
            for column in STATISTICS:
                found.setdefault(column, []).extend(pc.min_max(part[column]).as_py().values())
    stats = {
        "numRecords": rows,
        "minValues": {column: min(values) for column, values in found.items()},
        "maxValues": {column: max(values) for column, values in found.items()},
        "nullCount": dict.fromkeys(STATISTICS, 0),
    }
    file = name, (folder / name).stat().st_size
    return _add(file, max(found["recorded_at_ms"]), is_change=True, stats=stats)


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


def rows_of(
    table: str, writes: _Writes, rounds: Iterable[int], length: Length, *, is_sorted: bool
) -> pa.Table:
    """What a writer appends in rounds: as maintenance sorts it, or in the order of rounds."""
    order = (*writes.order, "round") if is_sorted else ("round", *writes.order)
    with computing(rounds) as connection:
        found = connection.sql(writes.sql, params=params_of(writes.sql, length, writes.values))
        return _whole(found.order(", ".join(order)).to_arrow_table(), table, writes)


def _linked(rows: pa.Table, table: str) -> pa.Table:
    """With a link on the first row of each round."""
    numbered = pa.table({"round": rows["round"], "row": pa.array(range(len(rows)), pa.int64())})
    first = numbered.group_by("round").aggregate([("row", "min")]).sort_by("row_min")
    writer = rows["writer"][0].as_py() if len(rows) else None
    texts = (f"{table} {writer} {number}" for number in first["round"].to_pylist())
    links = pa.array([f"v1.{hashlib.sha256(text.encode()).hexdigest()}" for text in texts], pa.string())
    at = pc.index_in(numbered["row"], value_set=first["row_min"].combine_chunks())
    return rows.append_column(LINK, links.take(at.combine_chunks()))


@contextmanager
def computing(rounds: Iterable[int]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with these as `rounds`; of one thread, for two processes compute at once."""
    with connected() as connection:
        connection.register("rounds", pa.table({"number": pa.array(rounds, pa.int64())}))
        yield connection


def params_of(sql: str, length: Length, more: Mapping[str, str]) -> dict[str, object]:
    """Those that a statement takes."""
    values = {
        "partitions": length.partitions,
        "records": RECORDS_A_ROUND,
        "both_ways": length.is_both_ways,
        "groups": length.groups,
        "committed": length.committed,
        "commit_rounds": length.commit_rounds,
        "sweep_rounds": length.sweep_rounds,
        "rounds": length.rounds,
        **length.topics.places(length.partitions),
        **more,
    }
    return {name: value for name, value in values.items() if f"${name}" in sql}


def _whole(found: pa.Table, table: str, writes: _Writes) -> pa.Table:
    """All columns of the table: what was not computed is empty, or the same in every row."""
    schema = arrow_schema(TABLE_BY_NAME[table])
    at_ms = pc.add(pc.multiply(found["round"], ROUND_MS), BEGAN_MS)
    columns = dict.fromkeys(times_of(table), at_ms) | {name: found[name] for name in found.column_names}
    return with_same_in_all(columns, table, writes, schema)


def times_of(table: str) -> list[str]:
    """The columns that say when the round was."""
    columns = TABLE_BY_NAME[table].columns
    return [column.name for column in columns if column.name.endswith(("_at_ms", "stamp_ms"))]


def with_same_in_all(
    columns: Mapping[str, pa.ChunkedArray], table: str, writes: _Writes, schema: pa.Schema
) -> pa.Table:
    """Rows of a schema by their columns, and what a writer says in all rows of a table; what else lacks is empty."""
    of_table = {column.name: empty(column) for column in TABLE_BY_NAME[table].columns}
    same = {**of_table, "writer": writes.writer, "writer_epoch": 1, **writes.same}
    rows = len(columns["round"])
    lacking = {
        name: pa.repeat(pa.scalar(value, schema.field(name).type), rows)
        for name, value in same.items()
        if name not in columns
    }
    return pa.table({**columns, **lacking}).select(schema.names).cast(schema)


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
        """The action that adds rows as one file, sorted as maintenance sorts them."""
        order = (*SORTED_BY[self.table], "writer", "writer_epoch", "round")
        ordered = rows.sort_by([(name, "ascending") for name in order])
        return _merged_file(self.folder, rows.schema, [ordered])

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
    rows = rows_of(table, _FILLED[table][0], [number], length, is_sorted=False)
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
