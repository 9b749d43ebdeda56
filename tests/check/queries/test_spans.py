"""Spans, and rows that tell what is last, answer what all rows answer. MIRROR_LEDGER_SEED repeats a run."""

import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.clock import HOUR_MS
from ledger.facts.tables import TABLE_BY_NAME, Row
from ledger.offsets.between_clusters import one_commit
from ledger.store import catalog, sql
from ledger.store import spans as spans_module
from ledger.store.delta_tables import arrow_schema
from ledger.store.narrowed import QUESTIONS, answered_by_readings
from ledger.store.spans import (
    BETWEEN,
    OF_GROUPS,
    SCHEMA,
    Question,
    in_whole_spans,
    merged_spans,
    spans_of_rows,
    touched,
)
from ledger.store.sql import Relation, run_queries, run_query, sql_file
from tests.support.aged_lives import LIVES, SYNCS, Instead, aged_snapshot
from tests.support.group_cases import SIDES
from tests.support.group_logs import WORLDS, other_than
from tests.support.histories import examples
from tests.support.ledger_rows import row
from tests.support.measured_flows import EMPTY, measured


def lives_of(worlds: Sequence[str]) -> st.SearchStrategy[list[tuple[int, str]]]:
    """Seeds and worlds of the lives of a ledger; the first example has several of them, too."""

    def drawn(seed: int) -> list[tuple[int, str]]:
        chance = random.Random(seed)
        return [(chance.randrange(2**32), chance.choice(worlds)) for _ in range(LIVES)]

    return st.integers(0, 2**32).map(drawn)


WORLDS_OF_LEDGERS, PAIRS = lives_of(sorted(WORLDS)), lives_of(["one_way", "pair"])
GROUPS = "offset_translation"
OF_A_FLOW = ("flow_status", "flow_positions", "flow_losses")
BETWEEN_CLUSTERS = examples(
    check=(GROUPS, "one_sided_records"),
    soak=(GROUPS, "group_positions", "repeated_records", "consumed_not_copied", "one_sided_records"),
)
ASKED_AT_ONCE = examples(check=1, soak=2)
"""So many sides, or flows, of a ledger are asked."""


def spans_of(at: Instead, chance: random.Random) -> pa.Table:
    """Made at several times, of which some were merged."""
    syncs = at.tables[SYNCS]
    rounds = sorted({found["round"] for found in syncs.to_pylist()})
    bounds = [*sorted(chance.sample(rounds, min(len(rounds), chance.choice([1, 2, 6])))), rounds[-1] + 1]
    parts = []
    for first, stop in zip([-1, *bounds], bounds, strict=False):
        numbers = [first <= found < stop for found in syncs["round"].to_pylist()]
        part = spans_of_rows(syncs.filter(pa.array(numbers, pa.bool_())))
        parts.append(merged_spans(part) if chance.random() < 0.3 else part)
    spans = pa.concat_tables(parts)
    assert sum(spans["rows"].to_pylist()) == syncs.num_rows
    return merged_spans(spans) if chance.random() < 0.3 else spans


def shown_for(
    question: Question,
    at: Instead,
    spans: pa.Table,
    chance: random.Random,
    variables: Mapping[str, str],
    overrides: Mapping[str, Relation] = MappingProxyType({}),
) -> Mapping[str, Relation]:
    """What stands in for tables: spans that the question touches are opened at once, or their parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spans_module, "MOST_OPENED", chance.choice([0, spans_module.MOST_OPENED]))
        found = touched(question, at, spans, lambda _times: at.tables[SYNCS], variables, overrides)
    assert found is not None
    return {**found.shown, **overrides}


def require_between(worlds: list[tuple[int, str]], *, is_asked_alone: bool = False) -> None:
    """`is_asked_alone`: a group that is asked about alone continues where it does among all."""
    chance = random.Random(worlds[0][0])
    at = aged_snapshot(worlds, chance)
    spans = spans_of(at, chance)
    for here in chance.sample(SIDES, ASKED_AT_ONCE):
        clusters = here, other_than(here)
        sides = dict(zip(("here", "there"), clusters, strict=True))
        params = dict(zip(("from_cluster", "to_cluster"), clusters, strict=True))
        by_all = run_queries(queries(BETWEEN_CLUSTERS), params, at)
        for asked in (BETWEEN, OF_GROUPS):
            names = [name for name in BETWEEN_CLUSTERS if QUESTIONS[name] is asked]
            by_spans = run_queries(queries(names), params, at, shown_for(asked, at, spans, chance, sides))
            for name in names:
                assert by_spans[name].equals(by_all[name]), (worlds, here, name)
        if is_asked_alone:
            every, commits = rows_of(by_all[GROUPS]), at.relation("checkpoints")
            assert isinstance(commits, pa.Table)
            group = chance.choice(sorted({found["group_id"] for found in every} - {None} or {"nobody"}))
            of_group = {"checkpoints": commits.filter(pc.equal(commits["group_id"], group))}
            alone = [found for found in answers(at, GROUPS, params, of_group) if found["group_id"] == group]
            assert alone == [found for found in every if found["group_id"] == group], (worlds, here, group)


def queries(names: Sequence[str]) -> list[catalog.Query]:
    return [catalog.query(name) for name in names]


def rows_of(relation: Relation) -> list[Row]:
    assert isinstance(relation, pa.Table)
    found: list[Row] = relation.to_pylist()
    return found


def answers(
    at: Instead, name: str, params: Mapping[str, catalog.Value], shown: Mapping[str, Relation] | None = None
) -> list[Row]:
    return rows_of(run_query(catalog.query(name), params, at, shown or {}))


@settings(deadline=None, max_examples=examples(check=1, soak=30))
@given(WORLDS_OF_LEDGERS)
def test_a_group_continues_at_the_other_cluster_where_all_offset_syncs_say(
    worlds: list[tuple[int, str]],
) -> None:
    require_between(worlds, is_asked_alone=True)


@settings(deadline=None, max_examples=examples(check=1, soak=30))
@given(PAIRS)
def test_so_it_does_where_at_most_one_flow_goes_each_way(worlds: list[tuple[int, str]]) -> None:
    require_between(worlds)


@settings(deadline=None, max_examples=examples(check=1, soak=30))
@given(WORLDS_OF_LEDGERS)
def test_one_offset_that_is_asked_of_nobody_is_answered_by_what_its_partition_touches(
    worlds: list[tuple[int, str]],
) -> None:
    chance = random.Random(worlds[0][0])
    at = aged_snapshot(worlds, chance)
    spans = spans_of(at, chance)
    asked = 0
    for here in chance.sample(SIDES, ASKED_AT_ONCE):
        clusters = here, other_than(here)
        sides = dict(zip(("here", "there"), clusters, strict=True))
        params = dict(zip(("from_cluster", "to_cluster"), clusters, strict=True))
        committed = [one for one in rows_of(at.relation("checkpoints")) if one["cluster"] == here]
        for one in chance.sample(committed, min(len(committed), examples(check=1, soak=6))):
            topic, partition = str(one["topic"]), int(one["partition"])
            commits = one_commit(at, here, topic=topic, partition=partition, offset=chance.randrange(60))
            override = {"checkpoints": commits}
            by_spans, by_all = (
                [
                    row
                    for row in answers(at, GROUPS, params, shown)
                    if (row["group_id"], row["source_topic"], row["source_partition"])
                    == (None, topic, partition)
                ]
                for shown in (shown_for(OF_GROUPS, at, spans, chance, sides, override), override)
            )
            assert by_spans == by_all, (worlds, here, topic, partition)
            asked += len(by_all)
    assert asked or not committed


@settings(deadline=None, max_examples=examples(check=1, soak=30))
@given(WORLDS_OF_LEDGERS)
def test_what_the_rows_of_a_flow_come_to_is_what_all_offset_syncs_say(
    worlds: list[tuple[int, str]],
) -> None:
    chance = random.Random(worlds[0][0])
    at = aged_snapshot(worlds, chance)
    spans = spans_of(at, chance)
    flows = sorted({str(found["flow"]) for found in rows_of(at.tables[SYNCS])})
    for flow in chance.sample(flows, min(examples(check=2, soak=len(flows)), len(flows))):
        params: dict[str, catalog.Value] = {"flow": flow}
        whole = in_whole_spans(spans, lambda _times: at.tables[SYNCS])
        assert whole is not None, worlds
        by_spans, by_all = (run_queries(queries(OF_A_FLOW), params, at, rows) for rows in (whole, {}))
        for name in OF_A_FLOW:
            assert by_spans[name].equals(by_all[name]), (worlds, name, flow)


def test_spans_are_few_and_only_those_around_the_places_are_looked_into() -> None:
    """Hours both ways, with gaps in every round: neither side's offsets follow each other at the other."""
    rows = list(both_ways(rounds=4_000))
    facts = pa.Table.from_pylist(rows, schema=arrow_schema(TABLE_BY_NAME[SYNCS]))
    spans = spans_of_rows(facts)
    assert len(spans) < len(rows) / 100
    end = int(str(rows[-1]["source_end"]))
    commits = [commit("near", end - 30), commit("far", 5 * end // 8)]
    at = Instead(
        EMPTY,
        {
            SYNCS: facts,
            "checkpoints": pa.Table.from_pylist(commits, schema=arrow_schema(TABLE_BY_NAME["checkpoints"])),
            "writers": pa.Table.from_pylist(claims(), schema=arrow_schema(TABLE_BY_NAME["writers"])),
        },
    )
    params: dict[str, catalog.Value] = {"from_cluster": "east", "to_cluster": "west"}
    expected = answers(at, GROUPS, params)
    for made in (spans, merged_spans(spans)):
        found = touched(OF_GROUPS, at, made, lambda _times: facts, {"here": "east", "there": "west"}, {})
        assert found is not None
        assert len(rows_of(found.shown[SYNCS])) < len(rows) / 2
        assert answers(at, GROUPS, params, found.shown) == expected
    assert [one["status"] for one in answers(at, GROUPS, params)] == ["exact", "exact"]


@pytest.mark.parametrize(("forked", "left"), [((), {0, 2}), ((1,), {0, 1, 2})], ids=["one", "several"])
def test_partitions_that_nothing_connects_with_the_one_that_is_asked_about_are_left_out(
    forked: tuple[int, ...], left: set[int]
) -> None:
    """Partition 0 comes from partition 2 of a third cluster; where 1 continues in another topic there, all count."""
    rows = [one_sync("forth", ("east", "t", number), ("west", "t", number)) for number in range(2)]
    rows += [one_sync("other", ("east", "t", number), ("west", "u", number)) for number in forked]
    rows.append(one_sync("first", ("north", "t", 2), ("east", "t", 0)))
    schema = arrow_schema(TABLE_BY_NAME[SYNCS])
    facts = pa.Table.from_pylist(rows, schema=schema)
    commits = pa.Table.from_pylist(
        [{**commit("", 5), "group_id": None}], schema=arrow_schema(TABLE_BY_NAME["checkpoints"])
    )
    at = Instead(EMPTY, {SYNCS: facts, "checkpoints": commits})
    sides = {"here": "east", "there": "west"}
    found = touched(OF_GROUPS, at, spans_of_rows(facts), lambda _times: facts, sides, {})
    assert found is not None
    assert {one["source_partition"] for one in rows_of(found.shown[SYNCS])} == left


def one_sync(flow: str, source: tuple[str, str, int], target: tuple[str, str, int]) -> Row:
    sides = {
        f"{side}_{name}": value
        for side, (cluster, topic, partition) in (("source", source), ("target", target))
        for name, value in (
            *(("cluster", cluster), ("topic", topic), ("topic_id", f"{topic}-{cluster}")),
            *(("partition", partition), ("start", 0), ("end", 10)),
        )
    }
    stamp = {"writer": f"flow:{flow}", "writer_epoch": 1, "round": 1, "recorded_at_ms": 5_000}
    return row(SYNCS, **stamp, **sides, flow=flow, gaps=[], kind="copied", records=10, bytes=1_000)


def test_offset_syncs_of_a_span_are_told_apart_where_an_answer_goes_by_each() -> None:
    """Of each topic an answer is another one where some of its spans are not opened."""
    syncs = [
        {**sync, **{f"{side}_topic": made.__name__ for side in ("source", "target")}}
        for made in (in_doubt, taken_back, begun_late, read_there, of_nobody, of_one_origin)
        for sync in made()
    ]
    tables = {
        SYNCS: syncs,
        "checkpoints": [
            *(
                commit("g", offset, topic="begun_late", at_ms=at_ms)
                for offset, at_ms in ((11, 2_500_000), (12, 3_000_000))
            ),
            commit("g", 0, topic="read_there"),
            commit("g", 9, topic="read_there", cluster="west"),
            commit("g", 0, topic="of_nobody"),
            commit("g", 7, topic="of_one_origin"),
        ],
        "writers": claims(),
        "high_watermarks": [high_watermark("begun_late", "east", 20), high_watermark("of_nobody", "west", 2)],
    }
    at = Instead(
        EMPTY,
        {
            name: pa.Table.from_pylist(rows, schema=arrow_schema(TABLE_BY_NAME[name]))
            for name, rows in tables.items()
        },
    )
    spans = spans_of_rows(at.tables[SYNCS])
    sides, clusters = {"here": "east", "there": "west"}, {"from_cluster": "east", "to_cluster": "west"}
    of_groups = (GROUPS, "repeated_records", "consumed_not_copied")
    by_all = run_queries(queries(("one_sided_records", *of_groups)), clusters, at)
    asked: list[tuple[Question, tuple[str, ...], Mapping[str, str], Mapping[str, catalog.Value]]] = [
        (BETWEEN, ("one_sided_records",), sides, clusters),
        (OF_GROUPS, of_groups, sides, clusters),
    ]
    for question, names, variables, params in asked:
        found = touched(question, at, spans, lambda _times: at.tables[SYNCS], variables, {})
        assert found is not None
        by_spans = run_queries(queries(names), params, at, found.shown)
        for name in names:
            assert by_all[name].num_rows
            assert by_spans[name].to_pylist() == by_all[name].to_pylist(), name


def in_doubt() -> Iterator[Row]:
    """The way back found a lost end there five minutes before the second copy was recorded, and not the first one."""
    yield part("forth", 1, (0, 3), 0, at_ms=1_000_000)
    yield part("forth", 2, (3, 4), 3, at_ms=2_000_000)
    yield part("forth", 3, (4, 5), 4, at_ms=2_000_000)
    yield part("back", 1, (0, 4), 0, "mirror_write", at_ms=900_000)
    yield part("back", 2, (1, 4), 0, kind="superseded", cause="source_truncated", at_ms=1_100_000)


def taken_back() -> Iterator[Row]:
    """The source there lost what had been copied here, where the way back found others' records, too."""
    yield part("back", 1, (0, 5), 0)
    yield part("back", 2, (3, 5), 9, kind="superseded", cause="source_truncated")
    yield part("forth", 1, (2, 3), 1)
    yield part("forth", 2, (3, 5), 2, "mirror_write")
    yield part("forth", 3, (5, 6), 5)


def begun_late() -> Iterator[Row]:
    """A leader epoch began below what had been seen of the one before: a commit was made after its first copy."""
    yield part("forth", 1, (0, 10), 0, at_ms=1_000_000, source_leader_epoch=0)
    for number, at_ms in ((2, 2_000_000), (3, 3_400_000), (4, 3_500_000)):
        start = 10 + 2 * (number - 2)
        yield part("forth", number, (start, start + 2), start, at_ms=at_ms, source_leader_epoch=1)


def read_there() -> Iterator[Row]:
    """In the second hour others wrote between copies, which a group has read there that begins again here."""
    yield part("forth", 1, (0, 1), 0)
    yield part("forth", 2, (1, 2), 1)
    for number, there in ((3, 2), (4, 5), (5, 6)):
        yield part("forth", number, (number - 1, number), there, at_ms=HOUR_MS + number)
    yield part("forth", 6, (5, 6), 9, at_ms=2 * HOUR_MS)


def of_nobody() -> Iterator[Row]:
    """A flow has written to the source of the way back what no offset sync tells of."""
    yield part("back", 1, (0, 2), 0, "mirror_write")


def of_one_origin() -> Iterator[Row]:
    """What a resync took back here is not there yet: it is one range, however many rounds copied it."""
    for number, source in enumerate([(0, 5), (5, 6), (6, 7), (7, 8)], 1):
        yield part("to_east", number, source, source[0])
    yield part("to_east", 5, (5, 8), 8, kind="superseded", cause="resync")
    yield part("to_west", 1, (0, 5), 0)


def part(
    flow: str,
    number: int,
    source: tuple[int, int],
    target_start: int,
    gap: str | None = None,
    *,
    at_ms: int = 5_000,
    kind: str = "copied",
    **others: object,
) -> Row:
    """An offset sync of a round: of copies, or of a gap."""
    here, there = WAYS[flow]
    start, end = source
    records = end - start if kind == "copied" and gap is None else 0
    gaps = [{"source_start": start, "source_end": end, "cause": gap}] if gap else []
    return {
        **one_sync(flow, (here, "t", 0), (there, "t", 0)),
        "round": number,
        "recorded_at_ms": at_ms,
        "source_start": start,
        "source_end": end,
        "target_start": target_start,
        "target_end": target_start + records,
        "gaps": gaps,
        "kind": kind,
        "records": records,
        **others,
    }


def test_offset_syncs_that_a_span_stands_for_have_to_be_there() -> None:
    """A file that is missing makes no answer from what is left: all is read instead, and says what is wrong."""
    facts = pa.Table.from_pylist(list(both_ways(rounds=50)), schema=arrow_schema(TABLE_BY_NAME[SYNCS]))
    spans = spans_of_rows(facts)
    inexact = spans.filter(pa.compute.invert(spans["is_exact"]))
    assert len(inexact)
    superseded = {**spans.to_pylist()[-1], "kind": "superseded", "source_start": 1, "source_end": 1}
    cut = pa.concat_tables([spans, pa.Table.from_pylist([superseded], schema=SCHEMA)])
    assert in_whole_spans(cut, lambda _times: facts) is not None
    assert in_whole_spans(cut, lambda _times: facts.slice(2)) is None


def both_ways(*, rounds: int) -> Sequence[Row]:
    """What is new at either side is copied in each round: ten records, and what the other side wrote is left out."""
    made = []
    for number in range(1, rounds + 1):
        start, own = max((number - 1) * 20 - 10, 0), (number - 1) * 20
        gaps = [{"source_start": start, "source_end": own, "cause": "mirror_write"}] if own else []
        for flow in ("forth", "back"):
            whole = part(flow, number, (start, own + 10), own + 10, at_ms=number * 5_000)
            made.append({**whole, "gaps": gaps, "target_end": own + 20, "records": 10})
    return made


WAYS = {
    "forth": ("east", "west"),
    "back": ("west", "east"),
    "to_east": ("north", "east"),
    "to_west": ("north", "west"),
}


def claims() -> list[Row]:
    return [
        row(
            "writers",
            writer=f"flow:{name}",
            event="claimed",
            flow=name,
            source_cluster=source,
            target_cluster=target,
        )
        for name, (source, target) in WAYS.items()
    ]


def high_watermark(topic: str, cluster: str, offset: int) -> Row:
    return row(
        "high_watermarks",
        writer=f"recorder:{cluster}",
        writer_epoch=1,
        round=1,
        recorded_at_ms=1,
        cluster=cluster,
        topic=topic,
        topic_id=f"t-{cluster}",
        partition=0,
        leader_epoch=0,
        log_start=0,
        last_stable=offset,
        high_watermark=offset,
        read_at_ms=1,
    )


def commit(group: str, offset: int, *, topic: str = "t", cluster: str = "east", at_ms: int = 1) -> Row:
    return row(
        "checkpoints",
        writer=f"recorder:{cluster}",
        writer_epoch=1,
        round=at_ms,
        cluster=cluster,
        group_id=group,
        topic=topic,
        topic_id=f"t-{cluster}",
        partition=0,
        committed_offset=offset,
        read_at_ms=at_ms,
    )


# -- Since when ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["replication_lag", "failover_loss"])
def test_readings_of_a_window_that_tells_since_when_tell_what_all_do(name: str) -> None:
    counts = Counter(answered for seed in SEEDS for answered in answered_by_windows(name, seed))
    assert min(counts[True], counts[False]) > 0 or SEEDS == REPEATED


REPEATED = [int(seed) for seed in os.environ.get("MIRROR_LEDGER_SEED", "").split()]
SEEDS = REPEATED or examples(check=[1], soak=[*range(12)])


def answered_by_windows(name: str, seed: int) -> Iterator[bool]:
    """Whether each window told; raises where one told something else than all rows."""
    chance = random.Random(seed)
    at = measured(chance)
    ends = at.tables["high_watermarks"]
    asked: dict[str, list[dict[str, catalog.Value]]] = {
        "replication_lag": [
            {"flow": flow, "fresh_since_ms": chance.choice([0, 10**9])} for flow in ("forth", "back")
        ],
        "failover_loss": [
            {"from_cluster": here, "to_cluster": other_than(here), "at_ms": chance.choice([None, 10**9])}
            for here in SIDES
        ],
    }
    for params in asked[name]:
        every = answers(at, name, params)
        spans = spans_of(at, chance), lambda _times: at.tables[SYNCS]
        readings = kept("high_watermarks", ends), lambda _times: ends
        for window_ms in examples(check=(20_000, HOUR_MS, 10**9), soak=(20_000, 200_000, HOUR_MS, 10**9)):
            # The rate at which ends rise is that of an hour at most.
            if name == "failover_loss" and window_ms < HOUR_MS:
                continue
            found = answered_by_readings(catalog.query(name), params, at, readings, spans, [window_ms])
            assert found is None or found.to_pylist() == every, (seed, params, window_ms)
            yield found is not None


# -- Last rows -------------------------------------------------------------------------------------

_LAST_COMMITS = "select * from cluster_commits order by all"
_HIGHEST_SINCE = """
    select k.group_id, k.topic_id, b.bound, max(k.committed_offset) as highest
    from checkpoints as k
    cross join (select unnest(range({low}, {high})) as bound) as b
    where {value} > b.bound
    group by all
    having max(k.committed_offset) is not null
    order by all
"""


def kept(table: str, rows: pa.Table) -> pa.Table:
    with sql.connected() as connection:
        connection.register("recorded", rows)
        found = connection.sql(sql_file(f"kept_{table}.sql")).to_arrow_table()
    return found.cast(rows.schema)


def in_parts(table: str, rows: list[Row], chance: random.Random) -> tuple[pa.Table, pa.Table]:
    """All rows; and what is kept of them at two times, perhaps of that once more, with what came since."""
    schema = arrow_schema(TABLE_BY_NAME[table])
    rows = sorted(rows, key=place)
    places = sorted({place(one) for one in rows})
    first, second = sorted(chance.choices(places, k=2))
    parts = [
        [one for one in rows if place(one) <= first],
        [one for one in rows if first < place(one) <= second],
        [one for one in rows if place(one) > second],
    ]
    early, later, since = (pa.Table.from_pylist(part, schema=schema) for part in parts)
    together = pa.concat_tables([kept(table, early), kept(table, later)])
    noted = kept(table, together) if chance.random() < 0.5 else together
    return pa.Table.from_pylist(rows, schema=schema), pa.concat_tables([noted, since])


def place(one: Row) -> tuple[int, int]:
    return int(str(one["writer_epoch"])), int(str(one["round"]))


@pytest.mark.parametrize("seed", range(examples(check=5, soak=40)))
def test_checkpoints_that_are_kept_tell_of_commits_what_all_tell(seed: int) -> None:
    chance = random.Random(seed)
    every, some = in_parts("checkpoints", list(_commits(chance)), chance)
    order = "k.writer_epoch * 4294967296 + k.round"
    asked = (
        _LAST_COMMITS,
        _HIGHEST_SINCE.format(value=order, low=4294967296, high=4294967296 + 30),
        _HIGHEST_SINCE.format(value="k.read_at_ms", low=990, high=1_130),
    )
    found = []
    for rows in (every, some):
        with sql.connect(Instead(EMPTY, {"checkpoints": rows}), {}, ("cluster_commits",)) as connection:
            found.append([connection.sql(text).to_arrow_table().to_pylist() for text in asked])
    assert found[0] == found[1], seed


def _commits(chance: random.Random) -> Sequence[Row]:
    """Of groups that come and go, are put back, and commit the same offset again; clocks go back at times."""
    made = []
    for group in range(chance.randint(1, 4)):
        offset, epoch, number, read_at_ms = 0, 1, 0, 1_000
        for _ in range(chance.randint(1, 25)):
            number += chance.randint(0, 2)
            if chance.random() < 0.05:
                epoch, number = epoch + 1, 0
            read_at_ms += chance.choice([0, 1, 5, 5, -3])
            offset = max(0, offset + chance.choice([0, 1, 2, 5, 0, -4]))
            made.append(
                row(
                    "checkpoints",
                    writer="recorder:east",
                    writer_epoch=epoch,
                    round=number,
                    recorded_at_ms=read_at_ms + chance.choice([0, 1, 2]),
                    cluster="east",
                    group_id=f"g{group}",
                    topic="t",
                    topic_id=chance.choice(["A", "A", "A", "B", None]),
                    partition=0,
                    committed_offset=None if chance.random() < 0.2 else offset,
                    leader_epoch=None,
                    read_at_ms=read_at_ms,
                    absence=chance.choice([None, "gone"]),
                )
            )
    return made


@pytest.mark.parametrize("seed", range(examples(check=5, soak=20)))
def test_high_watermarks_that_are_kept_tell_of_ends_what_all_tell(seed: int) -> None:
    chance = random.Random(seed)
    every, some = in_parts("high_watermarks", list(_ends(chance)), chance)
    assert len(some) <= len(every)
    asked = (
        "select * from last_high_watermarks order by all",
        "select * from topic_lives order by all",
        "select leader_epoch, topic_id, max(high_watermark) from high_watermarks group by all order by all",
        "select * from topic_partitions order by all",
    )
    reads = ("last_high_watermarks", "topic_lives", "topic_partitions", "high_watermarks")
    found = []
    for rows in (every, some):
        with sql.connect(Instead(EMPTY, {"high_watermarks": rows}), {}, reads) as connection:
            found.append([connection.sql(text).to_arrow_table().to_pylist() for text in asked])
    assert found[0] == found[1], seed


def _ends(chance: random.Random) -> Sequence[Row]:
    made = []
    for partition in range(chance.randint(1, 3)):
        end, epoch, number, at_ms, leader_epoch = 0, 1, 0, 1_000, 0
        for _ in range(chance.randint(1, 25)):
            number += chance.randint(0, 2)
            if chance.random() < 0.05:
                epoch, number = epoch + 1, 0
            at_ms += chance.choice([0, 1, 5, 5, -3])
            leader_epoch += chance.random() < 0.2
            end = max(0, end + chance.choice([0, 1, 2, 5, -4]))
            made.append(
                row(
                    "high_watermarks",
                    writer="recorder:east",
                    writer_epoch=epoch,
                    round=number,
                    recorded_at_ms=at_ms,
                    cluster="east",
                    topic="t",
                    topic_id=chance.choice(["A", "A", "B"]),
                    partition=partition,
                    leader_epoch=leader_epoch,
                    log_start=0,
                    last_stable=end,
                    high_watermark=end,
                    read_at_ms=at_ms,
                )
            )
    return made
