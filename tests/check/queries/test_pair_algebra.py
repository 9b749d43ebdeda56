"""The SQL and the algebra state the same rule of the first unread record.

A query takes longer to be planned than to be answered, so several lives are the topics of one ledger.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger import catalog
from ledger.adapters.duck.engine import run_query
from ledger.domain.pair.claims import count
from ledger.domain.pair.first_unread import Place, first_unread
from tests.support.pair_lives import Life
from tests.support.pair_logs import WORLDS, Group, other_than
from tests.support.pair_tables import recorded_group, recorded_pair, snapshot_of, topic_of

LIVES = st.lists(st.tuples(st.integers(0, 2**32), st.sampled_from(sorted(WORLDS))), min_size=12, max_size=12)
PRINTED = settings(print_blob=True, deadline=None, max_examples=5)

Answer = tuple[int | None, str, int, int, int, int]


def lived(seed: int, world: str) -> Life:
    life = Life(seed, world, is_calm=False)
    for _ in life.live(life.chance.randint(5, 60)):
        pass
    return life


def asked(life: Life, here: str) -> Iterator[Group]:
    for group in life.groups:
        if group.at == here and here in group.sides and group.sides[here].seen and life.maps_are_told():
            yield group


def said(place: Place) -> Answer:
    repeats, ahead = place.repeats, count(place.ahead)
    return place.offset, str(place.status), repeats, ahead, count(place.others), count(place.expired)


def answers(lives: Sequence[Life], here: str) -> dict[tuple[str, str], Answer]:
    params: dict[str, catalog.Value] = {"from_cluster": here, "to_cluster": other_than(here)}
    query = catalog.query("group_translation")
    return {(row["source_topic"], row["group_id"]): _row(row) for row in _rows(query, params, lives)}


def _rows(
    query: catalog.Query, params: dict[str, catalog.Value], lives: Sequence[Life]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run_query(query, params, snapshot_of(lives)).to_pylist()
    return found


def _row(row: dict[str, Any]) -> Answer:
    counts = [row[name] or 0 for name in ("repeated", "ahead", "others", "expired")]
    return row["target_offset"], row["status"], *counts


@PRINTED
@given(LIVES)
def test_sql_places_groups_as_the_algebra(worlds: list[tuple[int, str]]) -> None:
    lives = [lived(seed, world) for seed, world in worlds]
    for here in ("east", "west"):
        found = answers(lives, here)
        for number, life in enumerate(lives):
            for group in asked(life, here):
                expected = said(first_unread(recorded_pair(life, here), recorded_group(life, group)))
                got = found[topic_of(number), group.name]
                assert got == expected, (here, number, worlds[number], group.name, life.told())
