"""What stays of a period that leaves answers as all its rows do, over histories. MIRROR_LEDGER_SEED repeats a run."""

import random
import tempfile
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.facts.tables import TABLE_BY_NAME, Row
from ledger.store import catalog
from ledger.store.carried import BESIDE, LEAVING, carried
from ledger.store.catalog import Value
from ledger.store.delta_tables import arrow_schema
from ledger.store.merging import TableFolder
from ledger.store.sql import run_queries
from tests.support.aged_lives import LIVES, SYNCS, Instead, aged_snapshot
from tests.support.group_cases import SIDES
from tests.support.group_logs import WORLDS, other_than
from tests.support.histories import examples
from tests.support.ledger_rows import row
from tests.support.measured_flows import measured

pytestmark = pytest.mark.long

WORLDS_OF_LEDGERS = st.lists(
    st.tuples(st.integers(0, 2**32), st.sampled_from(sorted(WORLDS))), min_size=LIVES, max_size=LIVES
)
BETWEEN = (
    "offset_translation",
    "group_positions",
    "repeated_records",
    "consumed_not_copied",
    "one_sided_records",
)
OF_FLOWS = ("flow_status", "flow_positions", "flow_losses", "flow_recording")
AUDITS = tuple(
    name
    for name, query in catalog.queries().items()
    if query.is_audit and name not in ("audit_l4_append_once", "audit_l8_nothing_missing")
)
"""Those of stamps are broken from the beginning: several histories make one ledger."""


def table_of(at: Instead, name: str) -> pa.Table:
    relation = at.relation(name)
    assert isinstance(relation, pa.Table)
    return relation


def place(one: Row) -> tuple[int, int]:
    return one["writer_epoch"], one["round"]


KEYS = {
    SYNCS: ("flow", "source_topic", "source_topic_id", "source_partition"),
    "checkpoints": ("cluster", "group_id", "topic", "partition"),
    "share_offsets": ("cluster", "group_id", "topic", "partition"),
    "high_watermarks": ("cluster", "topic", "topic_id", "partition"),
    "writers": ("writer",),
}


def split(at: Instead, until_ms: int) -> dict[str, tuple[pa.Table, pa.Table]]:
    """Of each table the rows from before a time, and those since; where a clock went back across it, all are since.

    So are those that were recorded before 1970.
    """
    found = {}
    for name in LEAVING:
        rows = table_of(at, name)
        by_key: dict[tuple[object, ...], list[Row]] = {}
        for one in rows.to_pylist():
            by_key.setdefault(tuple(one[key] for key in KEYS[name]), []).append(one)
        parts: tuple[list[Row], list[Row]] = ([], [])
        for same in by_key.values():
            before = [one for one in same if 0 <= one["recorded_at_ms"] < until_ms]
            since = [one for one in same if not 0 <= one["recorded_at_ms"] < until_ms]
            is_closed = max(map(place, before), default=(-1, 0)) < min(map(place, since), default=(2**40, 0))
            parts[0].extend(before if is_closed else [])
            parts[1].extend(since if is_closed else same)
        before_all, since_all = (pa.Table.from_pylist(part, schema=rows.schema) for part in parts)
        found[name] = before_all, since_all
    return found


def without_period(at: Instead, until_ms: int, *, again: int | None = None) -> Instead:
    """The same after what was recorded before a time has left; `again`: and once more at another one."""
    parts = split(at, until_ms)
    beside: dict[str, pa.Table] = {}
    tables = dict(at.tables)
    for name in LEAVING:
        before, since = parts[name]
        with tempfile.TemporaryDirectory() as folder:
            pq.write_table(before, f"{folder}/rows.parquet")
            with carried(TableFolder(folder), name, ["rows.parquet"], beside) as stay:
                written = [f"{folder}/{file.path}" for file in stay.written("carried-000001")]
                if name in BESIDE:
                    beside[name] = stay.rows
                count = stay.count
            kept = [pq.read_table(file, schema=since.schema) for file in written]
        tables[name] = pa.concat_tables([since.schema.empty_table(), *kept, since])
        assert sum(map(len, kept)) == count <= len(before)
    return (
        Instead(at.snapshot, tables) if again is None else without_period(Instead(at.snapshot, tables), again)
    )


def answers(at: Instead, names: Sequence[str], params: Mapping[str, Value]) -> Mapping[str, list[Row]]:
    return {
        name: found.to_pylist()
        for name, found in run_queries(list(map(catalog.query, names)), params, at).items()
    }


def times(at: Instead) -> list[int]:
    return sorted({at_ms for name in LEAVING for at_ms in table_of(at, name)["recorded_at_ms"].to_pylist()})


def require_same(worlds: list[tuple[int, str]], asked: tuple[str, ...], of_flows: tuple[str, ...]) -> None:
    chance = random.Random(worlds[0][0])
    at = aged_snapshot(worlds, chance)
    first, second = sorted(chance.choices(times(at), k=2))
    later = without_period(at, first, again=second if chance.random() < 0.5 else None)
    questions: list[tuple[Sequence[str], dict[str, Value]]] = [(AUDITS, {})]
    for here in SIDES:
        questions.append((asked, {"from_cluster": here, "to_cluster": other_than(here)}))
        questions.append((["cluster_groups"], {"cluster": here}))
    for flow in sorted(set(table_of(at, SYNCS)["flow"].to_pylist())):
        questions.append((of_flows, {"flow": flow}))
    for names, params in questions:
        assert answers(later, names, params) == answers(at, names, params), (worlds, params)


@settings(deadline=None, max_examples=examples(check=1, soak=60))
@given(WORLDS_OF_LEDGERS)
def test_answers_are_what_they_were_before_a_period_left(worlds: list[tuple[int, str]]) -> None:
    require_same(worlds, BETWEEN, OF_FLOWS)


SINCE = ("behind_since_ms", "lag_ms", "lag_ms_bound", "open_since_ms")
OF_LOSS = (
    *(
        "flow",
        "source_topic",
        "source_topic_id",
        "source_partition",
        "last_stable",
        "high_watermark",
        "known_end",
    ),
    *("map_end", "settled_records", "records_at_risk", "ends_read_at_ms", "status"),
)


@pytest.mark.parametrize("seed", examples(check=[1, 3], soak=range(200)))
def test_lag_is_what_it_was_before_a_period_left(seed: int) -> None:
    chance = random.Random(seed)
    at = measured(chance)
    until_ms = chance.choice(times(at))
    later = without_period(at, until_ms)
    for flow in ("forth", "back"):
        asked: dict[str, Value] = {"flow": flow, "fresh_since_ms": 0}
        found = [answers(one, ["replication_lag"], asked)["replication_lag"] for one in (at, later)]
        for before, after in zip(*found, strict=True):
            require_same_lag(before, after, until_ms)
    for here in SIDES:
        sides: dict[str, Value] = {"from_cluster": here, "to_cluster": other_than(here), "at_ms": 10**10}
        lost = [answers(one, ["failover_loss"], sides)["failover_loss"] for one in (at, later)]
        assert [[one[name] for name in OF_LOSS] for one in lost[0]] == [
            [one[name] for name in OF_LOSS] for one in lost[1]
        ], seed


def require_same_lag(before: Row, after: Row, until_ms: int) -> None:
    """Since when it is so may lie in the period: then it is said that it was so at least since later."""
    assert {**before, **dict.fromkeys(SINCE)} == {**after, **dict.fromkeys(SINCE)}
    began = before["open_since_ms"], after["open_since_ms"]
    assert began[0] == began[1] or (began[0] < until_ms and began[0] <= began[1])
    if [before[name] for name in SINCE[:3]] != [after[name] for name in SINCE[:3]]:
        assert before["behind_since_ms"] < until_ms
        assert after["lag_ms_bound"] in (None, "at_least")
        assert (after["lag_ms"] or 0) <= before["lag_ms"]


def copies(rounds: int, *, at_ms: int = 1_000) -> list[Row]:
    """Of one partition, round after round; every other one ends with a marker."""
    return [
        row(
            SYNCS,
            writer="flow:f",
            writer_epoch=1,
            round=number,
            recorded_at_ms=at_ms + number,
            flow="f",
            source_cluster="east",
            target_cluster="west",
            source_topic="t",
            source_topic_id="T",
            target_topic="t",
            target_topic_id="X",
            source_leader_epoch=3,
            producer_id=1,
            source_start=number * 10,
            source_end=number * 10 + 10,
            target_start=number * 10 - number // 2,
            target_end=number * 10 + 10 - number // 2 - number % 2,
            gaps=[{"source_start": number * 10 + 9, "source_end": number * 10 + 10, "cause": "control"}]
            * (number % 2),
            kind="copied",
            records=10 - number % 2,
            bytes=100,
            checksum=number,
            raw_batches=1,
        )
        for number in range(rounds)
    ]


def stay_of(rows: list[Row], **beside: pa.Table) -> list[Row]:
    schema = arrow_schema(TABLE_BY_NAME[SYNCS])
    shown = {name: beside.get(name, arrow_schema(TABLE_BY_NAME[name]).empty_table()) for name in BESIDE}
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), f"{folder}/rows.parquet")
        with carried(TableFolder(folder), SYNCS, ["rows.parquet"], shown) as stay:
            found: list[Row] = stay.rows.to_pylist()
    return sorted(found, key=place)


def test_copies_that_follow_each_other_become_one_with_all_their_gaps() -> None:
    rows = copies(6)
    first, middle, last = stay_of(rows)
    assert (first, last) == (rows[0], rows[5])
    assert (middle["source_start"], middle["source_end"]) == (10, 50)
    assert (middle["target_start"], middle["target_end"]) == (rows[1]["target_start"], rows[4]["target_end"])
    assert [gap["source_start"] for gap in middle["gaps"]] == [19, 39]
    assert (middle["records"], middle["bytes"], middle["round"], middle["checksum"]) == (38, 400, 4, None)


def other(rows: list[Row], **changed: object) -> list[Row]:
    return [*rows[:3], *({**one, **changed} for one in rows[3:])]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(other(copies(6), source_leader_epoch=4), id="leader epoch"),
        pytest.param(other(copies(6), producer_id=2), id="producer id"),
        pytest.param(other(copies(6), target_topic_id="Y"), id="target"),
        pytest.param([*copies(3), *copies(6, at_ms=90_000_000)[3:]], id="day"),
        pytest.param(
            [
                *copies(3),
                *(
                    {**one, "target_start": one["target_start"] + 5, "target_end": one["target_end"] + 5}
                    for one in copies(6)[3:]
                ),
            ],
            id="records of others",
        ),
        pytest.param([*copies(3), {**copies(4)[3], "recovered": True}, *copies(6)[4:]], id="found again"),
        pytest.param(
            [
                *copies(3),
                {
                    **copies(3)[2],
                    "source_start": 30,
                    "target_start": 29,
                    "target_end": 29,
                    "records": 0,
                    "gaps": [],
                    "kind": "unpaired",
                    "cause": "cut",
                },
                *copies(6)[3:],
            ],
            id="row of another kind between",
        ),
    ],
)
def test_rows_that_differ_stay_apart(rows: list[Row]) -> None:
    found = stay_of(rows)
    assert not [one for one in found if one["source_start"] < 30 < one["source_end"]]


def test_a_row_ends_where_ends_were_read_and_what_was_copied_since_stays() -> None:
    read = row("high_watermarks", cluster="east", topic="t", topic_id="T", partition=0, read_at_ms=1_003)
    ends = pa.Table.from_pylist([read], schema=arrow_schema(TABLE_BY_NAME["high_watermarks"]))
    rounds = [one["round"] for one in stay_of(copies(9), high_watermarks=ends)]
    assert rounds == [0, 3, 4, 5, 6, 7, 8]
    sign = row("writers", writer="recorder:east", event="alive", source_cluster="east", recorded_at_ms=1_006)
    signs = pa.Table.from_pylist([sign], schema=arrow_schema(TABLE_BY_NAME["writers"]))
    rounds = [one["round"] for one in stay_of(copies(9), high_watermarks=ends, writers=signs)]
    assert rounds == [0, 3, 6, 7, 8]
