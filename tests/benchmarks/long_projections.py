"""Projections of generated ledgers, written as maintenance leaves them: without reading the rows that they stand for.

What stands for the rows of an hour follows from its first and its last round; larger blocks are made of smaller ones as
the program makes them. A test compares both with what it makes of the rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from ledger.clock import HOUR_MS
from ledger.facts.last_rows import LastPlace, Noted
from ledger.facts.tables import CHECKPOINTS, HIGH_WATERMARKS, OFFSET_SYNCS
from ledger.store import projections
from ledger.store.delta_tables import opened_at, table_id, table_uri
from ledger.store.projections import Block, Projection, due_merge, merged_block, new_name
from ledger.store.spans import SCHEMA, merged_spans
from tests.benchmarks.long_ledgers import (
    BEGAN_MS,
    FILLED,
    PLACES,
    ROUND_MS,
    CommitLog,
    Length,
    Row,
    computing,
    params_of,
    rows_of,
    side_by_side,
    times_of,
    with_same_in_all,
)

_ROWS_AT_ONCE = 1_000_000
"""Blocks are computed together whose last rounds have so many rows."""
# Of each group and partition the last two commits are kept.
_LAST_TWO = """
    select f.*, p.part
    from found as f
    inner join parts as p on f.round between p.first_round and p.last_round
    qualify row_number() over (
        partition by p.part, f.cluster, f.group_id, f.topic, f.partition
        order by f.round desc
    ) <= 2
"""
# What stands for the offset syncs from one round to another of an hour; an end of it is `first_round` to `round`.
_SPANS = f"""{PLACES},

    spanned as (
        select
            e.part,
            e.hour,
            e.first_round,
            e.round,
            l.place,
            l.topic as source_topic,
            l.topic || '-' || $source_side as source_topic_id,
            l.partition as source_partition,
            l.topic as target_topic,
            l.topic || '-' || $target_side as target_topic_id,
            l.partition as target_partition,
            f.source_start,
            l.source_end,
            f.target_start as span_target_start,
            l.target_end,
            f.first_sequence,
            e.round - e.first_round + 1 as rows,
            l.copied * (e.round - e.first_round + 1) as records,
            l.bytes * (e.round - e.first_round + 1) as bytes,
            5 * (e.round - e.first_round + 1) as raw_batches,
            $both_ways and e.round > 1 as has_mirror_writes,
            l.topic not in ('compacted', 'transactional') and not ($both_ways and e.round > 1) as is_exact,
            case l.topic
                when 'compacted' then f.own_start + ($records - 1) // 50 * 50 + 35
                else f.source_start
            end as begins_by,
            case when e.round = e.first_round then e.round * 7919 % 4294967296 end as checksum
        from ends as e
        inner join places as l on l.round = e.round
        inner join places as f on f.round = e.first_round and f.place = l.place
    ),

    gapped as (
        select
            *,
            source_end - source_start - records as not_copied,
            least(begins_by - source_start, source_end - source_start - records) as first_gap
        from spanned
    )

    select
        * exclude (place, has_mirror_writes, begins_by, not_copied, first_gap),
        case when is_exact then span_target_start else target_end - records end as target_start,
        case
            when is_exact then []
            else list_filter(
                [
                    {{'source_start': begins_by - first_gap, 'source_end': begins_by, 'cause': 'compacted'}},
                    {{
                        'source_start': begins_by,
                        'source_end': begins_by + not_copied - first_gap,
                        'cause': 'filtered'
                    }}
                ],
                lambda gap: gap.source_start < gap.source_end
            ) || case
                when has_mirror_writes
                    then [{{
                        'source_start': begins_by + not_copied - first_gap,
                        'source_end': begins_by + not_copied - first_gap,
                        'cause': 'mirror_write'
                    }}]
                else []
            end
        end as gaps
    from gapped
"""


def project(path: str, length: Length, *, now_ms: int) -> None:
    """Write the projections of a ledger that `write_ledger` wrote, as of a time: what is behind them is not worth a
    block."""
    with side_by_side() as processes:
        list(processes.map(partial(project_table, path, length, now_ms), FILLED))


def project_table(path: str, length: Length, now_ms: int, table: str) -> None:
    """The same for one table."""
    projecting = _Projecting(path, table, length, now_ms)
    rounds = list(parts(table, length))
    at_once = max(_ROWS_AT_ONCE // length.rows(table, range(length.twice_rounds)), 1)
    for first in range(0, len(rounds), at_once):
        together = rounds[first : first + at_once]
        for part, rows in zip(together, _rows(table, together, length), strict=True):
            projecting.add(part, rows)
    if projecting.chain:
        DeltaTable(str(projecting.log.folder)).create_checkpoint()


def parts(table: str, length: Length) -> Iterator[range]:
    """The rounds of each first block: whole hours, as few as have enough rows; of the last hour what is over of it."""
    begun = 1
    for _, hour in _hours(range(1, length.rounds + 1)):
        if length.rows(table, range(begun, hour.stop)) >= projections.LEAST_ROWS:
            yield range(begun, hour.stop)
            begun = hour.stop


def _hours(rounds: range) -> Iterator[tuple[int, range]]:
    """The rounds of each hour in which they were recorded."""
    first = rounds.start
    while first < rounds.stop:
        hour = (BEGAN_MS + first * ROUND_MS) // HOUR_MS
        stop = min(-(-((hour + 1) * HOUR_MS - BEGAN_MS) // ROUND_MS), rounds.stop)
        yield hour, range(first, stop)
        first = stop


@dataclass
class _Projecting:
    """The projection of a table, as far as it was made: the blocks that are active, with their rows."""

    path: str
    table: str
    length: Length
    now_ms: int

    def __post_init__(self) -> None:
        self.chain: list[tuple[Block, pa.Table]] = []
        self.schema = Projection(self.path, self.table).schema
        DeltaTable.create(table_uri(self.path, f"projections/{self.table}"), self.schema)
        self.log = CommitLog(self.path, f"projections/{self.table}")
        self.table_id = table_id(opened_at(table_uri(self.path, self.table)))

    def add(self, part: range, rows: pa.Table) -> None:
        """Make the block of rounds, which has these rows, and larger ones where it makes enough."""
        before = self.chain[-1][0] if self.chain else None
        last_ms = BEGAN_MS + part[-1] * ROUND_MS
        writers = [one.writer for one in self.length.writes(self.table)]
        until = {writer: LastPlace(1, part[-1], last_ms) for writer in writers}
        noted = Noted.of(self.length.rows(self.table, range(1, part.stop)), until, now_ms=self.now_ms)
        name = new_name(noted.rows)
        appended_ms = dict.fromkeys(writers, last_ms)
        block = Block(Path(name), before.last if before else None, name, 0, self.table_id, noted, appended_ms)
        self._put(block, rows, ())
        while self._merge():
            pass

    def _merge(self) -> bool:
        parts = due_merge([block for block, _ in self.chain], self.table)
        if not parts:
            return False
        rows = self.chain[-1][1]  # each block has the last rows of all
        if self.table == OFFSET_SYNCS.name:
            rows = merged_spans(pa.concat_tables(rows for _, rows in self.chain[-len(parts) :]))
        self._put(merged_block(parts), rows, parts)
        return True

    def _put(self, block: Block, rows: pa.Table, superseded: Sequence[Block]) -> None:
        place = self.log.folder / block.name
        block.write(place, self.schema, [rows])
        add: Row = {
            "path": block.name,
            "partitionValues": {},
            "size": place.stat().st_size,
            "modificationTime": self.now_ms,
            "dataChange": True,
            "stats": "{}",
        }
        removed = (
            {"path": one.name, "deletionTimestamp": self.now_ms, "dataChange": True, "size": 0}
            for one in superseded
        )
        self.log.commit({"add": add}, *({"remove": one} for one in removed))
        del self.chain[len(self.chain) - len(superseded) :]
        self.chain.append((replace(block, kept=len(rows)), rows))


def _rows(table: str, together: Sequence[range], length: Length) -> list[pa.Table]:
    """What the block of each of these parts has."""
    if table == OFFSET_SYNCS.name:
        rows = spans(together, length)
    elif table == HIGH_WATERMARKS.name:
        rows = _of_parts(table, {number: part[-1:] for number, part in enumerate(together)}, length)
    else:
        # a part may be shorter: a block has the last rows of all before it, too
        telling = {
            number: range(max(part.stop - length.twice_rounds, 1), part.stop)
            for number, part in enumerate(together)
        }
        rows = _of_parts(table, telling, length)
    of_each = [rows.filter(pc.equal(rows["part"], number)) for number in range(len(together))]
    return [found.drop_columns("part") for found in of_each]


def _of_parts(table: str, telling: Mapping[int, range], length: Length) -> pa.Table:
    """The rows of these rounds of each part that are kept."""
    parts = [
        {"part": part, "first_round": rounds[0], "last_round": rounds[-1]} for part, rounds in telling.items()
    ]
    rounds = sorted({number for of_part in telling.values() for number in of_part})
    found = pa.concat_tables(
        rows_of(table, writes, rounds, length, is_sorted=False) for writes in length.writes(table)
    )
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        connection.register("parts", pa.Table.from_pylist(parts))
        connection.register("found", found)
        sql = _LAST_TWO if table == CHECKPOINTS.name else _LAST_TWO.partition("qualify")[0]
        rows = connection.sql(sql).to_arrow_table()
    return rows.cast(pa.schema([*found.schema, pa.field("part", pa.int64())]))


def spans(together: Sequence[range], length: Length) -> pa.Table:
    """What stands for the offset syncs of parts, each by its number (`part`): of each hour and map the last one, and
    those before it together."""
    ends = pa.Table.from_pylist(
        [
            {"part": part, "hour": hour, "first_round": rounds[0], "round": rounds[-1]}
            for part, of_part in enumerate(together)
            for hour, of_hour in _hours(of_part)
            for rounds in (of_hour[:-1], of_hour[-1:])
            if rounds
        ]
    )
    schema = pa.schema([*SCHEMA, pa.field("part", pa.int64())])
    rounds = sorted({*ends["first_round"].to_pylist(), *ends["round"].to_pylist()})
    found = []
    with computing(rounds) as connection:
        connection.register("ends", ends)
        for writes in length.writes(OFFSET_SYNCS.name):
            params = params_of(_SPANS, length, writes.values)
            rows = connection.sql(_SPANS, params=params).to_arrow_table()
            columns = {name: rows[name] for name in rows.column_names}
            first_ms, last_ms = (
                pc.add(pc.multiply(rows[name], ROUND_MS), BEGAN_MS) for name in ("first_round", "round")
            )
            columns |= dict.fromkeys(times_of(OFFSET_SYNCS.name), last_ms)
            columns |= {"first_timestamp_ms": first_ms, "first_recorded_at_ms": first_ms}
            found.append(with_same_in_all(columns, OFFSET_SYNCS.name, writes, schema))
    return pa.concat_tables(found)
