"""Where groups continue by merged offset syncs is where they continue by all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.facts.cuts import Cut, LastAppend
from ledger.facts.tables import Row
from ledger.store.sql import Relation, Snapshot, merged_syncs, run_query, with_syncs_since
from tests.support.group_cases import QUERY, SIDES, lived
from tests.support.group_logs import WORLDS, other_than
from tests.support.group_tables import snapshot_of
from tests.support.histories import examples

LIVES = st.lists(st.tuples(st.integers(0, 2**32), st.sampled_from(sorted(WORLDS))), min_size=8, max_size=8)
SYNCS = "offset_syncs"


@dataclass(frozen=True)
class Replaced:
    """A snapshot with other offset syncs."""

    snapshot: Snapshot
    syncs: pa.Table

    def relation(self, table: str) -> Relation:
        return self.syncs if table == SYNCS else self.snapshot.relation(table)


def in_small_rounds(worlds: Sequence[tuple[int, str]]) -> Replaced:
    """Lives whose copies were recorded record by record, wherever nothing tells these apart."""
    snapshot = snapshot_of([lived(seed, world) for seed, world in worlds])
    syncs = snapshot.relation(SYNCS)
    assert isinstance(syncs, pa.Table)
    split = [one for whole in syncs.to_pylist() for one in _split(whole)]
    return Replaced(snapshot, pa.Table.from_pylist(split, schema=syncs.schema))


def _split(whole: Row) -> Iterator[Row]:
    """The row as one for each record that it copied."""
    start, end, there = (int(str(whole[name])) for name in ("source_start", "source_end", "target_start"))
    is_plain = whole["kind"] == "copied" and not whole["gaps"] and whole["target_end"] == there + end - start
    if not is_plain:
        yield whole
        return
    for number in range(end - start):
        places = {"source_start": start + number, "source_end": start + number + 1}
        yield {
            **whole,
            **places,
            "target_start": there + number,
            "target_end": there + number + 1,
            "records": 1,
        }


def answers(snapshot: Snapshot, here: str, syncs: pa.Table | None = None) -> list[Row]:
    params = {"from_cluster": here, "to_cluster": other_than(here)}
    found: list[Row] = run_query(QUERY, params, snapshot, {} if syncs is None else {SYNCS: syncs}).to_pylist()
    return found


@settings(deadline=None, max_examples=examples(check=1, soak=20))
@given(LIVES)
def test_it_is_told_the_same_by_fewer_rows(worlds: list[tuple[int, str]]) -> None:
    split = in_small_rounds(worlds)
    merged = merged_syncs(split)
    assert merged.num_rows < split.syncs.num_rows
    for here in SIDES:
        assert answers(split, here, merged) == answers(split, here), worlds


@settings(deadline=None, max_examples=examples(check=1, soak=10))
@given(LIVES, st.integers(1, 9))
def test_it_is_told_the_same_with_what_came_since(worlds: list[tuple[int, str]], tenths: int) -> None:
    """Wherever the cut was by which the first ones were merged."""
    split = in_small_rounds(worlds)
    rows = split.syncs.to_pylist()
    rounds = sorted({(row["writer"], row["writer_epoch"], row["round"]) for row in rows})
    early = {(writer, epoch, number) for writer, epoch, number in rounds if number % 10 < tenths}
    last = {
        writer: max(one[1:] for one in rounds if one[0] == writer and one in early) for writer, *_ in early
    }
    counted = [
        row for row in rows if (row["writer_epoch"], row["round"]) <= last.get(row["writer"], (-1, -1))
    ]
    cut = Cut.of("a ledger", (LastAppend(SYNCS, writer, *place, 0) for writer, place in last.items()))
    before = Replaced(split.snapshot, pa.Table.from_pylist(counted, schema=split.syncs.schema))
    together = with_syncs_since(split, cut, merged_syncs(before))
    for here in SIDES:
        assert answers(split, here, together) == answers(split, here), (worlds, tenths)
